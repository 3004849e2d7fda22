"""The rows, targets and networks that benchmarks train."""

from __future__ import annotations

import torch
from torch import Tensor

from subquad.activations import ShiftedReLU
from subquad.network import WideNet

FEATURES = 16


def data(samples: int, seed: int) -> tuple[Tensor, Tensor]:
    """Random unit rows (n×16) and random targets of size 1, float32.

    >>> X, y = data(3, seed=0)
    >>> X.shape, y.shape
    (torch.Size([3, 16]), torch.Size([3]))
    """
    generator = torch.Generator().manual_seed(seed)
    X = torch.randn(samples, FEATURES, generator=generator)
    return torch.nn.functional.normalize(X), torch.randn(samples, generator=generator)


def network(width: int, depth: int, shift: float, weights: str, seed: int) -> WideNet:
    """Shifted ReLUs with a relative threshold, float32."""
    activation = ShiftedReLU(shift, relative=True)
    return WideNet(FEATURES, width, depth, activation=activation, weights=weights, seed=seed)
