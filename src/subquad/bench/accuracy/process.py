"""Gaussian processes of scikit-learn, with one length a column (ARD)."""

from __future__ import annotations

import contextlib
import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from scipy.optimize import minimize
from scipy.stats import norm
from sklearn.gaussian_process import GaussianProcessClassifier, GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern, WhiteKernel
from sklearn.preprocessing import StandardScaler

from subquad.bench.accuracy.tuning import SECONDS, Array, inner_folds, loss, one_hot

ITERATIONS, INNER_ITERATIONS = 60, 30
LENGTHS = (1e-2, 1e4)
KERNELS = ("rbf", "matern", "rbf ard", "matern ard")


class Process:
    """A Gaussian process: its kernel's settings by marginal likelihood, its kernel by the folds.

    Squared-exponential and Matérn-5/2 kernels are optimised with one common length, then, from
    there, with a length a column. Of each pair the likelier is kept; whether one length or many,
    which overfits where columns are many, the inner folds decide, optimising anew.

    Two classes are those of GaussianProcessClassifier; more than two are regressed on, one ±1
    column each under a common kernel, since one such classifier a class takes minutes. Their
    probabilities are those of the sign of each latent value, scaled to sum to one.

    Untuned is the squared-exponential kernel with one length. What the seconds of a search do not
    suffice for is left out.
    """

    def __init__(self, classes: bool, seed: int, tuned: bool = True) -> None:
        self.classes, self.seed, self.tuned = classes, seed, tuned

    def fit(self, X: Array, y: Array) -> Process:
        """Optimise the kernels, choose one, and fit it."""
        self.scaler = StandardScaler().fit(X)
        X = self.scaler.transform(X)
        self.classes_ = np.unique(y)
        self.latent = self.classes and len(self.classes_) == 2
        self.optimiser = _Optimiser(ITERATIONS)
        kernels = self._optimised(X, y, KERNELS if self.tuned else KERNELS[:1])
        self.chosen = {"kernel": self._choose(X, y, kernels)}
        self.fitted = _Fixed(self, kernels[self.chosen["kernel"]][0]).fit(X, y)
        if self.classes:
            self.predict_proba: Callable[[Array], Array] = self._probabilities
        return self

    def predict(self, X: Array) -> Array:
        """Means, or the likeliest classes."""
        return self.fitted.predict(self.scaler.transform(X))

    def _probabilities(self, X: Array) -> Array:
        return self.fitted.predict_proba(self.scaler.transform(X))

    def _choose(self, X: Array, y: Array, kernels: dict[str, tuple[Any, float]]) -> str:
        """The name of a kernel: the likelier of each pair, then the better on the inner folds."""
        pairs = ([n for n in kernels if (" ard" in n) == many] for many in (False, True))
        finalists = [max(pair, key=lambda n: kernels[n][1]) for pair in pairs if pair]
        if len(finalists) < 2:
            return finalists[0]
        # A kernel of many lengths is optimised from its twin of one.
        needed = [n for n in KERNELS if n in {*finalists, finalists[1].partition(" ")[0]}]
        losses: dict[str, list[float]] = {name: [] for name in finalists}
        self.optimiser.iterations = INNER_ITERATIONS
        for train, test in inner_folds(y, self.classes, self.seed):
            found = self._optimised(X[train], y[train], needed)
            if len(found) < len(needed):  # no time is left
                return finalists[1]
            for name in finalists:
                part = _Fixed(self, found[name][0]).fit(X[train], y[train])
                losses[name].append(loss(part, X[test], y[test], self.classes))
        return min(finalists, key=lambda n: float(np.mean(losses[n])))

    def _optimised(self, X: Array, y: Array, names: Sequence[str]) -> dict[str, tuple[Any, float]]:
        """Name → kernel and its log marginal likelihood."""
        width = X.shape[1]
        kernels: dict[str, tuple[Any, float]] = {}
        for name in names:
            if kernels and self.optimiser.over:
                break
            kind, _, ard = name.partition(" ")
            length: Any = np.sqrt(width)
            variance, noise = 1.0, 0.1
            if ard:
                begin = kernels[kind][0]
                product = begin if self.latent else begin.k1
                variance = product.k1.constant_value
                length = np.full(width, product.k2.length_scale)
                noise = 0.1 if self.latent else begin.k2.noise_level
            shape = RBF if kind == "rbf" else Matern
            extra = {} if kind == "rbf" else {"nu": 2.5}
            kernel = ConstantKernel(variance, (1e-3, 1e4)) * shape(length, LENGTHS, **extra)
            if not self.latent:
                kernel = kernel + WhiteKernel(noise, (1e-6, 1e1))
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                model = self.model(kernel, self.optimiser).fit(X, self.target(y))
            kernels[name] = (model.kernel_, float(model.log_marginal_likelihood_value_))
        return kernels

    def model(self, kernel: Any, optimiser: Any) -> Any:
        """The model behind, with a kernel of its own."""
        if self.latent:
            return GaussianProcessClassifier(kernel, optimizer=optimiser)
        return GaussianProcessRegressor(kernel, alpha=1e-8, optimizer=optimiser, normalize_y=True)

    def target(self, y: Array) -> Array:
        """What the model behind is fitted to."""
        if self.classes and not self.latent:
            return 2 * one_hot(y, self.classes_) - 1
        return y


class _Fixed:
    """A process whose kernel is no longer changed."""

    def __init__(self, owner: Process, kernel: Any) -> None:
        self.owner, self.model = owner, owner.model(kernel, None)
        self.classes_ = owner.classes_
        if owner.classes:
            self.predict_proba: Callable[[Array], Array] = self._probabilities

    def fit(self, X: Array, y: Array) -> _Fixed:
        """Condition on the rows."""
        self.model.fit(X, self.owner.target(y))
        return self

    def predict(self, X: Array) -> Array:
        """Means, or the likeliest classes."""
        if not self.owner.classes or self.owner.latent:
            return np.asarray(self.model.predict(X))
        return self.classes_[np.asarray(self.model.predict(X)).argmax(axis=1)]

    def _probabilities(self, X: Array) -> Array:
        if self.owner.latent:
            return np.asarray(self.model.predict_proba(X))
        means, deviations = self.model.predict(X, return_std=True)
        found = np.clip(norm.cdf(means / np.maximum(deviations, 1e-6)), 1e-6, None)
        shares: Array = found / found.sum(axis=1, keepdims=True)
        return shares


class _Optimiser:
    """L-BFGS-B, as scikit-learn itself uses, with a bound on its iterations and its seconds."""

    def __init__(self, iterations: int) -> None:
        self.iterations = iterations
        self.until = time.perf_counter() + SECONDS

    @property
    def over(self) -> bool:
        return time.perf_counter() > self.until

    def __call__(self, objective: Any, start: Array, bounds: Array) -> tuple[Array, float]:
        best: tuple[Array, float] = (start, np.inf)

        def watched(theta: Array) -> tuple[float, Array]:
            nonlocal best
            if self.over and best[1] < np.inf:
                raise TimeoutError
            value, slope = objective(theta)
            if value < best[1]:
                best = (np.array(theta), float(value))
            return value, slope

        with contextlib.suppress(TimeoutError):
            minimize(
                watched,
                start,
                jac=True,
                bounds=bounds,
                method="L-BFGS-B",
                options={"maxiter": self.iterations},
            )
        return best
