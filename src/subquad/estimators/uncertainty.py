"""How far predictions may be off: the kernel's own deviation, and intervals that left-out rows fix.

A member's targets are Gaussian with covariance `c (K + noise diag(1/s))`, so a new row with kernel
column k has variance `c (1 - k^T A^-1 k + noise)`, noise of a row of weight 1 included. Members are
a mixture: the mean of their variances, and the variance of their means.

Left-out residuals, each in units of its row's own deviation, are a sample of what a new row's will
be. Their quantile, taken one rank higher than n rows would need, makes intervals that cover what
they say under no assumption but that rows are alike (split conformal prediction, with the rows left
out in place of a second set).
"""

from __future__ import annotations

import math

import numpy as np
import torch

from subquad.estimators.evidence import kernel
from subquad.estimators.member import Member
from subquad.theory.duals import Array


class Spread:
    """The predictive deviation of one member's kernel."""

    def __init__(self, member: Member, X: Array, Y: Array, weights: Array) -> None:
        self._member, self._profile = member, member.recipe.profile
        self._noise = member.settings.relative_noise
        self._rows = member.rows(X)
        noise = self._noise / weights
        A = torch.from_numpy(kernel(self._profile, self._rows))
        A.diagonal().add_(torch.from_numpy(noise))
        self._factor = torch.linalg.cholesky(A)
        targets = torch.from_numpy(Y)
        alpha = torch.cholesky_solve(targets, self._factor)
        self._size = ((targets * alpha).sum(0) / float(weights.sum())).numpy()  # c, one per output
        self._own = torch.cholesky_inverse(self._factor).diagonal().numpy()

    def variances(self, X: Array) -> Array:
        """Return the variance of new rows' targets, n×C."""
        k = torch.from_numpy(kernel(self._profile, self._member.rows(X), self._rows))
        known = torch.linalg.solve_triangular(self._factor, k.T, upper=False).square().sum(0)
        unknown = np.maximum(1 - known.numpy(), 0) + self._noise
        return np.outer(unknown, self._size)

    def left_out_variances(self) -> Array:
        """Return the variance of each training row's target had the row been left out, n×C."""
        return np.outer(1 / self._own, self._size)


def mixed_deviation(variances: list[Array], means: list[Array], weights: Array) -> Array:
    """Return the deviation of a mixture of members, n×C."""
    middle = np.tensordot(weights, np.stack(means), 1)
    around = np.tensordot(weights, np.stack(variances), 1)
    between = np.tensordot(weights, (np.stack(means) - middle) ** 2, 1)
    found: Array = np.sqrt(around + between)
    return found


def conformal_factor(residuals: Array, deviations: Array, coverage: float) -> float:
    """Return how many deviations an interval must reach to cover a share of new rows.

    Infinitely many where that share is more than so few residuals can vouch for.

    >>> conformal_factor(np.arange(1.0, 20.0), np.ones(19), 0.9)  # the 18th of 19
    18.0
    """
    scores = np.sort(np.abs(residuals) / np.maximum(deviations, 1e-300))
    rank = math.ceil(coverage * (len(scores) + 1))
    return float(scores[rank - 1]) if rank <= len(scores) else math.inf
