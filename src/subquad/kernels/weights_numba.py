"""Generated and sparse weights, compiled for the CPU; the twin of ``weights_plain``.

A task owns a tile of outputs, generates its piece of a few columns into buffers that stay in the
nearest caches, and uses them for every sample that reads them. Sums run over ascending columns,
one after the other, so neither tile, batch, other samples nor the number of threads changes a bit.
"""

# mypy: disallow-untyped-decorators=False, disallow-untyped-defs=False, disallow-untyped-calls=False

from __future__ import annotations

import numba
import numpy as np
import torch
from torch import Tensor

from subquad.kernels.threads import use_threads
from subquad.kernels.weights_plain import (
    BUMPS,
    CUBICS,
    ENTRY_COST,
    GROUP,
    LANES,
    MULTIPLIERS,
    ROUNDS,
    STEPS,
)
from subquad.kernels.weights_plain import support as _support
from subquad.rows import SparseRows

TASKS = 64  # pieces of a loop over columns: more than threads, so that they end together
BATCHES = 16, 64  # columns generated together, least and most
TILE_BYTES = 1 << 20  # outputs that one task sums up: they fit a second-level cache

# Constant arrays, so that the compiler knows that no store changes them and uses gathers.
A0, A1, A2, A3 = (np.ascontiguousarray(a) for a in CUBICS)
M0, M1 = np.uint64(MULTIPLIERS[0]), np.uint64(MULTIPLIERS[1])
B0, B1 = np.uint64(BUMPS[0]), np.uint64(BUMPS[1])
LOW, HALF = np.uint64(0xFFFFFFFF), np.uint64(32)
ONE, TOP = np.uint32(1), np.uint32(31)
FLIP = np.uint32(1 << 31)
DOWN, FINE = np.uint64(52 - STEPS), np.uint64(20 - STEPS)
BIAS = np.uint64(1023 << STEPS)
UNIT = np.float32(2.0**-31)


@numba.njit(inline="always")
def philox(c0, c1, c2, c3, k0, k1):
    """Philox4x32-10 on words that are kept in 64 bits."""
    for _ in range(ROUNDS):
        p0, p1 = M0 * c0, M1 * c2
        c0, c1 = ((p1 >> HALF) ^ c1 ^ k0) & LOW, p1 & LOW
        c2, c3 = ((p0 >> HALF) ^ c3 ^ k1) & LOW, p0 & LOW
        k0, k1 = (k0 + B0) & LOW, (k1 + B1) & LOW
    return c0, c1, c2, c3


@numba.njit(inline="always")
def _normal(word):
    """The standard normal (float32) of a word; see ``weights_plain``."""
    v = np.float64(np.uint32((word << ONE) | ONE))
    bits = v.view(np.uint64)
    piece = (bits >> DOWN) - BIAS
    t = np.float32(np.int32(np.uint32(bits >> FINE) ^ FLIP)) * UNIT
    z = A0[piece] + t * (A1[piece] + t * (A2[piece] + t * A3[piece]))
    return z if word >> TOP == 0 else -z


