"""From a fitted model to its summary and its run folder."""

from __future__ import annotations

import datetime
import platform
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch

from subquad import __version__
from subquad.memory import limit
from subquad.runs.folder import REPORT, Run
from subquad.runs.model import Fitted
from subquad.runs.report import write_report
from subquad.tables.baselines import left_out_mean, left_out_ridge
from subquad.tables.prepare import Preparation
from subquad.tables.table import Numbers
from subquad.tables.target import Target

MAX_PLOTTED = 1000


def summarise(fitted: Fitted) -> dict[str, Any]:
    """Scores, baselines and settings in the words of ``subquad fit --json``, but for ``out``."""
    data, target, ordered = fitted.data, fitted.data.target, fitted.settings.ordered
    seen = np.isfinite(fitted.left_out.reshape(len(data.labels), -1)).all(axis=1)

    def score(scores: Numbers, rows: Any = ...) -> float:
        return target.score(data.labels[rows], target.decode(scores[rows]))

    if target.task == "regression":
        mean = left_out_mean(data.values, data.groups, ordered)
    else:  # the commonest class; without the row itself, it would be wrong wherever there are ties
        mean = np.broadcast_to(data.values.mean(axis=0), data.values.shape)
    ridge = left_out_ridge(data.features, data.values, data.groups, ordered)
    with limit(fitted.settings.max_memory):
        train_score = score(fitted.model.scores(data.features))
    return {
        "task": target.task,
        "train_score": train_score,
        "loo_score": score(fitted.left_out, seen),
        "baselines": {"mean": score(mean, seen), "ridge": score(ridge, seen)},
        "iterations": fitted.iterations,
        "seconds": fitted.seconds,
        "status": fitted.status,
        "remedy": fitted.remedy,
        "chosen": dict(fitted.chosen),
        "features": feature_shares(data.preparation, fitted.shares),
        "members": fitted.members,
    }


def feature_shares(preparation: Preparation, shares: Numbers | None) -> list[dict[str, Any]]:
    """Return each column's share of the learned metric, the largest first; empty without one."""
    if shares is None:
        return []
    ends = np.cumsum([column.width for column in preparation.columns])
    sums = np.add.reduceat(shares, [0, *ends[:-1]])
    order = np.argsort(-sums, kind="stable")
    return [{"name": preparation.columns[i].name, "share": float(sums[i])} for i in order]


def write_run(folder: Path, fitted: Fitted, summary: dict[str, Any], shown: dict[str, Any]) -> Run:
    """Write a finished run and its report; ``shown`` are the predictions that it draws."""
    config, tensors = fitted.model.state()
    run = Run(
        folder=folder,
        created=datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        versions=versions(),
        settings=asdict(fitted.settings),  # type: ignore[call-overload]
        summary=summary,
        preparation=fitted.data.preparation,
        target=fitted.data.target,
        kind=fitted.model.kind,
        model=config,
    ).save(tensors, [*fitted.metrics, shown])
    write_report(run, folder / REPORT)
    return run


def predictions_record(rows: str, target: Target, labels: Any, predictions: Any) -> dict[str, Any]:
    """What the report draws: a sample of points, or the whole confusion matrix."""
    record: dict[str, Any] = {"kind": "predictions", "rows": rows}
    if target.task == "classification":
        index = {name: i for i, name in enumerate(target.classes)}
        counts = np.zeros((len(index), len(index)), dtype=int)
        for label, prediction in zip(labels, predictions, strict=True):
            counts[index[label], index[prediction]] += 1
        return {**record, "classes": list(target.classes), "confusion": counts.tolist()}
    step = -(-len(labels) // MAX_PLOTTED)
    return {
        **record,
        "targets": labels[::step].tolist(),
        "predictions": predictions[::step].tolist(),
    }


def left_out(fitted: Fitted) -> dict[str, Any]:
    """Predictions of rows that were left out, for the report of a fit."""
    data = fitted.data
    seen = np.isfinite(fitted.left_out.reshape(len(data.labels), -1)).all(axis=1)
    predictions = data.target.decode(fitted.left_out[seen])
    return predictions_record(fitted.kept_apart, data.target, data.labels[seen], predictions)


def versions() -> dict[str, str]:
    """Versions of what takes part in a run."""
    return {
        "subquad": __version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": np.__version__,
    }
