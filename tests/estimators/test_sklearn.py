"""Both estimators as scikit-learn's own checks, pipelines and searches see them."""

from collections.abc import Callable

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.utils.estimator_checks import parametrize_with_checks

from subquad import SubquadClassifier, SubquadRegressor


@parametrize_with_checks(
    [SubquadRegressor(width=256, max_iter=3), SubquadClassifier(width=256, max_iter=3)]
)
def test_contract(
    estimator: SubquadRegressor | SubquadClassifier, check: Callable[[object], None]
) -> None:
    """Not one failure is expected."""
    check(estimator)


@pytest.mark.parametrize("kind", [SubquadRegressor, SubquadClassifier])
def test_nothing_is_predicted_before_fit(
    kind: type[SubquadRegressor] | type[SubquadClassifier],
) -> None:
    methods = ["predict", "predict_interval"]
    if kind is SubquadClassifier:
        methods = ["predict", "predict_proba", "decision_function"]
    for method in methods:
        with pytest.raises(NotFittedError):
            getattr(kind(), method)(np.zeros((2, 2)))
