"""From scores to probabilities that can be believed.

`p = softmax(a scores + b)`: one common sharpness and one offset per class, by maximum likelihood on
scores of rows left out, which are what scores of new rows look like. Weak priors keep both finite
where classes are separated without error. The problem is convex: Newton's method ends at its one
minimum.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from subquad.theory.duals import Array, Integers

SHARPNESS_PRIOR, OFFSET_PRIOR = 10.0, 1.0
"""Deviations of sharpness and of an offset; scores lie around -1 and 1."""
STEPS = 100


@dataclass(frozen=True)
class Calibration:
    """Sharpness, and one offset per class."""

    sharpness: float
    offsets: tuple[float, ...]

    def logits(self, scores: Array) -> Array:
        """Return what the softmax is taken of, n×classes; scores are per class, or one column."""
        return self.sharpness * _per_class(scores) + np.asarray(self.offsets)

    def __call__(self, scores: Array) -> Array:
        """Return probabilities, n×classes."""
        return _softmax(self.logits(scores))


def _per_class(scores: Array) -> Array:
    """Two classes share one score: its two signs."""
    return np.concatenate([-scores, scores], axis=1) / 2 if scores.shape[1] == 1 else scores


def calibrate(scores: Array, classes: Integers, count: int, weights: Array) -> Calibration:
    """Fit sharpness and offsets.

    Args:
        scores: of rows left out, n×C, or n×1 for two classes.
        classes: of these rows, 0 … count - 1.
        count: of classes.
        weights: of the samples.
    """
    spread, members = _per_class(scores), np.eye(count)[classes]
    prior = np.append(SHARPNESS_PRIOR, np.full(count, OFFSET_PRIOR)) ** -2.0
    # Row i's logits are D_i p with D_i = (scores_i, I).
    D = np.concatenate(
        [spread[:, :, None], np.broadcast_to(np.eye(count), (len(spread), count, count))], axis=2
    )

    def loss(p: Array) -> float:
        chosen = (_softmax(D @ p) * members).sum(axis=1)
        return -float(weights @ np.log(np.maximum(chosen, 1e-300))) + float(prior @ p**2) / 2

    p = np.append(1.0, np.zeros(count))
    for _ in range(STEPS):
        shares = _softmax(D @ p)
        gradient = np.einsum("i,ic,icp->p", weights, shares - members, D) + prior * p
        mean = np.einsum("ic,icp->ip", shares, D)
        curved = np.einsum("i,ic,icp,icq->pq", weights, shares, D, D) - np.einsum(
            "i,ip,iq->pq", weights, mean, mean
        )
        step = np.linalg.solve(curved + np.diag(prior), gradient)
        eta, now = 1.0, loss(p)
        while eta > 1e-6 and loss(p - eta * step) > now:
            eta /= 2
        p = p - eta * step
        if float(np.abs(step).max()) < 1e-10:
            break
    # Scores that point the wrong way when left out tell nothing: the offsets alone are kept.
    return Calibration(max(float(p[0]), 0.0), tuple(float(v) for v in p[1:]))


def _softmax(logits: Array) -> Array:
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    found: Array = powers / powers.sum(axis=1, keepdims=True)
    return found
