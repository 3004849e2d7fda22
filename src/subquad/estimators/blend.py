"""How much each member counts: a convex combination that left-out predictions decide."""

from __future__ import annotations

import numpy as np

from subquad.theory.duals import Array

WORTH = 0.005
"""Share of the squared error that one more member must save to be worth its training."""


def error_products(left_out: Array, Y: Array, weights: Array) -> Array:
    """Return M, weighted mean products of the members' errors, k×k.

    Args:
        left_out: k×n×C; rows that are NaN are not judged.
        Y: n×C.
        weights: of the samples, (n,).
    """
    seen = np.isfinite(left_out).all(axis=(0, 2))
    errors = (left_out - Y)[:, seen] * np.sqrt(weights[seen])[None, :, None]
    flat = errors.reshape(len(left_out), -1)
    return np.asarray(flat @ flat.T / max(float(weights[seen].sum()), 1e-300))


def convex(M: Array, towards_equal: float) -> Array:
    """Return weights, at least 0 with sum 1, that minimise `w^T M w + t tr(M)/k ‖w - 1/k‖²`.

    The pull t towards equal weights lets members share that do equally well, so that noise in the
    left-out errors cannot set one above the other.

    >>> convex(np.array([[0.01, 0.0], [0.0, 1.0]]), 0.1).round(2)
    array([0.92, 0.08])
    """
    from scipy.optimize import nnls

    k = len(M)
    pull = towards_equal * max(float(np.trace(M)) / k, 1e-30)
    # ‖R w - r‖² with R^T R = M + pull I is the same; one more heavy row asks for sum 1.
    values, vectors = np.linalg.eigh(M + pull * np.eye(k))
    root = np.sqrt(np.maximum(values, 1e-30))
    r = (vectors.T @ np.full(k, pull / k)) / root
    heavy = 1e3 * float(root.max())
    found, _ = nnls(np.vstack([root[:, None] * vectors.T, np.full(k, heavy)]), np.append(r, heavy))
    return np.asarray(found / found.sum())


def blend(left_out: Array, Y: Array, weights: Array, towards_equal: float) -> Array:
    """Return the weights of members by their left-out predictions."""
    return convex(error_products(left_out, Y, weights), towards_equal)


def best_few(M: Array, most: int, towards_equal: float) -> list[int]:
    """Return members that are worth training, ``most`` at most: the best alone, then what helps it.

    >>> best_few(np.array([[1.0, 1.0, 0.0], [1.0, 1.1, 0.0], [0.0, 0.0, 1.2]]), 2, 0.1)
    [0, 2]
    """
    chosen = [int(np.argmin(np.diag(M)))]
    least = float(M[chosen[0], chosen[0]])
    while len(chosen) < most:
        trials = []
        for i in set(range(len(M))) - set(chosen):
            part = M[np.ix_([*chosen, i], [*chosen, i])]
            w = convex(part, towards_equal)
            trials.append((float(w @ part @ w), i))
        if not trials or min(trials)[0] > (1 - WORTH) * least:
            break
        least = min(trials)[0]
        chosen.append(min(trials)[1])
    return chosen
