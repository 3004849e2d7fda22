"""Peers from scikit-learn, with the grids that its user guide advises."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import (
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, SVR

from subquad.bench.accuracy.tuning import Array, Search, Settings, one_hot, product

FINAL_TREES = 500
STEPS = 1_000_000
"""Of support vectors, which a large C would keep busy for minutes."""

GRIDS: dict[str, list[dict[str, Any]]] = {
    "ridge": product(ridge__alpha=[10.0**k for k in range(-4, 5)]),
    "logistic": product(logisticregression__C=[10.0**k for k in range(-4, 5)]),
    # gamma counts in units of 1/d, which is "scale" on standardised columns.
    # The largest C goes with wide kernels alone: with narrow ones it only takes long.
    "svm": [
        *product(C=[1.0, 0.1, 10.0, 100.0, 1000.0], gamma=[1.0, 0.01, 0.03, 0.1, 0.3, 3.0]),
        *product(C=[10000.0], gamma=[0.01, 0.03, 0.1]),
    ],
    "svm_epsilon": product(epsilon=[0.1, 0.001, 0.01, 0.03, 0.3]),
    "kernel_ridge": [
        {"kernel": "linear", "alpha": 1.0, "gamma": None},
        *product(
            kernel=["rbf", "laplacian"],
            gamma=[0.01, 0.03, 0.1, 0.3, 1.0, 3.0],
            alpha=[1.0, 3.0, 0.3, 0.1, 0.03, 0.01, 1e-3, 1e-4, 1e-5, 1e-6],
        ),
    ],
    "forest": [{}, *product(max_features=[1.0, 1 / 3, "sqrt"], min_samples_leaf=[1, 3, 8])],
    # scikit-learn's advice: alpha between 10 and 1e-6, and lbfgs where there are few rows.
    "mlp": [
        {},
        *product(hidden_layer_sizes=[(100,), (50, 50)], alpha=[10.0, 1.0, 0.1, 1e-2, 1e-4]),
    ],
}


def ridge(classes: bool, seed: int, tuned: bool = True) -> Any:
    """Ridge or logistic regression on standardised columns."""
    kind = LogisticRegression(max_iter=1000) if classes else Ridge()
    model = make_pipeline(StandardScaler(), kind)
    grid = GRIDS["logistic" if classes else "ridge"]
    return Search(model, [{}, *grid], classes, seed) if tuned else model


class RBFMachine:
    """Support vectors: C and gamma first, then epsilon; probabilities by calibration."""

    def __init__(self, classes: bool, seed: int, tuned: bool = True) -> None:
        self.classes, self.seed, self.tuned = classes, seed, tuned

    def fit(self, X: Array, y: Array) -> RBFMachine:
        """Search the grid, then calibrate what was chosen."""
        self.classes_ = np.unique(y)
        name = "svc" if self.classes else "svr"
        kind = (SVC if self.classes else SVR)(max_iter=STEPS)
        model = make_pipeline(StandardScaler(), kind)
        if self.tuned:
            width = X.shape[1]
            grid = [
                {f"{name}__C": s["C"], f"{name}__gamma": s["gamma"] / width} for s in GRIDS["svm"]
            ]
            search = Search(model, [{}, *grid], self.classes, self.seed).fit(X, y)
            if not self.classes:
                widths = [{**search.chosen, "svr__epsilon": s["epsilon"]} for s in _EPSILON]
                search = Search(model, widths, self.classes, self.seed).fit(X, y)
            self.chosen, self.fitted = search.chosen, search.fitted
        else:
            self.fitted = model.fit(X, y)
        if self.classes:
            calibrated = CalibratedClassifierCV(clone(self.fitted), cv=3, ensemble=False)
            self.predict_proba = calibrated.fit(X, y).predict_proba
        return self

    def predict(self, X: Array) -> Array:
        """Predictions of the machine itself, not of the calibration."""
        return np.asarray(self.fitted.predict(X))


_EPSILON = GRIDS["svm_epsilon"]


class LeastSquares:
    """Kernel ridge regression; on one ±1 column a class, the highest of which is predicted."""

    def __init__(self, classes: bool, seed: int, tuned: bool = True) -> None:
        self.classes, self.seed, self.tuned = classes, seed, tuned

    def fit(self, X: Array, y: Array) -> LeastSquares:
        """Choose kernel, gamma and alpha."""
        width = X.shape[1]
        candidates: list[Settings] = [
            {f"kernelridge__{k}": v / width if k == "gamma" and v else v for k, v in s.items()}
            for s in GRIDS["kernel_ridge"]
        ]
        self.classes_ = np.unique(y)
        codes = 2 * one_hot(y, self.classes_) - 1 if self.classes else y
        # There is no intercept: codes are centred, as a regression's targets are.
        self.centre = codes.mean(axis=0)
        model = make_pipeline(StandardScaler(), KernelRidge())
        search = Search(model, candidates if self.tuned else [{}], False, self.seed)
        search.fit(X, codes - self.centre)
        self.chosen, self.fitted = search.chosen, search.fitted
        return self

    def predict(self, X: Array) -> Array:
        """Numbers, or classes."""
        found = np.asarray(self.fitted.predict(X)) + self.centre
        return self.classes_[found.argmax(axis=1)] if self.classes else found


def forest(classes: bool, seed: int, tuned: bool = True) -> Any:
    """Random forest: features a split sees, and rows a leaf holds."""
    kind = RandomForestClassifier if classes else RandomForestRegressor
    return _trees(kind(random_state=seed), classes, seed, tuned)


def extra_trees(classes: bool, seed: int, tuned: bool = True) -> Any:
    """Extremely randomised trees, over the forest's grid."""
    kind = ExtraTreesClassifier if classes else ExtraTreesRegressor
    return _trees(kind(random_state=seed), classes, seed, tuned)


def _trees(model: Any, classes: bool, seed: int, tuned: bool) -> Any:
    if not tuned:
        return model
    default = "sqrt" if classes else 1.0
    grid: Sequence[Settings] = [
        s for s in GRIDS["forest"] if s != {"max_features": default, "min_samples_leaf": 1}
    ]
    return Search(model, grid, classes, seed, last={"n_estimators": FINAL_TREES})


def mlp(classes: bool, seed: int, tuned: bool = True) -> Any:
    """Multi-layer perceptron: the default by Adam, and lbfgs over sizes and alpha."""
    kind = MLPClassifier if classes else MLPRegressor
    model = make_pipeline(StandardScaler(), kind(random_state=seed))
    name = model.steps[-1][0]
    if not tuned:
        return model
    candidates: list[Settings] = [{}]
    candidates += [
        {f"{name}__solver": "lbfgs", **{f"{name}__{k}": v for k, v in s.items()}}
        for s in GRIDS["mlp"][1:]
    ]
    return Search(model, candidates, classes, seed)
