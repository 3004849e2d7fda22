"""What a user may give to the search, and what is left to it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from subquad.activations import ACTIVATIONS, Activation
from subquad.checks import MOST_RIDGE, choice, integer, number
from subquad.errors import InvalidInput
from subquad.estimators.encoding import KINDS as ENCODINGS
from subquad.estimators.recipe import NUMBERS, Prudence
from subquad.weights import KINDS

MEMBERS = 3
"""Members at most."""


@dataclass(frozen=True, kw_only=True)
class Choices:
    """What is given, and "auto" where it is to be chosen.

    Attributes:
        width, depth, shift, layers, activation: of the networks.
        encoding: of the inputs: "plain", or ladders of steps that follow "values" or "ranks".
        ridge: in units of G/m.
        metric: "learned" gives every input a scale of its own, "equal" does not, "auto" lets
            left-out predictions decide.
        weights: kind of the frozen weights.
        members: networks in the ensemble at most.
        max_iter: iterations of each training at most.
        max_memory: as in :func:`subquad.train`.
        seed: of weights, and of rows that are drawn.
        prudence: how far left-out predictions and evidence are trusted.
    """

    width: int | str = "auto"
    depth: int | str = "auto"
    shift: float | str = "auto"
    layers: str = "auto"
    activation: Activation | str = "auto"
    encoding: str = "auto"
    ridge: float | str = "auto"
    metric: str = "auto"
    weights: str = "sobol"
    members: int = MEMBERS
    max_iter: int = 10
    max_memory: float | str | None = None
    seed: int = 0
    prudence: Prudence = NUMBERS

    def __post_init__(self) -> None:
        for name in ("width", "depth"):
            if given(self, name) is not None:
                integer(name, getattr(self, name), least=1)
        if given(self, "shift") is not None:
            number("shift", self.shift)
        choice("encoding", self.encoding, ("auto", *ENCODINGS))
        choice("layers", self.layers, ("auto", "last", "all"))
        if given(self, "ridge") is not None:
            number("ridge", self.ridge, above=True, most=MOST_RIDGE)
        choice("metric", self.metric, ("auto", "learned", "equal"))
        choice("kind of weights", self.weights, KINDS)
        integer("members", self.members, least=1)
        integer("max_iter", self.max_iter, least=1)
        if isinstance(self.activation, str) and self.activation != "auto":
            choice("activation", self.activation, ("auto", *ACTIVATIONS))
        elif not isinstance(self.activation, str | Activation):
            raise InvalidInput(
                f"activation must be 'auto', a name or a subquad activation, "
                f"got {self.activation!r}"
            )
        if self.chosen_activation is not None and given(self, "shift") is not None:
            raise InvalidInput(
                "give shift or activation, not both: an activation has its own shift"
            )

    @property
    def chosen_activation(self) -> Activation | None:
        """The activation that was given."""
        if isinstance(self.activation, Activation):
            return self.activation
        return None if self.activation == "auto" else ACTIVATIONS[self.activation]()


def given(choices: Choices, name: str) -> Any:
    """Return what was given, or None where it is to be chosen."""
    value = getattr(choices, name)
    return None if isinstance(value, str) and value == "auto" else value
