"""What an activation is: one function at unit scale, its slopes, and one constant.

| symbol | meaning |
|---|---|
| `z` | pre-activation of a neuron, size sqrt(2/m) at the start |
| `g = z sqrt(m/2)` | the same at unit scale |
| `rho` | norm of the layer's input for a relative threshold, 1 for an absolute one |
| `sigma(g; rho)` | the function at unit scale |
| `c` | `1 / (2 E[sigma(N(0,1); 1)^2])`, so that a layer keeps the squared norm in the mean |

`phi(z) = sqrt(c) sigma(z sqrt(m/2); rho) / sqrt(m/2)`. A function with a threshold is 0 for
`g <= b rho`; it is asked for values and slopes only where neurons fire, above the threshold.
Where the input's norm enters through the threshold, its slope belongs to the derivative too.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod

import torch
from torch import Tensor

from subquad.checks import number
from subquad.errors import InvalidInput


class Activation(ABC):
    """The protocol: `unit`, `unit_slope`, `unit_norm_slope`, `second_moment`, two facts."""

    @property
    @abstractmethod
    def threshold(self) -> float | None:
        """`b` where the function is 0 for `g <= b rho`; None where every neuron fires."""

    @property
    @abstractmethod
    def follows_norm(self) -> bool:
        """Whether `rho` is the norm of the layer's input rather than 1."""

    @property
    @abstractmethod
    def second_moment(self) -> float:
        """`E[sigma(g; 1)^2]` for standard normal g."""

    @abstractmethod
    def unit(self, g: Tensor, rho: Tensor) -> Tensor:
        """Return `sigma(g; rho)` where neurons fire."""

    @abstractmethod
    def unit_slope(self, g: Tensor, rho: Tensor) -> Tensor:
        """Return `d sigma / d g` where neurons fire."""

    @abstractmethod
    def unit_norm_slope(self, g: Tensor, rho: Tensor) -> Tensor | None:
        """Return `d sigma / d rho`, or None where it is 0 almost everywhere."""

    @property
    def linear(self) -> bool:
        """Whether sigma is g plus something that does not depend on g where it fires."""
        return False

    @property
    def rate(self) -> float:
        """Share of the neurons that fire, `1 - Phi(b)`; 1 where every one does."""
        b = self.threshold
        return 1.0 if b is None else 0.5 * math.erfc(b / math.sqrt(2))

    @property
    def normaliser(self) -> float:
        """`c = 1 / (2 E[sigma(g)^2])`."""
        return 1.0 / (2.0 * self.second_moment)

    def level(self, rho: Tensor, width: int) -> Tensor | None:
        """Return `b sqrt(2/m) rho`, above which z fires, or None where every neuron fires."""
        b = self.threshold
        return None if b is None else (b * math.sqrt(2 / width)) * rho

    def fires(self, z: Tensor, rho: Tensor, width: int) -> Tensor | None:
        """Return the mask `z > b sqrt(2/m) rho`, or None where every neuron fires."""
        level = self.level(rho, width)
        return None if level is None else z > level

    def __call__(self, z: Tensor, norms: Tensor, width: int) -> Tensor:
        """Return `phi(z)` of rows z (n×m) whose inputs have these norms (n), zeros included."""
        rho = (norms if self.follows_norm else torch.ones_like(norms)).to(z.dtype)[:, None]
        mask, value = self.fires(z, rho, width), self.value(z, rho, width)
        return value if mask is None else torch.where(mask, value, 0)

    def value(self, z: Tensor, rho: Tensor, width: int) -> Tensor:
        """Return `phi(z)` of firing neurons in a layer of this width."""
        scale = math.sqrt(width / 2)
        return self.unit(z * scale, rho) * (math.sqrt(self.normaliser) / scale)

    def slope(self, z: Tensor, rho: Tensor, width: int) -> Tensor:
        """Return `d phi / d z`."""
        return self.unit_slope(z * math.sqrt(width / 2), rho) * math.sqrt(self.normaliser)

    def norm_slope(self, z: Tensor, rho: Tensor, width: int) -> Tensor | None:
        """Return `d phi / d rho`, or None where it is 0."""
        scale = math.sqrt(width / 2)
        unit = self.unit_norm_slope(z * scale, rho)
        return None if unit is None else unit * (math.sqrt(self.normaliser) / scale)

    def config(self) -> dict[str, object]:
        """Name and settings, for `config.json`; :func:`subquad.activations.build` reads it."""
        return {"name": type(self).__name__, **vars(self)}


MOST_SHIFT = 30.0
"""Beyond, a neuron fires once in 1e197: no network has one, and the constants underflow."""


def check_shift(owner: str, shift: object) -> None:
    """Refuse a shift that is no finite number from 0 to :data:`MOST_SHIFT`."""
    if number(f"{owner}: shift", shift) > MOST_SHIFT:
        raise InvalidInput(f"{owner}: shift must be <= {MOST_SHIFT:g}, got {shift!r}")


def check_flag(name: str, value: object) -> None:
    """Refuse what is neither True nor False: "no" would count as true."""
    if not isinstance(value, bool):
        raise InvalidInput(f"{name} must be True or False, got {value!r}")
