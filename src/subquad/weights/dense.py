"""Dense weights: stored, drawn as i.i.d. Gaussians or given by the user."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from subquad.cost import record
from subquad.errors import InvalidInput
from subquad.kernels import pick
from subquad.rows import Rows, SparseRows
from subquad.weights.base import FrozenWeight

SPARSE_BELOW = 0.25
"""Density under which the sparse path is faster than a dense product on the machines tried."""


class DenseWeight(FrozenWeight):
    """W kept as its ``table``, W transposed (m_in×m_out), so that a column is contiguous.

    >>> weight = DenseWeight.from_matrix(torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]))
    >>> weight.matmul(torch.tensor([[1.0, 0.0]])).tolist()
    [[1.0, 3.0, 5.0]]
    """

    kind = "dense"

    def __init__(self, table: Tensor) -> None:
        self.table = table

    @classmethod
    def from_matrix(cls, matrix: Tensor) -> DenseWeight:
        """From W (m_out×m_in) as users write it."""
        if matrix.dim() != 2 or 0 in matrix.shape:
            raise InvalidInput(
                f"a weight must be a matrix (m_out, m_in) without empty sides, "
                f"got shape {tuple(matrix.shape)}"
            )
        if matrix.dtype not in (torch.float32, torch.float64):
            raise InvalidInput(f"a weight must be float32 or float64, got {matrix.dtype}")
        if not bool(torch.isfinite(matrix).all()):
            raise InvalidInput("a weight holds NaN or infinity: every entry must be finite")
        return cls(matrix.detach().t().clone(memory_format=torch.contiguous_format))

    @classmethod
    def gaussian(
        cls, m_out: int, m_in: int, seed: int, dtype: torch.dtype, device: torch.device
    ) -> DenseWeight:
        """Draw entries N(0, 2/m_out), as the paper initialises ("Initialization", section 2)."""
        generator = torch.Generator().manual_seed(seed)
        table = torch.empty(m_in, m_out, dtype=dtype).normal_(generator=generator)
        record("init", flops=m_in * m_out, bytes=table.nbytes)
        return cls(table.mul_(math.sqrt(2 / m_out)).to(device))

    @property
    def shape(self) -> tuple[int, int]:
        """(m_out, m_in)."""
        return self.table.shape[1], self.table.shape[0]

    @property
    def dtype(self) -> torch.dtype:
        """Type of the table."""
        return self.table.dtype

    @property
    def device(self) -> torch.device:
        """Where the table lies."""
        return self.table.device

    @property
    def nbytes(self) -> int:
        """Bytes of the table."""
        return self.table.nbytes

    def copy(self) -> DenseWeight:
        """A weight of the same entries that may be written to."""
        record("copy", bytes=2 * self.nbytes)
        return DenseWeight(self.table.clone())

    def matmul(self, rows: Rows) -> Tensor:
        """Return `Y W^T`, reading only the columns of W in the support of sparse rows."""
        m_out, m_in = self.shape
        item = self.table.element_size()
        n = rows.shape[0]
        rows = _thin(rows)
        if isinstance(rows, SparseRows):
            record(
                "matmul",
                flops=2 * rows.nnz * m_out,
                bytes=item * m_out * (min(rows.nnz, m_in) + n) + rows.nbytes,
            )
            return pick("sparse", self.device).matmul(self.table, rows)
        record("matmul", flops=2 * n * m_in * m_out, bytes=item * (m_in * m_out + n * m_out))
        return rows @ self.table

    def matmul_transpose(self, rows: Rows, at: SparseRows | None = None) -> Tensor:
        """Return `Y W`, or its entries on ``at``: with sparse rows, the S×S block alone."""
        m_out, m_in = self.shape
        item = self.table.element_size()
        n = rows.shape[0]
        rows = _thin(rows)
        if not isinstance(rows, SparseRows):
            record(
                "matmul_transpose",
                flops=2 * n * m_in * m_out,
                bytes=item * (m_in * m_out + n * m_in),
            )
            full = rows @ self.table.T
            return full if at is None else full[at.owners, at.columns]
        kernels = pick("sparse", self.device)
        if at is None:
            reads = rows.nnz * m_in
            record("matmul_transpose", flops=2 * reads, bytes=item * (reads + n * m_in))
            return kernels.transpose(self.table, rows)
        reads = int((rows.counts * at.counts).sum())
        record("matmul_transpose", flops=2 * reads, bytes=item * (reads + at.nnz))
        return kernels.transpose_at(self.table, rows, at)

    def columns(self, index: Tensor) -> Tensor:
        """Return the columns of W at ``index``, one a row."""
        return self.table[index]

    def dense(self) -> Tensor:
        """Return W, in memory of its own."""
        record("dense", bytes=2 * self.nbytes)
        return self.table.T.clone()


def _thin(rows: Rows) -> Rows:
    """Choose the cheaper form: sparse where few entries are not zero."""
    n, m = rows.shape
    if isinstance(rows, SparseRows):
        return rows if rows.nnz <= SPARSE_BELOW * n * m else rows.dense()
    if int(torch.count_nonzero(rows)) <= SPARSE_BELOW * n * m:
        return SparseRows.from_dense(rows)
    return rows
