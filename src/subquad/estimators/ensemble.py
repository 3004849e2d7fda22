"""A fitted ensemble: what it predicts, how far that may be off, and which inputs matter."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from subquad.estimators.member import Member, Training
from subquad.estimators.scaling import Scaling
from subquad.estimators.search import Candidate
from subquad.estimators.uncertainty import Spread, mixed_deviation
from subquad.theory.duals import Array


@dataclass(frozen=True)
class Ensemble:
    """A fitted ensemble.

    Attributes:
        scaling: of the inputs.
        members, weights: what is averaged.
        X, Y, counts: standardised inputs, targets less the offset, sample weights of the rows that
            the deviations know: those it was trained on, or the anchors of more.
        offset: mean of the targets, one per output.
        left_out: predictions of each training row without it, n×C; NaN where there is none.
        residuals: targets less what was predicted without them, rows × C.
        judged: standardised inputs of these rows; None: they are X, each left out.
        trainings: how each went, member by member.
        candidates: all that were judged, trained or not.
        seconds: of search, and of training.
    """

    scaling: Scaling
    members: tuple[Member, ...]
    weights: Array
    X: Array
    Y: Array
    counts: Array
    offset: Array
    left_out: Array
    residuals: Array
    judged: Array | None
    trainings: list[Training]
    candidates: list[Candidate]
    seconds: tuple[float, float]

    def predict(self, X: Array) -> Array:
        """Return predictions, n×C."""
        return self.offset + np.tensordot(self.weights, np.stack(self.parts(X)), 1)

    def parts(self, X: Array) -> list[Array]:
        """Return every member's predictions less the offset, n×C each."""
        scaled = self.scaling(X)
        return [member.predict(scaled) for member in self.members]

    def deviation(self, X: Array) -> Array:
        """Return the predictive deviation of new rows, n×C."""
        return self._deviation(self.scaling(X))

    def residual_deviation(self) -> Array:
        """Return the deviations that were to be expected of the residuals, rows × C."""
        if self.judged is not None:
            return self._deviation(self.judged)
        variances = [spread.left_out_variances() for spread in self.spreads()]
        return np.asarray(np.sqrt(np.tensordot(self.weights, np.stack(variances), 1)))

    def _deviation(self, scaled: Array) -> Array:
        variances = [spread.variances(scaled) for spread in self.spreads()]
        means = [member.predict(scaled) for member in self.members]
        return mixed_deviation(variances, means, self.weights)

    def spreads(self) -> list[Spread]:
        """Return the members' kernels as they see new rows."""
        return [Spread(m, self.X, self.Y, self.counts) for m in self.members]

    @property
    def importances(self) -> Array:
        """Share of each input in the learned metric: squared scales, sum 1, averaged."""
        found = np.zeros(len(self.scaling.scale))
        for member, weight in zip(self.members, self.weights, strict=True):
            squares = np.exp(2 * member.settings.scales)
            found[self.scaling.kept] += weight * squares / squares.sum()
        return found
