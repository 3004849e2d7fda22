"""`SubquadRegressor`: the best function of a table's rows, with nothing to tune."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_is_fitted

from subquad.activations import Activation
from subquad.checks import number
from subquad.errors import InvalidInput
from subquad.estimators.base import Growing, fit_ensemble
from subquad.estimators.common import SubquadEstimator
from subquad.estimators.interval import reach
from subquad.estimators.recipe import NUMBERS
from subquad.estimators.repeats import FAINTEST
from subquad.theory.duals import Array


class SubquadRegressor(RegressorMixin, SubquadEstimator):  # type: ignore[misc]
    """Regression by wide networks trained to the end, every setting chosen from the data.

    Input scales, noise, and the networks' depth and activation are chosen by the evidence of the
    infinitely wide network's kernel; up to ``members`` networks are then trained by exact
    Gauss-Newton steps and averaged by their left-out predictions.

    Args:
        width: neurons of a layer; "auto" is 16,384 for shifted ReLU and 2,048 for smooth ones.
        depth: hidden layers, or "auto".
        shift: b of the shifted ReLU, or "auto"; if given, no other activation is tried.
        layers: "last", "all" or "auto" that learn.
        activation: "auto" (shifted ReLU and GELU), a name, or a subquad activation.
        encoding: of the inputs: "plain", or ladders of steps that follow "values" or "ranks".
        ridge: in units of G/m, or "auto".
        metric: "auto", "learned" or "equal" scales of the inputs.
        weights: kind of the frozen weights.
        members: networks to average, at most.
        max_iter: Gauss-Newton iterations of each, at most.
        validation: what settings are judged by: "rows" left out one at a time; "groups" left out
            together (give ``groups`` to fit); "time": each row predicted from those before it.
        max_memory: what the process may hold, such as "6GB" or "50%".
        random_state: seed of weights and of draws.

    Attributes:
        n_features_in_: number of inputs.
        feature_importances_: each input's share of the learned metric.
        loo_prediction_: what each training row would be without it, from the trained networks.
        loo_score_: R² of these.
        chosen_: settings of the weightiest member.
        members_: recipe, noise, weight and width of each.

    >>> from sklearn.datasets import load_diabetes
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = SubquadRegressor(random_state=0).fit(X[:100], y[:100])
    >>> model.predict(X[100:102]).shape
    (2,)
    """

    _prudence = NUMBERS

    def __init__(
        self,
        *,
        width: int | str = "auto",
        depth: int | str = "auto",
        shift: float | str = "auto",
        layers: str = "auto",
        activation: Activation | str = "auto",
        encoding: str = "auto",
        ridge: float | str = "auto",
        metric: str = "auto",
        weights: str = "sobol",
        members: int = 3,
        max_iter: int = 10,
        validation: str = "rows",
        max_memory: float | str | None = None,
        random_state: Any = None,
    ) -> None:
        self.width = width
        self.depth = depth
        self.shift = shift
        self.layers = layers
        self.activation = activation
        self.encoding = encoding
        self.ridge = ridge
        self.metric = metric
        self.weights = weights
        self.members = members
        self.max_iter = max_iter
        self.validation = validation
        self.max_memory = max_memory
        self.random_state = random_state

    def fit(
        self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None
    ) -> SubquadRegressor:
        """Fit n×d inputs and n targets, or n×C.

        Args:
            X: inputs.
            y: targets.
            sample_weight: at least 0; only their ratios count.
            groups: one label per row, with validation="groups".
        """
        X, Y = self._checked_targets(X, y)
        weights, validation = self._checked_rows(len(X), sample_weight, groups)
        kept = weights > FAINTEST * weights.max()
        self._size = _unit(Y[kept])
        scaled = np.where(kept[:, None], Y / self._size, 0.0)
        self._ensemble = fit_ensemble(X, scaled, weights, self._choices(), validation)
        self._growing = Growing(self._choices(), (X, scaled, weights))
        self._set_fitted()
        left_out = np.full(Y.shape, np.nan)
        left_out[kept] = self._ensemble.left_out_predictions()
        self.loo_prediction_ = self._shaped(left_out * self._size)
        return self

    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> SubquadRegressor:
        """Learn further rows, after :meth:`fit` or from nothing.

        The first 2,000 are kept, and everything is chosen and trained anew with each call. From
        then on settings and anchors stay, rows are predicted, learned and let go of, and neither
        time nor memory grows with what came before.
        """
        growing = getattr(self, "_growing", None)
        X, Y = self._checked_targets(X, y, first=growing is None)
        weights, _ = self._checked_rows(len(X), sample_weight, None, least=1)
        if growing is None:
            growing = self._growing = Growing(self._choices())
        self._ensemble = growing.learn(X, Y / self._size, weights)
        self._set_fitted()
        return self

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """Return predictions for new rows; with ``return_std`` their deviations, too.

        The deviation is that of a new target, noise included.
        """
        check_is_fitted(self)
        X = self._checked(X)
        means = self._shaped(self._ensemble.predict(X) * self._size)
        if not return_std:
            return means
        return means, self._shaped(self._ensemble.deviation(X) * self._size)

    def predict_interval(self, X: Any, coverage: float = 0.9) -> tuple[Any, Any]:
        """Return lower and upper ends of intervals that hold a share of new targets.

        Args:
            X: new rows.
            coverage: the share, between 0 and 1.
        """
        check_is_fitted(self)
        number("coverage", coverage, above=True, most=1.0)
        X = self._checked(X)
        middle = self._ensemble.predict(X) * self._size
        around = reach(self._ensemble, X, coverage) * self._size
        return self._shaped(middle - around), self._shaped(middle + around)

    def _checked_targets(self, X: Any, y: Any, *, first: bool = True) -> tuple[Array, Array]:
        """Return inputs, and targets as n×C; the first ones decide their unit."""
        X, y = self._checked_pair(X, y, multi_output=True, first=first)
        target = np.asarray(y, dtype=np.float64)
        Y = target[:, None] if target.ndim == 1 else target
        if first:
            self._single = target.ndim == 1
            self._size = _unit(Y)
        elif Y.shape[1] != len(self._size):
            raise InvalidInput(f"y must have {len(self._size)} outputs as before, got {Y.shape[1]}")
        return X, Y

    def _left_out_score(self) -> float:
        """R² of rows predicted without them."""
        from sklearn.metrics import r2_score

        known = self._ensemble.left_out
        if len(known.rows) < 2:
            return float("nan")
        return float(r2_score(known.targets, known.predictions, sample_weight=known.counts))

    def _shaped(self, values: Array) -> Any:
        return values[:, 0] if self._single else values

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        tags.target_tags.single_output = True
        return tags


def _unit(Y: Array) -> Array:
    """Return what each output is divided by, so that squares of large targets are safe."""
    size = np.abs(Y).max(axis=0)
    return np.where(size > 0, size, 1.0)
