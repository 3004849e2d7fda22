"""``subquad fit``: train on a table and write a run folder."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from subquad.cli.options import (
    Json,
    Output,
    Quiet,
    Seed,
    Threads,
    Verbose,
    at_least_zero,
    one_of,
)


def fit(
    data: Annotated[
        Path, typer.Argument(metavar="DATA", help="CSV, TSV, NPZ, Parquet or Arrow file.")
    ],
    target: Annotated[str, typer.Option(help="Column to predict.")],
    out: Annotated[Path, typer.Option(help="Run folder to write: new, empty, or a run.")],
    task: Annotated[
        str | None,
        typer.Option(
            help="Text, or whole numbers of at most 10 repeated levels, are classes.",
            show_default="by that rule",
            **one_of("task", "regression", "classification"),
        ),
    ] = None,
    width: Annotated[int, typer.Option(min=1, help="Neurons of each hidden layer.")] = 4096,
    depth: Annotated[int, typer.Option(min=1, help="Hidden layers.")] = 3,
    shift: Annotated[
        float,
        typer.Option(
            callback=at_least_zero, help="Firing threshold; a larger one fires fewer neurons."
        ),
    ] = 1.0,
    weights: Annotated[str, typer.Option(help="Kind of frozen weights.")] = "hadamard",
    layers: Annotated[
        str | None,
        typer.Option(
            help="Layers that learn.",
            show_default="as the method does",
            **one_of("layers", "last", "all"),
        ),
    ] = None,
    method: Annotated[str, typer.Option(help="Training method: exact, paper or gd.")] = "exact",
    solver: Annotated[
        str, typer.Option(help="How the n by n systems are solved: auto, exact, sketch, …")
    ] = "auto",
    flush: Annotated[
        str, typer.Option(help="When pending changes enter the weights: never, sparse, …")
    ] = "never",
    ridge: Annotated[
        float, typer.Option(callback=at_least_zero, help="Ridge, in units of Gram / width.")
    ] = 0.0,
    tol: Annotated[
        float, typer.Option(callback=at_least_zero, help="Relative residual to reach.")
    ] = 1e-6,
    max_iter: Annotated[int, typer.Option(min=1, help="Most iterations.")] = 50,
    max_memory: Annotated[
        str | None,
        typer.Option(
            help="What the process may hold: 6GB, 500MB, or 50% of what is free.",
            show_default="80% of what is free",
        ),
    ] = None,
    seed: Seed = 0,
    threads: Threads = None,
    json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Train a wide network on a table.

    Missing numbers become the median beside a mark, text becomes categories. The score is R² or
    accuracy; `loo_score` predicts every row without it, as does ridge regression beside it.

    Example: `subquad fit houses.csv --target price --out runs/houses`
    """
    output = Output(quiet=quiet, verbose=verbose)

    from subquad.cli.options import use_threads
    from subquad.cli.training import finish, train_with_view
    from subquad.memory import ceiling
    from subquad.runs.fit import (
        FitSettings,
        Prepared,
        check_memory,
        left_out,
        summarise,
        write_run,
    )
    from subquad.runs.folder import claim_folder
    from subquad.tables.read import read_table

    settings = FitSettings(
        task=task,
        width=width,
        depth=depth,
        shift=shift,
        weights=weights,
        layers=layers,
        method=method,
        solver=solver,
        flush=flush,
        ridge=ridge,
        tol=tol,
        max_iter=max_iter,
        seed=seed,
        max_memory=max_memory,
    )
    ceiling(max_memory)  # said before any work
    settings.check()
    table = read_table(data)
    table.column(target)
    use_threads(threads)
    prepared = Prepared.of(table, target, settings.task)
    check_memory(prepared, settings)
    folder = claim_folder(out)
    output.say(
        f"{table.rows} rows, {prepared.preparation.width} features, "
        f"{prepared.target.task} of {target!r}"
    )
    if prepared.preparation.dropped:
        output.say(f"columns that tell nothing: {', '.join(prepared.preparation.dropped)}")
    fitted = train_with_view(prepared, settings, output)
    summary = {"out": str(folder), **summarise(fitted)}
    run = write_run(folder, fitted, summary, left_out(fitted))
    finish(run, output, json)
