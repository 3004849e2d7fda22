"""The pending change of a weight matrix as factors, `U V^T`.

| symbol | shape | meaning |
|---|---|---|
| `left` | r×m_out | U transposed: row j goes with column j of `right` |
| `right` | m_in×r | V: row c is what is pending for column c of W |
"""

from __future__ import annotations

import torch
from torch import Tensor

from subquad.cost import record
from subquad.kernels import pick
from subquad.rows import Rows, SparseRows


class Factors:
    """`U V^T`, appended to, merged, applied to rows, and brought to its true rank."""

    def __init__(self, m_out: int, m_in: int, dtype: torch.dtype, device: torch.device) -> None:
        self.left = torch.zeros(0, m_out, dtype=dtype, device=device)
        self.right = torch.zeros(m_in, 0, dtype=dtype, device=device)
        self.settled = 0  # rank when it was last known to be the true one
        self._anchor: Rows | None = None  # the right factor of the last block, as it was given

    @property
    def rank(self) -> int:
        """Columns of U."""
        return self.left.shape[0]

    @property
    def nbytes(self) -> int:
        """Bytes of both factors."""
        return self.left.nbytes + self.right.nbytes

    def copy(self) -> Factors:
        """Factors of their own memory."""
        new = Factors(self.left.shape[1], self.right.shape[0], self.left.dtype, self.left.device)
        new.left, new.right, new._anchor = self.left.clone(), self.right.clone(), self._anchor
        new.settled = self.settled
        return new

    def clear(self) -> None:
        """Forget all."""
        self.replace(self.left[:0], self.right[:, :0])
        self.settled = 0

    def replace(self, left: Tensor, right: Tensor) -> None:
        """Hold other factors; nothing can be merged with them."""
        self.left, self.right, self._anchor = left, right, None

    def scale(self, factor: float) -> None:
        """Hold `factor U V^T`."""
        if factor == 0:
            self.clear()
        elif factor != 1:
            self.left = self.left * factor
            record("scale", flops=self.left.numel(), bytes=2 * self.left.nbytes)

    def append(self, left: Rows, right: Rows) -> None:
        """Add `sum_j left_j right_j^T` (r×m_out and r×m_in rows), raising the rank by r."""
        r, rank = left.shape[0], self.rank
        grown = self.left.new_empty(rank + r, self.left.shape[1])
        grown[:rank] = self.left
        _lay(grown[rank:], left)
        self.left = grown
        grown = self.right.new_empty(self.right.shape[0], rank + r)
        grown[:, :rank] = self.right
        _lay(grown[:, rank:].T, right)
        self.right = grown
        self._anchor = _copy(right)
        record("append", bytes=2 * self.nbytes)  # both factors are laid anew

    def append_or_merge(self, left: Rows, right: Rows) -> None:
        """The same; but where ``right`` is that of the last block, only the left factor grows.

        The last layer's inputs never change, so all its updates share one right factor and the
        rank stays at most n. So do the steps of a line search. Other blocks are appended, after
        recompressing what has doubled since its rank was last known.
        """
        if self._anchor is None or not _same(self._anchor, right):
            r, most = right.shape[0], min(self.left.shape[1], self.right.shape[0])
            if self.rank + r > 2 * max(self.settled, r):
                self.recompress()
            self.append(left, right)
            if self.rank > most:
                self.fold()
            return
        r = right.shape[0]
        block = self.left[-r:]
        if isinstance(left, SparseRows):
            flat = left.owners * left.width + left.columns
            block.view(-1).index_add_(0, flat, left.values.to(block.dtype))
            record("merge", flops=left.nnz, bytes=3 * left.values.nbytes)
        else:
            block += left
            record("merge", flops=left.numel(), bytes=3 * left.nbytes)

    def apply(self, rows: Rows) -> Tensor:
        """Return `Y V U^T` (n×m_out) for rows Y over m_in."""
        inner = self._times(self.right, rows)
        n, r, m = rows.shape[0], self.rank, self.left.shape[1]
        record("factors", flops=2 * n * r * m, bytes=self.left.nbytes + inner.nbytes)
        return inner @ self.left

    def apply_transpose(self, rows: Rows, at: SparseRows | None) -> Tensor:
        """Return `Y U V^T` (n×m_in) for rows Y over m_out, or its entries on ``at``."""
        inner = self._times(self.left.T, rows)  # (n, r)
        n, r, m = rows.shape[0], self.rank, self.right.shape[0]
        if at is None:
            record("factors", flops=2 * n * r * m, bytes=self.right.nbytes + inner.nbytes)
            return inner @ self.right.T
        record("factors", flops=2 * at.nnz * r, bytes=2 * at.nnz * r * inner.element_size())
        out = inner.new_empty(at.nnz)
        for i, (low, high) in enumerate(zip(at.start[:-1], at.start[1:], strict=True)):
            out[low:high] = self.right[at.columns[low:high]] @ inner[i]
        return out

    def between(self, left: Rows, right: Rows) -> Tensor:
        """Return `<left_t, U V^T right_t>` (float64) for each t, reading only their supports."""
        inner = self._times(self.left.T, left) * self._times(self.right, right)  # (n, r)
        record("factors", flops=2 * inner.numel())
        return inner.double().sum(1)

    def dense(self) -> Tensor:
        """Return `U V^T` (m_out×m_in)."""
        m_out, m_in = self.left.shape[1], self.right.shape[0]
        record("dense", flops=2 * m_out * m_in * self.rank, bytes=8 * m_out * m_in)
        return self.left.T @ self.right.T

    def fold(self) -> None:
        """Multiply out over the shorter side: beyond its length factors only repeat themselves."""
        m_out, m_in = self.left.shape[1], self.right.shape[0]
        record("fold", flops=2 * self.rank * m_out * m_in, bytes=self.nbytes)
        one = torch.eye(min(m_in, m_out), dtype=self.left.dtype, device=self.left.device)
        product = self.right @ self.left
        self.replace(*((product, one) if m_in <= m_out else (one, product)))
        self.settled = self.rank

    def recompress(self) -> None:
        """Bring the factors to their true rank: two QR and one small singular value problem.

        Everything in float64: recompressing again and again in float32 would lose a digit a
        time. Singular values below rounding of the largest are dropped.
        """
        r, (m_out, m_in) = self.rank, (self.left.shape[1], self.right.shape[0])
        if r == 0:
            return
        q_left, r_left = torch.linalg.qr(self.left.T.double())
        q_right, r_right = torch.linalg.qr(self.right.double())
        a, sigma, b = torch.linalg.svd(r_left @ r_right.T)
        floor = torch.finfo(self.left.dtype).eps * r * float(sigma[0])
        kept = int((sigma > floor).sum())
        root = sigma[:kept].sqrt()
        left = ((q_left @ a[:, : sigma.numel()])[:, :kept] * root).T.to(self.left.dtype)
        right = ((q_right @ b.T[:, : sigma.numel()])[:, :kept] * root).to(self.right.dtype)
        self.replace(left.contiguous(), right)
        self.settled = kept
        record(
            "recompress",
            flops=6 * r * r * (m_out + m_in) + 22 * r**3,
            bytes=3 * 8 * r * (m_out + m_in),
        )

    def _times(self, table: Tensor, rows: Rows) -> Tensor:
        """Return `rows table`, reading only the rows of the table in the support."""
        item = table.element_size()
        if isinstance(rows, SparseRows):
            r = table.shape[1]
            copied = 0 if table.is_contiguous() else 2 * table.nbytes
            moved = item * rows.nnz * (r + 1) + copied
            record("factors", flops=2 * rows.nnz * r, bytes=moved)
            return pick("sparse", table.device).matmul(table.contiguous(), rows)
        n, m = rows.shape
        record("factors", flops=2 * n * m * table.shape[1], bytes=table.nbytes + rows.nbytes)
        return rows @ table


def _lay(out: Tensor, rows: Rows) -> None:
    """Write rows into ``out``, a view of any strides, without another dense copy of them."""
    if isinstance(rows, SparseRows):
        rows.write(out)
    else:
        out.copy_(rows)


def _copy(rows: Rows) -> Rows:
    """Rows of their own memory: the caller may use the given one again."""
    if isinstance(rows, SparseRows):
        return SparseRows(rows.start.clone(), rows.columns.clone(), rows.values.clone(), rows.width)
    return rows.clone()


def _same(a: Rows, b: Rows) -> bool:
    """Whether two row blocks hold equal entries."""
    if isinstance(a, SparseRows) and isinstance(b, SparseRows):
        return a.shape == b.shape and all(
            torch.equal(x, y)
            for x, y in ((a.start, b.start), (a.columns, b.columns), (a.values, b.values))
        )
    return isinstance(a, Tensor) and isinstance(b, Tensor) and torch.equal(a, b)
