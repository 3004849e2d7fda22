"""What an activation makes of two correlated normals: its dual functions of their angle.

| symbol | meaning |
|---|---|
| `g_1, g_2` | standard normal, correlation `cos theta` |
| `kappa` | `2 c E[sigma(g_1) sigma(g_2)]`: inner product of two layer outputs, 1 at theta = 0 |
| `pull` | `c E[sigma'(g_1) sigma'(g_2)]`: `<u_i, u_j> / m` of the last layer |

`c = 1 / (2 E[sigma(g)^2])`. A relative threshold sees inputs of length 1 here, as does an absolute
one on unit rows, so both have the same duals.

With a threshold b everything follows from one density in theta (Plackett's formula):
`P[g_1 > b, g_2 > b] = ∫_theta^pi exp(-b² / (1 + cos t)) dt / 2 pi`. Smooth activations are sums
over Hermite coefficients, `E[s(g_1) s(g_2)] = sum_k a_k² cos^k theta`.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from subquad.activations import Activation, LeakyReLU, ReLU, ShiftedReLU
from subquad.activations.smooth import Everywhere
from subquad.errors import InvalidInput

Array = npt.NDArray[np.float64]
Integers = npt.NDArray[np.integer[Any]]

NODES = 2049
"""Angles that are tabulated, 0 and pi included."""
TERMS = 400
"""Hermite coefficients of a smooth activation."""


def angles() -> Array:
    """The tabulated angles."""
    return np.linspace(0.0, math.pi, NODES)


@dataclass(frozen=True)
class Curve:
    """A function of the angle: values and slopes at :func:`angles`, cubic in between.

    Between neighbours the cubic that has both values and both slopes: its error is
    `(pi / 2048)^4 / 384` times the fourth derivative.
    """

    values: Array
    slopes: Array  # d / d theta

    def __call__(self, theta: Array) -> Array:
        """Return the values at any angles from 0 to pi."""
        return self.both(theta)[0]

    def both(self, theta: Array) -> tuple[Array, Array]:
        """Return values and slopes at any angles from 0 to pi."""
        step = math.pi / (NODES - 1)
        place = np.minimum((theta / step).astype(np.int64), NODES - 2)
        t = theta / step - place
        low, high = self.values[place], self.values[place + 1]
        left, right = step * self.slopes[place], step * self.slopes[place + 1]
        rise = high - low
        square, cube = 3 * rise - 2 * left - right, left + right - 2 * rise
        return (
            low + t * (left + t * (square + t * cube)),
            (left + t * (2 * square + 3 * t * cube)) / step,
        )


@dataclass(frozen=True)
class Dual:
    """The two dual functions of an activation."""

    kappa: Curve
    pull: Curve


@functools.lru_cache(maxsize=64)
def dual(activation: Activation) -> Dual:
    """Return the dual functions of an activation.

    >>> import math
    >>> from subquad import ReLU
    >>> float(dual(ReLU()).pull(np.array([math.pi / 2]))[0])  # 1/4 of pairs fire, c = 1
    0.25
    """
    theta = angles()
    if isinstance(activation, ReLU | ShiftedReLU):
        both, ramps = _quadrant(activation.threshold)
    elif isinstance(activation, LeakyReLU):
        # sigma(g) = g_+ - a (-g)_+, and -g_2 lies at the angle pi - theta.
        a, (fire, ramp) = activation.slope_below, _quadrant(0.0)
        both, ramps = (
            (1 + a * a) * fire + 2 * a * fire[::-1],
            (1 + a * a) * ramp - 2 * a * ramp[::-1],
        )
        return _finish(activation, both, ramps, (1 - a) ** 2 * _density(0.0, theta))
    elif isinstance(activation, Everywhere):
        return _smooth(activation)
    else:
        raise InvalidInput(
            f"there is no closed form for {type(activation).__name__}: take ShiftedReLU, ReLU, "
            f"LeakyReLU, GELU, SiLU, Tanh or Sigmoid"
        )
    return _finish(activation, both, ramps, _density(activation.threshold, theta))


def _finish(activation: Activation, both: Array, ramps: Array, density: Array) -> Dual:
    """Put the constants in: ``both`` is `E[s' s']`, ``ramps`` `E[s s]`, ``density`` -d both."""
    c = activation.normaliser
    kappa = Curve(2 * c * ramps, -2 * c * np.sin(angles()) * both)
    return Dual(kappa, Curve(c * both, -c * density))


def _density(b: float, theta: Array) -> Array:
    """Return minus the slope in theta of `P[g_1 > b, g_2 > b]`."""
    with np.errstate(divide="ignore"):
        fall = np.exp(-b * b / (1 + np.cos(theta))) if b else np.ones_like(theta)
    found: Array = fall / (2 * math.pi)
    return found


def _quadrant(b: float) -> tuple[Array, Array]:
    """Return `P[g_1 > b, g_2 > b]` and `E[(g_1 - b)_+ (g_2 - b)_+]` at the tabulated angles.

    Both are integrals from theta to pi; eight Gauss-Legendre nodes an interval leave rounding.
    """
    theta = angles()
    nodes, weights = np.polynomial.legendre.leggauss(8)
    half = (theta[1] - theta[0]) / 2
    inner = theta[:-1, None] + half * (nodes + 1)
    density = _density(b, inner)

    def tail(pieces: Array) -> Array:
        return np.append(np.cumsum((half * pieces @ weights)[::-1])[::-1], 0.0)

    both = tail(density)
    # By parts: ∫ sin t P dt = cos(theta) P - ∫ cos t density dt.
    return both, np.cos(theta) * both - tail(np.cos(inner) * density)


def _smooth(activation: Everywhere) -> Dual:
    """Sum the Hermite series of the function and of its slope."""
    theta = angles()
    rho = np.cos(theta)
    values, slopes = hermite(activation)
    c = activation.normaliser
    pull: Any = np.polynomial.polynomial.Polynomial(slopes**2)
    kappa: Any = 2 * c * np.polynomial.polynomial.polyval(rho, values**2)
    sine = np.sin(theta)
    return Dual(
        Curve(kappa, -2 * c * sine * pull(rho)), Curve(c * pull(rho), -c * sine * pull.deriv()(rho))
    )


@functools.lru_cache(maxsize=64)
def hermite(activation: Everywhere) -> tuple[Array, Array]:
    """Return the coefficients of sigma and sigma' in normalised Hermite polynomials.

    `sum a_k² = E[sigma²]`: what is missing from it bounds the error of the dual function.
    """
    nodes, weights = np.polynomial.legendre.leggauss(40)
    edges = np.linspace(-12.0, 12.0, 97)  # pieces of 1/4, finer than the fastest polynomial
    g = (edges[:-1, None] + (nodes + 1) / 8).reshape(-1)
    weight = np.tile(weights / 8, len(edges) - 1) * np.exp(-g * g / 2) / math.sqrt(2 * math.pi)
    at = torch.from_numpy(g)
    value, slope = activation.curve(at).numpy(), activation.curve_slope(at).numpy()
    found = np.empty((2, TERMS))
    before, now = np.zeros_like(g), np.ones_like(g)
    for k in range(TERMS):
        found[:, k] = (weight * now) @ value, (weight * now) @ slope
        before, now = now, (g * now - math.sqrt(k) * before) / math.sqrt(k + 1)
    return found[0], found[1]
