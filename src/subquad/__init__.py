"""Gauss-Newton training of very wide neural networks at a cost below width squared."""

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
from subquad.network import WideNet
from subquad.train import TrainResult, train

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
    "SubquadError",
    "Tanh",
    "ThresholdedLinear",
    "TrainResult",
    "TrainingFailed",
    "WideNet",
    "train",
]