@numba.njit(cache=True)
def _words(low, column, k0, k1, words):
    """Words of rows ``low`` (a multiple of GROUP) and on; ``words`` is as long as some groups."""
    zero, c = np.uint64(0), np.uint64(column)
    for g in range(words.size // GROUP):
        first = np.uint64((low // GROUP + g) * LANES)
        part = words[g * GROUP : (g + 1) * GROUP]
        for lane in range(LANES):
            w0, w1, w2, w3 = philox(first + np.uint64(lane), c, zero, zero, k0, k1)
            part[lane] = np.uint32(w0)
            part[LANES + lane] = np.uint32(w1)
            part[2 * LANES + lane] = np.uint32(w2)
            part[3 * LANES + lane] = np.uint32(w3)


@numba.njit(cache=True)
def _fill(low, column, k0, k1, scale, words, out):
    """Entries of one column from row ``low`` on, as many as ``out`` holds."""
    _words(low, column, k0, k1, words[: (out.size + GROUP - 1) // GROUP * GROUP])
    for j in range(out.size):
        out[j] = _normal(words[j]) * scale


@numba.njit(cache=True)
def _entry(row, column, k0, k1, scale):
    zero = np.uint64(0)
    counter = np.uint64(row // GROUP * LANES + row % LANES)
    w0, w1, w2, w3 = philox(counter, np.uint64(column), zero, zero, k0, k1)
    which = row // LANES % 4
    word = w0 if which == 0 else w1 if which == 1 else w2 if which == 2 else w3
    return _normal(np.uint32(word)) * scale


@numba.njit(cache=True)
def _dot(start, end, columns, values, dense):
    """Four sums side by side: one alone would wait for each addition to end."""
    # Not dense[0] * 0: what no entry reads was never filled, and NaN times 0 is NaN.
    s0 = s1 = s2 = s3 = dense.dtype.type(0)
    p = start
    while p + 4 <= end:
        s0 += values[p] * dense[columns[p]]
        s1 += values[p + 1] * dense[columns[p + 1]]
        s2 += values[p + 2] * dense[columns[p + 2]]
        s3 += values[p + 3] * dense[columns[p + 3]]
        p += 4
    while p < end:
        s0 += values[p] * dense[columns[p]]
        p += 1
    return (s0 + s1) + (s2 + s3)


@numba.njit(cache=True)
def _add(total, picked, factors, count, block):
    """Add ``count`` multiples of rows of ``block``: four at a time, to load and store less.

    The additions stay in the order of the entries, so how these are grouped changes no bit.
    """
    k = 0
    while k + 4 <= count:
        v0, v1, v2, v3 = factors[k], factors[k + 1], factors[k + 2], factors[k + 3]
        b0, b1 = block[picked[k], : total.size], block[picked[k + 1], : total.size]
        b2, b3 = block[picked[k + 2], : total.size], block[picked[k + 3], : total.size]
        for r in range(total.size):
            total[r] = (((total[r] + v0 * b0[r]) + v1 * b1[r]) + v2 * b2[r]) + v3 * b3[r]
        k += 4
    while k < count:
        v0, b0 = factors[k], block[picked[k], : total.size]
        for r in range(total.size):
            total[r] += v0 * b0[r]
        k += 1


@numba.njit(parallel=True, cache=True)
def _gaussian_matmul(start, slots, values, union, k0, k1, scale, out, tile, batch):
    n, wide = out.shape
    for task in numba.prange((wide + tile - 1) // tile):
        low = task * tile
        high = min(low + tile, wide)
        words = np.empty(tile, np.uint32)
        block = np.empty((batch, tile), out.dtype)
        picked, factors = np.empty(batch, np.int64), np.empty(batch, out.dtype)
        position = start[:-1].copy()
        for first in range(0, union.size, batch):
            last = min(first + batch, union.size)
            for b in range(first, last):
                _fill(low, union[b], k0, k1, scale, words, block[b - first, : high - low])
            for i in range(n):
                p, count = position[i], 0
                while p < start[i + 1] and slots[p] < last:
                    picked[count], factors[count] = slots[p] - first, values[p]
                    count += 1
                    p += 1
                position[i] = p
                _add(out[i, low:high], picked, factors, count, block)


@numba.njit(parallel=True, cache=True)
def _gaussian_columns(index, k0, k1, scale, out, tile):
    wide = out.shape[1]
    tiles = (wide + tile - 1) // tile
    for task in numba.prange(index.size * tiles):
        j = task // tiles
        low = (task - j * tiles) * tile
        words = np.empty(tile, np.uint32)
        _fill(low, index[j], k0, k1, scale, words, out[j, low : min(low + tile, wide)])


@numba.njit(parallel=True, cache=True)
def _gaussian_transpose_at(
    start, columns, values, m_out, by_column, owners, position, k0, k1, scale, out, tasks
):
    width = by_column.size - 1
    for task in numba.prange(tasks):
        words = np.empty((m_out + GROUP - 1) // GROUP * GROUP, np.uint32)
        column = np.empty(m_out, out.dtype)
        for c in range(width * task // tasks, width * (task + 1) // tasks):
            needed = 0
            for q in range(by_column[c], by_column[c + 1]):
                needed += start[owners[q] + 1] - start[owners[q]]
            whole = needed * ENTRY_COST > m_out
            if whole:
                _fill(0, c, k0, k1, scale, words, column)
            for q in range(by_column[c], by_column[c + 1]):
                i = owners[q]
                if not whole:
                    for p in range(start[i], start[i + 1]):
                        column[columns[p]] = _entry(columns[p], c, k0, k1, scale)
                out[position[q]] = _dot(start[i], start[i + 1], columns, values, column)


@numba.njit(parallel=True, cache=True)
def _sparse_matmul(table_start, places, weights, start, columns, values, out):
    for i in numba.prange(start.size - 1):
        total = out[i]
        for p in range(start[i], start[i + 1]):
            c, v = columns[p], values[p]
            for q in range(table_start[c], table_start[c + 1]):
                total[places[q]] += v * weights[q]


@numba.njit(parallel=True, cache=True)
def _sparse_transpose(
    table_start, places, weights, m_out, start, columns, values, kept_start, kept, out
):
    for i in numba.prange(start.size - 1):
        dense = np.zeros(m_out, out.dtype)
        for p in range(start[i], start[i + 1]):
            dense[columns[p]] = values[p]
        for k in range(kept_start[i], kept_start[i + 1]):
            c = kept[k]
            out[k] = _dot(table_start[c], table_start[c + 1], places, weights, dense)


def gaussian_columns(
    index: Tensor, m_out: int, key: tuple[int, int], scale: float, dtype: torch.dtype
) -> Tensor:
    """Return columns of W, one a row (len(index)×m_out)."""
    out = torch.empty(index.numel(), m_out, dtype=dtype)
    use_threads(out.numel())
    _gaussian_columns(index.numpy(), *_settings(key, scale, out), out.numpy(), 4 * GROUP * LANES)
    return out


def gaussian_matmul(
    rows: SparseRows,
    m_out: int,
    key: tuple[int, int],
    scale: float,
    tile: int | None = None,
    batch: int | None = None,
) -> Tensor:
    """Return `rows W^T` (n×m_out), generating only the columns in the rows' support.

    A task's ``tile`` of outputs, a multiple of GROUP, and its ``batch`` of columns decide speed
    alone.
    """
    n = rows.shape[0]
    union, slots = _support(rows)
    out = rows.values.new_zeros(n, m_out)
    use_threads(m_out * (union.numel() + n))
    _gaussian_matmul(
        rows.start.numpy(),
        slots.numpy(),
        rows.values.numpy(),
        union.numpy(),
        *_settings(key, scale, out),
        out.numpy(),
        tile or _tile(n, m_out, out.element_size()),
        batch or _batch(rows.nnz, n * union.numel()),
    )
    return out


def gaussian_transpose(rows: SparseRows, m_in: int, key: tuple[int, int], scale: float) -> Tensor:
    """Return `rows W` (n×m_in) for rows over m_out."""
    n = rows.shape[0]
    owners = torch.arange(n).repeat(m_in)
    position = owners * m_in + torch.arange(m_in).repeat_interleave(n)
    pattern = torch.arange(m_in + 1) * n, owners, position
    return _transpose(rows, pattern, key, scale).reshape(n, m_in)


def gaussian_transpose_at(
    rows: SparseRows, pattern: SparseRows, key: tuple[int, int], scale: float
) -> Tensor:
    """Return the entries of `rows W` on ``pattern``.

    A column is generated entry by entry where few are needed, else once, whole, for all samples.
    """
    return _transpose(rows, pattern.transpose_pattern(), key, scale)


def _transpose(
    rows: SparseRows, pattern: tuple[Tensor, Tensor, Tensor], key: tuple[int, int], scale: float
) -> Tensor:
    by_column, owners, position = pattern
    out = rows.values.new_empty(owners.numel())
    use_threads(rows.nnz * (owners.numel() // max(1, rows.shape[0])))
    _gaussian_transpose_at(
        rows.start.numpy(),
        rows.columns.numpy(),
        rows.values.numpy(),
        rows.width,
        by_column.numpy(),
        owners.numpy(),
        position.numpy(),
        *_settings(key, scale, out),
        out.numpy(),
        min(TASKS, by_column.numel() - 1),
    )
    return out


def _settings(
    key: tuple[int, int], scale: float, out: Tensor
) -> tuple[np.uint64, np.uint64, np.floating]:
    factor = np.float32(scale) if out.dtype == torch.float32 else np.float64(scale)
    return np.uint64(key[0]), np.uint64(key[1]), factor


def _tile(n: int, m_out: int, item: int) -> int:
    """At most 1024 outputs a task, fewer for many samples, and at least eight tasks if possible."""
    most = min(1024, max(512, TILE_BYTES // (max(n, 1) * item)), m_out // 8)
    return max(1, most // GROUP) * GROUP


def _batch(nnz: int, entries: int) -> int:
    """So many columns that a sample uses some eight of them."""
    return min(BATCHES[1], max(BATCHES[0], 8 * entries // max(nnz, 1)))


def sparse_matmul(table: SparseRows, rows: SparseRows) -> Tensor:
    """Return `rows W^T` (n×m_out)."""
    out = rows.values.new_zeros(rows.shape[0], table.width)
    use_threads(_mean_reads(table, rows.nnz) + out.numel())
    _sparse_matmul(*_arrays(table), *_arrays(rows), out.numpy())
    return out


def sparse_transpose(table: SparseRows, rows: SparseRows) -> Tensor:
    """Return `rows W` (n×m_in) for rows over m_out."""
    n, m_in = rows.shape[0], table.shape[0]
    start, every = torch.arange(n + 1) * m_in, torch.arange(m_in).repeat(n)
    pattern = SparseRows(start, every, rows.values.new_empty(0), m_in)
    return sparse_transpose_at(table, rows, pattern).reshape(n, m_in)


def sparse_transpose_at(table: SparseRows, rows: SparseRows, pattern: SparseRows) -> Tensor:
    """Return the entries of `rows W` on ``pattern``."""
    out = rows.values.new_empty(pattern.columns.numel())
    use_threads(_mean_reads(table, pattern.columns.numel()) + rows.shape[0] * table.width)
    _sparse_transpose(
        *_arrays(table),
        table.width,
        *_arrays(rows),
        pattern.start.numpy(),
        pattern.columns.numpy(),
        out.numpy(),
    )
    return out


def _mean_reads(table: SparseRows, columns: int) -> int:
    return columns * table.nnz // table.shape[0]


def _arrays(rows: SparseRows) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return rows.start.numpy(), rows.columns.numpy(), rows.values.numpy()
