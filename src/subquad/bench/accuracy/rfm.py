"""xRFM: kernel machines that learn which directions matter, over their authors' search space.

Draws are those that its authors search: bandwidth 0.5 to 200 and ridge 1e-6 to 10, both
logarithmic, exponent 0.7 to 1.4, metric diagonal or full, and the kernel: their product-like one
four times out of five. Columns of more than two values are standardised, others left alone, as
its documentation says. The inner folds are the rows that it needs to choose its iteration by; the
last fit on all rows runs the iterations that were best there.
"""

from __future__ import annotations

import contextlib
import io
from typing import Any

import numpy as np

from subquad.bench.accuracy.tuning import Array, best_of, inner_folds, loss

DRAWS = 12
ITERATIONS = 5


def draw(generator: np.random.Generator) -> dict[str, Any]:
    """One setting."""
    exponent = float(generator.uniform(0.7, 1.4))
    return {
        "bandwidth": float(np.exp(generator.uniform(np.log(0.5), np.log(200.0)))),
        "reg": float(np.exp(generator.uniform(np.log(1e-6), np.log(10.0)))),
        "exponent": exponent,
        "norm_p": exponent + (2 - exponent) * float(generator.uniform(0.0, 0.8)),
        "diag": bool(generator.integers(2)),
        "kernel": str(generator.choice(["lpq", "l2"], p=[0.8, 0.2])),
    }


DEFAULT: dict[str, Any] = {
    "bandwidth": 10.0,
    "reg": 1e-3,
    "exponent": 1.0,
    "norm_p": 2.0,
    "diag": False,
    "kernel": "l2",
}


class XRFM:
    """Draws settings, each judged on the inner folds."""

    def __init__(self, classes: bool, seed: int, tuned: bool = True) -> None:
        self.classes, self.seed, self.tuned = classes, seed, tuned

    def fit(self, X: Array, y: Array) -> XRFM:
        """Search, then fit the best settings on all rows."""
        many = np.array([len(np.unique(column)) > 2 for column in X.T])
        self.mean = np.where(many, X.mean(axis=0), 0.0)
        self.scale = np.where(many, X.std(axis=0), 1.0)
        X = self._scaled(X)
        self.classes_ = np.unique(y)
        y = y.astype(np.int64) if self.classes else y.astype(np.float32)
        folds = list(inner_folds(y, self.classes, self.seed))
        wanted: dict[int, int] = {}

        def judge(settings: Any) -> float:
            losses, iterations = [], []
            for train, test in folds:
                part = self._machine(settings, ITERATIONS, True)
                part.fit(X[train], y[train], X[test], y[test])
                losses.append(loss(part, X[test], y[test], self.classes))
                iterations.append(part.iterations)
            wanted[id(settings)] = round(float(np.mean(iterations)))
            return float(np.mean(losses))

        candidates = [DEFAULT]
        if self.tuned:
            generator = np.random.default_rng(self.seed)
            candidates += [draw(generator) for _ in range(DRAWS)]
        chosen = best_of(candidates, judge)
        iterations = wanted.get(id(chosen), ITERATIONS)
        self.chosen = {**chosen, "iters": iterations}
        self.fitted = self._machine(chosen, iterations, False)
        self.fitted.fit(X, y, X, y)
        if self.classes:
            self.predict_proba = lambda rows: self.fitted.predict_proba(self._scaled(rows))
        return self

    def predict(self, X: Array) -> Array:
        """Numbers, or classes."""
        return self.fitted.predict(self._scaled(X))

    def _scaled(self, X: Array) -> Array:
        scaled: Array = ((X - self.mean) / self.scale).astype(np.float32)
        return scaled

    def _machine(self, settings: Any, iterations: int, choose: bool) -> _Machine:
        return _Machine(self, settings, iterations, choose)


class _Machine:
    """One xRFM, quiet, in arrays."""

    def __init__(self, owner: XRFM, settings: Any, iterations: int, choose: bool) -> None:
        from xrfm import xRFM

        keys = ("bandwidth", "exponent", "norm_p", "diag", "kernel")
        self.owner, self.classes_ = owner, owner.classes_
        self.model = xRFM(
            {
                "model": {key: settings[key] for key in keys} | {"bandwidth_mode": "constant"},
                "fit": {
                    "reg": settings["reg"],
                    "iters": iterations,
                    "verbose": False,
                    "early_stop_rfm": choose,
                    "return_best_params": choose,
                },
            },
            device="cpu",
            tuning_metric="brier" if owner.classes else "mse",
            classification_mode="prevalence",
            random_state=owner.seed,
            use_temperature_tuning=False,
            verbose=False,
        )
        if owner.classes:
            self.predict_proba = self._probabilities

    def fit(self, X: Array, y: Array, X_judge: Array, y_judge: Array) -> None:
        """Fit, choosing the iteration by the second rows where that is wanted."""
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            if self.owner.classes:
                self.model.fit(X, y, X_judge, y_judge)
            else:
                self.model.fit(X, y[:, None], X_judge, y_judge[:, None])
        if not np.isfinite(self.predict(X_judge)).all():
            raise ArithmeticError("no finite prediction")

    @property
    def iterations(self) -> int:
        """The iteration that was best."""
        leaf = self.model.trees[0]["model"]
        return int(leaf.best_iter if leaf.best_iter is not None else ITERATIONS)

    def predict(self, X: Array) -> Array:
        """Numbers, or classes."""
        if self.owner.classes:
            return self.classes_[self._probabilities(X).argmax(axis=1)]
        with contextlib.redirect_stdout(io.StringIO()):
            return np.asarray(self.model.predict(X)).ravel()

    def _probabilities(self, X: Array) -> Array:
        with contextlib.redirect_stdout(io.StringIO()):
            found = np.asarray(self.model.predict_proba(X), dtype=np.float64)
        if found.ndim == 1 or found.shape[1] == 1:
            found = np.column_stack([1 - found.ravel(), found.ravel()])
        return found
