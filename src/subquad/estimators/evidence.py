"""How well a metric of the inputs and a noise level explain the targets, and which way is better.

| symbol | shape | meaning |
|---|---|---|
| `X`, `Y` | n×D, n×C | coordinates of the inputs, and targets without their mean |
| `w` | d | scale of each input, the same for all its coordinates |
| rows | n×(D+1) | `(x ∘ w, 1)`, divided by their length |
| `rho` | n×n | inner products of the rows |
| `K = F(rho) / F(1)` | n×n | the infinitely wide network's kernel, 1 on the diagonal |
| `A = K + noise diag(1/s)` | n×n | s: sample weights, N their sum |

Targets are taken as `N(0, c_k A)` with a free size c_k for every output, so that minus the log
marginal likelihood is, up to a constant, `C/2 log|A| + n/2 sum_k log(y_k^T A^-1 y_k / n)`: one
Cholesky, and one inverse for the gradient in all d + 1 numbers at once. Priors: the log scales lie
around their mean with deviation ``spread`` (0 keeps them equal), and `log sum w²` lies around 0
with deviation ``reach``: rough kernels are blind to it, and small scales would make all rows alike.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch

from subquad.kernels import pick
from subquad.theory.duals import Array, Integers
from subquad.theory.profile import Profile

QUIETEST, LOUDEST = math.log(1e-6), math.log(100.0)
"""Noise relative to the kernel's diagonal, in logarithms."""
SMALLEST, LARGEST = -8.0, 4.0
"""Log scales."""
CLOSE = 2e-5
"""Relative rise of the evidence below which climbing ends: about a hundredth of its unit."""
CPU = torch.device("cpu")


@dataclass(frozen=True)
class Settings:
    """What of a kernel is learned: log scales of the inputs, and the log of the noise."""

    scales: Array  # (d,)
    noise: float

    @property
    def relative_noise(self) -> float:
        """Noise variance in units of the kernel's diagonal."""
        return math.exp(self.noise)


@dataclass(frozen=True)
class Task:
    """Targets to be explained.

    Attributes:
        X: coordinates, n×D.
        Y: n×C.
        weights: of the samples, (n,), above 0, 1 on average.
        owner: which input each coordinate belongs to, (D,).
    """

    X: Array
    Y: Array
    weights: Array
    owner: Integers

    def rows(self, scales: Array) -> Array:
        """Return unit rows of these inputs."""
        return unit_rows(self.X, scales[self.owner])


def unit_rows(X: Array, scales: Array) -> Array:
    """Return rows `(x ∘ w, 1)` divided by their length, n×(D+1), for log scales (D,)."""
    rows = np.concatenate([X * np.exp(scales), np.ones((len(X), 1))], axis=1)
    rows /= np.sqrt(np.einsum("ij,ij->i", rows, rows))[:, None]
    return rows


def kernel(profile: Profile, rows: Array, others: Array | None = None) -> Array:
    """Return K between unit rows, 1 for equal rows."""
    rho = rows @ (rows if others is None else others).T
    found: Array = pick("profiles", CPU).kernel_of(rho, profile.values, profile.slopes)
    found /= profile.values[0]
    return found


def evidence(
    settings: Settings, task: Task, profile: Profile, *, spread: float, reach: float
) -> tuple[float, Array]:
    """Return minus the log evidence (up to a constant), and its gradient in (scales, noise)."""
    n, outputs = task.Y.shape
    d = len(settings.scales)
    rows = task.rows(settings.scales)
    rho = rows @ rows.T
    first = profile.values[0]
    K, slope = pick("profiles", CPU).kernel_and_slope(
        rho, profile.values / first, profile.slopes / first
    )
    noise = settings.relative_noise / task.weights
    A = torch.from_numpy(K)
    A.diagonal().add_(torch.from_numpy(noise))
    factor, failed = torch.linalg.cholesky_ex(A)
    if int(failed):
        return math.inf, np.zeros(d + 1)
    inverse = torch.cholesky_inverse(factor)
    Y = torch.from_numpy(task.Y)
    alpha = inverse @ Y
    size = (Y * alpha).sum(0).clamp_min(1e-300) / n  # c_k
    value = float(outputs * factor.diagonal().log().sum() + n / 2 * size.log().sum())
    # d value / d A
    pull = inverse.mul_(outputs / 2).addmm_(alpha / size, alpha.T, alpha=-0.5)
    by_noise = float(pull.diagonal() @ torch.from_numpy(noise))
    # rho_ij = r_i^T r_j / (|r_i| |r_j|) with r = (x ∘ w, 1)
    by_rho = pull.numpy() * slope
    own = np.einsum("ij,ij->i", by_rho, rho)
    scaled = rows[:, :-1]
    by_column = 2 * np.einsum("ij,ij->j", by_rho @ scaled - own[:, None] * scaled, scaled)
    by_scales = np.bincount(task.owner, by_column, minlength=d)
    away = settings.scales - settings.scales.mean()
    squares = np.exp(2 * settings.scales)
    total = math.log(float(squares.sum()))
    value += total**2 / (2 * reach**2)
    by_scales += total / reach**2 * 2 * squares / squares.sum()
    if spread > 0:
        value += float(away @ away) / (2 * spread**2)
        by_scales += away / spread**2
    return value, np.append(by_scales, by_noise)


def most_evident(
    task: Task,
    profile: Profile,
    start: Settings,
    *,
    spread: float,
    reach: float,
    steps: int,
    noise: float | None = None,
) -> tuple[Settings, float]:
    """Climb from ``start``; with ``spread`` 0 all scales move together, ``noise`` may be fixed.

    Returns:
        The settings found, and minus their log evidence.
    """
    from scipy.optimize import minimize

    together = spread == 0

    def unpack(p: Array) -> Settings:
        return Settings(start.scales + p[0] if together else p[:-1], float(p[-1]))

    def climb(p: Array) -> tuple[float, Array]:
        value, gradient = evidence(unpack(p), task, profile, spread=spread, reach=reach)
        if not math.isfinite(value):
            return 1e300, np.zeros_like(p)
        return value, np.array([gradient[:-1].sum(), gradient[-1]]) if together else gradient

    first = [0.0] if together else list(np.clip(start.scales, SMALLEST, LARGEST))
    bounds = [(-4.0, 4.0)] if together else [(SMALLEST, LARGEST)] * len(start.scales)
    quietest, loudest = (QUIETEST, LOUDEST) if noise is None else (noise, noise)
    found = minimize(
        climb,
        np.array([*first, min(max(start.noise, quietest), loudest)]),
        jac=True,
        method="L-BFGS-B",
        bounds=[*bounds, (quietest, loudest)],
        options={"maxiter": steps, "ftol": CLOSE},
    )
    return unpack(found.x), float(found.fun)
