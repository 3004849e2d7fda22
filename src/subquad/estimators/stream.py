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
from subquad.estimators.ensemble import Ensemble, LeftOut
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
        towards_equal: pull of the blend.
        scaling, offset: of inputs and targets.
        candidates, searched: all that were judged, and the seconds that it took.
    """

    def __init__(
        self,
        picked: list[Candidate],
        anchors: Array,
        *,
        outputs: int,
        width: int | None,
        weights: str,
        seed: int,
        towards_equal: float,
        scaling: Scaling,
        offset: Array,
        candidates: list[Candidate],
        searched: float,
    ) -> None:
        self._scaling, self._offset, self._pull = scaling, offset, towards_equal
        self._candidates, self._searched = candidates, searched
        self._began = time.perf_counter()
        widths = [
            min(default_width(candidate.recipe, 1), MOST_WIDTH) if width is None else width
            for candidate in picked[:MEMBERS]
        ]
        self._parts = [
            Anchored(
                replace(candidate.recipe, layers="last"),
                candidate.settings,
                candidate.encoding,
                anchors,
                outputs,
                width=min(default_width(candidate.recipe, 1), MOST_WIDTH)
                if width is None
                else width,
                weights=weights,
                seed=seed,
            )
            for candidate, neurons in zip(picked[:MEMBERS], widths, strict=True)
        ]
        self._anchors = anchors
        self._targets = np.zeros((0, outputs))
        self._counts = np.zeros(0)
        self._judged: Judged | None = None
        self._trained: tuple[Member, ...] | None = None
        self.rows = 0

    def learn(self, X: Array, Y: Array, counts: Array) -> None:
        """Take rows as they come."""
        self.absorb(self._scaling(X), Y - self._offset, counts)

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

    def ensemble(self, order: Integers | None) -> Ensemble:
        """Return all as a fitted ensemble; ``order`` says which row of the data came when."""
        k, judged = len(self._parts), self._judged
        outputs = self._targets.shape[1]
        if judged is None:
            weights, none = np.full(k, 1 / k), np.zeros((0, outputs))
            inputs = np.zeros((0, self._anchors.shape[1]))
            left_out = LeftOut(np.zeros(0, np.int64), none, none, np.zeros(0), inputs)
        else:
            weights = blend(judged.parts, judged.Y, judged.counts, self._pull)
            left_out = LeftOut(
                judged.rows if order is None else order[judged.rows],
                self._offset + np.tensordot(weights, judged.parts, 1),
                self._offset + judged.Y,
                judged.counts,
                judged.X,
            )
        known = len(self._targets)
        return Ensemble(
            self._scaling,
            self.members(),
            weights,
            self._anchors[:known],
            self._targets,
            self._counts,
            self._offset,
            left_out,
            [],
            self._candidates,
            (self._searched, time.perf_counter() - self._began),
        )
