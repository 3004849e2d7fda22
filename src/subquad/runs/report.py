"""The report of a run: one HTML page that needs nothing but a browser."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from pathlib import Path
from typing import Any

from subquad.errors import InvalidInput
from subquad.runs.atomic import write_text
from subquad.runs.folder import METRICS, REPORT, Run
from subquad.runs.page import figure, page, some, table, thinned
from subquad.runs.report_ensemble import ensemble_sections
from subquad.runs.report_network import network_sections
from subquad.runs.svg import Series, number, scatter_chart

SECTIONS = {"network": network_sections, "ensemble": ensemble_sections}


def write_report(run: Run, path: Path | None = None) -> Path:
    """Write ``report.html`` of a run folder, and return where it lies."""
    path = path or run.folder / REPORT
    write_text(path, render(run))
    return path


def render(run: Run) -> str:
    """The page as text."""
    records = run.metrics()
    try:
        shown = [r for r in records if r["kind"] == "predictions"]
        sections = [
            ("Result", _result(run)),
            *SECTIONS[run.kind](run, records),
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
    this = "this network" if run.kind == "network" else "these networks"
    for key, words in (
        ("train_score", f"{this}, training rows"),
        ("loo_score", f"{this}, rows left out"),
        ("test_score", f"{this}, rows held out"),
    ):
        if summary.get(key) is not None:
            rows.append([words, number(summary[key])])
    known = {"mean": "predicting the mean or commonest class", "ridge": "ridge regression"}
    for name, score in dict(summary.get("baselines") or {}).items():
        rows.append([known.get(str(name), str(name)), number(score)])
    return table(f"Scores ({kind}; 1 is perfect)", ["", kind], rows)


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
    numbers = table(thinned("Targets and predictions", rows), ["target", "prediction"], some(rows))
    return figure(chart, f"Rows {which}. On the dotted line, both are equal.", numbers)


def _pairs(caption: str, values: Mapping[str, Any]) -> str:
    rows = [[str(key), "-" if value is None else str(value)] for key, value in values.items()]
    return table(caption, ["name", "value"], rows, text=True)
