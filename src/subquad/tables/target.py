"""The column to predict: which task it is, how it is trained on, and the way back.

The task is classification where the column is text, or whole numbers of at most
``MAX_GUESSED_CLASSES`` levels with at least ``MIN_ROWS_PER_LEVEL`` rows a level on average;
otherwise regression.

Training sees standardised numbers, or +1 for the row's class and -1 for the others (one column
for two classes). Probabilities: a score f of squared loss on ±1 estimates 2p - 1, so (1 + f)/2
estimates p; the nearest point of the probability simplex to these estimates is reported. That
keeps the order of the classes, but it is not calibrated beyond that.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from subquad.errors import InvalidInput, unknown_name
from subquad.tables.columns import location_and_scale
from subquad.tables.fields import field, known_only
from subquad.tables.table import Column, Numbers, Table, missing_in

MAX_GUESSED_CLASSES = 10
MIN_ROWS_PER_LEVEL = 3

Task = Literal["regression", "classification"]


@dataclass(frozen=True)
class Target:
    """What a target column is and how it maps to training values and back."""

    name: str
    task: Task
    classes: tuple[str, ...] = ()
    mean: float = 0.0
    scale: float = 1.0

    @classmethod
    def fit(cls, table: Table, name: str, task: str | None = None) -> Target:
        """Look at the target column of a training table."""
        column = table.column(name)
        if task is not None and task not in ("regression", "classification"):
            raise unknown_name("task", task, ["regression", "classification"])
        if table.rows < 2:
            raise InvalidInput(f"{table.source} has one row: give at least two to learn from")
        absent = np.flatnonzero(missing_in(column))
        if absent.size:
            raise InvalidInput(
                f"{table.source}: target {name!r} is missing in {absent.size} of {table.rows} "
                f"rows, first at {table.place(int(absent[0]))}: fill these in or remove them"
            )
        chosen = task or guess_task(column)
        if chosen == "regression":
            return cls._numbers(table, name, column)
        return cls._classes(table, name, column)

    @classmethod
    def _numbers(cls, table: Table, name: str, column: Column) -> Target:
        if not isinstance(column, np.ndarray):
            raise InvalidInput(
                f"{table.source}: target {name!r} is text ({column[0]!r}): regression needs "
                "numbers; use the task classification"
            )
        mean, scale = location_and_scale(column)
        if scale == 0:
            raise InvalidInput(
                f"{table.source}: target {name!r} is {column[0]:g} in every row: there is "
                "nothing to learn; choose another target"
            )
        return cls(name, "regression", (), mean, scale)

    @classmethod
    def _classes(cls, table: Table, name: str, column: Column) -> Target:
        counts = Counter(_labels(column))
        if len(counts) < 2:
            raise InvalidInput(
                f"{table.source}: target {name!r} has one class, {next(iter(counts))!r}: "
                "classification needs at least two; choose another target"
            )
        if len(counts) > max(2, table.rows // 2):
            raise InvalidInput(
                f"{table.source}: target {name!r} has {len(counts)} classes in {table.rows} rows: "
                "classes must repeat; use the task regression, or group the classes"
            )
        names = list(counts)
        if isinstance(column, np.ndarray):
            names.sort(key=float)
        else:
            names.sort()
        return cls(name, "classification", tuple(names))

    @property
    def outputs(self) -> int:
        """Number of columns to train on."""
        return len(self.classes) if len(self.classes) > 2 else 1

    def labels(self, table: Table) -> npt.NDArray[Any]:
        """The target of every row as it stands in the table: numbers, or class names."""
        column = table.column(self.name)
        if self.task == "regression":
            return np.asarray(column, dtype=np.float64)
        return np.array(_labels(column), dtype=object)

    def encode(self, labels: npt.NDArray[Any]) -> Numbers:
        """Training values (n,) or (n, outputs) of labels."""
        if self.task == "regression":
            return np.asarray((labels - self.mean) / self.scale, dtype=np.float64)
        members = np.array([[label == name for name in self.classes] for label in labels])
        signs = np.where(members, 1.0, -1.0)
        return signs[:, 1] if self.outputs == 1 else signs

    def decode(self, scores: Numbers) -> npt.NDArray[Any]:
        """Predictions from scores: numbers in the target's units, or class names."""
        if self.task == "regression":
            return np.asarray(scores * self.scale + self.mean, dtype=np.float64)
        best = (scores > 0).astype(int) if self.outputs == 1 else scores.argmax(axis=1)
        names: npt.NDArray[Any] = np.array(self.classes, dtype=object)[best]
        return names

    def probabilities(self, scores: Numbers) -> Numbers:
        """Class probabilities (n, classes): the nearest distribution to (1 + score)/2."""
        estimates = (1.0 + scores) / 2.0
        if self.outputs == 1:
            first = np.clip(estimates, 0.0, 1.0)
            return np.stack([1.0 - first, first], axis=1)
        return nearest_distribution(estimates)

    def score(self, labels: npt.NDArray[Any], predictions: npt.NDArray[Any]) -> float:
        """R² of predictions, or their accuracy."""
        if self.task == "classification":
            return float(np.mean(labels == predictions))
        spread = float(np.sum(((labels - labels.mean()) / self.scale) ** 2))
        error = float(np.sum(((labels - predictions) / self.scale) ** 2))
        return 1.0 - error / spread if spread > 0 else float("nan")

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {**asdict(self), "classes": list(self.classes)}

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> Target:
        """Rebuild what :meth:`to_dict` gave, or say which field is wrong."""
        known_only(stored, {"name", "task", "classes", "mean", "scale"}, "target")
        task = field(stored, "task", str, "target")
        classes = field(stored, "classes", list, "target")
        scale = field(stored, "scale", float, "target")
        different = len(set(map(str, classes))) == len(classes)
        if not different or not all(isinstance(name, str) for name in classes):
            raise InvalidInput("target.classes must hold different names: the file is damaged")
        name, mean = field(stored, "name", str, "target"), field(stored, "mean", float, "target")
        if scale <= 0:
            raise InvalidInput(f"target.scale is {scale}: must be positive")
        if task == "regression" and not classes:
            return cls(name, "regression", (), mean, scale)
        if task == "classification" and len(classes) > 1:
            return cls(name, "classification", tuple(classes), mean, scale)
        raise InvalidInput(
            f"target.task is {task!r} with {len(classes)} classes: must be 'regression' without "
            "or 'classification' with at least two"
        )


