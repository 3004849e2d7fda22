"""The tables of the benchmark: rows, mean ranks, tests."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from subquad.bench.accuracy import ranks
from subquad.bench.accuracy.contest import Cell
from subquad.bench.accuracy.datasets import Data
from subquad.bench.accuracy.peers import OURS

Results = dict[Cell, dict[str, Any]]


@dataclass(frozen=True)
class Table:
    """What is ranked: a score of a task, and whether lower is better."""

    name: str
    task: str
    score: str
    lower: bool


TABLES = (
    Table("regression", "regression", "rmse", True),
    Table("classification", "classification", "accuracy", False),
    Table("classification_log_loss", "classification", "log_loss", True),
)


def shared_folds(results: Results, data: str, peers: Sequence[str]) -> list[tuple[int, int]]:
    """The repeats and folds of a set that every peer has a result for."""
    seen = [{(c.repeat, c.fold) for c in results if (c.data, c.peer) == (data, p)} for p in peers]
    return sorted(set.intersection(*seen)) if seen else []


def summarise(results: Results, sets: dict[str, Data], peers: Sequence[str]) -> dict[str, Any]:
    """`rows`, `mean_rank`, `critical_difference`, `friedman_p` and `tests`."""
    folds = {name: shared_folds(results, name, peers) for name in sets}
    rows = [
        _row(results, sets[name], peer, folds[name])
        for name in sets
        if folds[name]
        for peer in peers
    ]
    found: dict[str, Any] = {
        "rows": rows,
        "mean_rank": {},
        "critical_difference": {},
        "friedman_p": {},
        "tests": {},
    }
    for table in TABLES:
        names = [n for n, data in sets.items() if data.task == table.task and folds[n]]
        taking = [
            peer
            for peer in peers
            if any(_loss(row, table) is not None for row in rows if row["peer"] == peer)
        ]
        if not names or len(taking) < 2:
            continue
        by = {(row["data"], row["peer"]): row for row in rows}
        losses = np.array(
            [[_nan(_loss(by[name, peer], table)) for peer in taking] for name in names]
        )
        mean = ranks.ranks(losses).mean(axis=0)
        order = np.argsort(mean, kind="stable")
        found["mean_rank"][table.name] = {taking[i]: float(mean[i]) for i in order}
        found["critical_difference"][table.name] = ranks.critical_difference(
            len(taking), len(names)
        )
        found["friedman_p"][table.name] = ranks.friedman(losses)
        base = taking.index(OURS) if OURS in taking else int(order[0])
        each = _each_fold(results, table, names, taking, folds)
        found["tests"][table.name] = _tests(losses, each, taking, base)
    return found


def untuned(rows: Sequence[dict[str, Any]]) -> dict[str, dict[str, dict[str, float]]]:
    """Task → peer → mean score as it was tuned and as it comes, over the sets that have both."""
    found: dict[str, dict[str, dict[str, float]]] = {}
    for table in TABLES:
        for peer in dict.fromkeys(row["peer"] for row in rows):
            pairs = [
                (row["scores"][table.score], row["untuned_scores"][table.score])
                for row in rows
                if row["peer"] == peer and row["task"] == table.task and row["untuned_scores"]
                if row["scores"] and row["scores"][table.score] is not None
                if row["untuned_scores"][table.score] is not None
            ]
            if pairs:
                tuned, plain = (statistics.fmean(column) for column in zip(*pairs, strict=True))
                found.setdefault(table.name, {})[peer] = {"tuned": tuned, "untuned": plain}
    return found


def _row(results: Results, data: Data, peer: str, folds: list[tuple[int, int]]) -> dict[str, Any]:
    """A peer on a set: means over the folds; no scores if a single fold has none."""
    own = [results[Cell(data.name, peer, repeat, fold)] for repeat, fold in folds]
    errors = [result["error"] for result in own if result["error"]]
    return {
        "data": data.name,
        "task": data.task,
        "peer": peer,
        "scores": None if errors else _mean([result["scores"] for result in own]),
        "untuned_scores": _mean([result["untuned_scores"] for result in own]),
        "fit_seconds": statistics.median(result["fit_seconds"] for result in own),
        "folds": len(own),
        "error": f"{len(errors)} folds: {errors[0]}" if errors else None,
    }


def _mean(scores: Sequence[dict[str, float | None] | None]) -> dict[str, float | None] | None:
    known = [score for score in scores if score is not None]
    if len(known) < len(scores):
        return None
    return {
        name: None
        if any(score[name] is None for score in known)
        else statistics.fmean(score[name] or 0.0 for score in known)
        for name in known[0]
    }


def _loss(row: dict[str, Any], table: Table) -> float | None:
    """The row's score, turned so that lower is better."""
    value = (row["scores"] or {}).get(table.score)
    if value is None:
        return None
    return float(value) if table.lower else -float(value)


def _nan(value: float | None) -> float:
    return float("nan") if value is None else value


def _each_fold(
    results: Results,
    table: Table,
    names: Sequence[str],
    peers: Sequence[str],
    folds: dict[str, list[tuple[int, int]]],
) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Losses by fold (rows, over all sets) and peer (columns)."""
    return np.array(
        [
            [_nan(_loss(results[Cell(name, peer, *fold)], table)) for peer in peers]
            for name in names
            for fold in folds[name]
        ]
    )


def _tests(losses: Any, each: Any, peers: Sequence[str], base: int) -> list[dict[str, Any]]:
    """The base against each other peer: over sets, and over all folds."""
    losses, each = ranks.worst_for_missing(losses), ranks.worst_for_missing(each)
    return [
        {
            "peer": peers[base],
            "against": peers[other],
            **ranks.paired(losses[:, base], losses[:, other]),
            "p_folds": ranks.paired(each[:, base], each[:, other])["p"],
        }
        for other in range(len(peers))
        if other != base
    ]
