"""The report of a run: one HTML page that needs nothing but a browser."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from subquad.errors import InvalidInput
from subquad.runs.atomic import write_text
from subquad.runs.folder import METRICS, REPORT, Run
from subquad.runs.page import figure, page, table
from subquad.runs.svg import Series, line_chart, number, scatter_chart

MAX_ROWS = 40


def write_report(run: Run, path: Path | None = None) -> Path:
    """Write ``report.html`` of a run folder, and return where it lies."""
    path = path or run.folder / REPORT
    write_text(path, render(run))
    return path


def render(run: Run) -> str:
    """The page as text."""
    records = run.metrics()
    try:
        start = next(r for r in records if r["kind"] == "start")
        steps = [r for r in records if r["kind"] == "iteration"]
        shown = [r for r in records if r["kind"] == "predictions"]
        sections = [
            ("Result", _result(run)),
            ("Convergence", _convergence(start, steps)),
            ("Firing rate", _firing(steps)),
            ("Cost", _cost(run, start, steps)),
            ("Certificates", _certificates(steps)),
            ("Predictions", "".join(_predictions(r) for r in shown)),
            ("Settings", _pairs("What was asked for", run.settings)),
            ("Versions", _pairs("What ran", run.versions)),
        ]
    except (KeyError, TypeError, ValueError, AttributeError, StopIteration) as error:
        raise InvalidInput(
            f"{run.folder / METRICS} does not hold what a report needs ({error!r}): fit again"
        ) from error
    status = escape(str(run.summary.get("status")))
    intro = (
        f"<p>Target <strong>{escape(run.target.name)}</strong>, {run.target.task}, "
        f"status <strong>{status}</strong>.</p>"
        f'<p class="soft">{escape(run.created)}</p>'
    )
    if run.summary.get("remedy"):
        intro += f"<p>What to try: {escape(str(run.summary['remedy']))}</p>"
    return page(f"subquad run {run.folder.resolve().name}", intro, sections)


def _result(run: Run) -> str:
    summary = run.summary
    kind = "R²" if run.target.task == "regression" else "accuracy"
    rows = []
    for key, words in (
        ("train_score", "this network, training rows"),
        ("loo_score", "this network, each row left out"),
        ("test_score", "this network, rows held out"),
    ):
        if summary.get(key) is not None:
            rows.append([words, number(summary[key])])
    known = {"mean": "predicting the mean or commonest class", "ridge": "ridge regression"}
    for name, score in dict(summary.get("baselines") or {}).items():
        rows.append([known.get(str(name), str(name)), number(score)])
    return table(f"Scores ({kind}; 1 is perfect)", ["", kind], rows)


def _convergence(start: Mapping[str, Any], steps: Sequence[Mapping[str, Any]]) -> str:
    x = [0.0, *(float(s["iteration"]) for s in steps)]
    y = [_value(start["residual"]), *(_value(s["residual"]) for s in steps)]
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
        _thinned("Residual after each iteration", rows),
        ["iteration", "residual", "of the one before"],
        _some(rows),
    )
    return figure(chart, "Residual relative to the size of the targets, logarithmic.", numbers)


def _firing(steps: Sequence[Mapping[str, Any]]) -> str:
    if not steps:
        return "<p>No iteration was run.</p>"
    layers = len(steps[0]["firing"])
    x = [float(s["iteration"]) for s in steps]
    rates = [[100.0 * _value(s["firing"][k]) for s in steps] for k in range(layers)]
    series = [Series(f"layer {k + 1}", x, rate) for k, rate in enumerate(rates)]
    chart = line_chart(
        series,
        label="Share of neurons that fire in each layer, by iteration",
        x_label="iteration",
        y_label="firing, % of neurons",
    )
    rows = [[number(a), *(number(r[i]) for r in rates)] for i, a in enumerate(x)]
    head = ["iteration", *(f"layer {k + 1}, %" for k in range(layers))]
    numbers = table(_thinned("Firing rate", rows), head, _some(rows))
    return figure(chart, "Share of neurons that fire, averaged over the samples.", numbers)


def _cost(run: Run, start: Mapping[str, Any], steps: Sequence[Mapping[str, Any]]) -> str:
    if not steps:
        return "<p>No iteration was run.</p>"
    width, samples = int(run.settings["width"]), int(start["samples"])
    square, dense = width**2, 4 * samples * width**2
    x = [float(s["iteration"]) for s in steps]
    flops = [_value(s["flops"]) for s in steps]
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
        [number(a), number(f), number(_value(s["bytes"])), number(f / square), number(f / dense)]
        for a, f, s in zip(x, flops, steps, strict=True)
    ]
    numbers = table(
        _thinned(f"Initialisation took {number(_value(start['flops']))} flop", rows),
        ["iteration", "flop", "bytes", "flop / m²", "flop / dense step"],
        _some(rows),
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
    return table(_thinned("How well each linear system was solved", rows), head, _some(rows))


def _predictions(record: Mapping[str, Any]) -> str:
    which = str(record["rows"])
    if "confusion" in record:
        classes = [str(name) for name in record["classes"]]
        rows = [
            [name, *(str(int(count)) for count in counts)]
            for name, counts in zip(classes, record["confusion"], strict=True)
        ]
        caption = f"Rows {which}: true class down, predicted class across"
        shares = [[int(c) / max(sum(counts), 1) for c in counts] for counts in record["confusion"]]
        return table(caption, ["true", *classes], rows, shares=shares)
    x = [float(v) for v in record["targets"]]
    y = [float(v) for v in record["predictions"]]
    chart = scatter_chart(
        Series("rows", x, y),
        label=f"Predictions against targets of rows {which}; on the line both are equal",
        x_label="target",
        y_label="prediction",
    )
    rows = [[number(a), number(b)] for a, b in zip(x, y, strict=True)]
    numbers = table(
        _thinned("Targets and predictions", rows), ["target", "prediction"], _some(rows)
    )
    return figure(chart, f"Rows {which}. On the dotted line, both are equal.", numbers)


def _pairs(caption: str, values: Mapping[str, Any]) -> str:
    rows = [[str(key), "-" if value is None else str(value)] for key, value in values.items()]
    return table(caption, ["name", "value"], rows, text=True)


def _some(rows: Sequence[Sequence[str]]) -> list[Sequence[str]]:
    step = -(-len(rows) // MAX_ROWS)
    return [row for i, row in enumerate(rows) if i % max(step, 1) == 0 or i == len(rows) - 1]


def _thinned(caption: str, rows: Sequence[object]) -> str:
    if len(rows) <= MAX_ROWS:
        return caption
    return f"{caption}; one row in {-(-len(rows) // MAX_ROWS)} of {len(rows)}"


def _value(stored: Any) -> float:
    """A stored number; null stands for one that was not finite."""
    return float("nan") if stored is None else float(stored)


def _optional(stored: Any) -> float | None:
    return None if stored is None else float(stored)
