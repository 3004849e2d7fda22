"""Weights that multiply by a fast transform: what Hadamard and circulant weights share."""

from __future__ import annotations

from abc import abstractmethod

import torch
from torch import Tensor

from subquad.cost import record
from subquad.errors import InvalidInput
from subquad.rows import Rows, SparseRows
from subquad.weights.base import FrozenWeight


def power_covering(m: int) -> int:
    """Return the least power of two that is at least ``m``.

    >>> [power_covering(m) for m in (1, 2, 3, 5)]
    [1, 2, 4, 8]
    """
    return 1 << (m - 1).bit_length()


class StructuredWeight(FrozenWeight):
    """A matrix cut out of an M×M transform, M the next power of two that covers both sides."""

    def __init__(self, m_out: int, m_in: int, dtype: torch.dtype, device: torch.device) -> None:
        if min(m_out, m_in) < 1:
            raise InvalidInput(f"a weight needs sides of at least 1, got ({m_out}, {m_in})")
        self._shape, self._dtype, self._device = (m_out, m_in), dtype, device
        self.length = power_covering(max(m_out, m_in))

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
        """Return `Y W^T` in O(n M log M)."""
        return self._product("matmul", rows, transpose=False)

    def matmul_transpose(self, rows: Rows, at: SparseRows | None = None) -> Tensor:
        """Return `Y W` in O(n M log M), or its entries on ``at``, picked from the whole."""
        full = self._product("matmul_transpose", rows, transpose=True)
        return full if at is None else full[at.owners, at.columns]

    def columns(self, index: Tensor) -> Tensor:
        """Return the columns of W at ``index``, one a row: transforms of unit vectors."""
        index = index.to(self.device)
        r = index.numel()
        start = torch.arange(r + 1, device=self.device)
        ones = torch.ones(r, dtype=self.dtype, device=self.device)
        units = SparseRows(start, index, ones, self.shape[1])
        return self._product("columns", units, transpose=False)

    def dense(self) -> Tensor:
        """Return W, for small sizes."""
        return self.columns(torch.arange(self.shape[1])).T

    @abstractmethod
    def _multiply(self, rows: Rows, out: Tensor) -> None:
        """Write `Y W^T` into ``out``."""

    @abstractmethod
    def _multiply_transpose(self, rows: Rows, out: Tensor) -> None:
        """Write `Y W` into ``out``."""

    @abstractmethod
    def _row_flops(self, given: int) -> int:
        """Operations that a row of ``given`` numbers costs."""

    @abstractmethod
    def _bytes(self, rows: Rows, out: Tensor) -> int:
        """Bytes that a product moves."""

    def _product(self, name: str, rows: Rows, *, transpose: bool) -> Tensor:
        n, width = rows.shape[0], self.shape[1] if transpose else self.shape[0]
        out = torch.empty(n, width, dtype=self.dtype, device=self.device)
        if isinstance(rows, SparseRows):
            rows = rows.to(self.dtype)
        else:
            rows = rows.to(self.dtype).contiguous()
        multiply = self._multiply_transpose if transpose else self._multiply
        multiply(rows, out)
        record(name, flops=n * self._row_flops(rows.shape[1]), bytes=self._bytes(rows, out))
        return out
