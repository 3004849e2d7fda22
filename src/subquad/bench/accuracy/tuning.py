"""Choosing settings inside a training fold, the same way for every peer.

Candidates are tried in order, the defaults first, on the same three inner folds; the one with the
lowest mean loss is fitted again on all rows. The loss is the squared error for numbers. For
classes it is the Brier score, which unlike accuracy tells close candidates apart and unlike log
loss does not punish a forest's hard zeros without bound; peers without probabilities are chosen
by accuracy. A search that has run for ``SECONDS`` takes the best candidate so far.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import clone
from sklearn.model_selection import KFold, StratifiedKFold

FOLDS = 3
SECONDS = 35.0

Array = npt.NDArray[Any]
Settings = Mapping[str, Any]


def inner_folds(y: Array, classes: bool, seed: int) -> Iterator[tuple[Array, Array]]:
    """Rows to fit and rows to judge by, three times."""
    kind = StratifiedKFold if classes else KFold
    folds = kind(FOLDS, shuffle=True, random_state=seed)
    return folds.split(np.zeros((len(y), 1)), y)


def one_hot(y: Array, classes: Array) -> Array:
    """One 0/1 column a class."""
    codes: Array = (y[:, None] == classes[None, :]).astype(np.float64)
    return codes


def loss(model: Any, X: Array, y: Array, classes: bool) -> float:
    """What a candidate is chosen by, on rows it has not seen."""
    if not classes:
        return float(np.mean((np.asarray(model.predict(X)) - y) ** 2))
    if hasattr(model, "predict_proba"):
        codes = one_hot(y, np.asarray(model.classes_))
        return float(np.mean(np.sum((model.predict_proba(X) - codes) ** 2, axis=1)))
    return float(np.mean(model.predict(X) != y))


class Standardised:
    """A regressor on targets of mean 0 and deviation 1, or a classifier as it is."""

    def __init__(self, model: Any, classes: bool, scale: bool = True) -> None:
        self.model, self.classes = model, classes
        self.mean, self.scale = 0.0, 1.0
        self._scaling = scale and not classes

    def fit(self, X: Array, y: Array) -> Standardised:
        """Fit the model; for numbers, on the standardised target."""
        if self._scaling:
            self.mean, self.scale = float(y.mean()), float(y.std()) or 1.0
        self.model.fit(X, (y - self.mean) / self.scale if self._scaling else y)
        return self

    def predict(self, X: Array) -> Array:
        """Predictions in the units of the target, or classes."""
        found = np.asarray(self.model.predict(X))
        return found if self.classes else self.mean + self.scale * found.ravel()

    def probabilities(self, X: Array) -> Array | None:
        """One column a class, in the order of the classes; None where the model has none."""
        give = getattr(self.model, "predict_proba", None)
        return None if give is None else np.asarray(give(X))


class Search:
    """Tries candidates on the inner folds and fits the best on all rows.

    Args:
        model: a scikit-learn estimator.
        candidates: its settings to try; the defaults, ``{}``, come first.
        classes: whether it is a classifier.
        seed: of the inner folds.
        last: settings for the last fit alone, such as more trees.
    """

    def __init__(
        self,
        model: Any,
        candidates: Sequence[Settings],
        classes: bool,
        seed: int,
        last: Settings | None = None,
    ) -> None:
        self.model, self.candidates, self.classes = model, candidates, classes
        self.seed, self.last = seed, last or {}

    def fit(self, X: Array, y: Array) -> Search:
        """Search, then fit the best settings."""
        folds = list(inner_folds(y, self.classes, self.seed))

        def judge(settings: Settings) -> float:
            losses = []
            for train, test in folds:
                model = clone(self.model).set_params(**settings)
                model.fit(X[train], y[train])
                losses.append(loss(model, X[test], y[test], self.classes))
            return float(np.mean(losses))

        self.chosen = dict(best_of(self.candidates, judge))
        self.fitted = clone(self.model).set_params(**{**self.last, **self.chosen})
        self.fitted.fit(X, y)
        return self

    def predict(self, X: Array) -> Array:
        """Predictions of the chosen model."""
        return np.asarray(self.fitted.predict(X))

    def __getattr__(self, name: str) -> Any:
        # predict_proba and classes_ exist only where the chosen model has them.
        if name in ("predict_proba", "classes_") and "fitted" in self.__dict__:
            return getattr(self.fitted, name)
        raise AttributeError(name)


def best_of(
    candidates: Sequence[Settings],
    judge: Callable[[Settings], float],
    seconds: float = SECONDS,
) -> Settings:
    """The candidate of the lowest loss, of those that ``seconds`` are enough for.

    The first is tried first, the others in mixed order, so that a search that ends early has seen
    the whole range; of equal ones the earlier in the list wins. A candidate that fails is passed
    over, and so is one whose loss is not finite.
    """
    began = time.perf_counter()
    mixed = np.random.default_rng(0).permutation(np.arange(1, len(candidates)))
    losses: dict[int, float] = {}
    for i in (0, *mixed.tolist()):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found = judge(candidates[i])
        except (ValueError, ArithmeticError, np.linalg.LinAlgError):
            found = np.inf
        if np.isfinite(found):
            losses[i] = found
        if time.perf_counter() - began > seconds:
            break
    return candidates[min(losses, key=lambda i: (losses[i], i), default=0)]


def product(**axes: Sequence[Any]) -> list[dict[str, Any]]:
    """Every combination of the values, as settings."""
    found: list[dict[str, Any]] = [{}]
    for name, values in axes.items():
        found = [{**settings, name: value} for settings in found for value in values]
    return found
