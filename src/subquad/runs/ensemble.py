"""Several networks that choose their own settings: what ``fit`` does where nothing is asked."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import Tensor

from subquad.checks import choice
from subquad.errors import InvalidInput
from subquad.estimators.base import fit_ensemble, validation_of
from subquad.estimators.calibration import Calibration, calibrate
from subquad.estimators.choices import Choices
from subquad.estimators.describe import chosen_settings, described
from subquad.estimators.ensemble import Ensemble
from subquad.estimators.footprint import check_ensemble
from subquad.estimators.interval import reach
from subquad.estimators.member import Training
from subquad.estimators.recipe import CLASSES, NUMBERS
from subquad.estimators.saved import ensemble_from, state_of
from subquad.memory import limit
from subquad.runs.model import Fitted, Model, Prepared
from subquad.tables.table import Numbers
from subquad.tables.target import Target

if TYPE_CHECKING:
    from typing_extensions import Self


KEPT_APART = {
    "rows": "left out one at a time",
    "groups": "left out with their group",
    "time": "predicted from the rows before",
    "blocks": "predicted before they were learned",
}


ONE_STEP = Training("converged", 1, [])
"""How a member is trained through anchors, where there are many rows."""


@dataclass(frozen=True, kw_only=True)
class EnsembleSettings:
    """Everything that decides the outcome of a fit of an ensemble, beside the table.

    Attributes:
        groups: the column whose equal cells are left out together.
        class_weight: "balanced" weighs classes as if all had the same number of rows.

    The others are those of :class:`subquad.estimators.base.Choices`, and
    :class:`subquad.SubquadRegressor` explains them.
    """

    method: str = "exact"
    width: int | str = "auto"
    depth: int | str = "auto"
    shift: float | str = "auto"
    layers: str = "auto"
    encoding: str = "auto"
    ridge: float | str = "auto"
    metric: str = "auto"
    weights: str = "sobol"
    members: int = 3
    max_iter: int = 10
    validation: str = "rows"
    groups: str | None = None
    class_weight: str | None = None
    seed: int = 0
    max_memory: str | None = None

    @property
    def ordered(self) -> bool:
        """Whether a row is judged by those before it alone."""
        return self.validation == "time"

    @property
    def choices(self) -> Choices:
        """What the search is given."""
        return Choices(
            width=self.width,
            depth=self.depth,
            shift=self.shift,
            layers=self.layers,
            encoding=self.encoding,
            ridge=self.ridge,
            metric=self.metric,
            weights=self.weights,
            members=self.members,
            max_iter=self.max_iter,
            max_memory=self.max_memory,
            seed=self.seed,
        )

    def check(self) -> None:
        """Refuse, before any work, settings that a training would refuse."""
        choice("validation", self.validation, ("rows", "time"))
        if self.groups is not None and self.ordered:
            raise InvalidInput("--groups and --validation time exclude each other: give one")
        if self.class_weight is not None:
            choice("class weight", self.class_weight, ("balanced",))
        _ = self.choices

    def check_job(self, data: Prepared) -> None:
        """Refuse, before it starts, what cannot fit into memory or does not suit the target."""
        if self.class_weight is not None and data.target.task != "classification":
            raise InvalidInput("--class-weight goes with classes: the task here is regression")
        check_ensemble(self.choices, len(data.features), data.width, data.target.outputs)

    def train(self, data: Prepared, watch: Callable[[str], object] | None = None) -> Fitted:
        """Search, train and blend; ``watch`` is told what is done."""
        begin = time.perf_counter()
        stages: list[dict[str, Any]] = []

        def tell(stage: str) -> None:
            seconds = time.perf_counter() - begin
            stages.append({"kind": "stage", "stage": stage, "seconds": seconds})
            if watch is not None:
                watch(stage)

        rule = "rows" if data.groups is None else "groups"
        rule = "time" if self.ordered else rule
        weights = self._weights(data)
        prudence = CLASSES if data.target.task == "classification" else NUMBERS
        with limit(self.max_memory):
            ensemble = fit_ensemble(
                data.features,
                data.values.reshape(len(data.values), -1),
                weights,
                replace(self.choices, prudence=prudence),
                validation_of(rule, data.groups, weights),
                tell,
            )
        model = EnsembleModel.of(ensemble, data)
        seconds = time.perf_counter() - begin
        members = _members(ensemble)
        trainings = ensemble.trainings
        worst = next((t for t in trainings if t.status != "converged"), None)
        first = members[int(np.argmax(ensemble.weights))]["residuals"]
        start = {
            "kind": "start",
            "samples": len(data.features),
            "features": data.width,
            "candidates": len(ensemble.candidates),
        }
        return Fitted(
            data=data,
            settings=self,
            model=model,
            left_out=model.calibrated(ensemble.left_out_predictions()),
            kept_apart=KEPT_APART["blocks" if ensemble.left_out.inputs is not None else rule],
            status="converged" if worst is None else worst.status,
            remedy="" if worst is None else worst.remedy,
            residuals=first,
            iterations=max(m["iterations"] for m in members),
            chosen=chosen_settings(ensemble, self.weights),
            members=[
                {k: v for k, v in m.items() if k not in ("kind", "residuals")} for m in members
            ],
            shares=ensemble.importances,
            metrics=[start, *stages, *members],
            seconds=seconds,
        )

    def _weights(self, data: Prepared) -> Numbers:
        if self.class_weight is None:
            return np.ones(len(data.features))
        _, classes, counts = np.unique(data.labels, return_inverse=True, return_counts=True)
        each = len(data.labels) / (len(counts) * counts)
        return np.asarray(each[classes.reshape(-1)], dtype=np.float64)


class EnsembleModel(Model):
    """An ensemble on standardised features; scores of classes are calibrated logits."""

    kind = "ensemble"

    def __init__(self, ensemble: Ensemble, calibration: Calibration | None) -> None:
        self._ensemble, self._calibration = ensemble, calibration

    @classmethod
    def of(cls, ensemble: Ensemble, data: Prepared) -> EnsembleModel:
        """Calibrate an ensemble that was fitted to classes."""
        if data.target.task == "regression":
            return cls(ensemble, None)
        index = {name: k for k, name in enumerate(data.target.classes)}
        known = ensemble.left_out
        labels = np.array([index[label] for label in data.labels[known.rows]], dtype=np.int64)
        return cls(ensemble, calibrate(known.predictions, labels, len(index), known.counts))

    def scores(self, features: Numbers) -> Numbers:
        """Return predictions (n,), the logit of the second of two classes, or one a class."""
        return self.calibrated(self._ensemble.predict(features))

    def calibrated(self, outputs: Numbers) -> Numbers:
        """Return scores of the networks' outputs, n×C."""
        if self._calibration is None:
            return outputs[:, 0]
        logits = self._calibration.logits(outputs)
        return logits[:, 1] - logits[:, 0] if logits.shape[1] == 2 else logits

    def probabilities(self, scores: Numbers) -> Numbers:
        """Return the softmax of logits."""
        logits = np.stack([0 * scores, scores], axis=1) if scores.ndim == 1 else scores
        powers = np.exp(logits - logits.max(axis=1, keepdims=True))
        found: Numbers = powers / powers.sum(axis=1, keepdims=True)
        return found

    def deviation(self, features: Numbers) -> Numbers:
        """Return the deviation of new rows' targets, noise included."""
        found: Numbers = self._ensemble.deviation(features)[:, 0]
        return found

    def reach(self, features: Numbers, coverage: float) -> Numbers:
        """Return how far an interval reaches: deviations, times what left-out rows needed."""
        found: Numbers = reach(self._ensemble, features, coverage)[:, 0]
        return found

    def state(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        """Return (config, tensors)."""
        return state_of(self._ensemble, self._calibration)

    @classmethod
    def load(cls, config: Mapping[str, Any], tensors: Mapping[str, Tensor], target: Target) -> Self:
        """Return the model that :meth:`state` described; it must suit the target."""
        ensemble, calibration = ensemble_from(config, tensors)
        outputs = ensemble.Y.shape[1]
        if outputs != target.outputs or (calibration is None) != (target.task == "regression"):
            raise InvalidInput(
                f"the model has {outputs} outputs and "
                f"{'no ' * (calibration is None)}calibration, which does not suit the target "
                f"{target.name!r}: the file is damaged"
            )
        return cls(ensemble, calibration)


def _members(ensemble: Ensemble) -> list[dict[str, Any]]:
    """Return one record per member: what it is, what it counts, how its training went."""
    trainings = iter(ensemble.trainings)
    records = []
    for member, weight in zip(ensemble.members, ensemble.weights, strict=True):
        mine = [next(trainings, ONE_STEP) for p in member.predictors if p is not None]
        longest = max(mine, key=lambda t: t.iterations, default=ONE_STEP)
        records.append(
            {
                "kind": "member",
                **described(member),
                "weight": float(weight),
                "iterations": longest.iterations,
                "residuals": [float(r) for r in longest.residuals],
                "seconds": sum(t.seconds for t in mine),
            }
        )
    return records
