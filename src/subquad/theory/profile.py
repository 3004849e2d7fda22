"""The kernel of an infinitely wide network on unit rows: one function of the angle between them.

`G_ij / m` of a network with relative thresholds, or of any on unit rows, tends to a function of
`<x_i, x_j>` alone (mathematics, sections 2 and 4). Layers compose on the table itself, with exact
slopes by the chain rule, so a deep network's kernel costs no more to evaluate than a shallow one's.
"""

from __future__ import annotations

import functools

import numpy as np

from subquad.activations import Activation
from subquad.checks import choice, integer
from subquad.theory.duals import Curve, angles, dual

Profile = Curve


@functools.lru_cache(maxsize=128)
def profile(activation: Activation, depth: int, layers: str = "last") -> Profile:
    """Return `lim G/m` as a function of the angle between two unit rows.

    Args:
        activation: any that :func:`subquad.theory.dual` knows.
        depth: number of hidden layers.
        layers: "last" or "all" that learn.

    >>> from subquad import ReLU
    >>> profile(ReLU(), 1).values[0]  # half of the neurons fire, inputs have length 1
    np.float64(0.5)
    """
    integer("depth", depth, least=1)
    choice("layers", layers, ("last", "all"))
    found = dual(activation)
    theta = angles()
    # rho_l = <h_l, h_l'> and its slope in theta; pull of layer l at the angle of its inputs.
    rhos, pulls = [(np.cos(theta), -np.sin(theta))], []
    angle, turn = theta, np.ones_like(theta)  # angle of the layer's inputs, d angle / d theta
    for _ in range(depth):
        pull, slope = found.pull.both(angle)
        pulls.append((pull, slope * turn))
        value, slope = found.kappa.both(angle)
        value = np.clip(value, -1.0, 1.0)
        value[0] = 1.0  # up to rounding, whose square root is no angle to go on with
        rhos.append((value, slope * turn))
        sine = np.sqrt(1 - value * value)
        # At theta = 0 both vanish; their ratio is the square root of kappa's curvature.
        safe = np.where(sine > 1e-7, sine, 1.0)
        turn = np.where(sine > 1e-7, -slope * turn / safe, turn * _first_turn(found.pull))
        angle = np.arccos(value)
    total, total_slope = np.zeros_like(theta), np.zeros_like(theta)
    back, back_slope = np.ones_like(theta), np.zeros_like(theta)
    for l in range(depth - 1, -1, -1 if layers == "all" else -depth):
        # A layer below the last receives W^T of what is above: variance 2/m for each of m.
        factor = 1.0 if l == depth - 1 else 2.0
        pull, slope = pulls[l]
        back, back_slope = (
            factor * back * pull,
            factor * (back_slope * pull + back * slope),
        )
        rho, rho_slope = rhos[l]
        total, total_slope = total + back * rho, total_slope + back_slope * rho + back * rho_slope
    return Curve(total, total_slope)


def _first_turn(pull: Curve) -> float:
    """Slope of the next layer's angle at angle 0: `kappa ~ 1 - pull(0) theta²`."""
    return float(np.sqrt(2 * pull.values[0]))
