"""What regressor and classifier share: scale the inputs, search, train, blend, predict."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from subquad.activations import ACTIVATIONS, Activation
from subquad.checks import MOST_RIDGE, choice, integer, number
from subquad.errors import InvalidInput
from subquad.estimators.blend import blend, worthwhile
from subquad.estimators.encoding import KINDS as ENCODINGS
from subquad.estimators.evidence import Task
from subquad.estimators.member import Member, Training, default_width, train_member
from subquad.estimators.recipe import families
from subquad.estimators.search import Candidate, Validation, candidates
from subquad.estimators.uncertainty import Spread, conformal_factor, mixed_deviation
from subquad.theory.duals import Array
from subquad.weights import KINDS

log = logging.getLogger("subquad")

MEMBERS = 3
"""Members at most."""


@dataclass(frozen=True, kw_only=True)
class Choices:
    """What is given, and "auto" where it is to be chosen.

    Attributes:
        width, depth, shift, layers, activation: of the networks.
        encoding: of the inputs: "plain", or ladders of steps that follow "values" or "ranks".
        ridge: in units of G/m.
        metric: "learned" gives every input a scale of its own, "equal" does not, "auto" lets
            left-out predictions decide.
        weights: kind of the frozen weights.
        members: networks in the ensemble at most.
        max_iter: iterations of each training at most.
        max_memory: as in :func:`subquad.train`.
        seed: of weights, and of rows that are drawn.
    """

    width: int | str = "auto"
    depth: int | str = "auto"
    shift: float | str = "auto"
    layers: str = "auto"
    activation: Activation | str = "auto"
    encoding: str = "auto"
    ridge: float | str = "auto"
    metric: str = "auto"
    weights: str = "sobol"
    members: int = MEMBERS
    max_iter: int = 10
    max_memory: float | str | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("width", "depth"):
            if _given(self, name) is not None:
                integer(name, getattr(self, name), least=1)
        if _given(self, "shift") is not None:
            number("shift", self.shift)
        choice("encoding", self.encoding, ("auto", *ENCODINGS))
        choice("layers", self.layers, ("auto", "last", "all"))
        if _given(self, "ridge") is not None:
            number("ridge", self.ridge, above=True, most=MOST_RIDGE)
        choice("metric", self.metric, ("auto", "learned", "equal"))
        choice("kind of weights", self.weights, KINDS)
        integer("members", self.members, least=1)
        integer("max_iter", self.max_iter, least=1)
        if isinstance(self.activation, str) and self.activation != "auto":
            choice("activation", self.activation, ("auto", *ACTIVATIONS))
        elif not isinstance(self.activation, str | Activation):
            raise InvalidInput(
                f"activation must be 'auto', a name or a subquad activation, "
                f"got {self.activation!r}"
            )
        if self.chosen_activation is not None and _given(self, "shift") is not None:
            raise InvalidInput(
                "give shift or activation, not both: an activation has its own shift"
            )

    @property
    def chosen_activation(self) -> Activation | None:
        """The activation that was given."""
        if isinstance(self.activation, Activation):
            return self.activation
        return None if self.activation == "auto" else ACTIVATIONS[self.activation]()


def _given(choices: Choices, name: str) -> Any:
    value = getattr(choices, name)
    return None if isinstance(value, str) and value == "auto" else value


@dataclass(frozen=True)
class Scaling:
    """Inputs with mean 0 and deviation 1; columns that do not vary are left out."""

    mean: Array
    scale: Array  # 0 where a column does not vary

    @classmethod
    def fit(cls, X: Array, weights: Array) -> Scaling:
        """Learn weighted means and deviations; columns are divided by their largest first."""
        largest = np.abs(X).max(axis=0)
        safe = np.where(largest > 0, largest, 1.0)
        share = weights / weights.sum()
        relative = X / safe
        mean = share @ relative
        deviation = np.sqrt(share @ (relative - mean) ** 2)
        return cls(mean * safe, np.where(deviation > 1e-12, deviation, 0.0) * safe)

    @property
    def kept(self) -> Any:
        """Which columns vary."""
        return self.scale > 0

    def __call__(self, X: Array) -> Array:
        """Return standardised inputs, n×kept; far outside they count as 1e6 deviations."""
        kept = self.kept
        return np.clip((X[:, kept] - self.mean[kept]) / self.scale[kept], -1e6, 1e6)


@dataclass(frozen=True)
class Ensemble:
    """A fitted ensemble.

    Attributes:
        scaling: of the inputs.
        members, weights: what is averaged.
        X, Y, counts: standardised inputs, targets less the offset, sample weights: what it was
            trained on.
        offset: mean of the targets, one per output.
        left_out: predictions of each training row without it, n×C.
        trainings: how each went, member by member.
        candidates: all that were judged, trained or not.
        seconds: of search, and of training.
    """

    scaling: Scaling
    members: tuple[Member, ...]
    weights: Array
    X: Array
    Y: Array
    counts: Array
    offset: Array
    left_out: Array
    trainings: list[Training]
    candidates: list[Candidate]
    seconds: tuple[float, float]

    def predict(self, X: Array) -> Array:
        """Return predictions, n×C."""
        return self.offset + np.tensordot(self.weights, np.stack(self.parts(X)), 1)

    def parts(self, X: Array) -> list[Array]:
        """Return every member's predictions less the offset, n×C each."""
        scaled = self.scaling(X)
        return [member.predict(scaled) for member in self.members]

    def deviation(self, X: Array) -> Array:
        """Return the predictive deviation of new rows, n×C."""
        scaled = self.scaling(X)
        return mixed_deviation(
            [spread.variances(scaled) for spread in self.spreads()], self.parts(X), self.weights
        )

    def left_out_deviation(self) -> Array:
        """Return the deviation of training rows that are left out, n×C."""
        variances = [spread.left_out_variances() for spread in self.spreads()]
        return np.sqrt(np.tensordot(self.weights, np.stack(variances), 1))

    def reach(self, X: Array, coverage: float) -> Array:
        """Return how far intervals reach, n×C, that cover a share of new rows' targets."""
        seen = np.isfinite(self.left_out).all(axis=1)
        residuals = (self.Y + self.offset - self.left_out)[seen]
        deviations = self.left_out_deviation()[seen]
        factors = [
            conformal_factor(residuals[:, c], deviations[:, c], coverage)
            for c in range(residuals.shape[1])
        ]
        found: Array = np.array(factors) * self.deviation(X)
        return found

    def spreads(self) -> list[Spread]:
        """Return the members' kernels as they see new rows."""
        return [Spread(m, self.X, self.Y, self.counts) for m in self.members]

    @property
    def importances(self) -> Array:
        """Share of each input in the learned metric: squared scales, sum 1, averaged."""
        found = np.zeros(len(self.scaling.scale))
        for member, weight in zip(self.members, self.weights, strict=True):
            squares = np.exp(2 * member.settings.scales)
            found[self.scaling.kept] += weight * squares / squares.sum()
        return found


