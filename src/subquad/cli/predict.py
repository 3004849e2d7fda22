"""``subquad predict``: predictions of a run for new rows."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from subquad.cli.options import (
    Json,
    Output,
    Quiet,
    Threads,
    Verbose,
    check_out_file,
    share,
    use_threads,
)


def predict(
    run: Annotated[
        Path, typer.Argument(metavar="DIR", help="Run folder that `subquad fit` wrote.")
    ],
    data: Annotated[
        Path, typer.Argument(metavar="DATA", help="CSV, TSV, NPZ, Parquet or Arrow file.")
    ],
    out: Annotated[Path, typer.Option(help="CSV file to write.")],
    std: Annotated[
        bool, typer.Option("--std", help="Add the column `std`, a new target's deviation.")
    ] = False,
    interval: Annotated[
        float | None,
        typer.Option(
            callback=share,
            help="Add `lower` and `upper`, between which this share of new targets lies.",
            show_default="none",
        ),
    ] = None,
    threads: Threads = None,
    json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Predict new rows and write a CSV file.

    One line a row: its number counting from 0, `prediction`, `std`, `lower` and `upper` where they
    are asked for, and for classes one `proba_<class>` column each. Columns that the run does not
    know are ignored.

    Example: `subquad predict runs/houses new.csv --out predictions.csv`
    """
    output = Output(quiet=quiet, verbose=verbose)
    check_out_file(out, inputs=(data,))

    from subquad.runs.folder import Run
    from subquad.runs.predictions import write_predictions
    from subquad.tables.read import read_table

    use_threads(threads)
    fitted = Run.load(run)
    table = read_table(data, text=fitted.preparation.text_columns)
    write_predictions(out, fitted.predict(table, std=std, interval=interval))
    if json:
        output.json({"out": str(out), "rows": table.rows, "task": fitted.target.task})
    else:
        output.result(f"{table.rows} predictions: {out}")
