"""``subquad report``: rewrite the page of a run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from subquad.cli.options import Output, Verbose


def report(
    run: Annotated[
        Path, typer.Argument(metavar="DIR", help="Run folder that `subquad fit` wrote.")
    ],
    verbose: Verbose = False,
) -> None:
    """Write `report.html` of a run again: one page that needs nothing but a browser.

    Example: `subquad report runs/houses`
    """
    from subquad.runs.folder import Run
    from subquad.runs.report import write_report

    Output().result(str(write_report(Run.load(run))))
