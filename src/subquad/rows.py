"""Rows of vectors, dense or sparse: the currency that layers, sketches and Gram matrices share.

A batch of n vectors of length m is a tensor (n×m) or :class:`SparseRows`. Which neurons fire
differs from sample to sample, so the sparse form is row-compressed: row i holds
``values[start[i]:start[i+1]]`` at ``columns[start[i]:start[i+1]]``, ascending.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import TypeAlias

import torch
from torch import Tensor

from subquad.errors import InvalidInput

WRITTEN = 1 << 20
"""Entries that are written into a dense matrix at a time: each takes two indices."""


@dataclass(frozen=True)
class SparseRows:
    """n sparse vectors of length ``width``.

    >>> rows = SparseRows.from_dense(torch.tensor([[0.0, 2.0, 0.0], [1.0, 0.0, 3.0]]))
    >>> rows.columns.tolist(), rows.start.tolist()
    ([1, 0, 2], [0, 1, 3])
    """

    start: Tensor  # (n+1,) int64
    columns: Tensor  # (nnz,) int64, ascending within a row
    values: Tensor  # (nnz,)
    width: int

    @property
    def shape(self) -> tuple[int, int]:
        """(n, width), as of a matrix."""
        return self.start.numel() - 1, self.width

    @property
    def dtype(self) -> torch.dtype:
        """Type of the values."""
        return self.values.dtype

    @property
    def device(self) -> torch.device:
        """Where the values lie."""
        return self.values.device

    @property
    def nnz(self) -> int:
        """Number of stored entries."""
        return self.columns.numel()

    @property
    def counts(self) -> Tensor:
        """Stored entries of each row."""
        return self.start.diff()

    @property
    def owners(self) -> Tensor:
        """The row that each stored entry belongs to."""
        n = self.shape[0]
        return torch.repeat_interleave(torch.arange(n, device=self.device), self.counts)

    @property
    def nbytes(self) -> int:
        """Bytes of all three arrays."""
        return sum(t.numel() * t.element_size() for t in (self.start, self.columns, self.values))

    @classmethod
    def from_mask(cls, mask: Tensor, values: Tensor) -> SparseRows:
        """Keep ``values`` (n×m) where ``mask`` (n×m) is true."""
        n, width = mask.shape
        start = torch.zeros(n + 1, dtype=torch.int64, device=mask.device)
        torch.cumsum(mask.sum(1), 0, out=start[1:])
        # One index an entry, made a column in place: a pair would take twice the memory.
        flat = mask.reshape(-1).nonzero()[:, 0]
        kept = values.reshape(-1)[flat]
        return cls(start, flat.remainder_(width), kept, width)

    @classmethod
    def from_owners(
        cls, owners: Tensor, columns: Tensor, values: Tensor, n: int, width: int
    ) -> SparseRows:
        """From entries sorted by row, then column."""
        start = torch.zeros(n + 1, dtype=torch.int64, device=columns.device)
        torch.cumsum(torch.bincount(owners, minlength=n), 0, out=start[1:])
        return cls(start, columns, values, width)

    @classmethod
    def from_dense(cls, matrix: Tensor) -> SparseRows:
        """Keep what is not zero."""
        return cls.from_mask(matrix != 0, matrix)

    @classmethod
    def joined(cls, parts: list[SparseRows]) -> SparseRows:
        """The rows of all parts under one another; empties the list, as :func:`joined` does."""
        counts, width = torch.cat([part.counts for part in parts]), parts[0].width
        start = torch.zeros(counts.numel() + 1, dtype=torch.int64, device=counts.device)
        torch.cumsum(counts, 0, out=start[1:])
        columns, values = [p.columns for p in parts], [p.values for p in parts]
        parts.clear()
        return cls(start, joined(columns), joined(values), width)

    def with_values(self, values: Tensor) -> SparseRows:
        """Same pattern, other values."""
        return replace(self, values=values)

    def dense(self) -> Tensor:
        """The n×width matrix."""
        return self.write(torch.empty(self.shape, dtype=self.dtype, device=self.device))

    def write(self, out: Tensor) -> Tensor:
        """Fill ``out`` (n×width, of any strides) with these rows; return it."""
        out.zero_()
        step = max(1, WRITTEN * self.shape[0] // max(1, self.nnz))
        for low in range(0, self.shape[0], step):
            part = self[low : low + step]
            out[low : low + step][part.owners, part.columns] = part.values.to(out.dtype)
        return out

    def between(self, low: int, high: int) -> SparseRows:
        """Columns ``low`` to ``high`` of every row, numbered from 0."""
        kept = ((self.columns >= low) & (self.columns < high)).nonzero()[:, 0]
        start = torch.searchsorted(kept, self.start)
        return SparseRows(start, self.columns[kept] - low, self.values[kept], high - low)

    def to(self, dtype: torch.dtype) -> SparseRows:
        """Same pattern, values in another type."""
        return self if dtype == self.dtype else self.with_values(self.values.to(dtype))

    def scale(self, factors: Tensor) -> SparseRows:
        """Row i times ``factors[i]``."""
        return self.with_values(self.values * factors.to(self.dtype)[self.owners])

    def sums(self) -> Tensor:
        """Sum of each row, accumulated in float64."""
        total = torch.zeros(self.shape[0], dtype=torch.float64, device=self.device)
        return total.index_add_(0, self.owners, self.values.double())

    def repeat(self, times: int) -> SparseRows:
        """Every row ``times`` times in a run: 0, 0, …, 1, 1, …."""
        if times == 1:
            return self
        index = torch.arange(self.shape[0], device=self.device).repeat_interleave(times)
        return self[index]

    def __getitem__(self, index: Tensor | slice) -> SparseRows:
        if isinstance(index, slice):
            low, high, step = index.indices(self.shape[0])
            if step == 1 and low < high:  # a run of rows lies together: nothing is copied
                run = slice(int(self.start[low]), int(self.start[high]))
                start = self.start[low : high + 1] - self.start[low]
                return SparseRows(start, self.columns[run], self.values[run], self.width)
            index = torch.arange(self.shape[0], device=self.device)[index]
        counts = self.counts[index]
        start = torch.zeros(counts.numel() + 1, dtype=torch.int64, device=self.device)
        torch.cumsum(counts, 0, out=start[1:])
        shift = torch.repeat_interleave(self.start[index] - start[:-1], counts)
        taken = torch.arange(int(start[-1]), device=self.device) + shift
        return SparseRows(start, self.columns[taken], self.values[taken], self.width)

    def transpose_pattern(self) -> tuple[Tensor, Tensor, Tensor]:
        """By column: ``(start (width+1), owners (nnz), position of each entry in values)``.

        Within a column the owners ascend, so that sums over a column have one fixed order.
        """
        order = torch.argsort(self.columns, stable=True)
        start = torch.zeros(self.width + 1, dtype=torch.int64, device=self.device)
        torch.cumsum(torch.bincount(self.columns, minlength=self.width), 0, out=start[1:])
        return start, self.owners[order], order


Rows: TypeAlias = Tensor | SparseRows


def as_rows(matrix: object, *, name: str = "Y") -> Rows:
    """Accept a tensor, :class:`SparseRows`, a torch CSR tensor, or what SciPy calls CSR.

    No gradient is followed through them.
    """
    if isinstance(matrix, SparseRows):
        return _in_range(matrix.with_values(matrix.values.detach()), name)
    if isinstance(matrix, Tensor):
        if matrix.layout == torch.sparse_csr:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                start, columns = matrix.crow_indices(), matrix.col_indices()
                return _sorted(start, columns, matrix.values().detach(), matrix.shape[1], name)
        if matrix.layout != torch.strided:
            raise InvalidInput(f"{name} has layout {matrix.layout}: give a dense or CSR tensor")
        return matrix.detach()
    if hasattr(matrix, "tocsr"):  # any of SciPy's sparse forms
        csr = matrix.tocsr()
        start, columns, values = (
            torch.as_tensor(getattr(csr, a)) for a in ("indptr", "indices", "data")
        )
        return _sorted(start, columns, values, csr.shape[1], name)
    try:
        return torch.as_tensor(matrix)
    except (TypeError, ValueError) as error:
        kind = type(matrix).__name__
        raise InvalidInput(f"{name} is a {kind}: give a tensor or a CSR matrix") from error


def _sorted(start: Tensor, columns: Tensor, values: Tensor, width: int, name: str) -> SparseRows:
    """Build rows from CSR arrays whose columns may come in any order, and more than once."""
    rows = _in_range(SparseRows(start.long(), columns.long(), values, width), name)
    place, back = torch.unique(rows.owners * width + rows.columns, return_inverse=True)
    summed = values.new_zeros(place.numel()).index_add_(0, back, values)
    n = rows.shape[0]
    return SparseRows.from_owners(place // width, place % width, summed, n, width)


def _in_range(rows: SparseRows, name: str) -> SparseRows:
    """Refuse indices that a compiled loop would follow out of its memory."""
    ends = rows.start[[0, -1]].tolist() if rows.start.numel() else []
    if ends != [0, rows.nnz] or bool((rows.counts < 0).any()) or rows.values.numel() != rows.nnz:
        raise InvalidInput(f"{name} is no valid CSR matrix: its row starts must ascend from 0")
    if rows.nnz and not (int(rows.columns.min()) >= 0 and int(rows.columns.max()) < rows.width):
        raise InvalidInput(f"{name} has column indices outside 0 … {rows.width - 1}")
    return rows


def joined(parts: list[Tensor]) -> Tensor:
    """Equal to `torch.cat(parts)`; lets go of each part as soon as it is copied."""
    if len(parts) == 1:
        return parts.pop()
    length = sum(part.shape[0] for part in parts)
    out = parts[0].new_empty(length, *parts[0].shape[1:])
    parts.reverse()
    low = 0
    while parts:
        part = parts.pop()
        out[low : low + part.shape[0]] = part
        low += part.shape[0]
    return out


def join_rows(parts: list[Rows]) -> Rows:
    """Rows under one another, of one form; empties the list."""
    if isinstance(parts[0], SparseRows):
        sparse = [part for part in parts if isinstance(part, SparseRows)]
        parts.clear()
        return SparseRows.joined(sparse)
    dense = [part for part in parts if isinstance(part, Tensor)]
    parts.clear()
    return joined(dense)


def to_dense(rows: Rows) -> Tensor:
    """The n×m matrix of either form."""
    return rows.dense() if isinstance(rows, SparseRows) else rows


def density(rows: Rows) -> float:
    """Share of entries that are not zero."""
    n, m = rows.shape
    filled = rows.nnz if isinstance(rows, SparseRows) else int(torch.count_nonzero(rows))
    return filled / max(n * m, 1)
