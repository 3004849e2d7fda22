"""A trained member: one network per output on scaled inputs.

Targets are divided by a number that keeps training close to its linearisation: the change of a
network of width m that fits `y / size` moves pre-activations by
`sqrt(y^T A^-1 y / (2 m)) / size` of their own size, and the smaller that is, the closer the network
comes to its infinitely wide kernel, for which everything was chosen. Predictions are multiplied
back. Rows then keep a distance from their targets by slack, see :mod:`subquad.training.slacked`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch

from subquad.estimators.encoding import Encoding
from subquad.estimators.evidence import Settings, Task, kernel, unit_rows
from subquad.estimators.recipe import Recipe
from subquad.network import WideNet
from subquad.theory.duals import Array, Integers
from subquad.training import train
from subquad.training.result import Predictor

TRAVEL = 0.002
"""How far pre-activations may move, in units of their own size."""
ACCURACY = 1e-9
"""Relative residual of training: steps converge quadratically, so this is one more at most."""
ITERATIONS = 10
FLAT = 1e-12
"""Relative range below which a target does not vary."""
ROUGH_WIDTH, SMOOTH_WIDTH = 16384, 2048
"""Finite width adds noise to the kernel, which matters where it has a cusp; compiled bits are
cheap there. Smooth activations pass over all neurons, and need fewer."""


@dataclass(frozen=True)
class Member:
    """Networks that predict the outputs of a task, and what they were trained on.

    Attributes:
        recipe, settings: what they are.
        encoding: makes coordinates of inputs.
        sizes: what each output's targets were divided by.
        predictors: one per output.
    """

    recipe: Recipe
    settings: Settings
    encoding: Encoding
    sizes: tuple[float, ...]
    predictors: tuple[Predictor | None, ...]  # None: the target did not vary

    @property
    def width(self) -> int:
        """Neurons of the last layer."""
        return max((p.net.widths[-1] for p in self.predictors if p is not None), default=0)

    def rows(self, X: Array) -> Array:
        """Return the networks' inputs for standardised inputs."""
        return unit_rows(self.encoding(X), self.settings.scales[self.encoding.owner])

    def predict(self, X: Array) -> Array:
        """Return predictions (n×C) for standardised inputs."""
        rows = torch.from_numpy(self.rows(X))
        columns = [
            np.zeros(len(X)) if part is None else size * part.predict(rows).double().numpy()
            for size, part in zip(self.sizes, self.predictors, strict=True)
        ]
        return np.stack(columns, axis=1)


@dataclass(frozen=True)
class Training:
    """How one training went: see :class:`subquad.TrainResult`."""

    status: str
    iterations: int
    residuals: list[float]
    remedy: str = ""
    seconds: float = 0.0


@dataclass(frozen=True)
class Trained:
    """A member, and how its training went.

    Attributes:
        member: the trained networks.
        trainings: of each output that varies.
        left_out: predictions of each training row without it, n×C.
    """

    member: Member
    trainings: list[Training]
    left_out: Array


def default_width(recipe: Recipe, outputs: int) -> int:
    """Return the width where none is given; the networks of several outputs share the time."""
    return ROUGH_WIDTH // min(outputs, 4) if recipe.rough else SMOOTH_WIDTH


def train_member(
    recipe: Recipe,
    settings: Settings,
    encoding: Encoding,
    task: Task,
    *,
    width: int | None,
    weights: str,
    seed: int,
    max_memory: float | str | None = None,
    iterations: int = ITERATIONS,
    groups: Integers | None = None,
    ordered: bool = False,
) -> Trained:
    """Train one network per output on a task whose settings are known.

    Args:
        recipe, settings, encoding: what to train.
        task: encoded inputs, targets, sample weights.
        width: of the layers; by default what suits the recipe.
        weights: kind of the frozen weights.
        seed: of the weights.
        max_memory: as in :func:`subquad.train`.
        iterations: at most.
        groups: rows with one label are left out together in ``left_out``.
        ordered: rows are predicted from those before them in ``left_out``.
    """
    rows = task.rows(settings.scales)
    diagonal = float(recipe.profile.values[0])
    noise = settings.relative_noise / task.weights
    A = torch.from_numpy(kernel(recipe.profile, rows))
    A.diagonal().add_(torch.from_numpy(noise))
    alpha = torch.cholesky_solve(torch.from_numpy(task.Y), torch.linalg.cholesky(A)).numpy()
    m = default_width(recipe, task.Y.shape[1]) if width is None else width
    norms = np.sqrt(np.maximum((task.Y * alpha).sum(0), 0) / (2 * m * diagonal))
    net = WideNet(
        rows.shape[1],
        width=m,
        depth=recipe.depth,
        activation=recipe.activation,
        weights=weights,
        seed=seed,
        dtype=torch.float64,
    )
    inputs, sizes, trainings, left_out = torch.from_numpy(rows), [], [], []
    predictors: list[Predictor | None] = []
    for targets, norm in zip(task.Y.T, norms, strict=True):
        if np.ptp(targets) <= FLAT * np.abs(targets).max():
            sizes.append(0.0)
            predictors.append(None)
            left_out.append(np.zeros(len(targets)))
            continue
        spread = math.sqrt(float(task.weights @ targets**2) / float(task.weights.sum()))
        size = max(float(norm) / TRAVEL, spread * 1e-3)
        result = train(
            net,
            inputs,
            torch.from_numpy(targets / size),
            layers=recipe.layers,
            slack=torch.from_numpy(noise * diagonal),
            tol=ACCURACY,
            max_iter=iterations,
            progress=False,
            max_memory=max_memory,
        )
        sizes.append(size)
        trainings.append(
            Training(
                result.status, result.iterations, result.residuals, result.remedy, result.seconds
            )
        )
        predictors.append(result.predictor)
        missed = result.loo_predictions(groups, ordered=ordered)
        left_out.append(size * missed.numpy())
    member = Member(recipe, settings, encoding, tuple(sizes), tuple(predictors))
    return Trained(member, trainings, np.stack(left_out, axis=1))
