"""Laying rows down as columns, compiled: sixteen by sixteen numbers in registers, on all threads.

A loop would write every number to a cache line of its own; this writes whole lines.
"""

# mypy: disable-error-code="call-arg"

from __future__ import annotations

from typing import Any

from numba import njit, prange
from torch import Tensor

from subquad.kernels.lanes_numba import GROUP, turn
from subquad.kernels.threads import use_threads


@njit(cache=True, parallel=True)
def _transpose(flat: Any, matrix: Any, target: Any, out: Any, between: int) -> None:
    n, m = matrix.shape
    whole, wide = n // GROUP * GROUP, m // GROUP * GROUP
    for share in prange((m + GROUP - 1) // GROUP):
        low = share * GROUP
        if low < wide:
            for i in range(0, whole, GROUP):
                turn(flat, i * m + low, m, target, low * between + i, between)
        for c in range(low, min(low + GROUP, m)):
            for i in range(whole if low < wide else 0, n):
                out[c, i] = matrix[i, c]


def transpose(matrix: Tensor, out: Tensor) -> None:
    """``out = matrix^T``; ``out`` (m×n) may be some columns of a wider matrix."""
    given = matrix.contiguous()
    use_threads(given.numel())
    between = out.stride(0)
    # A flat view of all that lies between the first number of ``out`` and the last.
    target = out.as_strided(((out.shape[0] - 1) * between + out.shape[1],), (1,)).numpy()
    _transpose(given.view(-1).numpy(), given.numpy(), target, out.numpy(), between)
