"""What ``fit`` and ``demo`` share: training in view, and the closing words."""

from __future__ import annotations

from subquad.cli.live import TrainingView
from subquad.cli.options import Output
from subquad.errors import TrainingFailed
from subquad.runs.fit import FitSettings, Fitted, Prepared, train_on
from subquad.runs.folder import Run
from subquad.runs.svg import number


def train_with_view(prepared: Prepared, settings: FitSettings, output: Output) -> Fitted:
    """Train with progress on stderr; a training that failed is an error with its remedy."""
    dense_step = 4.0 * len(prepared.rows) * settings.width**2
    view = TrainingView(
        dense_step=dense_step, aim=settings.tol, quiet=output.quiet, verbose=output.verbose
    )
    with view:
        fitted = train_on(prepared, settings, view)
    if fitted.result.status == "failed":
        raise TrainingFailed(f"training failed: {fitted.result.remedy}")
    if fitted.result.remedy:
        output.warn(f"{fitted.result.status}: {fitted.result.remedy}")
    return fitted


def finish(run: Run, output: Output, json: bool) -> None:
    """Print the result of a fit."""
    summary = run.summary
    if json:
        output.json(summary)
        return
    kind = "R²" if run.target.task == "regression" else "accuracy"
    baselines = summary["baselines"]
    output.result(
        f"{summary['status']} after {summary['iterations']} iterations, "
        f"{summary['seconds']:.1f} s\n"
        f"{kind} with each row left out: {number(summary['loo_score'])} "
        f"(ridge regression {number(baselines['ridge'])}, mean {number(baselines['mean'])})\n"
        f"{kind} on the training rows: {number(summary['train_score'])}\n"
        f"run folder: {run.folder}\n"
        f"next: subquad predict {run.folder} NEW.csv --out predictions.csv"
    )
