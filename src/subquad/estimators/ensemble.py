"""A fitted ensemble: what it predicts, how far that may be off, and which inputs matter."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from subquad.estimators.member import Member, Training
from subquad.estimators.scaling import Scaling
from subquad.estimators.search import Candidate
from subquad.estimators.uncertainty import Spread, mixed_deviation
from subquad.theory.duals import Array, Integers


@dataclass(frozen=True)
class LeftOut:
    """Rows that were predicted without having been learned.

    Attributes:
        rows: their places among the distinct training rows.
        predictions, targets: J×C, the offset included.
        counts: sample weights.
        inputs: standardised inputs, J×d; None where the ensemble knows all training rows.
    """

    rows: Integers
    predictions: Array
    targets: Array
    counts: Array
    inputs: Array | None = None


@dataclass(frozen=True)
class Ensemble:
    """A fitted ensemble.

    Attributes:
        scaling: of the inputs.
        members, weights: what is averaged.
        X, Y, counts: standardised inputs, targets less the offset, sample weights of the rows that
            the deviations know: those it was trained on, or the anchors of more.
        offset: mean of the targets, one per output.
        left_out: what is known of rows that were predicted without them.
        trainings: how each went, member by member.
        candidates: all that were judged, trained or not.
        seconds: of search, and of training.
        place: which distinct row each training row that counts is; None once this is not known.
    """

    scaling: Scaling
    members: tuple[Member, ...]
    weights: Array
    X: Array
    Y: Array
    counts: Array
    offset: Array
    left_out: LeftOut
    trainings: list[Training]
    candidates: list[Candidate]
    seconds: tuple[float, float]
    place: Integers | None = None

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

    def left_out_predictions(self) -> Array:
        """Return what each training row that counts would be without it, NaN where unknown."""
        assert self.place is not None
        known = self.left_out
        found = np.full((int(self.place.max()) + 1, known.predictions.shape[1]), np.nan)
        found[known.rows] = known.predictions
        return np.asarray(found[self.place])

    def left_out_deviation(self) -> Array:
        """Return the deviations that the residuals of rows left out were to be expected to have."""
        if self.left_out.inputs is not None:
            return self._deviation(self.left_out.inputs)
        variances = [spread.left_out_variances() for spread in self.spreads()]
        found = np.sqrt(np.tensordot(self.weights, np.stack(variances), 1))
        return np.asarray(found[self.left_out.rows])

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
