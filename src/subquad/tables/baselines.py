"""What any model must beat: the mean, and ridge regression, on leave-one-out predictions."""

from __future__ import annotations

import numpy as np

from subquad.tables.table import Numbers

ALPHAS = np.logspace(-4, 4, 17)


def leave_one_out_mean(values: Numbers) -> Numbers:
    """Predict each row by the mean of the others."""
    n = len(values)
    return np.asarray((values.sum(axis=0) - values) / (n - 1), dtype=np.float64)


def leave_one_out_ridge(features: Numbers, values: Numbers) -> Numbers:
    """Predict each row by ridge regression on the others.

    The strength is what :class:`sklearn.linear_model.RidgeCV` chooses by leave-one-out; given
    it, each row's prediction follows from the hat matrix H: y - (y - H y) / (1 - diag H).
    """
    from sklearn.linear_model import RidgeCV

    alpha = float(RidgeCV(alphas=ALPHAS).fit(features, values).alpha_)
    basis, sizes, _ = np.linalg.svd(features - features.mean(axis=0), full_matrices=False)
    shrunk = basis * (sizes**2 / (sizes**2 + alpha))  # n × rank
    leverage = 1.0 / len(values) + np.sum(shrunk * basis, axis=1)
    mean = values.mean(axis=0)
    fitted = mean + shrunk @ (basis.T @ (values - mean))
    keep = np.maximum(1.0 - leverage, 1e-12)
    errors = (values - fitted) / (keep if values.ndim == 1 else keep[:, None])
    return np.asarray(values - errors, dtype=np.float64)
