"""What any model must beat: the mean, and ridge regression, on rows that were left out.

A row is left out alone, with its group, or with all that is later than it.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import numpy.typing as npt

from subquad.tables.table import Numbers

ALPHAS = np.logspace(-4, 4, 17)
SQUARE_ROWS, BLOCKS = 2000, 50
"""Rows in order beyond which they are predicted in so many blocks, each from those before it."""
FREE = 1e6
"""Variance of the intercept in units of the features', where rows are met in their order."""

Groups = npt.NDArray[Any] | None


def left_out_mean(values: Numbers, groups: Groups = None, ordered: bool = False) -> Numbers:
    """Predict each row by the mean of those that are not left out with it.

    Args:
        values: (n,) or (n, outputs).
        groups: one label per row, where rows are left out by group.
        ordered: a row is predicted from those before it alone; the first is 0.
    """
    n = len(values)
    flat = values.reshape(n, -1)
    if ordered:
        sums = np.cumsum(flat, axis=0) - flat
        found = sums / np.maximum(np.arange(n), 1)[:, None]
    else:
        _, mine = np.unique(np.arange(n) if groups is None else groups, return_inverse=True)
        mine = mine.reshape(-1)
        sums = np.zeros((mine.max() + 1, flat.shape[1]))
        np.add.at(sums, mine, flat)
        found = (flat.sum(axis=0) - sums[mine]) / (n - np.bincount(mine)[mine])[:, None]
    return np.asarray(found.reshape(values.shape), dtype=np.float64)


def left_out_ridge(
    features: Numbers, values: Numbers, groups: Groups = None, ordered: bool = False
) -> Numbers:
    """Predict each row by ridge regression on those that are not left out with it.

    The strength is the one of :data:`ALPHAS` whose left-out errors are smallest, all outputs
    together, as :class:`sklearn.linear_model.RidgeCV` chooses it.

    Args:
        features: n×d, standardised.
        values: (n,) or (n, outputs).
        groups, ordered: as in :func:`left_out_mean`.
    """
    Y = values.reshape(len(values), -1)
    errors = _ordered_errors(features, Y) if ordered else _errors(features, Y, groups)
    judged = slice(len(Y) // 3, None) if ordered else slice(None)
    best = min(errors, key=lambda found: float(np.square(found[judged]).sum()))
    return np.asarray((Y - best).reshape(values.shape), dtype=np.float64)


def _errors(features: Numbers, Y: Numbers, groups: Groups) -> list[Numbers]:
    """Errors `(I - H_BB)^-1 (y - H y)_B` of each block B that is left out, H the hat matrix."""
    n = len(Y)
    basis, sizes, _ = np.linalg.svd(features - features.mean(axis=0), full_matrices=False)
    mean = Y.mean(axis=0)
    inner = basis.T @ (Y - mean)
    blocks = [] if groups is None else [np.flatnonzero(groups == g) for g in np.unique(groups)]
    found = []
    for alpha in ALPHAS:
        shrink = sizes**2 / (sizes**2 + alpha)
        errors = Y - mean - (basis * shrink) @ inner
        if groups is None:
            own = 1.0 / n + np.square(basis) @ shrink
            errors = errors / np.maximum(1.0 - own, 1e-12)[:, None]
        for block in blocks:
            part = basis[block]
            hat = (part * shrink) @ part.T + 1.0 / n
            errors[block] = np.linalg.solve(np.eye(len(block)) - hat, errors[block])
        found.append(errors)
    return found


def _ordered_errors(features: Numbers, Y: Numbers) -> list[Numbers]:
    """Errors of rows predicted from those before them: `L_ii (L^-1 y)_i` with `L L^T = K + a I`."""
    from scipy.linalg import solve_triangular

    if len(Y) > SQUARE_ROWS:
        return _block_errors(features, Y)
    K = features @ features.T + FREE * max(1.0, float(np.square(features).mean()))
    found = []
    for alpha in ALPHAS:
        L = np.linalg.cholesky(K + alpha * np.eye(len(K)))
        found.append(L.diagonal()[:, None] * solve_triangular(L, Y, lower=True))
    return found


def _block_errors(features: Numbers, Y: Numbers) -> list[Numbers]:
    found = [Y.copy() for _ in ALPHAS]
    ends = np.linspace(len(Y) // 3, len(Y), BLOCKS + 1).astype(int)
    for first, last in itertools.pairwise(ends):
        X, y = features[:first], Y[:first]
        middle, mean = X.mean(axis=0), y.mean(axis=0)
        sizes, basis = np.linalg.eigh((X - middle).T @ (X - middle))
        inner = basis.T @ ((X - middle).T @ (y - mean))
        new = (features[first:last] - middle) @ basis
        for errors, alpha in zip(found, ALPHAS, strict=True):
            slopes = inner / (np.maximum(sizes, 0) + alpha)[:, None]
            errors[first:last] -= mean + new @ slopes
    return found
