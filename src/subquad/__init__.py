"""Gauss-Newton training of very wide neural networks at a cost below width squared.

Names are loaded when first used, so that the command line answers without waiting for PyTorch.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from subquad.activations import (
        GELU,
        LeakyReLU,
        ReLU,
        ShiftedReLU,
        Sigmoid,
        SiLU,
        Tanh,
        ThresholdedLinear,
    )
    from subquad.cost import Cost
    from subquad.errors import DeadSampleWarning, InvalidInput, SubquadError, TrainingFailed
    from subquad.estimators.classifier import SubquadClassifier
    from subquad.estimators.regressor import SubquadRegressor
    from subquad.network import WideNet
    from subquad.training import TrainResult, train

__version__ = "0.1.0"

__all__ = [
    "GELU",
    "Cost",
    "DeadSampleWarning",
    "InvalidInput",
    "LeakyReLU",
    "ReLU",
    "ShiftedReLU",
    "SiLU",
    "Sigmoid",
    "SubquadClassifier",
    "SubquadError",
    "SubquadRegressor",
    "Tanh",
    "ThresholdedLinear",
    "TrainResult",
    "TrainingFailed",
    "WideNet",
    "train",
]

_HOMES = {
    "activations": (
        "GELU",
        "LeakyReLU",
        "ReLU",
        "ShiftedReLU",
        "SiLU",
        "Sigmoid",
        "Tanh",
        "ThresholdedLinear",
    ),
    "cost": ("Cost",),
    "errors": ("DeadSampleWarning", "InvalidInput", "SubquadError", "TrainingFailed"),
    "estimators.classifier": ("SubquadClassifier",),
    "estimators.regressor": ("SubquadRegressor",),
    "network": ("WideNet",),
    "training": ("TrainResult", "train"),
}


def __getattr__(name: str) -> Any:
    for home, names in _HOMES.items():
        if name in names:
            value = getattr(importlib.import_module(f"subquad.{home}"), name)
            globals()[name] = value
            return value
    raise AttributeError(f"module 'subquad' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