def fit_ensemble(
    X: Array,
    Y: Array,
    weights: Array,
    choices: Choices,
    validation: Validation,
    tell: Callable[[str], None] = log.debug,
) -> Ensemble:
    """Search, train and blend.

    Args:
        X: n×d, finite.
        Y: n×C.
        weights: of the samples, at least 0; rows of weight 0 do not count at all.
        choices: what is given.
        validation: what is left out together.
        tell: is told what is done.
    """
    kept = weights > 0
    if not kept.all():
        groups = validation.groups
        validation = Validation(None if groups is None else groups[kept], validation.ordered)
        X, Y, weights = X[kept], Y[kept], weights[kept]
    began = time.perf_counter()
    scaling = Scaling.fit(X, weights)
    offset = (weights @ Y) / weights.sum()
    scaled = scaling(X)
    if not scaled.shape[1]:
        scaled = np.zeros((len(X), 1))  # nothing varies: every prediction is the mean
        scaling = Scaling(scaling.mean, np.where(np.arange(len(scaling.scale)) == 0, 1.0, 0.0))
    Y = Y - offset
    found = candidates(
        families(
            choices.chosen_activation,
            _given(choices, "shift"),
            _given(choices, "depth"),
            None if choices.layers == "auto" else choices.layers,
            _given(choices, "encoding"),
        ),
        scaled,
        Y,
        weights,
        validation,
        noise=_given(choices, "ridge"),
        metric=choices.metric,
        seed=choices.seed,
        tell=tell,
    )
    judged = blend(np.stack([c.left_out for c in found]), Y, weights)
    picked = [found[i] for i in worthwhile(judged, choices.members)]
    searched = time.perf_counter() - began
    trained = []
    for candidate in picked:
        width = default_width(candidate.recipe) if choices.width == "auto" else int(choices.width)
        tell(f"training {type(candidate.recipe.activation).__name__}, {width} wide")
        trained.append(
            train_member(
                candidate.recipe,
                candidate.settings,
                candidate.encoding,
                Task(candidate.encoding(scaled), Y, weights, candidate.encoding.owner),
                width=width,
                weights=choices.weights,
                seed=choices.seed,
                max_memory=choices.max_memory,
                iterations=choices.max_iter,
                groups=validation.groups,
                ordered=validation.ordered,
            )
        )
    left_out = np.stack([t.left_out for t in trained])
    if validation.ordered:
        left_out[:, ~np.isfinite(picked[0].left_out).all(axis=1)] = np.nan
    final = blend(left_out, Y, weights)
    return Ensemble(
        scaling,
        tuple(t.member for t in trained),
        final,
        scaled,
        Y,
        weights,
        offset,
        offset + np.tensordot(final, left_out, 1),
        [training for t in trained for training in t.trainings],
        found,
        (searched, time.perf_counter() - began - searched),
    )


def validation_of(validation: str, groups: object, n: int) -> Validation:
    """Return what is left out together, or say what is wrong."""
    choice("validation", validation, ("rows", "groups", "time"))
    if (groups is not None) != (validation == "groups"):
        raise InvalidInput(
            "groups= goes with validation='groups': rows of one group are then left out together"
        )
    if groups is None:
        return Validation(None, validation == "time")
    labels = np.asarray(groups)
    if labels.shape != (n,):
        raise InvalidInput(f"groups must have shape ({n},), got {labels.shape}")
    _, numbered = np.unique(labels, return_inverse=True)
    if numbered.max() == 0:
        raise InvalidInput("groups must name at least two groups, got one")
    return Validation(numbered.reshape(-1))


def mean_ridge(ensemble: Ensemble) -> float:
    """Return the members' ridge in units of G/m, their geometric mean by weight."""
    logs = [
        m.settings.noise + math.log(float(m.recipe.profile.values[0])) for m in ensemble.members
    ]
    return math.exp(float(ensemble.weights @ np.asarray(logs)))
