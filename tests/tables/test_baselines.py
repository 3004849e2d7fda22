"""The baselines equal refitting without each row."""

import numpy as np
import pytest
from sklearn.linear_model import Ridge, RidgeCV

from subquad.tables.baselines import ALPHAS, left_out_mean, left_out_ridge


@pytest.mark.parametrize("outputs", [(), (3,)])
def test_leave_one_out_equals_refitting(outputs):
    rng = np.random.default_rng(1)
    features = rng.normal(size=(20, 4))
    values = rng.normal(size=(20, *outputs)) + features[:, :1].reshape(20, *(1 for _ in outputs))
    alpha = RidgeCV(alphas=ALPHAS).fit(features, values).alpha_
    ridge, mean = left_out_ridge(features, values), left_out_mean(values)
    for i in range(20):
        others = np.arange(20) != i
        model = Ridge(alpha=alpha).fit(features[others], values[others])
        np.testing.assert_allclose(ridge[i], model.predict(features[[i]])[0], rtol=1e-8)
        np.testing.assert_allclose(mean[i], values[others].mean(axis=0))


def test_groups_are_left_out_together():
    rng = np.random.default_rng(2)
    features = rng.normal(size=(24, 3))
    values = features[:, 0] + rng.normal(size=24)
    groups = np.repeat(["a", "b", "c", "d"], 6)
    ridge, mean = left_out_ridge(features, values, groups), left_out_mean(values, groups)
    errors = []
    for alpha in ALPHAS:
        found = np.zeros(24)
        for group in "abcd":
            mine = groups == group
            found[mine] = (
                Ridge(alpha=alpha).fit(features[~mine], values[~mine]).predict(features[mine])
            )
            np.testing.assert_allclose(mean[mine], values[~mine].mean())
        errors.append(found)
    best = min(errors, key=lambda found: ((found - values) ** 2).sum())
    np.testing.assert_allclose(ridge, best, rtol=1e-8)


def test_many_rows_are_predicted_in_blocks(monkeypatch):
    rng = np.random.default_rng(4)
    features = rng.normal(size=(90, 3))
    values = features[:, 0] + 5 + rng.normal(size=90)
    exact = left_out_ridge(features, values, None, True)
    monkeypatch.setattr("subquad.tables.baselines.SQUARE_ROWS", 50)
    np.testing.assert_allclose(
        left_out_ridge(features, values, None, True)[30:], exact[30:], atol=0.2
    )
    monkeypatch.setattr("subquad.tables.baselines.BLOCKS", 60)
    np.testing.assert_allclose(
        left_out_ridge(features, values, None, True)[30:], exact[30:], atol=1e-3
    )


def test_rows_are_predicted_from_those_before_them():
    rng = np.random.default_rng(3)
    features = rng.normal(size=(30, 3))
    values = features[:, 0] + 5 + rng.normal(size=30)
    ridge, mean = left_out_ridge(features, values, None, True), left_out_mean(values, None, True)
    errors = []
    for alpha in ALPHAS:
        found = [
            Ridge(alpha=alpha).fit(features[:i], values[:i]).predict(features[[i]])[0]
            for i in range(10, 30)
        ]
        errors.append(np.array(found))
    best = min(errors, key=lambda found: ((found - values[10:]) ** 2).sum())
    np.testing.assert_allclose(ridge[10:], best, atol=1e-3)
    for i in range(1, 30):
        np.testing.assert_allclose(mean[i], values[:i].mean())
