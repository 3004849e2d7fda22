"""Sections of a report about an ensemble: which features mattered, and who its members are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from subquad.runs.folder import Run
from subquad.runs.page import figure, some, table, thinned, value
from subquad.runs.svg import Series, bar_chart, line_chart, number

Records = Sequence[Mapping[str, Any]]

MOST_BARS = 20


def ensemble_sections(run: Run, records: Records) -> list[tuple[str, str]]:
    """Return headings and their HTML."""
    members = [r for r in records if r["kind"] == "member"]
    return [
        ("What mattered", _features(run.summary["features"])),
        ("Members", _members(members)),
        ("Convergence", _convergence(members)),
    ]


def _features(features: Sequence[Mapping[str, Any]]) -> str:
    names = [str(f["name"]) for f in features]
    shares = [100 * value(f["share"]) for f in features]
    shown = min(len(names), MOST_BARS)
    chart = bar_chart(
        names[:shown],
        shares[:shown],
        label=f"Share of each column in the learned metric; the largest is {names[0]}",
        unit="%",
    )
    rows = [[name, number(share)] for name, share in zip(names, shares, strict=True)]
    caption = "Share of each column in the learned metric: how much a change of it changes rows."
    if shown < len(names):
        caption += f" The first {shown} of {len(names)}."
    numbers = table(thinned("Columns by their share", rows), ["column", "%"], some(rows))
    return figure(chart, caption, numbers)


def _members(members: Records) -> str:
    head = [
        "activation",
        "weight, %",
        "encoding",
        "depth",
        "width",
        "layers",
        "ridge",
        "iterations",
        "seconds",
    ]
    rows = [
        [
            str(m["activation"]) + ("" if m["shift"] is None else f", shift {number(m['shift'])}"),
            number(100 * value(m["weight"])),
            *(str(m[key]) for key in ("encoding", "depth", "width", "layers")),
            number(value(m["ridge"])),
            str(m["iterations"]),
            number(value(m["seconds"])),
        ]
        for m in members
    ]
    return table("Networks that are averaged, by what rows left out said", head, rows)


def _convergence(members: Records) -> str:
    members = [m for m in members if m["residuals"]]
    if not members:
        return "<p>Many rows are learned in one step, through anchors: nothing to iterate.</p>"
    names = [f"{k + 1}: {m['activation']}" for k, m in enumerate(members)]
    curves = [[value(r) for r in m["residuals"]] for m in members]
    chart = line_chart(
        [
            Series(name, [float(i) for i in range(len(curve))], curve)
            for name, curve in zip(names, curves, strict=True)
        ],
        label="Relative residual of each member by iteration",
        x_label="iteration",
        y_label="residual / size of the targets",
        log=True,
    )
    longest = max((len(curve) for curve in curves), default=0)
    rows = [
        [str(i), *(number(curve[i]) if i < len(curve) else "" for curve in curves)]
        for i in range(longest)
    ]
    numbers = table(thinned("Residuals", rows), ["iteration", *names], some(rows))
    caption = (
        "Residual relative to the size of the targets, logarithmic; each row may keep the distance "
        "that its ridge allows."
    )
    return figure(chart, caption, numbers)
