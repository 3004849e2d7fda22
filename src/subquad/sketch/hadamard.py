"""Fast Walsh-Hadamard transform."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from subquad import kernels
from subquad.cost import record
from subquad.errors import InvalidInput


def padded_length(m: int) -> int:
    """Return the least power of two that is at least ``m``.

    >>> [padded_length(m) for m in (1, 2, 3, 4, 5)]
    [1, 2, 4, 4, 8]
    """
    return 1 << (m - 1).bit_length()


def fwht_flops(n: int, m: int, *, signed: bool = False) -> int:
    """Operations of :func:`fwht` on n vectors of length m: M log2 M additions, and m signs."""
    M = padded_length(m)
    return n * (M * int(math.log2(M)) + (m if signed else 0))


def fwht(x: Tensor, dim: int = -1, *, signs: Tensor | None = None) -> Tensor:
    """Walsh-Hadamard transform along one axis, unnormalised.

    ``y_p = sum_i (-1)^popcount(p & i) d_i x_i`` for p < M, the next power of two; x counts as zero
    beyond its length, and d = ``signs`` (ones, if left out). This is the ``H D x`` of the
    paper's TensorSRHT definition, in M log2 M additions. H is symmetric and ``H H = M I``, so
    applying it twice and dividing by M gives x back. No gradient is tracked.

    Equal to ``scipy.linalg.hadamard(M) @ (signs * x)`` for one vector of length M.

    Args:
        x: float32 or float64 tensor of any shape; left as it is.
        dim: the axis, of any length from 1.
        signs: as many factors as the axis is long, of the type of x.

    Returns:
        A tensor of the shape of x with the axis extended to M.

    >>> fwht(torch.tensor([1.0, 2.0, 4.0]))
    tensor([ 7.,  3., -1., -5.])
    """
    if not isinstance(x, Tensor) or x.dtype not in (torch.float32, torch.float64):
        got = x.dtype if isinstance(x, Tensor) else type(x).__name__
        raise InvalidInput(f"x must be a float32 or float64 tensor, not {got}: convert it first")
    if not -x.ndim <= dim < x.ndim:
        raise InvalidInput(f"dim must name one of the {x.ndim} axes of x, not {dim}")
    dim %= x.ndim
    m = x.shape[dim]
    if m == 0:
        raise InvalidInput(f"x has length 0 along dim {dim}: give at least one element")
    if signs is not None and (tuple(signs.shape) != (m,) or signs.dtype != x.dtype):
        given = f"{signs.dtype} of shape {tuple(signs.shape)}"
        raise InvalidInput(f"signs must be {x.dtype} of shape ({m},), not {given}")
    shape = (*x.shape[:dim], padded_length(m), *x.shape[dim + 1 :])
    out = torch.empty(shape, dtype=x.dtype, device=x.device)
    outer, inner = math.prod(x.shape[:dim]), math.prod(x.shape[dim + 1 :])
    source = x.detach().contiguous().view(outer, m, inner)
    fwht_into(source, signs, out.view(outer, shape[dim], inner))
    return out


def fwht_into(source: Tensor, signs: Tensor | None, out: Tensor) -> None:
    """Transform axis 1 of ``source`` (o×m×i, contiguous) into ``out`` (o×M×i), unchecked.

    For callers that reuse one buffer: fresh memory costs more than the transform.
    """
    outer, m, inner = source.shape
    n, M = outer * inner, out.shape[1]
    flops = fwht_flops(n, m, signed=signs is not None)
    record("fwht", flops=flops, bytes=n * (m + M) * out.element_size())
    if signs is not None:
        signs = signs.detach().contiguous()
    kernels.pick("fwht", out.device).transform(source, signs, out)
