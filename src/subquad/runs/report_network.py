"""Sections of a report about one network: how it converged, fired, and what that took."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from subquad.runs.folder import Run
from subquad.runs.page import figure, some, table, thinned, value
from subquad.runs.svg import Series, line_chart, number

Records = Sequence[Mapping[str, Any]]


def network_sections(run: Run, records: Records) -> list[tuple[str, str]]:
    """Return headings and their HTML."""
    start = next(r for r in records if r["kind"] == "start")
    steps = [r for r in records if r["kind"] == "iteration"]
    return [
        ("Convergence", _convergence(start, steps)),
        ("Firing rate", _firing(steps)),
        ("Cost", _cost(run, start, steps)),
        ("Certificates", _certificates(steps)),
    ]


def _convergence(start: Mapping[str, Any], steps: Sequence[Mapping[str, Any]]) -> str:
    x = [0.0, *(float(s["iteration"]) for s in steps)]
    y = [value(start["residual"]), *(value(s["residual"]) for s in steps)]
    chart = line_chart(
        [Series("residual", x, y)],
        label=f"Relative residual falls from {number(y[0])} to {number(y[-1])} "
        f"in {len(steps)} iterations",
        x_label="iteration",
        y_label="residual / size of the targets",
        log=True,
    )
    ratios = ["", *(number(b / a) if a else "" for a, b in itertools.pairwise(y))]
    rows = [[number(a), number(b), c] for a, b, c in zip(x, y, ratios, strict=True)]
    numbers = table(
        thinned("Residual after each iteration", rows),
        ["iteration", "residual", "of the one before"],
        some(rows),
    )
    return figure(chart, "Residual relative to the size of the targets, logarithmic.", numbers)


def _firing(steps: Sequence[Mapping[str, Any]]) -> str:
    if not steps:
        return "<p>No iteration was run.</p>"
    layers = len(steps[0]["firing"])
    x = [float(s["iteration"]) for s in steps]
    rates = [[100.0 * value(s["firing"][k]) for s in steps] for k in range(layers)]
    series = [Series(f"layer {k + 1}", x, rate) for k, rate in enumerate(rates)]
    chart = line_chart(
        series,
        label="Share of neurons that fire in each layer, by iteration",
        x_label="iteration",
        y_label="firing, % of neurons",
    )
    rows = [[number(a), *(number(r[i]) for r in rates)] for i, a in enumerate(x)]
    head = ["iteration", *(f"layer {k + 1}, %" for k in range(layers))]
    numbers = table(thinned("Firing rate", rows), head, some(rows))
    return figure(chart, "Share of neurons that fire, averaged over the samples.", numbers)


def _cost(run: Run, start: Mapping[str, Any], steps: Sequence[Mapping[str, Any]]) -> str:
    if not steps:
        return "<p>No iteration was run.</p>"
    width, samples = int(run.settings["width"]), int(start["samples"])
    square, dense = width**2, 4 * samples * width**2
    x = [float(s["iteration"]) for s in steps]
    flops = [value(s["flops"]) for s in steps]
    series = [
        Series("this run", x, flops),
        Series("one dense step, 4·n·m²", x, [dense] * len(x), reference=True),
        Series("width squared, m²", x, [square] * len(x), reference=True),
    ]
    chart = line_chart(
        series,
        label="Floating-point operations of each iteration beside a dense step and width squared",
        x_label="iteration",
        y_label="flop",
        log=True,
    )
    rows = [
        [number(a), number(f), number(value(s["bytes"])), number(f / square), number(f / dense)]
        for a, f, s in zip(x, flops, steps, strict=True)
    ]
    numbers = table(
        thinned(f"Initialisation took {number(value(start['flops']))} flop", rows),
        ["iteration", "flop", "bytes", "flop / m²", "flop / dense step"],
        some(rows),
    )
    caption = (
        f"Counted operations with m = {width} and n = {samples}. A dense gradient step on one "
        f"m by m layer takes 4·n·m² = {number(dense)} flop."
    )
    return figure(chart, caption, numbers)


def _certificates(steps: Sequence[Mapping[str, Any]]) -> str:
    rows = [
        [
            number(s["iteration"]),
            number(_optional(c["residual"])),
            str(c["residual_kind"]),
            number(_optional(c["condition"])),
            "-" if c["rank"] is None else str(c["rank"]),
            str(c["path"]),
        ]
        for s in steps
        if (c := s["certificate"]) is not None
    ]
    if not rows:
        return "<p>This method solves no linear system, so there is nothing to certify.</p>"
    head = ["iteration", "relative residual", "kind", "condition", "rank", "solver"]
    return table(thinned("How well each linear system was solved", rows), head, some(rows))


def _optional(stored: Any) -> float | None:
    return None if stored is None else float(stored)
