"""What every fit ends with, whichever way it went: a model, and how it came about."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import numpy as np
import numpy.typing as npt
from torch import Tensor

from subquad.errors import InvalidInput
from subquad.tables.prepare import Preparation
from subquad.tables.table import Numbers, Table, missing_in
from subquad.tables.target import Target

if TYPE_CHECKING:
    from typing_extensions import Self

Labels = npt.NDArray[Any]


class Model(ABC):
    """What predicts; inputs are a preparation's features, outputs are in training units.

    Attributes:
        kind: its name in ``config.json``.
    """

    kind: ClassVar[str]

    @abstractmethod
    def scores(self, features: Numbers) -> Numbers:
        """Return (n,) or (n, outputs) that :meth:`subquad.tables.target.Target.decode` reads."""

    @abstractmethod
    def probabilities(self, scores: Numbers) -> Numbers:
        """Return class probabilities, n×classes, of scores."""

    @abstractmethod
    def state(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        """Return (config, tensors): all that a run folder keeps."""

    @classmethod
    @abstractmethod
    def load(cls, config: Mapping[str, Any], tensors: Mapping[str, Tensor], target: Target) -> Self:
        """Return the model that :meth:`state` described, or say what is wrong."""

    def deviation(self, features: Numbers) -> Numbers:
        """Return the deviation (n,) of new rows' targets."""
        raise InvalidInput("one network knows no deviation: fit with --method exact")

    def reach(self, features: Numbers, coverage: float) -> Numbers:
        """Return how far (n,) an interval reaches that covers a share of new targets."""
        raise InvalidInput("one network knows no interval: fit with --method exact")


@dataclass(frozen=True)
class Prepared:
    """A table made ready for training."""

    table: Table  # the features alone
    preparation: Preparation
    target: Target
    features: Numbers  # n × features
    labels: Labels  # n
    values: Numbers  # n or n × outputs, what is trained on
    groups: npt.NDArray[np.int64] | None = None  # rows that are left out together

    @classmethod
    def of(
        cls, table: Table, target: str, task: str | None = None, groups: str | None = None
    ) -> Prepared:
        """Fit the preparation of features and target; ``groups`` names a column that is none."""
        goal = Target.fit(table, target, task)
        features = table.without(target)
        together = None
        if groups is not None:
            if groups == target:
                raise InvalidInput(f"{target!r} is the target: give another column as groups")
            together = _numbered(table, groups)
            features = features.without(groups)
        if not features.columns:
            raise InvalidInput(f"{table.source} has no column to learn from: add features")
        preparation = Preparation.fit(features)
        labels = goal.labels(table)
        return cls(
            features,
            preparation,
            goal,
            preparation.features(features),
            labels,
            goal.encode(labels),
            together,
        )

    @property
    def width(self) -> int:
        """Number of features."""
        return self.features.shape[1]


def _numbered(table: Table, name: str) -> npt.NDArray[np.int64]:
    """Return one number per row, the same for rows with the same cell."""
    column = table.column(name)
    absent = np.flatnonzero(missing_in(column))
    if absent.size:
        raise InvalidInput(
            f"{table.source}: groups {name!r} is missing in {absent.size} of {table.rows} rows, "
            f"first at {table.place(int(absent[0]))}: fill these in or remove them"
        )
    _, numbers = np.unique(np.asarray(column), return_inverse=True)
    if not numbers.any():
        raise InvalidInput(
            f"{table.source}: groups {name!r} is the same in every row: leave --groups out"
        )
    return np.asarray(numbers.reshape(-1), dtype=np.int64)


@dataclass(frozen=True)
class Fitted:
    """A model with all that led to it.

    Attributes:
        data, settings: what it was made from.
        model: what predicts.
        left_out: scores of each training row without it; NaN where it was not judged.
        kept_apart: what was left out together, in words.
        status, remedy: as in :class:`subquad.TrainResult`.
        residuals: of the training, the start first; of the weightiest member's, if several.
        iterations: of the longest training.
        chosen: depth, shift, ridge, layers, weights and width.
        members: recipe, ridge, weight and width of each network that is averaged.
        shares: of each feature in the learned metric, where one was learned.
        metrics: lines of ``metrics.jsonl``.
        seconds: wall-clock time.
    """

    data: Prepared
    settings: Settings
    model: Model
    left_out: Numbers
    kept_apart: str
    status: str
    remedy: str
    residuals: list[float]
    iterations: int
    chosen: Mapping[str, Any]
    members: list[dict[str, Any]]
    shares: Numbers | None
    metrics: list[dict[str, Any]]
    seconds: float


class Settings(Protocol):
    """What decides the outcome of a fit, beside the table."""

    @property
    def max_memory(self) -> str | None:
        """What the process may hold."""

    @property
    def ordered(self) -> bool:
        """Whether a row is judged by those before it alone."""

    def check(self) -> None:
        """Refuse, before any work, settings that a training would refuse."""

    def check_job(self, data: Prepared) -> None:
        """Refuse a fit that cannot fit before it starts."""

    def train(self, data: Prepared, watch: Callable[[Any], object] | None = None) -> Fitted:
        """Train; ``watch`` is told how it goes."""
