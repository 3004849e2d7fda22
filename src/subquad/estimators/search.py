"""From a table to settings: which networks, input scales and noise explain the targets.

Everything happens on the infinitely wide network's kernel, where a candidate costs one
decomposition: first one common scale, then scales that may lie apart a little, then freely; then
the family's other networks at the scales found. Left-out predictions are closed forms.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import numpy as np
import torch

from subquad.estimators.encoding import Encoding
from subquad.estimators.evidence import (
    LOUDEST,
    QUIETEST,
    Settings,
    Task,
    kernel,
    most_evident,
)
from subquad.estimators.recipe import Prudence, Recipe
from subquad.theory.duals import Array, Integers
from subquad.training.leaveout import foretold, leave_one_out

SCALED_ROWS = 600
"""Rows that input scales are learned from; a random share where there are more."""
STRUCTURE_ROWS = 250
"""Rows that decide between depths and shifts."""
MARGIN = 2.0
"""Log evidence by which another network of the family must win."""
ALL_LAYERS_MARGIN = 0.05
"""The same per row for training all layers, which costs far more."""
STEPS = {0.0: 12, 0.4: 25, 1.0: 20}
DEPENDENT = (1.0, 4.0, 16.0)
"""Where rows depend on each other, evidence takes what they share for signal: noise this many
times as large is tried, too, and judged by what is left out."""


@dataclass(frozen=True)
class Candidate:
    """Settings found for a recipe, and what they predict of rows left out.

    Attributes:
        recipe, settings, encoding: what was found.
        cost: minus its log evidence.
        error: mean squared error of the rows left out.
        left_out: n×C; rows not judged are NaN.
    """

    recipe: Recipe
    settings: Settings
    encoding: Encoding
    cost: float
    error: float
    left_out: Array


@dataclass(frozen=True)
class Validation:
    """What is left out together: single rows, groups of rows, or all that is later.

    Attributes:
        groups: (n,) integers, or None.
        ordered: whether a row is predicted from those before it alone.
    """

    groups: Integers | None = None
    ordered: bool = False

    @property
    def dependent(self) -> bool:
        """Whether rows may depend on each other."""
        return self.groups is not None or self.ordered

    def of(self, rows: Integers) -> Validation:
        """Return the same for a share of the rows."""
        return Validation(None if self.groups is None else self.groups[rows], self.ordered)


def candidates(
    families: list[list[Recipe]],
    X: Array,
    Y: Array,
    weights: Array,
    validation: Validation,
    prudence: Prudence,
    *,
    noise: float | None,
    metric: str,
    seed: int,
    side: int,
    tell: Callable[[str], None],
) -> list[Candidate]:
    """Return settings for every family: equal scales, and learned ones.

    Args:
        families: networks to choose from, see :func:`subquad.estimators.recipe.families`.
        X, Y, weights: standardised inputs, targets without their mean, sample weights.
        validation: what is left out together.
        prudence: how far left-out predictions and evidence are trusted.
        noise: relative to the kernel's diagonal, where it is given.
        metric: "equal" leaves learned scales out, "learned" leaves equal ones out, "auto" neither.
        seed: of the rows that are drawn where there are many.
        side: families that are searched side by side, each on a thread of its own.
        tell: is told what is done.
    """
    d = X.shape[1]
    kinds = {family[0].encoding for family in families}
    encodings = {kind: Encoding.fit(kind, X, weights) for kind in kinds}
    tasks = {k: Task(e(X), Y, weights, e.owner) for k, e in encodings.items()}

    def searched(family: list[Recipe]) -> list[Candidate]:
        base = family[0]
        encoding, task = encodings[base.encoding], tasks[base.encoding]
        few = drawn(task, SCALED_ROWS, seed)
        tell(f"input scales for {type(base.activation).__name__} on {base.encoding} inputs")
        start = Settings(np.full(d, -0.5 * math.log(d)), -2.0)
        settings: list[tuple[Recipe, Settings, float]] = []
        for spread in (0.0,) if metric == "equal" or d == 1 else prudence.spreads:
            start, cost = _climb(few, base.freed(spread), start, noise, STEPS[spread])
            settings.append((base.freed(spread), start, cost))
        if metric == "learned" and d > 1:
            settings = settings[1:]
        settings = _restructured(family, settings, drawn(few, STRUCTURE_ROWS, seed), noise)
        judged = [
            _judged(recipe, chosen, encoding, cost, task, validation, prudence, noise)
            for recipe, chosen, cost in settings
        ]
        return [_earned(judged, prudence.earned)] if prudence.earned < 1 else judged

    if side == 1:
        return [candidate for family in families for candidate in searched(family)]
    with ThreadPoolExecutor(side) as pool:  # those of many coordinates take longest: they go first
        first = sorted(families, key=lambda family: -len(encodings[family[0].encoding].owner))
        jobs = {id(family): pool.submit(searched, family) for family in first}
        return [candidate for family in families for candidate in jobs[id(family)].result()]


def drawn(task: Task, rows: int, seed: int) -> Task:
    """Return a random share of a task's rows, in their order."""
    n = len(task.X)
    if n <= rows:
        return task
    kept = np.sort(np.random.default_rng(seed).choice(n, rows, replace=False))
    return Task(task.X[kept], task.Y[kept], task.weights[kept], task.owner)


