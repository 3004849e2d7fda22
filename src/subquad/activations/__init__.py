"""Activations: shifted ReLU and thresholded linear of the paper, and the usual dense ones."""

from collections.abc import Mapping

from subquad.activations.base import Activation
from subquad.activations.shifted_relu import ReLU, ShiftedReLU
from subquad.activations.smooth import GELU, LeakyReLU, Sigmoid, SiLU, Tanh
from subquad.activations.thresholded_linear import ThresholdedLinear
from subquad.errors import InvalidInput, unknown_name

ACTIVATIONS: dict[str, type[Activation]] = {
    kind.__name__: kind
    for kind in (ShiftedReLU, ThresholdedLinear, ReLU, LeakyReLU, GELU, SiLU, Tanh, Sigmoid)
}


def build(config: Mapping[str, object]) -> Activation:
    """Return the activation that :meth:`Activation.config` described.

    >>> build({"name": "ShiftedReLU", "shift": 2.0, "relative": False})
    ShiftedReLU(shift=2.0, relative=False)
    """
    settings = dict(config)
    name = str(settings.pop("name", None))
    if name not in ACTIVATIONS:
        raise unknown_name("activation", name, ACTIVATIONS)
    try:
        return ACTIVATIONS[name](**settings)
    except TypeError as error:
        raise InvalidInput(f"activation {name}: {error}") from None


__all__ = [
    "ACTIVATIONS",
    "GELU",
    "Activation",
    "LeakyReLU",
    "ReLU",
    "ShiftedReLU",
    "SiLU",
    "Sigmoid",
    "Tanh",
    "ThresholdedLinear",
    "build",
]
