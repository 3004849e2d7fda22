"""Rows that say the same, made one.

Two equal rows with equal targets are no evidence of little noise: tables hold the same row twice,
and weights do not say that a row was measured twice. So equal rows become one, their weights are
added, and weights are brought to 1 on average: only their ratios count. A row is then left out
with all that are equal to it.
"""

from __future__ import annotations

import numpy as np

from subquad.estimators.search import Validation
from subquad.theory.duals import Array, Integers

FAINTEST = 1e-9
"""Weight relative to the largest below which a row does not count."""


def distinct(X: Array, Y: Array, validation: Validation) -> tuple[Integers, Integers]:
    """Return one of each kind of row, in their order, and which of these each row equals.

    Rows that come in the order of time stay as they are; rows of different groups differ.
    """
    n = len(X)
    if validation.ordered:
        return np.arange(n), np.arange(n)
    columns = [X, Y] if validation.groups is None else [X, Y, validation.groups[:, None]]
    _, first, place = np.unique(
        np.concatenate(columns, axis=1), axis=0, return_index=True, return_inverse=True
    )
    order = np.argsort(first)
    rank = np.empty(len(first), np.int64)
    rank[order] = np.arange(len(first))
    return first[order], rank[place.reshape(-1)]
