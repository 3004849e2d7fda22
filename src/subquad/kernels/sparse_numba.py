"""Products with sparse rows, compiled for the CPU; the twin of ``sparse_plain``.

Work is split by rows or tiles of the table, never by sample, so each output entry is summed
by one thread in one fixed order: the result does not depend on the number of threads.
"""

import numba
import numpy as np
import torch
from torch import Tensor

from subquad.kernels.lanes_numba import BARE, LANE, bare, count, over, pick_out, places_of
from subquad.kernels.threads import use_threads
from subquad.rows import SparseRows

SIDE = 512  # samples of a block of columns, and numbers in it: they stay in the second-level cache
BLOCK = 1 << 17
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
def _over(matrix, bound, bits, counts):  # type: ignore[no-untyped-def]
    for i in numba.prange(matrix.shape[0]):
        over(matrix[i], bound[i], bits[i])
        counts[i] = count(bits[i])


@numba.njit(parallel=True, cache=True)
def _collect(bits, matrix, start, columns, values):  # type: ignore[no-untyped-def]
    for i in numba.prange(matrix.shape[0]):
        kept = columns[start[i] : start[i + 1]]
        places_of(bits[i], kept)
        pick_out(matrix[i], kept, values[start[i] : start[i + 1]])


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


@numba.njit(**BARE, fastmath={"contract"})
def _add_terms(total, columns, values, low, block):  # type: ignore[no-untyped-def]
    """total += sum_p values_p block_(columns_p - low), eight at a time."""
    p = 0
    while p + 8 <= columns.size:
        v0, v1 = np.float64(values[p]), np.float64(values[p + 1])
        v2, v3 = np.float64(values[p + 2]), np.float64(values[p + 3])
        v4, v5 = np.float64(values[p + 4]), np.float64(values[p + 5])
        v6, v7 = np.float64(values[p + 6]), np.float64(values[p + 7])
        b0, b1 = block[columns[p] - low], block[columns[p + 1] - low]
        b2, b3 = block[columns[p + 2] - low], block[columns[p + 3] - low]
        b4, b5 = block[columns[p + 4] - low], block[columns[p + 5] - low]
        b6, b7 = block[columns[p + 6] - low], block[columns[p + 7] - low]
        for j in range(total.size):
            x = total[j] + v0 * b0[j]
            x = x + v1 * b1[j]
            x = x + v2 * b2[j]
            x = x + v3 * b3[j]
            x = x + v4 * b4[j]
            x = x + v5 * b5[j]
            x = x + v6 * b6[j]
            total[j] = x + v7 * b7[j]
        p += 8
    while p < columns.size:
        v0, b0 = np.float64(values[p]), block[columns[p] - low]
        for j in range(total.size):
            total[j] += v0 * b0[j]
        p += 1


@bare
def _gram_share(start, columns, values, width, out, task, tasks, block, at, end):  # type: ignore[no-untyped-def]
    """The rows ``task``, ``task + tasks``, …: their shares of the triangle are alike."""
    n, (step, side) = out.shape[0], block.shape
    for left in range(0, n, side):
        right = min(left + side, n)
        for i in range(left, n):
            at[i] = start[i]
        for low in range(0, width, step):
            for k in range(step):
                for j in range(side):
                    block[k, j] = 0
            for i in range(left, n):
                if i >= right and i % tasks != task:
                    continue
                p, last = at[i], start[i + 1]
                while p < last and columns[p] < low + step:
                    if i < right:
                        block[columns[p] - low, i - left] = values[p]
                    p += 1
                end[i] = p
            for i in range(left + (task - left) % tasks, n, tasks):
                p, q = at[i], end[i]
                total = out[i, left : min(i + 1, right)]
                _add_terms(total, columns[p:q], values[p:q], low, block)
            for i in range(left, n):
                at[i] = end[i]


@numba.njit(parallel=True, cache=True)
def _gram_by_rows(start, columns, values, width, step, out, tasks):  # type: ignore[no-untyped-def]
    """Lower half: every row times a dense block of columns, ``step`` of them at a time."""
    n, side = out.shape[0], min(out.shape[0], SIDE)
    for task in numba.prange(tasks):
        block = np.empty((step, side), values.dtype)
        at, end = np.empty(n, np.int64), np.empty(n, np.int64)
        _gram_share(start, columns, values, width, out, task, tasks, block, at, end)


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


def above(matrix: Tensor, bound: Tensor) -> SparseRows:
    """Keep the entries of ``matrix`` (n×m) that exceed their row's ``bound`` (n)."""
    n, width = matrix.shape
    given, bounds = matrix.contiguous().numpy(), bound.numpy()
    bits, counts = np.empty((n, -(-width // LANE)), np.uint64), np.empty(n, np.int64)
    use_threads(matrix.numel())
    _over(given, bounds, bits, counts)
    start = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])
    columns = np.empty(int(start[-1]), np.int64)
    values = matrix.new_empty(columns.size)
    _collect(bits, given, start, columns, values.numpy())
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


def gram_by_rows(rows: SparseRows) -> Tensor:
    """Return the same row by row, half of the pairs being zeros: for rows that are not so sparse.

    Rows go to threads whole, and their sums have one order, so any number gives the same bits.
    """
    n, width = rows.shape
    out = torch.zeros(n, n, dtype=torch.float64)
    use_threads(n * rows.nnz // 8)
    arrays = rows.start.numpy(), rows.columns.numpy(), rows.values.numpy()
    step = min(width, BLOCK // max(1, min(n, SIDE)))
    _gram_by_rows(*arrays, width, step, out.numpy(), numba.get_num_threads())
    return out + out.tril(-1).T
