"""One cell: a peer on one fold of a set, scored on the rows that it has not seen."""

from __future__ import annotations

import contextlib
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.model_selection import KFold, StratifiedKFold

from subquad.bench.accuracy.datasets import Data
from subquad.bench.accuracy.peers import PEERS
from subquad.bench.accuracy.tuning import Array, Standardised, one_hot

FOLDS = 5
CLIP = 1e-3
"""Probabilities count as at least this in log loss: forests give hard zeros."""


def outer_fold(data: Data, repeat: int, fold: int, folds: int = FOLDS) -> tuple[Array, Array]:
    """Rows to train on and rows to score on: the same whoever asks."""
    kind = KFold if data.task == "regression" else StratifiedKFold
    splits = kind(folds, shuffle=True, random_state=1000 + repeat).split(data.X, data.y)
    return list(splits)[fold]


def run_cell(
    data: Data,
    peer: str,
    repeat: int,
    fold: int,
    folds: int = FOLDS,
    tell: Callable[[dict[str, Any]], None] | None = None,
) -> dict[str, Any]:
    """Fit and score; tell the tuned result before the untuned one is measured.

    Returns:
        `scores`, `untuned_scores`, `fit_seconds`, `predict_seconds`, `chosen`, `error`.
    """
    classes = data.task == "classification"
    train, test = outer_fold(data, repeat, fold, folds)
    seed = 100 * repeat + fold

    def fitted(tuned: bool) -> dict[str, Any]:
        ours = PEERS[peer].kind == "ours"  # which gets the table as it is
        model = Standardised(PEERS[peer].make(classes, seed, tuned), classes, scale=not ours)
        began = time.perf_counter()
        model.fit(data.X[train], data.y[train])
        middle = time.perf_counter()
        scores = score(model, data.X[test], data.y[test])
        return {
            "scores": scores,
            "fit_seconds": middle - began,
            "predict_seconds": time.perf_counter() - middle,
            "chosen": _plain(getattr(model.model, "chosen", None)),
        }

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = {**fitted(True), "untuned_scores": None, "error": None}
        if tell is not None:
            tell(found)
        if PEERS[peer].kind != "ours":  # which has nothing to tune
            with contextlib.suppress(Exception):
                found["untuned_scores"] = fitted(False)["scores"]
    return found


def score(model: Standardised, X: Array, y: Array) -> dict[str, float | None]:
    """RMSE in units of the fold's deviation and R², or accuracy and log loss."""
    found = model.predict(X)
    if not model.classes:
        if not np.isfinite(found).all():
            raise ArithmeticError("predictions that are not finite")
        error, spread = float(np.mean((found - y) ** 2)), float(np.var(y))
        return {"rmse": float(np.sqrt(error / spread)), "r2": 1 - error / spread}
    probabilities = model.probabilities(X)
    log_loss = None
    if probabilities is not None:
        codes = one_hot(y, np.asarray(model.model.classes_))
        given = np.clip((probabilities * codes).sum(axis=1), CLIP, 1.0)
        log_loss = float(-np.log(given).mean())
    return {"accuracy": float(np.mean(found == y)), "log_loss": log_loss}


def _plain(settings: Any) -> dict[str, Any] | None:
    if settings is None:
        return None
    simple = (str, int, float, bool, type(None))
    return {key: v if isinstance(v, simple) else str(v) for key, v in settings.items()}
