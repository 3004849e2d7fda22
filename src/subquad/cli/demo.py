"""``subquad demo``: real data, exact Gauss-Newton, live."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from subquad.cli.options import Json, Output, Quiet, Seed, Threads, Verbose, use_threads

WIDTH = 8192


def demo(
    out: Annotated[Path, typer.Option(help="Run folder to write: new, empty, or a run.")] = Path(
        "subquad-demo"
    ),
    seed: Seed = 0,
    threads: Threads = None,
    json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Train a wide network on a real data set within a minute.

    scikit-learn's diabetes data, exact Gauss-Newton on the last layer: shows the residual, the
    share of neurons that fire, and what an iteration costs beside a dense gradient step.
    """
    begin = time.perf_counter()
    output = Output(quiet=quiet, verbose=verbose)
    from subquad.runs.folder import REPORT, claim_folder

    folder = claim_folder(out)
    use_threads(threads)
    output.say("loading PyTorch and scikit-learn …")
    from subquad.cli.live import si
    from subquad.cli.training import train_with_view
    from subquad.runs.fit import write_run
    from subquad.runs.heldout import split, summarise_heldout
    from subquad.runs.network import NetworkSettings
    from subquad.tables.bundled import diabetes

    training, test = split(diabetes(), "progression", share=0.2, seed=seed)
    settings = NetworkSettings(width=WIDTH, depth=3, seed=seed)
    rows, weights = len(training.features), settings.width**2
    output.say(
        f"diabetes: {rows} rows to learn from, {len(test.labels)} held out; "
        f"3 layers of {WIDTH} neurons\n"
        f"the last layer has {weights / 1e6:.0f} million weights; a dense gradient step on it "
        f"takes {si(4 * rows * weights)}flop\n"
    )
    fitted = train_with_view(training, settings, output)
    summary, shown = summarise_heldout(fitted, test)
    run = write_run(folder, fitted, {"out": str(folder), **summary}, shown)
    report = folder / REPORT
    if json:
        residuals = fitted.residuals
        output.json({**run.summary, "report": str(report), "residuals": residuals})
        return
    output.result(
        f"\n{summary['status']} after {summary['iterations']} iterations: residual "
        f"{fitted.residuals[-1]:.0e} on {rows} rows\n"
        f"R² on the {len(test.labels)} rows held out: {summary['test_score']:.2f} "
        f"(ridge regression {summary['baselines']['ridge']:.2f})\n"
        f"{time.perf_counter() - begin:.1f} s in all\n"
        f"report, for your browser: {report}\n"
        "next: subquad fit YOUR.csv --target COLUMN --out runs/first"
    )
