"""Shifted ReLU, the activation of the paper's main text (section 2, "Architecture")."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from subquad.activations.base import Activation
from subquad.activations.thresholded import Thresholded, normal_density, normal_tail


@dataclass(frozen=True)
class ShiftedReLU(Thresholded):
    """`phi(z) = sqrt(c) max(z - t, 0)` with `t = b sqrt(2/m)`, times ‖h‖ if ``relative``.

    `c = 1 / (2 q(b))`, `q(b) = E[(g-b)_+^2] = (1+b^2)(1-Phi(b)) - b pdf(b)`.

    >>> ShiftedReLU(shift=0.0).normaliser
    1.0
    """

    @property
    def second_moment(self) -> float:
        """`q(b)`."""
        b = self.shift
        return (1 + b * b) * normal_tail(b) - b * normal_density(b)

    def unit(self, g: Tensor, rho: Tensor) -> Tensor:
        """Return `g - b rho`."""
        return g - self.shift * rho

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
