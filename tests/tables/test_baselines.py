"""The baselines equal refitting without each row."""

import numpy as np
import pytest
from sklearn.linear_model import Ridge, RidgeCV

from subquad.tables.baselines import ALPHAS, leave_one_out_mean, leave_one_out_ridge


@pytest.mark.parametrize("outputs", [(), (3,)])
def test_leave_one_out_equals_refitting(outputs):
    rng = np.random.default_rng(1)
    features = rng.normal(size=(20, 4))
    values = rng.normal(size=(20, *outputs)) + features[:, :1].reshape(20, *(1 for _ in outputs))
    alpha = RidgeCV(alphas=ALPHAS).fit(features, values).alpha_
    ridge, mean = leave_one_out_ridge(features, values), leave_one_out_mean(values)
    for i in range(20):
        others = np.arange(20) != i
        model = Ridge(alpha=alpha).fit(features[others], values[others])
        np.testing.assert_allclose(ridge[i], model.predict(features[[i]])[0], rtol=1e-8)
        np.testing.assert_allclose(mean[i], values[others].mean(axis=0))
