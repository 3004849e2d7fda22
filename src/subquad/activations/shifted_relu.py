"""Shifted ReLU, the activation of the paper's main text (section 2, "Architecture")."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from subquad.activations.base import Activation, check_flag, check_shift


def normal_tail(b: float) -> float:
    """`1 - Phi(b)`, exact far into the tail."""
    return 0.5 * math.erfc(b / math.sqrt(2))


def normal_density(b: float) -> float:
    """Density of the standard normal at b."""
    return math.exp(-b * b / 2) / math.sqrt(2 * math.pi)


@dataclass(frozen=True)
class ShiftedReLU(Activation):
    """`phi(z) = sqrt(c) max(z - t, 0)` with `t = b sqrt(2/m)`, times ‖h‖ if ``relative``.

    `c = 1 / (2 q(b))`, `q(b) = E[(g-b)_+^2] = (1+b^2)(1-Phi(b)) - b pdf(b)`. A share
    `1 - Phi(b)` of the neurons fires. The paper's threshold is absolute; a relative one makes
    the layer homogeneous, so that an input's norm neither grows nor dies on the way up.

    >>> ShiftedReLU(shift=0.0).normaliser
    1.0
    """

    shift: float = 1.0
    relative: bool = True

    def __post_init__(self) -> None:
        check_shift("ShiftedReLU", self.shift)
        check_flag("ShiftedReLU: relative", self.relative)

    @property
    def threshold(self) -> float:
        """The shift b."""
        return self.shift

    @property
    def follows_norm(self) -> bool:
        """Whether the threshold is multiplied by the input's norm."""
        return self.relative

    @property
    def linear(self) -> bool:
        """Slope 1 above the threshold."""
        return True

    @property
    def second_moment(self) -> float:
        """`q(b)`."""
        b = self.shift
        return (1 + b * b) * normal_tail(b) - b * normal_density(b)

    def unit(self, g: Tensor, rho: Tensor) -> Tensor:
        """Return `g - b rho`."""
        return g - self.shift * rho

    def unit_slope(self, g: Tensor, rho: Tensor) -> Tensor:
        """Return 1."""
        return torch.ones_like(g)

    def unit_norm_slope(self, g: Tensor, rho: Tensor) -> Tensor | None:
        """Return `-b`: a larger input raises its own threshold."""
        if not self.relative or self.shift == 0:
            return None
        return torch.full_like(g, -self.shift)


@dataclass(frozen=True)
class ReLU(Activation):
    """`phi(z) = max(z, 0)`: the shifted ReLU at b = 0, where c = 1."""

    @property
    def threshold(self) -> float:
        """Zero."""
        return 0.0

    @property
    def follows_norm(self) -> bool:
        """A threshold of 0 does not move."""
        return False

    @property
    def linear(self) -> bool:
        """Slope 1 above the threshold."""
        return True

    @property
    def second_moment(self) -> float:
        """Half of the normal's."""
        return 0.5

    def unit(self, g: Tensor, rho: Tensor) -> Tensor:
        """Return g."""
        return g

    def unit_slope(self, g: Tensor, rho: Tensor) -> Tensor:
        """Return 1."""
        return torch.ones_like(g)

    def unit_norm_slope(self, g: Tensor, rho: Tensor) -> None:
        """Zero."""
        return None
