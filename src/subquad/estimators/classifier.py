"""`SubquadClassifier`: classes of a table's rows with calibrated probabilities, nothing to tune."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils import compute_class_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from subquad.activations import Activation
from subquad.errors import InvalidInput
from subquad.estimators.base import Growing, fit_ensemble
from subquad.estimators.calibration import calibrate
from subquad.estimators.common import SubquadEstimator
from subquad.estimators.recipe import CLASSES
from subquad.estimators.repeats import FAINTEST
from subquad.theory.duals import Array, Integers


class SubquadClassifier(ClassifierMixin, SubquadEstimator):  # type: ignore[misc]
    """Classification by wide networks trained to the end, every setting chosen from the data.

    One network per class (one alone for two classes) is trained by squared loss on +1 and -1;
    scores of rows left out calibrate the probabilities. Otherwise as
    :class:`subquad.SubquadRegressor`, whose arguments these are.

    Args:
        class_weight: weights of the classes as a mapping, "balanced", or None.

    Attributes:
        classes_: the classes.
        calibration_: sharpness and offsets that make probabilities of scores.
        loo_score_: accuracy on rows left out; ``loo_prediction_`` holds their scores.

    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> SubquadClassifier(random_state=0).fit(X[::2], y[::2]).score(X[1::2], y[1::2]) > 0.9
    True
    """

    _prudence = CLASSES

    def __init__(
        self,
        *,
        width: int | str = "auto",
        depth: int | str = "auto",
        shift: float | str = "auto",
        layers: str = "auto",
        activation: Activation | str = "auto",
        encoding: str = "auto",
        ridge: float | str = "auto",
        metric: str = "auto",
        weights: str = "sobol",
        members: int = 3,
        max_iter: int = 10,
        class_weight: Any = None,
        validation: str = "rows",
        max_memory: float | str | None = None,
        random_state: Any = None,
    ) -> None:
        self.width = width
        self.depth = depth
        self.shift = shift
        self.layers = layers
        self.activation = activation
        self.encoding = encoding
        self.ridge = ridge
        self.metric = metric
        self.weights = weights
        self.members = members
        self.max_iter = max_iter
        self.class_weight = class_weight
        self.validation = validation
        self.max_memory = max_memory
        self.random_state = random_state

    def fit(
        self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None
    ) -> SubquadClassifier:
        """Fit n×d inputs and n class labels.

        Args:
            X: inputs.
            y: labels, numbers or text.
            sample_weight: at least 0; only their ratios count.
            groups: one label per row, with validation="groups".
        """
        X, y = self._checked_pair(X, y, multi_output=False)
        check_classification_targets(y)
        weights, validation = self._checked_rows(len(X), sample_weight, groups)
        self.classes_ = np.unique(y)
        labels = np.searchsorted(self.classes_, y)
        weights = weights * self._class_weights(y)[labels]
        kept = weights > FAINTEST * weights.max()
        self._check_classes(labels[kept])
        Y = self._signs(labels)
        self._ensemble = fit_ensemble(X, Y, weights, self._choices(), validation)
        self._growing = Growing(self._choices(), (X, Y, weights))
        self._set_classes()
        scores = np.full(Y.shape, np.nan)
        scores[kept] = self._ensemble.left_out_predictions()
        self.loo_prediction_ = scores
        return self

    def partial_fit(
        self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None
    ) -> SubquadClassifier:
        """Learn further rows, as :meth:`subquad.SubquadRegressor.partial_fit` does.

        Args:
            X: inputs.
            y: labels.
            classes: all labels that will ever come; needed unless :meth:`fit` came before.
            sample_weight: at least 0.
        """
        growing = getattr(self, "_growing", None)
        first = growing is None
        if first and classes is None:
            raise InvalidInput(
                "classes must be given at the first call of partial_fit: all labels that will come"
            )
        X, y = self._checked_pair(X, y, multi_output=False, first=first)
        if first:
            self.classes_ = np.unique(classes)
        strange = np.setdiff1d(y, self.classes_)
        if len(strange):
            raise InvalidInput(f"y holds {strange.tolist()[0]!r}, which classes did not name")
        labels = np.searchsorted(self.classes_, y)
        weights, _ = self._checked_rows(len(X), sample_weight, None, least=1)
        if isinstance(self.class_weight, dict):
            weights = weights * self._class_weights(y)[labels]
        elif self.class_weight is not None:
            raise InvalidInput("partial_fit cannot balance classes it has not seen: give weights")
        if growing is None:
            growing = self._growing = Growing(self._choices())
        self._ensemble = growing.learn(X, self._signs(labels), weights)
        self._set_classes()
        return self

    def _check_classes(self, labels: Integers) -> None:
        present = np.unique(labels)
        if len(present) < 2:
            only = self.classes_.tolist()[present[0]]
            raise InvalidInput(f"y has one class, {only!r}: classification needs at least two")

    def _class_weights(self, y: Any) -> Array:
        if self.class_weight is None:
            return np.ones(len(self.classes_))
        return np.asarray(compute_class_weight(self.class_weight, classes=self.classes_, y=y))

    def _signs(self, labels: Integers) -> Array:
        """Return +1 for a row's class and -1 for others, one column alone for two classes."""
        count = len(self.classes_)
        signs = np.where(labels[:, None] == np.arange(count), 1.0, -1.0)
        return signs[:, 1:] if count == 2 else signs

    def _set_classes(self) -> None:
        """Calibrate, and lay open what was found."""
        known = self._ensemble.left_out
        truth = known.targets
        labels = truth.argmax(axis=1) if truth.shape[1] > 1 else (truth[:, 0] > 0).astype(int)
        count = len(self.classes_)
        self.calibration_ = calibrate(known.predictions, labels, count, known.counts)
        self._truth = labels
        self._set_fitted()

    def _left_out_score(self) -> float:
        """Accuracy on rows predicted without them."""
        known = self._ensemble.left_out
        if not len(known.rows):
            return float("nan")
        guessed = self.calibration_.logits(known.predictions).argmax(axis=1)
        return float(np.average(guessed == self._truth, weights=known.counts))

    def decision_function(self, X: Any) -> Array:
        """Return calibrated logits: (n,) for two classes, else (n, classes)."""
        logits = self._logits(X)
        found: Array = logits[:, 1] - logits[:, 0] if logits.shape[1] == 2 else logits
        return found

    def predict_proba(self, X: Any) -> Array:
        """Return class probabilities, n×classes."""
        check_is_fitted(self)
        return self.calibration_(self._ensemble.predict(self._checked(X)))

    def predict(self, X: Any) -> Any:
        """Return the likeliest class of each row."""
        logits = self._logits(X)
        return self.classes_[logits.argmax(axis=1)]

    def _logits(self, X: Any) -> Array:
        check_is_fitted(self)
        return self.calibration_.logits(self._ensemble.predict(self._checked(X)))
