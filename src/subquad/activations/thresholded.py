"""What the paper's two forms share: a threshold, absolute or relative, and slope 1 above it."""

from __future__ import annotations

import math
from abc import ABC
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
class Thresholded(Activation, ABC):
    """Fires above `t = b sqrt(2/m)`, times ‖h‖ if ``relative``: a share `1 - Phi(b)` of neurons.

    The paper's threshold is absolute; a relative one makes the layer homogeneous, so that an
    input's norm neither grows nor dies on the way up.
    """

    shift: float = 1.0
    relative: bool = True

    def __post_init__(self) -> None:
        name = type(self).__name__
        check_shift(name, self.shift)
        check_flag(f"{name}: relative", self.relative)

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

    def unit_slope(self, g: Tensor, rho: Tensor) -> Tensor:
        """Return 1, the derivative wherever there is one."""
        return torch.ones_like(g)
