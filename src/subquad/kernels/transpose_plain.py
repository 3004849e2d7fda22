"""Laying rows down as columns: the twin in plain PyTorch."""

from __future__ import annotations

from torch import Tensor


def transpose(matrix: Tensor, out: Tensor) -> None:
    """``out = matrix^T``; ``out`` (m×n) may be some columns of a wider matrix."""
    out.copy_(matrix.T)
