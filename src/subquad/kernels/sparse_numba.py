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
def _count(mask, counts):  # type: ignore[no-untyped-def]
    for i in numba.prange(mask.shape[0]):
        found = 0
        row = mask[i]
        for c in range(row.size):
            found += row[c]
        counts[i] = found


@numba.njit(parallel=True, cache=True)
def _collect(mask, matrix, start, columns, values):  # type: ignore[no-untyped-def]
    for i in numba.prange(mask.shape[0]):
        p, end = start[i], start[i + 1]
        row, source = mask[i], matrix[i]
        for c in range(row.size):
            # Written in any case and kept if it counts: a branch would be guessed wrong too often.
            if p < end:
                columns[p], values[p] = c, source[c]
                p += row[c]


@numba.njit(parallel=True, cache=True)
def _spread(start, columns, values, out):  # type: ignore[no-untyped-def]
    for i in numba.prange(out.shape[0]):
        row = out[i]
        row[:] = 0
        for p in range(start[i], start[i + 1]):
            row[columns[p]] = values[p]


@numba.njit(parallel=True, cache=True)
def _square_sums(start, values, out):  # type: ignore[no-untyped-def]
    for i in numba.prange(out.size):
        total = 0.0
        for p in range(start[i], start[i + 1]):
            v = np.float64(values[p])
            total += v * v
        out[i] = total


@numba.njit(cache=True)
def _by_column(start, columns, values, ends, owners, sorted_values):  # type: ignore[no-untyped-def]
    for p in range(columns.size):
        ends[columns[p] + 1] += 1
    for c in range(ends.size - 1):
        ends[c + 1] += ends[c]
    place = ends[:-1].copy()
    for i in range(start.size - 1):
        for p in range(start[i], start[i + 1]):
            at = place[columns[p]]
            place[columns[p]] = at + 1
            owners[at], sorted_values[at] = i, values[p]


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


def collect(mask: Tensor, matrix: Tensor) -> SparseRows:
    """Keep the entries of ``matrix`` (n×m) where ``mask`` is true."""
    n, width = mask.shape
    flags = mask.contiguous().numpy().view(np.uint8)
    counts = np.empty(n, np.int64)
    use_threads(mask.numel())
    _count(flags, counts)
    start = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])
    columns = np.empty(int(start[-1]), np.int64)
    values = matrix.new_empty(columns.size)
    _collect(flags, matrix.contiguous().numpy(), start, columns, values.numpy())
    return SparseRows(torch.from_numpy(start), torch.from_numpy(columns), values, width)


def spread(rows: SparseRows) -> Tensor:
    """Return the dense n×width matrix."""
    out = torch.empty(rows.shape, dtype=rows.dtype)
    use_threads(out.numel())
    _spread(rows.start.numpy(), rows.columns.numpy(), rows.values.numpy(), out.numpy())
    return out


def square_sums(rows: SparseRows) -> Tensor:
    """Return each row's sum of squares in float64."""
    out = torch.empty(rows.shape[0], dtype=torch.float64)
    use_threads(rows.nnz)
    _square_sums(rows.start.numpy(), rows.values.numpy(), out.numpy())
    return out


def gram(rows: SparseRows) -> Tensor:
    """Return `rows rows^T` (n×n) in float64, pair by pair of firing neurons."""
    n, width = rows.shape
    by_column, owners = np.zeros(width + 1, np.int64), np.empty(rows.nnz, np.int64)
    values = np.empty_like(rows.values.numpy())
    start, columns = rows.start.numpy(), rows.columns.numpy()
    _by_column(start, columns, rows.values.numpy(), by_column, owners, values)
    blocks = max(1, min(8, (1 << 27) // max(8 * n * n, 1)))  # 128 MB of partial sums at most
    parts = torch.zeros(blocks, n, n, dtype=torch.float64)
    use_threads(n * rows.nnz // 8)
    _gram(by_column, owners, values, parts.numpy())
    lower = parts.sum(0)
    return lower + lower.tril(-1).T
