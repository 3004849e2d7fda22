"""Products with sparse rows, compiled for the CPU; the twin of ``sparse_plain``.

Work is split by rows or tiles of the table, never by sample, so each output entry is summed
by one thread in one fixed order: the result does not depend on the number of threads.
"""

import numba
import numpy as np
import torch
from torch import Tensor

from subquad.kernels.threads import use_threads
from subquad.rows import SparseRows

TILE = 4096  # outputs that one task sums up: they stay in the first-level cache


@numba.njit(parallel=True, cache=True)
def _matmul(table, start, columns, values, out, tile):  # type: ignore[no-untyped-def]
    wide = out.shape[1]
    tiles = (wide + tile - 1) // tile
    for task in numba.prange((start.size - 1) * tiles):
        i = task // tiles
        low = (task - i * tiles) * tile
        high = min(low + tile, wide)
        total = out[i, low:high]
        p, end = start[i], start[i + 1]
        while p + 8 <= end:  # eight table rows at a time: one load and store of the sum each
            v0, v1, v2, v3 = values[p], values[p + 1], values[p + 2], values[p + 3]
            v4, v5, v6, v7 = values[p + 4], values[p + 5], values[p + 6], values[p + 7]
            t0, t1 = table[columns[p], low:high], table[columns[p + 1], low:high]
            t2, t3 = table[columns[p + 2], low:high], table[columns[p + 3], low:high]
            t4, t5 = table[columns[p + 4], low:high], table[columns[p + 5], low:high]
            t6, t7 = table[columns[p + 6], low:high], table[columns[p + 7], low:high]
            for r in range(high - low):
                total[r] += (v0 * t0[r] + v1 * t1[r] + v2 * t2[r] + v3 * t3[r]) + (
                    v4 * t4[r] + v5 * t5[r] + v6 * t6[r] + v7 * t7[r]
                )
            p += 8
        while p < end:
            v0, t0 = values[p], table[columns[p], low:high]
            for r in range(high - low):
                total[r] += v0 * t0[r]
            p += 1


@numba.njit(parallel=True, cache=True)
def _transpose(table, start, columns, values, out):  # type: ignore[no-untyped-def]
    for c in numba.prange(table.shape[0]):
        for i in range(start.size - 1):
            total = out[i, c]
            for p in range(start[i], start[i + 1]):
                total += table[c, columns[p]] * values[p]
            out[i, c] = total


@numba.njit(parallel=True, cache=True)
def _transpose_at(  # type: ignore[no-untyped-def]
    table, start, columns, values, by_column, owners, position, out
):
    for c in numba.prange(table.shape[0]):
        for q in range(by_column[c], by_column[c + 1]):
            i = owners[q]
            total = out[position[q]]
            for p in range(start[i], start[i + 1]):
                total += table[c, columns[p]] * values[p]
            out[position[q]] = total


@numba.njit(parallel=True, cache=True)
def _add_outer(  # type: ignore[no-untyped-def]
    table, start, columns, values, by_column, owners, right
):
    for c in numba.prange(table.shape[0]):
        for q in range(by_column[c], by_column[c + 1]):
            i = owners[q]
            v = right[q]
            for p in range(start[i], start[i + 1]):
                table[c, columns[p]] += v * values[p]


@numba.njit(parallel=True, cache=True)
def _gram(by_column, owners, values, parts):  # type: ignore[no-untyped-def]
    width = by_column.size - 1
    blocks = parts.shape[0]
    for b in numba.prange(blocks):
        for c in range(width * b // blocks, width * (b + 1) // blocks):
            for p in range(by_column[c], by_column[c + 1]):
                i = owners[p]
                v = np.float64(values[p])
                for q in range(by_column[c], p + 1):
                    parts[b, i, owners[q]] += v * values[q]


def matmul(table: Tensor, rows: SparseRows) -> Tensor:
    """Return `rows W^T` (n×m_out): reads only the table rows in the rows' support."""
    out = table.new_zeros(rows.shape[0], table.shape[1])
    use_threads(rows.nnz * table.shape[1] // 8)
    _matmul(
        table.numpy(),
        rows.start.numpy(),
        rows.columns.numpy(),
        rows.values.numpy(),
        out.numpy(),
        TILE,
    )
    return out


def transpose(table: Tensor, rows: SparseRows) -> Tensor:
    """Return `rows W` (n×m_in) for rows over m_out: reads only columns of their support."""
    out = table.new_zeros(rows.shape[0], table.shape[0])
    use_threads(rows.nnz * table.shape[0])
    _transpose(
        table.numpy(), rows.start.numpy(), rows.columns.numpy(), rows.values.numpy(), out.numpy()
    )
    return out


def transpose_at(table: Tensor, rows: SparseRows, pattern: SparseRows) -> Tensor:
    """Return the entries of `rows W` on ``pattern``: sample i reads its own S×S block."""
    by_column, owners, position = pattern.transpose_pattern()
    out = torch.zeros(pattern.nnz, dtype=table.dtype)
    use_threads(int((rows.counts * pattern.counts).sum()))
    _transpose_at(
        table.numpy(),
        rows.start.numpy(),
        rows.columns.numpy(),
        rows.values.numpy(),
        by_column.numpy(),
        owners.numpy(),
        position.numpy(),
        out.numpy(),
    )
    return out


def add_outer(table: Tensor, left: SparseRows, right: SparseRows) -> None:
    """Add `sum_i left_i right_i^T` to W in place, on its S×S entries only."""
    by_column, owners, position = right.transpose_pattern()
    use_threads(int((left.counts * right.counts).sum()))
    _add_outer(
        table.numpy(),
        left.start.numpy(),
        left.columns.numpy(),
        left.values.numpy(),
        by_column.numpy(),
        owners.numpy(),
        right.values[position].numpy(),
    )


def gram(rows: SparseRows) -> Tensor:
    """Return `rows rows^T` (n×n) in float64, pair by pair of firing neurons."""
    n = rows.shape[0]
    by_column, owners, position = rows.transpose_pattern()
    blocks = max(1, min(8, (1 << 27) // max(8 * n * n, 1)))  # 128 MB of partial sums at most
    parts = torch.zeros(blocks, n, n, dtype=torch.float64)
    use_threads(n * rows.nnz // 8)
    _gram(by_column.numpy(), owners.numpy(), rows.values[position].numpy(), parts.numpy())
    lower = parts.sum(0)
    return lower + lower.tril(-1).T
