"""What scikit-learn asks of an estimator, for both of ours."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import _check_sample_weight, validate_data

from subquad.errors import InvalidInput
from subquad.estimators.base import Growing, validation_of
from subquad.estimators.choices import Choices
from subquad.estimators.describe import chosen_settings, described
from subquad.estimators.ensemble import Ensemble
from subquad.estimators.recipe import Prudence
from subquad.estimators.search import Validation
from subquad.theory.duals import Array


class SubquadEstimator(BaseEstimator):  # type: ignore[misc]
    """Checks of what is given, and attributes of what was found."""

    _ensemble: Ensemble
    _growing: Growing | None
    _prudence: Prudence
    members: int
    max_iter: int
    max_memory: float | str | None
    random_state: Any
    validation: str
    weights: str

    def _choices(self) -> Choices:
        seed = self.random_state
        if not isinstance(seed, int | np.integer):
            seed = check_random_state(seed).randint(2**31)
        names = (
            "width",
            "depth",
            "shift",
            "layers",
            "activation",
            "encoding",
            "ridge",
            "metric",
            "weights",
        )
        settings = {name: getattr(self, name) for name in names}
        return Choices(
            **settings,
            members=self.members,
            max_iter=self.max_iter,
            max_memory=self.max_memory,
            seed=int(seed),
            prudence=self._prudence,
        )

    def _checked_pair(
        self, X: Any, y: Any, *, multi_output: bool, first: bool = True
    ) -> tuple[Array, Any]:
        X, y = validate_data(
            self,
            _plain(X),
            _plain(y),
            multi_output=multi_output,
            y_numeric=multi_output,
            dtype=np.float64,
            order="C",  # sums round alike, however the rows were laid out
            ensure_min_samples=2 if first else 1,
            reset=first,
        )
        return X, np.ascontiguousarray(y)

    def _checked(self, X: Any) -> Array:
        found: Array = validate_data(self, _plain(X), reset=False, dtype=np.float64, order="C")
        return found

    def _checked_rows(
        self, n: int, sample_weight: Any, groups: Any, least: int = 2
    ) -> tuple[Array, Validation]:
        weights = _check_sample_weight(
            _plain(sample_weight), np.empty((n, 1)), dtype=np.float64, ensure_non_negative=True
        )
        if np.count_nonzero(weights) < least:
            raise InvalidInput(f"sample_weight must be above 0 in at least {least} rows")
        return weights, validation_of(self.validation, groups, weights)

    def _left_out_score(self) -> float:
        """Score of rows predicted without having been learned."""
        raise TypeError(f"{type(self).__name__} must say how it is scored")

    def _set_fitted(self) -> None:
        """Lay open what was chosen."""
        ensemble = self._ensemble
        self.feature_importances_ = ensemble.importances
        self.members_ = [
            {**described(member), "weight": float(weight)}
            for member, weight in zip(ensemble.members, ensemble.weights, strict=True)
        ]
        self.chosen_ = chosen_settings(ensemble, self.weights)
        self.loo_score_ = self._left_out_score()
        self.n_iter_ = max((training.iterations for training in ensemble.trainings), default=0)


def _plain(values: Any) -> Any:
    """Return torch's tensors as NumPy's arrays; anything else as it is."""
    return values.detach().cpu().numpy() if isinstance(values, torch.Tensor) else values
