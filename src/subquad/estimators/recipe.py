"""What a member of the ensemble may be: which network, and how freely its inputs are scaled."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace

from subquad.activations import GELU, Activation, ShiftedReLU
from subquad.estimators.encoding import KINDS
from subquad.theory.profile import Profile, profile

SPREADS = (0.4, 1.0)
"""How far input scales may lie apart, as a deviation of their logarithms: with care, and freely."""
ROUGH_REACH, SMOOTH_REACH = 0.5, 1.5
"""Deviation of `log sum w²`. A rough kernel is nearly blind to it; a smooth one is not."""


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """A kind of network and of metric.

    Attributes:
        encoding: how inputs become coordinates, see :mod:`subquad.estimators.encoding`.
        activation, depth, layers: of the network; "last" or "all" layers learn.
        spread: of the input scales; 0 keeps all equal.
    """

    activation: Activation
    encoding: str = "plain"
    depth: int = 1
    layers: str = "last"
    spread: float = 0.0

    @property
    def profile(self) -> Profile:
        """The kernel of the network where it is infinitely wide."""
        return profile(self.activation, self.depth, self.layers)

    @property
    def rough(self) -> bool:
        """Whether slopes jump, so that the kernel has a cusp and the function kinks."""
        return self.activation.threshold is not None

    @property
    def reach(self) -> float:
        """Deviation of the prior of `log sum w²`."""
        return ROUGH_REACH if self.rough else SMOOTH_REACH

    def freed(self, spread: float) -> Recipe:
        """The same with freer scales."""
        return replace(self, spread=spread)


def families(
    activation: Activation | None = None,
    shift: float | None = None,
    depth: int | None = None,
    layers: str | None = None,
    encoding: str | None = None,
) -> list[list[Recipe]]:
    """Return the networks to choose from: one list a family, its simplest first.

    A family is rough or smooth, on inputs as they are or on steps, since data decide between these
    and several together are often best; within one, depth, shift and layers are chosen. What is
    not None is given.
    """
    if activation is None and shift is not None:
        activation = ShiftedReLU(shift)
    if activation is not None:
        kinds = [[activation]]
    else:
        kinds = [[ShiftedReLU(0.0), ShiftedReLU(1.0)], [GELU()]]
    depths = [1, 2, 3] if depth is None else [depth]
    found = []
    encodings = KINDS if encoding is None else (encoding,)
    for code, family in itertools.product(encodings, kinds):
        recipes = [
            Recipe(activation=kind, encoding=code, depth=d, layers=which)
            for kind in family
            for d in depths
            for which in (("last", "all") if layers is None else (layers,))
            if d > 1 or which == "last" or layers is not None
        ]
        found.append(recipes)
    return found