def _climb(
    task: Task, recipe: Recipe, start: Settings, noise: float | None, steps: int
) -> tuple[Settings, float]:
    fixed = None if noise is None else math.log(noise / float(recipe.profile.values[0]))
    return most_evident(
        task,
        recipe.profile,
        start,
        spread=recipe.spread,
        reach=recipe.reach,
        steps=steps,
        noise=fixed,
    )


def _restructured(
    family: list[Recipe],
    settings: list[tuple[Recipe, Settings, float]],
    task: Task,
    noise: float | None,
) -> list[tuple[Recipe, Settings, float]]:
    """Exchange the family's first network for one that explains the targets clearly better."""
    if len(family) == 1:
        return settings
    _, scales, _ = settings[-1]
    best, least, moved, quieter = family[0], math.inf, 0.0, 0.0
    for recipe in family:
        tied = recipe.freed(0.0)  # scales move together
        found, cost = _climb(task, tied, scales, noise, 6)
        if recipe is not family[0]:
            cost += ALL_LAYERS_MARGIN * task.weights.sum() if recipe.layers == "all" else MARGIN
        if cost < least:
            best, least = recipe, cost
            moved = float(found.scales[0] - scales.scales[0])
            quieter = found.noise - scales.noise
    if best is family[0]:
        return settings
    return [
        (
            best.freed(recipe.spread),
            Settings(s.scales + moved, min(max(s.noise + quieter, QUIETEST), LOUDEST)),
            cost,
        )
        for recipe, s, cost in settings
    ]


def _judged(
    recipe: Recipe,
    settings: Settings,
    encoding: Encoding,
    cost: float,
    task: Task,
    validation: Validation,
    prudence: Prudence,
    noise: float | None,
) -> Candidate:
    """Predict left-out rows; where rows depend on each other, by the best of several noises."""
    rows = task.rows(settings.scales)
    K = torch.from_numpy(kernel(recipe.profile, rows))
    quiet = (
        settings.noise if noise is not None else max(settings.noise, math.log(prudence.quietest))
    )
    several = DEPENDENT if validation.dependent else prudence.noises
    tried = []
    for factor in several if noise is None else (1.0,):
        louder = replace(settings, noise=min(quiet + math.log(factor), LOUDEST))
        left_out = left_out_by(K, louder.relative_noise, task, validation)
        seen = np.isfinite(left_out).all(axis=1)
        error = float((task.weights[seen, None] * (left_out - task.Y)[seen] ** 2).mean())
        tried.append(Candidate(recipe, louder, encoding, cost, error, left_out))
    return min(tried, key=lambda candidate: candidate.error)


def _earned(judged: list[Candidate], share: float) -> Candidate:
    """Return equal scales, unless learned ones leave less than a share of their squared error."""
    first, best = judged[0], min(judged, key=lambda candidate: candidate.error)
    return best if best.error < share * first.error else first


def left_out_by(K: torch.Tensor, noise: float, task: Task, validation: Validation) -> Array:
    """Return what every row would be without it, by the kernel K; outputs share it."""
    weights = torch.from_numpy(task.weights)
    shift, zero = noise / weights, torch.zeros(len(weights), 1, dtype=torch.float64)
    groups = None if validation.groups is None else torch.from_numpy(validation.groups)
    if groups is None and not validation.ordered:
        A = K.clone()
        A.diagonal().add_(shift)
        inverse = torch.cholesky_inverse(torch.linalg.cholesky(A))
        own, target = inverse.diagonal()[:, None], torch.from_numpy(task.Y)
        # As :func:`subquad.training.leaveout.leave_one_out` for outputs that share one kernel.
        found: Array = (target - (inverse @ target) / own).numpy()
        return found
    columns = []
    for column in task.Y.T:
        target = torch.from_numpy(column)[:, None]
        columns.append(
            foretold(K, shift, target, zero)
            if validation.ordered
            else leave_one_out(K, shift, target, zero, groups)
        )
    found = torch.cat(columns, 1).numpy()
    if validation.ordered:
        found[: len(found) // 3] = np.nan  # the first rows have too few before them
    return found
