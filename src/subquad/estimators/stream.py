"""An ensemble for more rows than a matrix of rows by rows may have, and for rows that keep coming.

Settings are found on a share of the first rows; some rows become anchors, see
:mod:`subquad.estimators.anchored`; every further row is predicted first, by the ensemble as it
stands, and then learned. The predictions of the latest rows made before they were learned weigh the
members, and stand in for rows left out.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

import numpy as np

from subquad.estimators.anchored import Anchored
from subquad.estimators.blend import blend
from subquad.estimators.ensemble import Ensemble
from subquad.estimators.member import Member, default_width
from subquad.estimators.scaling import Scaling
from subquad.estimators.search import Candidate
from subquad.theory.duals import Array, Integers

ANCHORS = 2000
"""Rows whose gradients span the change."""
SEARCHED = 1500
"""Rows that settings are found on."""
JUDGED = 2000
"""Latest rows whose predictions weigh the members."""
MEMBERS = 2
MOST_WIDTH = 4096
"""Every row passes all neurons of the last layer, and meets the slopes of all anchors there."""


@dataclass(frozen=True)
class Judged:
    """Rows predicted before they were learned.

    Attributes:
        X, Y, counts: standardised inputs, targets and sample weights.
        parts: each member's predictions, k×n×C.
        rows: their place among all rows.
    """

    X: Array
    Y: Array
    counts: Array
    parts: Array
    rows: Integers

    def and_later(self, other: Judged) -> Judged:
        """Return the latest rows of both."""
        return Judged(
            np.concatenate([self.X, other.X])[-JUDGED:],
            np.concatenate([self.Y, other.Y])[-JUDGED:],
            np.concatenate([self.counts, other.counts])[-JUDGED:],
            np.concatenate([self.parts, other.parts], axis=1)[:, -JUDGED:],
            np.concatenate([self.rows, other.rows])[-JUDGED:],
        )


class Stream:
    """Members that learn block by block.

    Args:
        picked: candidates to train, the best first.
        anchors: standardised inputs of the anchors.
        outputs: C.
        width, weights, seed: of the networks; ``width`` None is what suits each.
    """

    def __init__(
        self,
        picked: list[Candidate],
        anchors: Array,
        outputs: int,
        *,
        width: int | None,
        weights: str,
        seed: int,
    ) -> None:
        self._parts = [
            Anchored(
                replace(candidate.recipe, layers="last"),
                candidate.settings,
                candidate.encoding,
                anchors,
                outputs,
                width=min(default_width(candidate.recipe), MOST_WIDTH) if width is None else width,
                weights=weights,
                seed=seed,
            )
            for candidate in picked[:MEMBERS]
        ]
        self._anchors = anchors
        self._targets = np.zeros((0, outputs))
        self._counts = np.zeros(0)
        self._judged: Judged | None = None
        self._trained: tuple[Member, ...] | None = None
        self.rows = 0

    def absorb(self, X: Array, Y: Array, counts: Array) -> None:
        """Predict rows, unless they are the first, and learn them.

        The anchors' own rows come first, in their order.
        """
        if self.rows:
            parts = np.stack([member.predict(X) for member in self.members()])
            judged = Judged(X, Y, counts, parts, np.arange(self.rows, self.rows + len(X)))
            self._judged = judged if self._judged is None else self._judged.and_later(judged)
        missing = len(self._anchors) - len(self._targets)
        self._targets = np.concatenate([self._targets, Y[:missing]])
        self._counts = np.concatenate([self._counts, counts[:missing]])
        for part in self._parts:
            part.absorb(X, Y, counts)
        self.rows += len(X)
        self._trained = None

    def members(self) -> tuple[Member, ...]:
        """Return the networks as they stand."""
        if self._trained is None:
            self._trained = tuple(part.member() for part in self._parts)
        return self._trained

    def ensemble(
        self,
        scaling: Scaling,
        offset: Array,
        order: Integers | None,
        candidates: list[Candidate],
        times: tuple[float, float],
    ) -> Ensemble:
        """Return all as a fitted ensemble.

        Args:
            scaling, offset: of inputs and targets.
            order: the row of the data that each absorbed row was; by default they came in order.
            candidates: all that were judged.
            times: seconds of the search, and when training began.
        """
        k, outputs = len(self._parts), self._targets.shape[1]
        weights = np.full(k, 1 / k)
        left_out = np.full((self.rows, outputs), np.nan)
        residuals, judged = np.zeros((0, outputs)), np.zeros((0, self._anchors.shape[1]))
        if self._judged is not None:
            judged = self._judged.X
            weights = blend(self._judged.parts, self._judged.Y, self._judged.counts)
            rows = self._judged.rows if order is None else order[self._judged.rows]
            predicted = np.tensordot(weights, self._judged.parts, 1)
            left_out[rows], residuals = offset + predicted, self._judged.Y - predicted
        known = len(self._targets)
        return Ensemble(
            scaling,
            self.members(),
            weights,
            self._anchors[:known],
            self._targets,
            self._counts,
            offset,
            left_out,
            residuals,
            judged,
            [],
            candidates,
            (times[0], time.perf_counter() - times[1]),
        )
