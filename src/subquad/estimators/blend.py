"""How much each member counts: a convex combination that left-out predictions decide."""

from __future__ import annotations

import numpy as np

from subquad.theory.duals import Array

TOWARDS_EQUAL = 0.1
"""Pull towards equal weights, in units of the mean squared error: members that do equally well
share, and noise in the left-out errors cannot set one above the other."""
LEAST = 0.08
"""Weight below which a member is not worth its training."""


def blend(left_out: Array, Y: Array, weights: Array) -> Array:
    """Return weights, at least 0 with sum 1, of members by their left-out predictions.

    Minimises `w^T M w + t tr(M)/k ‖w - 1/k‖²` with M the weighted mean products of the members'
    errors.

    Args:
        left_out: k×n×C; rows that are NaN are not judged.
        Y: n×C.
        weights: of the samples, (n,).

    >>> import numpy as np
    >>> Y = np.array([[1.0], [-1.0]])
    >>> blend(np.stack([Y * 0.9, -Y]), Y, np.ones(2))
    array([1., 0.])
    """
    from scipy.optimize import nnls

    k = len(left_out)
    seen = np.isfinite(left_out).all(axis=(0, 2))
    errors = (left_out - Y)[:, seen] * np.sqrt(weights[seen])[None, :, None]
    flat = errors.reshape(k, -1)
    M = flat @ flat.T / max(1, int(seen.sum()))
    pull = TOWARDS_EQUAL * max(float(np.trace(M)) / k, 1e-30)
    # ‖R w - r‖² with R^T R = M + pull I is the same; one more heavy row asks for sum 1.
    values, vectors = np.linalg.eigh(M + pull * np.eye(k))
    R = np.sqrt(np.maximum(values, 1e-30))[:, None] * vectors.T
    r = np.linalg.lstsq(R.T, np.full(k, pull / k), rcond=None)[0]
    heavy = 1e3 * float(np.sqrt(values.max()))
    found, _ = nnls(np.vstack([R, np.full(k, heavy)]), np.append(r, heavy))
    total = float(found.sum())
    return np.asarray(found / total if total > 0 else np.full(k, 1 / k))


def worthwhile(weights: Array, most: int) -> list[int]:
    """Return the members worth training, the weightiest first, ``most`` of them at most."""
    order = np.argsort(-weights, kind="stable")[:most]
    return [int(i) for i in order if weights[i] >= LEAST] or [int(order[0])]
