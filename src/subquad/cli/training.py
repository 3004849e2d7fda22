"""What ``fit`` and ``demo`` share: training in view, and the closing words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from subquad.cli.live import StageView, TrainingView
from subquad.cli.options import Output
from subquad.errors import TrainingFailed
from subquad.runs.folder import Run
from subquad.runs.model import Fitted, Prepared, Settings
from subquad.runs.network import NetworkSettings
from subquad.runs.svg import number

SHOWN = 5
"""Features that are named."""


def train_with_view(prepared: Prepared, settings: Settings, output: Output) -> Fitted:
    """Train with progress on stderr; a training that failed is an error with its remedy."""
    with _view(prepared, settings, output) as view:
        fitted = settings.train(prepared, view)
    if fitted.status == "failed":
        raise TrainingFailed(f"training failed: {fitted.remedy}")
    if fitted.remedy:
        output.warn(f"{fitted.status}: {fitted.remedy}")
    return fitted


def _view(prepared: Prepared, settings: Settings, output: Output) -> StageView | TrainingView:
    if not isinstance(settings, NetworkSettings):
        return StageView(quiet=output.quiet)
    return TrainingView(
        dense_step=4.0 * len(prepared.features) * settings.width**2,
        aim=settings.tol,
        quiet=output.quiet,
        verbose=output.verbose,
    )


def finish(run: Run, kept_apart: str, output: Output, json: bool) -> None:
    """Print the result of a fit; ``kept_apart`` says what was left out together."""
    summary = run.summary
    if json:
        output.json(summary)
        return
    members = "".join(f"{_member(m)}\n" for m in summary["members"])
    shares = summary["features"]
    named = [f"{f['name']} {100 * f['share']:.0f} %" for f in shares[:SHOWN]]
    if len(shares) > SHOWN:
        named.append(f"{len(shares) - SHOWN} more")
    mattered = f"what mattered: {', '.join(named)}\n" if shares else ""
    kind = "R²" if run.target.task == "regression" else "accuracy"
    baselines = summary["baselines"]
    output.result(
        f"{summary['status']} after {summary['iterations']} iterations, "
        f"{summary['seconds']:.1f} s\n{members}"
        f"{kind} of rows {kept_apart}: {number(summary['loo_score'])} "
        f"(ridge regression {number(baselines['ridge'])}, mean {number(baselines['mean'])})\n"
        f"{kind} on the training rows: {number(summary['train_score'])}\n"
        f"{mattered}run folder: {run.folder}\n"
        f"next: subquad predict {run.folder} NEW.csv --out predictions.csv"
    )


def _member(record: Mapping[str, Any]) -> str:
    return (
        f"{100 * record['weight']:3.0f} %: {record['activation']} on {record['encoding']} inputs, "
        f"{record['depth']} deep, {record['width']} wide, ridge {number(record['ridge'])}"
    )
