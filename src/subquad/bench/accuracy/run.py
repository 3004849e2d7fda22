"""The benchmark as a whole: which sets and peers, the contest, the tables."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from subquad.bench.accuracy.cell import FOLDS
from subquad.bench.accuracy.contest import Contest, Progress, compute, default_cache
from subquad.bench.accuracy.datasets import (
    CLASSIFICATION,
    QUICK,
    REGRESSION,
    SETS,
    Data,
    NotInstalled,
    Source,
    load,
    remedy,
)
from subquad.bench.accuracy.peers import OURS, PEERS, have_ours
from subquad.bench.accuracy.ranks import cliques
from subquad.bench.accuracy.summary import summarise, untuned
from subquad.bench.machine import machine_info
from subquad.checks import integer, number
from subquad.errors import InvalidInput, unknown_name

ROWS = (500, 2000)
QUICK_PEERS = (OURS, "ridge", "svm", "random-forest")
LIMIT = 60.0


def run(
    quick: bool = False,
    rows: int = ROWS[0],
    jobs: int = 1,
    peers: str | None = None,
    data: str | None = None,
    repeats: int = 2,
    limit: float = LIMIT,
    cache: str | Path | None = None,
    ledger: str | Path | None = None,
    quiet: bool = False,
) -> dict[str, Any]:
    """Measure what is not known yet and return the JSON object of `subquad bench accuracy`.

    Args:
        quick: three small sets a task that scikit-learn holds, two folds, three peers.
        rows: sets with more are cut to this many, 500 or 2000.
        jobs: processes, each of one thread; with 0, only what is known is told.
        peers: names, separated by commas.
        data: names of sets, separated by commas.
        repeats: times that the five folds are drawn.
        limit: seconds of a cell.
        cache: folder of the results.
        ledger: file of results from elsewhere, which count where the folder has none.
        quiet: no progress.
    """
    if rows not in ROWS:
        raise InvalidInput(f"rows must be one of {', '.join(map(str, ROWS))}, got {rows}")
    integer("jobs", jobs, least=0)
    integer("repeats", repeats, least=1)
    number("limit", limit, above=True)
    chosen = [SETS[n] for n in _names("set", data, SETS)] if data else _sources(quick)
    sets, left_out = _load(chosen, rows)
    if not sets:
        raise InvalidInput("no set is left: " + "; ".join(left_out.values()))
    named = _names("peer", peers, PEERS) if peers else (QUICK_PEERS if quick else tuple(PEERS))
    there, absent = _present(named)
    if not there:
        raise InvalidInput("no peer is left: " + "; ".join(absent.values()))
    folder = Path(cache) if cache else default_cache()
    contest = Contest(
        sets=sets,
        peers=there,
        repeats=1 if quick else repeats,
        folds=2 if quick else FOLDS,
        rows=rows,
        limit=limit,
        cache=folder,
        ledger=Path(ledger) if ledger else None,
    )
    cells = list(contest.cells())
    known = contest.results()
    missing = [cell for cell in cells if cell not in known] if jobs else []
    if not quiet:
        for name, why in {**left_out, **absent}.items():
            print(f"left out: {name}: {why}", file=sys.stderr)
        print(
            f"{len(sets)} sets, {len(there)} peers, {len(cells)} cells, {len(known)} known; "
            f"results in {folder}",
            file=sys.stderr,
            flush=True,
        )
    if missing:
        with Progress(len(cells), len(known), quiet) as progress:
            try:
                compute(contest, missing, jobs, progress)
            except KeyboardInterrupt:
                if not quiet:
                    print("stopped: the same command goes on from here", file=sys.stderr)
                raise
    results = contest.results()
    found = summarise(results, sets, there)
    return {
        "machine": machine_info(),
        "points": [
            {"data": c.data, "task": sets[c.data].task, "peer": c.peer}
            | {"repeat": c.repeat, "fold": c.fold}
            | {k: v for k, v in result.items() if k not in ("predict_seconds", "chosen")}
            for c, result in results.items()
        ],
        **found,
        "untuned": untuned(found["rows"]),
        "sets": {
            name: {
                "task": one.task,
                "package": one.package,
                "rows": len(one.X),
                "rows_before": one.rows,
                "columns": one.X.shape[1],
                "classes": int(one.y.max()) + 1 if one.task == "classification" else None,
            }
            for name, one in sets.items()
        },
        "versions": {peer: PEERS[peer].version for peer in there},
        "left_out": {**left_out, **absent},
        "limit": limit,
        "computed": len(missing),
        "missing_cells": len(cells) - len(results),
    }


def _sources(quick: bool) -> Sequence[Source]:
    return QUICK if quick else (*REGRESSION, *CLASSIFICATION)


def _names(kind: str, given: str, known: Mapping[str, object]) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(name.strip() for name in given.split(",") if name.strip()))
    for name in names:
        if name not in known:
            raise unknown_name(kind, name, known)
    if not names:
        raise InvalidInput(f"no {kind} named: give one or more of {', '.join(known)}")
    return names


def _load(sources: Sequence[Source], rows: int) -> tuple[dict[str, Data], dict[str, str]]:
    sets: dict[str, Data] = {}
    left_out: dict[str, str] = {}
    for source in sources:
        try:
            sets[source.name] = load(source, rows)
        except NotInstalled as missing:
            package = str(missing)
            left_out[source.name] = f"needs {package}: {remedy(package)}"
    return sets, left_out


def _present(names: Sequence[str]) -> tuple[tuple[str, ...], dict[str, str]]:
    """The peers that are installed, and why the others are not there."""
    absent: dict[str, str] = {}
    for name in names:
        if name == OURS and not have_ours():
            absent[name] = "this version of the package has no estimators"
        elif PEERS[name].version is None:
            absent[name] = f"needs {PEERS[name].package}: pip install {PEERS[name].package}"
    return tuple(name for name in names if name not in absent), absent


def show(measured: Mapping[str, Any]) -> None:
    """Print one table a task: mean rank, mean score, wins, seconds, p."""
    from rich.console import Console
    from rich.table import Table

    from subquad.bench.accuracy.summary import TABLES

    console = Console(width=max(Console().width, 100), soft_wrap=True)
    for table in TABLES:
        means = measured["mean_rank"].get(table.name)
        if not means:
            continue
        own = [row for row in measured["rows"] if row["task"] == table.task]
        count = len({row["data"] for row in own})
        tests = {test["against"]: test for test in measured["tests"][table.name]}
        difference = measured["critical_difference"][table.name]
        base = next(iter(tests.values()))["peer"]
        shown = Table(
            title=f"{table.name.replace('_', ' ')}: {table.score.replace('_', ' ')}, "
            f"{count} sets, critical difference {difference:.2f}",
            box=None,
        )
        for column in ("peer", "mean rank", "mean", "untuned", "best on", "seconds", "p", "alike"):
            shown.add_column(column, justify="left" if column == "peer" else "right")
        best = _best(own, table.score, table.lower)
        groups = cliques(list(means.values()), difference)
        for place, (peer, mean) in enumerate(means.items()):
            scores = [
                row["scores"][table.score] for row in own if row["peer"] == peer and row["scores"]
            ]
            both = measured["untuned"].get(table.name, {}).get(peer)
            test = tests.get(peer)
            shown.add_row(
                peer,
                f"{mean:.2f}",
                f"{sum(scores) / len(scores):.4f}" if scores else "-",
                f"{both['untuned']:.4f}" if both else "-",
                str(sum(peer in winners for winners in best.values())),
                f"{_median([r['fit_seconds'] for r in own if r['peer'] == peer]):.2f}",
                "-" if test is None or test["p"] is None else f"{test['p']:.2g}",
                "".join("abcdefgh"[i % 8] for i, (a, b) in enumerate(groups) if a <= place <= b),
            )
        console.print(shown)
        console.print(f"p: {base} against each, signed ranks over sets", highlight=False)
    if measured["missing_cells"]:
        console.print(f"{measured['missing_cells']} cells are missing", highlight=False)


def _best(rows: Sequence[Any], score: str, lower: bool) -> dict[str, list[str]]:
    """Set → who is best there, all of them where several are."""
    found: dict[str, list[str]] = {}
    for name in dict.fromkeys(row["data"] for row in rows):
        values = {
            row["peer"]: row["scores"][score] * (1 if lower else -1)
            for row in rows
            if row["data"] == name and row["scores"] and row["scores"][score] is not None
        }
        found[name] = [p for p, v in values.items() if v == min(values.values())]
    return found


def _median(values: Sequence[float]) -> float:
    import statistics

    return statistics.median(values)
