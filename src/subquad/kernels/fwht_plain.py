"""Walsh-Hadamard transforms, one along a middle axis or several of a row: the plain twin."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from subquad.rows import Rows, to_dense


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


def products(
    rows: Rows,
    first: Tensor | None,
    inner: Sequence[Tensor],
    last: Tensor | None,
    out: Tensor,
    length: int,
    transform: Callable[[Tensor, Tensor | None, Tensor], None] = transform,
) -> None:
    """``out = last H inner_k … H inner_1 H first rows``, H unnormalised of side ``length``.

    ``rows`` (n×m_in) count as zero beyond their end, and of the products the first m_out numbers
    are kept. ``first`` (m_in), ``inner`` (each as long as H, a power of two; one at least) and
    ``last`` (m_out) are diagonals, None being all ones.
    """
    work = out.new_empty(out.shape[0], length, 1)
    transform(to_dense(rows)[:, :, None], first, work)
    for diagonal in inner:
        transform(work, diagonal, work)
    kept = work[:, : out.shape[1], 0]
    out.copy_(kept if last is None else kept * last)
