"""Generated Gaussian weights: exactly i.i.d., nothing stored, only what is read is computed."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from subquad.cost import record
from subquad.errors import InvalidInput
from subquad.kernels import pick
from subquad.kernels.weights_plain import ENTRY_COST
from subquad.rows import Rows, SparseRows
from subquad.weights.base import FrozenWeight

NUMBER_OPS = 40
"""Operations of a number in a column, integer ones included: Philox 25, cubic and scale 15."""
ENTRY_OPS = 115
"""Operations of a number by itself: three of the four words of its Philox call are lost."""


class GaussianWeight(FrozenWeight):
    """W_rc = sqrt(2/m_out) g(seed, r, c) with g standard normal, made when it is read.

    Philox4x32-10 and an inverse normal distribution of fixed order (`kernels/weights_plain.py`):
    an entry has the same bits in any product, any order and on any number of threads; float64
    weights are those of float32 before scaling. A normal is one of 2^32 values, at most 6.34 in
    size, each within about a unit in the last place of the exact quantile.

    A product costs `n m k` operations, k entries a row of Y, and m times the number of columns
    in the union of supports for generating.

    Args:
        m_out: rows of W.
        m_in: columns of W.
        seed: key of the generator, its lower 64 bits.
        dtype: float32 or float64.
        device: a torch device.

    >>> weight = GaussianWeight(3, 5, 0, torch.float64, torch.device("cpu"))
    >>> bool((weight.columns(torch.tensor([4, 1])) == weight.dense().T[[4, 1]]).all())
    True
    """

    kind = "gaussian"
    whole_batch = True

    def __init__(
        self, m_out: int, m_in: int, seed: int, dtype: torch.dtype, device: torch.device
    ) -> None:
        if min(m_out, m_in) < 1:
            raise InvalidInput(f"a weight needs sides of at least 1, got ({m_out}, {m_in})")
        self._shape, self._dtype, self._device = (m_out, m_in), dtype, device
        self._key = seed & 0xFFFFFFFF, seed >> 32 & 0xFFFFFFFF
        self._scale = math.sqrt(2 / m_out)

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

    @property
    def nbytes(self) -> int:
        """Bytes of the key."""
        return 8

    def matmul(self, rows: Rows) -> Tensor:
        """Return `Y W^T`, generating only the columns in the union of supports."""
        m_out = self.shape[0]
        rows = self._sparse(rows)
        item = rows.values.element_size()
        read = torch.zeros(rows.width, dtype=torch.bool, device=self.device)
        read[rows.columns] = True
        record("generate", flops=NUMBER_OPS * m_out * int(read.sum()))
        record(
            "matmul",
            flops=2 * rows.nnz * m_out,
            bytes=item * m_out * rows.shape[0] + rows.nbytes,
        )
        kernels = pick("weights", self.device)
        return kernels.gaussian_matmul(rows, m_out, self._key, self._scale)

    def matmul_transpose(self, rows: Rows, at: SparseRows | None = None) -> Tensor:
        """Return `Y W`, or its entries on ``at``.

        A column is generated whole where several samples read it, else only where they do.
        """
        m_out, m_in = self.shape
        n = rows.shape[0]
        rows = self._sparse(rows)
        item = rows.values.element_size()
        kernels = pick("weights", self.device)
        if at is None:
            record("generate", flops=_generating(torch.tensor([rows.nnz]), m_out) * m_in)
            record(
                "matmul_transpose",
                flops=2 * rows.nnz * m_in,
                bytes=item * n * m_in + rows.nbytes,
            )
            return kernels.gaussian_transpose(rows, m_in, self._key, self._scale)
        reads = rows.counts[at.owners]
        needed = torch.zeros(m_in, dtype=torch.int64, device=self.device)
        needed.index_add_(0, at.columns, reads)
        record("generate", flops=_generating(needed, m_out))
        record(
            "matmul_transpose",
            flops=2 * int(reads.sum()),
            bytes=item * at.nnz + rows.nbytes + at.nbytes,
        )
        return kernels.gaussian_transpose_at(rows, at, self._key, self._scale)

    def columns(self, index: Tensor) -> Tensor:
        """Return the columns of W at ``index``, one a row."""
        index = index.to(self.device)
        record("generate", flops=NUMBER_OPS * self.shape[0] * index.numel())
        kernels = pick("weights", self.device)
        return kernels.gaussian_columns(index, self.shape[0], self._key, self._scale, self.dtype)

    def dense(self) -> Tensor:
        """Return W, for small sizes."""
        return self.columns(torch.arange(self.shape[1])).T

    def _sparse(self, rows: Rows) -> SparseRows:
        """One form for all, so that dense and sparse rows give the same bits."""
        rows = rows if isinstance(rows, SparseRows) else SparseRows.from_dense(rows)
        return rows.to(self.dtype)


def _generating(needed: Tensor, m_out: int) -> int:
    """Operations of columns from which so many entries are needed, each whole or in entries."""
    return int(
        torch.where(needed * ENTRY_COST > m_out, NUMBER_OPS * m_out, ENTRY_OPS * needed).sum()
    )
