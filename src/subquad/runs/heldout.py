"""Scores on rows held out, for where there are enough of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from subquad.runs.fit import predictions_record
from subquad.runs.model import Fitted, Prepared
from subquad.tables.baselines import ALPHAS
from subquad.tables.table import Numbers, Table


@dataclass(frozen=True)
class HeldOut:
    """Rows that the network never saw, prepared as its training rows were."""

    features: Numbers
    labels: npt.NDArray[Any]


def split(table: Table, target: str, *, share: float, seed: int) -> tuple[Prepared, HeldOut]:
    """Hold out a random share of the rows; the preparation sees the others only."""
    order = np.random.default_rng(seed).permutation(table.rows)
    count = round(share * table.rows)
    training = Prepared.of(table.take(order[count:]), target)
    others = table.take(order[:count])
    features = others.without(target)
    return training, HeldOut(
        training.preparation.features(features),
        training.target.labels(others),
    )


def summarise_heldout(fitted: Fitted, test: HeldOut) -> tuple[dict[str, Any], dict[str, Any]]:
    """Scores of network, mean and ridge regression on the rows held out, and what to draw."""
    from sklearn.linear_model import RidgeCV

    data, target = fitted.data, fitted.data.target
    predictions = target.decode(fitted.model.scores(test.features))
    plain = RidgeCV(alphas=ALPHAS).fit(data.features, data.values)
    mean = np.broadcast_to(data.values.mean(axis=0), (len(test.labels), *data.values.shape[1:]))
    summary = {
        "task": target.task,
        "test_score": target.score(test.labels, predictions),
        "baselines": {
            "mean": target.score(test.labels, target.decode(mean)),
            "ridge": target.score(test.labels, target.decode(plain.predict(test.features))),
        },
        "iterations": fitted.iterations,
        "seconds": fitted.seconds,
        "status": fitted.status,
        "remedy": fitted.remedy,
    }
    return summary, predictions_record("held out", target, test.labels, predictions)
