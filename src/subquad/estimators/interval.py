"""Intervals that hold a share of new targets, whatever the ensemble."""

from __future__ import annotations

import numpy as np

from subquad.errors import InvalidInput
from subquad.estimators.ensemble import Ensemble
from subquad.estimators.uncertainty import conformal_factor
from subquad.theory.duals import Array


def reach(ensemble: Ensemble, X: Array, coverage: float) -> Array:
    """Return how far to either side of its predictions an ensemble's intervals go, n×C.

    Args:
        ensemble: what predicts.
        X: new rows.
        coverage: share of new targets that lie inside.
    """
    left_out = ensemble.left_out
    if not len(left_out.rows):
        raise InvalidInput("no row was predicted before it was learned: fit more rows first")
    residuals, deviations = left_out.targets - left_out.predictions, ensemble.left_out_deviation()
    factors = [
        conformal_factor(residuals[:, c], deviations[:, c], coverage)
        for c in range(residuals.shape[1])
    ]
    found: Array = np.array(factors) * ensemble.deviation(X)
    return found
