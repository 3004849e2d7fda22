"""Thresholded linear, the activation of the paper's appendix."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from subquad.activations.thresholded import Thresholded, normal_density, normal_tail


@dataclass(frozen=True)
class ThresholdedLinear(Thresholded):
    """`phi(z) = sqrt(c) z 1[z > t]` with `t = b sqrt(2/m)`, times ‖h‖ if ``relative``.

    `c = 1 / (2 (1 - Phi(b) + b pdf(b)))`. The function jumps at the threshold; a step that
    pushes a neuron over it changes f by an amount that no derivative foretells.

    >>> ThresholdedLinear(shift=0.0).normaliser
    1.0
    """

    @property
    def second_moment(self) -> float:
        """`E[g^2 1[g > b]] = 1 - Phi(b) + b pdf(b)`."""
        return normal_tail(self.shift) + self.shift * normal_density(self.shift)

    def unit(self, g: Tensor, rho: Tensor) -> Tensor:
        """Return g."""
        return g

    def unit_norm_slope(self, g: Tensor, rho: Tensor) -> None:
        """Zero wherever there is a derivative: the threshold only moves the jump."""
        return None
