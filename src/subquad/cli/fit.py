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
    auto_or,
    number_in,
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
    width: Annotated[
        str, typer.Option(help="Neurons of each hidden layer.", **auto_or(int))
    ] = "auto",
    depth: Annotated[str, typer.Option(help="Hidden layers.", **auto_or(int))] = "auto",
    shift: Annotated[
        str,
        typer.Option(help="Firing threshold; a larger one fires fewer neurons.", **auto_or(float)),
    ] = "auto",
    weights: Annotated[
        str | None,
        typer.Option(help="Kind of frozen weights.", show_default="sobol; else hadamard"),
    ] = None,
    layers: Annotated[
        str,
        typer.Option(help="Layers that learn.", **one_of("layers", "auto", "last", "all")),
    ] = "auto",
    method: Annotated[
        str,
        typer.Option(
            help="exact averages networks that choose their settings by rows left out; paper and "
            "gd train one as asked: auto is then 4096 wide, 3 deep, shift 1, no ridge."
        ),
    ] = "exact",
    ridge: Annotated[
        str, typer.Option(help="Ridge, in units of Gram / width.", **auto_or(float))
    ] = "auto",
    encoding: Annotated[
        str | None,
        typer.Option(
            help="Features as they are, or each as a ladder of steps over its values or ranks.",
            show_default="auto",
            **one_of("encoding", "auto", "plain", "values", "ranks"),
        ),
    ] = None,
    metric: Annotated[
        str | None,
        typer.Option(
            help="Whether every feature gets a scale of its own.",
            show_default="auto",
            **one_of("metric", "auto", "learned", "equal"),
        ),
    ] = None,
    members: Annotated[
        int | None, typer.Option(min=1, help="Networks to average, at most.", show_default="3")
    ] = None,
    validation: Annotated[
        str | None,
        typer.Option(
            help="Judge by rows left out one at a time, or, where they stand in the order of "
            "time, by predicting each from those before it.",
            show_default="rows",
            **one_of("validation", "rows", "time"),
        ),
    ] = None,
    groups: Annotated[
        str | None,
        typer.Option(
            help="Column that is no feature: rows with the same cell are left out together.",
            show_default="none",
        ),
    ] = None,
    class_weight: Annotated[
        str | None,
        typer.Option(
            help="Let rare classes count as much as common ones.",
            show_default="none",
            **one_of("class weight", "balanced"),
        ),
    ] = None,
    solver: Annotated[
        str | None,
        typer.Option(
            help="How paper solves its n by n systems: auto, exact, sketch, …", show_default="auto"
        ),
    ] = None,
    flush: Annotated[
        str | None,
        typer.Option(
            help="When pending changes of paper and gd enter the weights: never, sparse, …",
            show_default="never",
        ),
    ] = None,
    tol: Annotated[
        float | None,
        typer.Option(
            callback=at_least_zero,
            help="Relative residual that paper and gd go down to.",
            show_default="1e-6",
        ),
    ] = None,
    max_iter: Annotated[
        int | None, typer.Option(min=1, help="Most iterations.", show_default="10; else 50")
    ] = None,
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
    """Train wide networks on a table, every setting chosen from it.

    Missing numbers become the median beside a mark, text becomes categories, dates become days
    and their place in the year, week and day. The score is R² or accuracy; `loo_score` predicts
    every row without it, as do the mean and ridge regression beside it.

    Example: `subquad fit houses.csv --target price --out runs/houses`
    """
    output = Output(quiet=quiet, verbose=verbose)

    from subquad.cli.options import use_threads
    from subquad.cli.training import finish, train_with_view
    from subquad.memory import ceiling
    from subquad.runs.fit import left_out, summarise, write_run
    from subquad.runs.folder import claim_folder
    from subquad.runs.model import Prepared
    from subquad.runs.settings import settings_of
    from subquad.tables.read import read_table

    settings = settings_of(
        method,
        width=number_in(width, int),
        depth=number_in(depth, int),
        shift=number_in(shift, float),
        weights=weights,
        layers=layers,
        ridge=number_in(ridge, float),
        encoding=encoding,
        metric=metric,
        members=members,
        validation=validation,
        groups=groups,
        class_weight=class_weight,
        solver=solver,
        flush=flush,
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
    prepared = Prepared.of(table, target, task, groups)
    settings.check_job(prepared)
    folder = claim_folder(out)
    output.say(
        f"{table.rows} rows, {prepared.width} features, {prepared.target.task} of {target!r}"
    )
    for line in prepared.preparation.notes():
        output.say(line)
    fitted = train_with_view(prepared, settings, output)
    summary = {"out": str(folder), **summarise(fitted)}
    run = write_run(folder, fitted, summary, left_out(fitted))
    finish(run, fitted.kept_apart, output, json)
