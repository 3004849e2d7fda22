"""Both estimators as scikit-learn's own checks, pipelines and searches see them."""

import pickle
from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn import config_context
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_val_score, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from subquad import GELU, SubquadClassifier, SubquadRegressor


@parametrize_with_checks(
    [
        SubquadRegressor(width=256, encoding="plain", max_iter=3),
        SubquadClassifier(width=256, encoding="plain", max_iter=3),
    ]
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


def table(n: int = 60, d: int = 4, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    draw = np.random.default_rng(seed)
    X = draw.standard_normal((n, d))
    return X, np.sin(2 * X[:, 0]) + X[:, 1] + 0.1 * draw.standard_normal(n)


def test_pipelines_and_searches() -> None:
    X, y = table()
    line = make_pipeline(StandardScaler(), SubquadRegressor(width=256, random_state=0))
    assert line.fit(X, y).score(X, y) > 0.9
    search = GridSearchCV(
        SubquadRegressor(width=256, metric="equal", random_state=0),
        {"shift": [0.0, 1.0], "depth": [1, 2]},
        cv=3,
    ).fit(X, y)
    assert search.best_score_ > 0.5
    assert search.best_estimator_.chosen_["shift"] == search.best_params_["shift"]
    assert search.best_estimator_.chosen_["depth"] == search.best_params_["depth"]


def test_clones_hold_the_settings_alone() -> None:
    settings = {"width": 300, "activation": GELU(), "members": 2, "random_state": 3}
    model = SubquadRegressor(**settings).fit(*table())
    again = clone(model)
    assert again.get_params() == model.get_params()
    assert not hasattr(again, "members_")
    both = clone(SubquadClassifier(class_weight="balanced")).set_params(ridge=0.2)
    assert (both.class_weight, both.ridge) == ("balanced", 0.2)


def test_folds_in_two_processes_score_as_in_one() -> None:
    X, y = table()
    model = SubquadRegressor(width=256, random_state=0)
    one, two = (cross_val_score(model, X, y, cv=2, n_jobs=jobs) for jobs in (1, 2))
    assert np.allclose(one, two, atol=1e-9)
    assert one.min() > 0.5


def test_frames_and_tensors_are_taken_as_arrays_are() -> None:
    X, y = table()
    expected = SubquadRegressor(width=256, random_state=0).fit(X, y).predict(X[:9])
    names = [f"input {k}" for k in range(4)]
    frame = pd.DataFrame(X, columns=names)
    model = SubquadRegressor(width=256, random_state=0).fit(frame, pd.Series(y))
    assert model.feature_names_in_.tolist() == names
    assert np.array_equal(model.predict(frame[:9]), expected)
    with pytest.raises(ValueError, match="feature names should match"):
        model.predict(frame[names[::-1]])
    tensors = torch.from_numpy(X), torch.from_numpy(y).requires_grad_()
    model = SubquadRegressor(width=256, random_state=0).fit(*tensors, torch.ones(60))
    found = model.predict(torch.from_numpy(X[:9]))
    assert isinstance(found, np.ndarray)
    assert np.array_equal(found, expected)
    line = make_pipeline(StandardScaler(), SubquadRegressor(width=256, random_state=0))
    line.set_output(transform="pandas").fit(frame, y)
    assert line[-1].feature_names_in_.tolist() == names
    labels = pd.Series(np.where(y > 0, "high", "low"))
    guesses = SubquadClassifier(width=256, random_state=0).fit(frame, labels).predict(frame)
    assert set(guesses) <= {"high", "low"}


def test_groups_and_weights_are_routed() -> None:
    X, y = table()
    groups, weights = np.arange(60) // 10, np.linspace(0.5, 2, 60)
    model = SubquadRegressor(width=256, validation="groups", random_state=0)
    with config_context(enable_metadata_routing=True):
        model.set_fit_request(groups=True, sample_weight=True).set_score_request(sample_weight=True)
        found = cross_validate(
            model, X, y, cv=GroupKFold(3), params={"groups": groups, "sample_weight": weights}
        )
    assert found["test_score"].min() > 0.3


@pytest.mark.parametrize("kind", [SubquadRegressor, SubquadClassifier])
def test_what_was_pickled_predicts_the_same(
    kind: type[SubquadRegressor] | type[SubquadClassifier],
) -> None:
    X, y = table()
    model = kind(width=256, random_state=0).fit(X, y if kind is SubquadRegressor else y > 0)
    again = pickle.loads(pickle.dumps(model))
    assert np.array_equal(again.predict(X), model.predict(X))
    if isinstance(model, SubquadRegressor):
        for one, two in zip(
            again.predict(X, return_std=True), model.predict(X, return_std=True), strict=True
        ):
            assert np.array_equal(one, two)
        assert np.array_equal(again.predict_interval(X), model.predict_interval(X))
    else:
        assert np.array_equal(again.predict_proba(X), model.predict_proba(X))
