"""``subquad bench``: run a benchmark and print what it measured."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from subquad.cli.options import Json, Output, Threads, Verbose, at_least_zero, use_threads
from subquad.errors import InvalidInput, unknown_name

NAMES = ("accuracy", "iteration", "large", "peers", "scaling", "sketch", "widest")


def bench(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME",
            help=f"Benchmark: {', '.join(NAMES)}.",
            autocompletion=lambda: list(NAMES),
        ),
    ],
    quick: Annotated[bool, typer.Option("--quick", help="Smaller and fewer runs.")] = False,
    method: Annotated[str | None, typer.Option(help="Training method (scaling).")] = None,
    width: Annotated[
        list[int] | None,
        typer.Option(min=1, help="Width; scaling takes several: --width 1024 --width 2048 …"),
    ] = None,
    samples: Annotated[int | None, typer.Option(min=1, help="Rows.")] = None,
    depth: Annotated[int | None, typer.Option(min=1, help="Hidden layers.")] = None,
    shift: Annotated[
        float | None, typer.Option(callback=at_least_zero, help="Threshold b.")
    ] = None,
    weights: Annotated[
        str | None, typer.Option(help="Kind of frozen weights (peers, scaling, widest).")
    ] = None,
    size: Annotated[int | None, typer.Option(min=1, help="Sketch size (sketch).")] = None,
    rows: Annotated[
        int | None, typer.Option(min=1, help="Rows that sets are cut to: 500 or 2000 (accuracy).")
    ] = None,
    jobs: Annotated[
        int | None,
        typer.Option(min=0, help="Processes side by side; 0 tells what is known (accuracy)."),
    ] = None,
    peers: Annotated[str | None, typer.Option(help="Peers, with commas (accuracy).")] = None,
    data: Annotated[str | None, typer.Option(help="Sets, with commas (accuracy).")] = None,
    repeats: Annotated[int | None, typer.Option(min=1, help="Repeats.")] = None,
    cache: Annotated[
        Path | None, typer.Option(help="Folder that keeps results (accuracy).")
    ] = None,
    ledger: Annotated[
        Path | None, typer.Option(help="File of results from elsewhere (accuracy).")
    ] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Seed.")] = None,
    threads: Threads = None,
    json: Json = False,
    verbose: Verbose = False,
) -> None:
    """Measure cost or speed, with peers in the same run.

    Example: `subquad bench scaling --method paper --quick`
    """
    if name not in NAMES:
        raise unknown_name("benchmark", name, NAMES)
    import importlib
    import inspect

    use_threads(threads)
    benchmark = importlib.import_module(f"subquad.bench.{name}")
    run = benchmark.run
    known = inspect.signature(run).parameters
    options: dict[str, Any] = {
        "method": method,
        "samples": samples,
        "depth": depth,
        "shift": shift,
        "weights": weights,
        "size": size,
        "rows": rows,
        "jobs": jobs,
        "peers": peers,
        "data": data,
        "repeats": repeats,
        "cache": cache,
        "ledger": ledger,
        "seed": seed,
    }
    if width and "widths" in known:
        options["widths"] = width
    elif width:
        if len(width) > 1:
            raise InvalidInput(f"bench {name} takes one --width, not {len(width)}")
        options["width"] = width[0]
    given = {option: value for option, value in options.items() if value is not None}
    for option in given:
        if option not in known:
            raise InvalidInput(f"bench {name} takes no --{option}: leave it out")
    measured = run(quick=quick, **given)
    if json:
        Output().json(measured)
    elif hasattr(benchmark, "show"):
        benchmark.show(measured)
    else:
        show(name, measured)


def show(name: str, measured: Mapping[str, Any]) -> None:
    """Print tables of the rows and, below, everything else."""
    from rich.console import Console
    from rich.table import Table

    # Rows wrap on a narrow terminal, rather than lose their digits; headings break at spaces.
    console = Console(width=max(Console().width, 140), soft_wrap=True)
    for key in ("points", "rows"):
        rows = measured.get(key)
        if not rows:
            continue
        columns = [c for c, v in rows[0].items() if not isinstance(v, (dict, list))]
        table = Table(title=f"{name}: {key}", box=None)
        for column in columns:
            table.add_column(column.replace("_", " "), justify="right")
        for row in rows:
            table.add_row(*(_cell(row.get(column)) for column in columns))
        console.print(table)
    for key, value in measured.items():
        if key not in ("points", "rows"):
            console.print(f"{key}: {_cell(value)}", highlight=False, markup=False)


def _cell(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {_cell(item)}" for key, item in value.items())
    if isinstance(value, float) or (isinstance(value, int) and abs(value) >= 1e6):
        return f"{value:.4g}"
    return "-" if value is None else str(value)
