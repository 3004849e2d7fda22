"""How inputs become coordinates: as they are, or as a ladder of steps for each.

A network on plain inputs knows the Euclidean distance of rows. Tables often change along one column
at a time, at places of their own, as trees assume. A ladder of T steps takes a number to T numbers
between -1 and 1, step t rising over its own piece of the range: two values then differ in as many
steps as lie between them, so inner products of ladders fall with the *absolute* difference, column
by column. Pieces of equal length follow the values, pieces with equally many rows their ranks.

In a trial (500 rows, three of five folds, test error relative to the deviation): concrete 0.35
plain, 0.28 with steps; excitation current 0.21 and 0.06; skillcraft 0.63 and 0.63; baseball 0.59
and 0.59.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from subquad.theory.duals import Array, Integers

KINDS = ("plain", "values", "ranks")
MOST_STEPS, LEAST_STEPS, COORDINATES = 24, 3, 512
"""Steps of an input, and coordinates of all inputs together, where there are many values."""
TAIL = 0.01
"""Share of the rows beyond either end of a ladder that follows values."""


@dataclass(frozen=True)
class Encoding:
    """Coordinates of inputs.

    Attributes:
        kind: "plain", "values" or "ranks".
        owner: which input each coordinate belongs to, (D,).
        low, high: where each step starts and ends to rise, (D,); empty if plain.
    """

    kind: str
    owner: Integers
    low: Array
    high: Array

    @classmethod
    def fit(cls, kind: str, X: Array, weights: Array) -> Encoding:
        """Lay the steps over training inputs, n×d; a row of weight 2 counts like two rows."""
        d = X.shape[1]
        if kind == "plain":
            return cls(kind, np.arange(d), np.empty(0), np.empty(0))
        most = int(min(max(COORDINATES // d, LEAST_STEPS), MOST_STEPS))
        knots = [_knots(kind, column, weights, most) for column in X.T]
        owner = np.repeat(np.arange(d), [len(k) - 1 for k in knots])
        return cls(
            kind,
            owner,
            np.concatenate([k[:-1] for k in knots]),
            np.concatenate([k[1:] for k in knots]),
        )

    def __call__(self, X: Array) -> Array:
        """Return coordinates, n×D; those of one input have a squared length of 1 at most."""
        if self.kind == "plain":
            return X
        steps = np.bincount(self.owner)[self.owner]
        risen = (X[:, self.owner] - self.low) / (self.high - self.low)
        found: Array = (2 * np.clip(risen, 0, 1) - 1) / np.sqrt(steps)
        return found


def _knots(kind: str, column: Array, weights: Array, most: int) -> Array:
    """Return the ends of the pieces: between neighbours where there are few values."""
    values = np.unique(column)
    if len(values) <= most + 1:
        return values if len(values) > 1 else np.array([values[0], values[0] + 1.0])
    if kind == "ranks":
        inner = _quantiles(column, weights, np.linspace(0, 1, most + 1)[1:-1])
        return np.unique(np.concatenate([values[:1], inner, values[-1:]]))
    low, high = _quantiles(column, weights, np.array([TAIL, 1 - TAIL]))
    if low == high:
        low, high = values[0], values[-1]
    return np.linspace(low, high, most + 1)


def _quantiles(column: Array, weights: Array, shares: Array) -> Array:
    """Return what `np.quantile` makes of as many rows as the weights say."""
    order = np.argsort(column, kind="stable")
    sorted_column, below = column[order], np.cumsum(weights[order])
    place = shares * max(below[-1] - 1, 0.0)
    first = np.floor(place)
    low, high = (
        sorted_column[np.minimum(np.searchsorted(below, k, side="right"), len(order) - 1)]
        for k in (first, first + 1)
    )
    found: Array = low + (place - first) * (high - low)
    return found
