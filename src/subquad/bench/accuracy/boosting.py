"""Gradient boosting: LightGBM and XGBoost, each by the settings that its own guide names first.

LightGBM's guide on tuning names `num_leaves`, `min_data_in_leaf` and `max_depth`, then the
learning rate with more rounds, bagging and feature sampling; XGBoost's names `max_depth`,
`min_child_weight` and `gamma`, `subsample` and `colsample_bytree`, then `eta` with more rounds.
The defaults, with their 100 rounds, are the first candidate. The drawn ones stop early in each
inner fold, and the last fit takes the mean number of rounds that was best there.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from subquad.bench.accuracy.tuning import Array, best_of, inner_folds, loss

DRAWS = 14
ROUNDS = 500
PATIENCE = 25


def draw_lightgbm(generator: np.random.Generator) -> dict[str, Any]:
    """One setting of LightGBM."""
    return {
        "learning_rate": float(10 ** generator.uniform(-1.7, -0.7)),
        "num_leaves": int(2 ** generator.uniform(2, 6)),
        "min_child_samples": int(2 ** generator.uniform(0.5, 5)),
        "subsample": float(generator.uniform(0.6, 1.0)),
        "subsample_freq": 1,
        "colsample_bytree": float(generator.uniform(0.5, 1.0)),
        "reg_lambda": float(10 ** generator.uniform(-3, 1)),
    }


def draw_xgboost(generator: np.random.Generator) -> dict[str, Any]:
    """One setting of XGBoost."""
    return {
        "learning_rate": float(10 ** generator.uniform(-1.7, -0.7)),
        "max_depth": int(generator.integers(2, 9)),
        "min_child_weight": float(2 ** generator.uniform(0, 4)),
        "gamma": float(generator.choice([0.0, 0.0, 0.1])),
        "subsample": float(generator.uniform(0.6, 1.0)),
        "colsample_bytree": float(generator.uniform(0.5, 1.0)),
        "reg_lambda": float(10 ** generator.uniform(-1, 1)),
    }


def make_lightgbm(classes: bool, seed: int, settings: dict[str, Any]) -> Any:
    """LightGBM on one thread."""
    from lightgbm import LGBMClassifier, LGBMRegressor

    kind = LGBMClassifier if classes else LGBMRegressor
    return kind(random_state=seed, n_jobs=1, verbosity=-1, **settings)


def make_xgboost(classes: bool, seed: int, settings: dict[str, Any]) -> Any:
    """XGBoost on one thread."""
    from xgboost import XGBClassifier, XGBRegressor

    kind = XGBClassifier if classes else XGBRegressor
    return kind(random_state=seed, n_jobs=1, verbosity=0, **settings)


class Boosted:
    """Draws settings, and lets each inner fold say how many rounds they want."""

    def __init__(self, package: str, classes: bool, seed: int, tuned: bool = True) -> None:
        self.package, self.classes, self.seed, self.tuned = package, classes, seed, tuned

    def fit(self, X: Array, y: Array) -> Boosted:
        """Search, then fit the best settings with the rounds that they wanted."""
        light = self.package == "lightgbm"
        make = make_lightgbm if light else make_xgboost
        draw = draw_lightgbm if light else draw_xgboost
        generator = np.random.default_rng(self.seed)
        folds = list(inner_folds(y, self.classes, self.seed))
        rounds: dict[int, int] = {}

        def judge(settings: dict[str, Any]) -> float:
            losses, wanted = [], []
            for train, test in folds:
                own = dict(settings)
                if settings:
                    own["n_estimators"] = ROUNDS
                    if not light:
                        own["early_stopping_rounds"] = PATIENCE
                model = make(self.classes, self.seed, own)
                if settings:
                    seen: dict[str, Any] = {"eval_set": [(X[test], y[test])]}
                    if light:
                        from lightgbm import early_stopping

                        seen["callbacks"] = [early_stopping(PATIENCE, verbose=False)]
                    else:
                        seen["verbose"] = False
                    model.fit(X[train], y[train], **seen)
                    best = model.best_iteration_ if light else model.best_iteration + 1
                    wanted.append(best)
                else:
                    model.fit(X[train], y[train])
                losses.append(loss(model, X[test], y[test], self.classes))
            if wanted:
                rounds[id(settings)] = max(1, round(float(np.mean(wanted))))
            return float(np.mean(losses))

        candidates: list[dict[str, Any]] = [{}]
        if self.tuned:
            candidates += [draw(generator) for _ in range(DRAWS)]
            chosen = best_of(candidates, judge)  # type: ignore[arg-type]
        else:
            chosen = {}
        self.chosen = dict(chosen)
        if id(chosen) in rounds:
            self.chosen["n_estimators"] = rounds[id(chosen)]
        self.fitted = make(self.classes, self.seed, self.chosen).fit(X, y)
        if self.classes:
            self.classes_ = self.fitted.classes_
            self.predict_proba = self.fitted.predict_proba
        return self

    def predict(self, X: Array) -> Array:
        """Predictions of the chosen model."""
        return np.asarray(self.fitted.predict(X))
