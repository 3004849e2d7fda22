"""Weights that multiply by a fast transform: what Hadamard and circulant weights share."""

from __future__ import annotations

from abc import abstractmethod

import torch
from torch import Tensor

from subquad.cost import record
from subquad.errors import InvalidInput
from subquad.kernels import pick
from subquad.rows import Rows, SparseRows
from subquad.weights.base import FrozenWeight

BLOCK_BYTES = 1 << 24
"""Rows transformed at a time: a block stays in the caches, and memory use has a bound."""


class StructuredWeight(FrozenWeight):
    """A matrix cut out of an M×M transform, M the next power of two that covers both sides."""

    def __init__(self, m_out: int, m_in: int, dtype: torch.dtype, device: torch.device) -> None:
        if min(m_out, m_in) < 1:
            raise InvalidInput(f"a weight needs sides of at least 1, got ({m_out}, {m_in})")
        self._shape, self._dtype, self._device = (m_out, m_in), dtype, device
        self.length = 1 << (max(m_out, m_in) - 1).bit_length()

    @property
    def shape(self) -> tuple[int, int]:
        """(m_out, m_in)."""
        return self._shape

    @property
    def dtype(self) -> torch.dtype:
        """Type of products."""
        return self._dtype

    @property
    def device(self) -> torch.device:
        """Where products are computed."""
        return self._device

    def matmul(self, rows: Rows) -> Tensor:
        """Return `Y W^T` in O(n M log M), block of rows by block of rows."""
        return self._in_blocks("matmul", rows, transpose=False)

    def matmul_transpose(self, rows: Rows, at: SparseRows | None = None) -> Tensor:
        """Return `Y W` in O(n M log M), or its entries on ``at``, picked from the whole."""
        full = self._in_blocks("matmul_transpose", rows, transpose=True)
        return full if at is None else full[at.owners, at.columns]

    def columns(self, index: Tensor) -> Tensor:
        """Return the columns of W at ``index``, one a row: transforms of unit vectors."""
        index = index.to(self.device)
        r = index.numel()
        start = torch.arange(r + 1, device=self.device)
        ones = torch.ones(r, dtype=self.dtype, device=self.device)
        units = SparseRows(start, index, ones, self.shape[1])
        return self._in_blocks("columns", units, transpose=False)

    def dense(self) -> Tensor:
        """Return W, for small sizes."""
        return self.columns(torch.arange(self.shape[1])).T

    @abstractmethod
    def _apply(self, block: Tensor, work: Tensor, out: Tensor) -> None:
        """Write `block W^T` into ``out``; ``work`` (b×M) is scratch memory, or ``out`` itself."""

    @abstractmethod
    def _apply_transpose(self, block: Tensor, work: Tensor, out: Tensor) -> None:
        """Write `block W` into ``out``; ``work`` as for :meth:`_apply`."""

    @abstractmethod
    def _row_flops(self) -> int:
        """Operations that one row costs."""

    def _in_blocks(self, name: str, rows: Rows, *, transpose: bool) -> Tensor:
        n, M = rows.shape[0], self.length
        width = self.shape[1] if transpose else self.shape[0]
        out = torch.empty(n, width, dtype=self.dtype, device=self.device)
        step = max(1, BLOCK_BYTES // (M * out.element_size()))
        work = out if width == M else out.new_empty(min(step, n), M)
        dense = pick("sparse", self.device).spread
        apply = self._apply_transpose if transpose else self._apply
        for low in range(0, n, step):
            part = rows[low : low + step]
            block = dense(part) if isinstance(part, SparseRows) else part
            target = out[low : low + step]
            scratch = target if width == M else work[: target.shape[0]]
            apply(block.to(self.dtype).contiguous(), scratch, target)
        record(name, flops=n * self._row_flops(), bytes=out.element_size() * n * (7 * M + width))
        return out
