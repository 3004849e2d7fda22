"""Sparse Gaussian weights: a given number of nonzeros in every row."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from subquad.cost import record
from subquad.errors import InvalidInput
from subquad.kernels import pick
from subquad.rows import Rows, SparseRows
from subquad.weights.base import FrozenWeight

LEAST = 32
DRAWN = 1 << 22  # nonzeros drawn at a time; part of what a seed means


class SparseGaussianWeight(FrozenWeight):
    """W with ``per_row`` nonzeros a row, N(0, 2/(m_out p)) at a share p of the places.

    A row takes one place at random in each of ``per_row`` runs of neighbouring columns: so the
    number is exact, drawing costs O(m_out per_row), and every column is read by nearly as many
    rows as any other. p is one over the length of the run, so each entry has variance 2/m_out.

    By default 2 sqrt(m_in) nonzeros a row, at least 32 and at most m_in. A neuron sees
    ``per_row`` times the firing rate of its inputs: with few of them its pre-activation has
    heavy tails, with sqrt(m_in) products still cost m^1.5. First layers of up to 32 features
    come out dense.

    Args:
        m_out: rows of W.
        m_in: columns of W.
        seed: of places and values.
        dtype: float32 or float64.
        device: a torch device.
        per_row: nonzeros of a row, from 1 to m_in.

    >>> weight = SparseGaussianWeight(6, 8, 0, torch.float64, torch.device("cpu"), per_row=4)
    >>> (weight.dense() != 0).sum(1).tolist()
    [4, 4, 4, 4, 4, 4]
    """

    kind = "sparse"

    def __init__(
        self,
        m_out: int,
        m_in: int,
        seed: int,
        dtype: torch.dtype,
        device: torch.device,
        *,
        per_row: int | None = None,
    ) -> None:
        if min(m_out, m_in) < 1:
            raise InvalidInput(f"a weight needs sides of at least 1, got ({m_out}, {m_in})")
        if per_row is None:
            per_row = nonzeros(m_in)
        if not 1 <= per_row <= m_in:
            raise InvalidInput(f"per_row must be from 1 to {m_in} (the columns), got {per_row}")
        self.per_row = per_row
        self._table = _draw(m_out, m_in, per_row, seed, dtype, device)
        record("init", flops=m_out * per_row, bytes=self.nbytes)

    @property
    def shape(self) -> tuple[int, int]:
        """(m_out, m_in)."""
        return self._table.width, self._table.shape[0]

    @property
    def dtype(self) -> torch.dtype:
        """Type of products."""
        return self._table.dtype

    @property
    def device(self) -> torch.device:
        """Where products are computed."""
        return self._table.device

    @property
    def nbytes(self) -> int:
        """Bytes of places and values."""
        return self._table.nbytes

    def matmul(self, rows: Rows) -> Tensor:
        """Return `Y W^T`: reads the nonzeros of the columns in each row's support."""
        rows = self._sparse(rows)
        self._record("matmul", int(self._table.counts[rows.columns].sum()), self.shape[0], rows)
        return pick("weights", self.device).sparse_matmul(self._table, rows)

    def matmul_transpose(self, rows: Rows, at: SparseRows | None = None) -> Tensor:
        """Return `Y W`, or its entries on ``at``: reads the nonzeros of the columns asked for."""
        rows = self._sparse(rows)
        kernels = pick("weights", self.device)
        if at is None:
            reads = rows.shape[0] * self._table.nnz
            self._record("matmul_transpose", reads, self.shape[1], rows)
            return kernels.sparse_transpose(self._table, rows)
        reads = int(self._table.counts[at.columns].sum())
        self._record("matmul_transpose", reads, self.shape[0], rows)
        return kernels.sparse_transpose_at(self._table, rows, at)

    def columns(self, index: Tensor) -> Tensor:
        """Return the columns of W at ``index``, one a row."""
        return self._table[index.to(self.device)].dense()

    def dense(self) -> Tensor:
        """Return W, for small sizes."""
        return self._table.dense().T

    def _sparse(self, rows: Rows) -> SparseRows:
        rows = rows if isinstance(rows, SparseRows) else SparseRows.from_dense(rows)
        return rows.to(self.dtype)

    def _record(self, name: str, reads: int, width: int, rows: SparseRows) -> None:
        item = rows.values.element_size()
        moved = (item + 4) * reads + item * rows.shape[0] * width + rows.nbytes
        record(name, flops=2 * reads, bytes=moved)


def nonzeros(m_in: int) -> int:
    """Nonzeros of a row where none are given."""
    return min(m_in, max(LEAST, 2 * math.ceil(math.sqrt(m_in))))


def _draw(
    m_out: int, m_in: int, per_row: int, seed: int, dtype: torch.dtype, device: torch.device
) -> SparseRows:
    """W^T as sparse rows, with 32-bit places to halve the memory: run after run of columns."""
    generator = torch.Generator().manual_seed(seed)
    bounds = torch.arange(per_row + 1) * m_in // per_row
    places = torch.empty(per_row, m_out, dtype=torch.int32)
    values = torch.empty(per_row, m_out, dtype=dtype)
    counts = torch.zeros(m_in, dtype=torch.int64)
    step = max(1, DRAWN // m_out)
    for low in range(0, per_row, step):
        runs = slice(low, min(low + step, per_row))
        first = bounds[:-1][runs, None]
        size = bounds.diff()[runs, None]
        drawn = torch.rand(size.shape[0], m_out, generator=generator, dtype=torch.float64)
        column, order = torch.sort((drawn * size).long(), dim=1, stable=True)
        places[runs] = order.int()
        counts += torch.bincount((first + column).flatten(), minlength=m_in)
        normal = torch.randn(size.shape[0], m_out, generator=generator, dtype=torch.float64)
        values[runs] = normal * (size.double() * (2 / m_out)).sqrt()
    start = torch.zeros(m_in + 1, dtype=torch.int64)
    torch.cumsum(counts, 0, out=start[1:])
    return SparseRows(
        start.to(device), places.flatten().to(device), values.flatten().to(device), m_out
    )
