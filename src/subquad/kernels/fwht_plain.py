"""Walsh-Hadamard transform along the middle axis: the twin in plain PyTorch."""

from __future__ import annotations

import torch
from torch import Tensor


def transform(source: Tensor, signs: Tensor | None, out: Tensor) -> None:
    """``out = H D source`` along axis 1: source (o×m×i), D = diag(signs), out (o×M×i), M = 2^k.

    What lies beyond row m counts as zero. ``source`` may be ``out`` itself.
    """
    outer, length, inner = source.shape
    padded = out.shape[1]
    work = source if signs is None else source * signs[:, None]
    if padded > length:
        work = torch.nn.functional.pad(work, (0, 0, 0, padded - length))
    half = 1
    while half < padded:
        pairs = work.reshape(outer, padded // (2 * half), 2, half * inner)
        upper, lower = pairs[:, :, 0], pairs[:, :, 1]
        work = torch.stack((upper + lower, upper - lower), dim=2)
        half *= 2
    out.copy_(work.reshape(out.shape))