def guess_task(column: Column) -> Task:
    """Regression or classification, by the rule at the top of this file."""
    if not isinstance(column, np.ndarray):
        return "classification"
    levels = np.unique(column)
    whole = bool(np.all(levels == np.floor(levels)))
    few = len(levels) <= MAX_GUESSED_CLASSES
    repeated = len(column) >= MIN_ROWS_PER_LEVEL * len(levels)
    # One level is a constant; as a number it gets the error that says so.
    return "classification" if whole and few and repeated and len(levels) > 1 else "regression"


def nearest_distribution(estimates: Numbers) -> Numbers:
    """Euclidean projection of each row onto the probability simplex."""
    descending = -np.sort(-estimates, axis=1)
    excess = np.cumsum(descending, axis=1) - 1.0
    ranks = np.arange(1, estimates.shape[1] + 1)
    support = np.sum(descending - excess / ranks > 0, axis=1)
    shift = excess[np.arange(len(estimates)), support - 1] / support
    nearest: Numbers = np.maximum(estimates - shift[:, None], 0.0)
    return nearest


def _labels(column: Column) -> list[str]:
    if isinstance(column, np.ndarray):
        return [str(int(v)) if v == np.floor(v) else repr(float(v)) for v in column.tolist()]
    return [str(value) for value in column]
