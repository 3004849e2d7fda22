"""Hashing, CountSketch and sampled products, compiled for CPU tensors.

Each output row belongs to one thread and is summed in the order of its entries, so the results
do not depend on the number of threads and equal the plain twin's bit for bit.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numba import njit, prange
from torch import Tensor

from subquad.kernels.sketching_plain import Entries, Fill
from subquad.kernels.threads import use_threads

# Unsigned throughout: numba turns a mixed uint64/int64 operation into float64.
_PRIME = np.uint64((1 << 61) - 1)
_LOW30 = np.uint64((1 << 30) - 1)
_LOW31 = np.uint64((1 << 31) - 1)
_NEGATIVE = np.uint64(1 << 31)
_1, _30, _31, _32, _61 = (np.uint64(k) for k in (1, 30, 31, 32, 61))
_SPAN = 2048  # indices per task: some microseconds of work


@njit(cache=True, inline="always")
def _step(value: Any, x: Any, c: Any) -> Any:
    high, low = (value >> _30) * x, (value & _LOW30) * x
    value = (high >> _31) + ((high & _LOW31) << _30) + low + c
    value = (value & _PRIME) + (value >> _61)
    return value - _PRIME if value >= _PRIME else value


@njit(cache=True)
def _hash_span(index: Any, c: Any, size: Any, shift: Any, words: Any) -> None:
    # Scalars, because a store into words might, for all the compiler knows, change c.
    b0, b1, b2, g0, g1, g2, g3 = c[0], c[1], c[2], c[3], c[4], c[5], c[6]
    for i in range(index.size):
        x = index[i]
        v = _step(_step(b0, x, b1), x, b2)
        bucket = ((v >> _30) * size + (((v & _LOW30) * size) >> _30)) >> _31
        w = _step(_step(_step(g0, x, g1), x, g2), x, g3)
        words[i] |= (bucket | ((w & _1) << _31)) << shift


@njit(cache=True, parallel=True)
def _hash_words(index: Any, c: Any, size: Any, words: Any) -> None:
    tasks = (index.size + _SPAN - 1) // _SPAN
    for task in prange(tasks):
        x, out = index[task * _SPAN :][:_SPAN], words[task * _SPAN :][:_SPAN]
        out[:] = 0
        for k in range(c.shape[0]):
            _hash_span(x, c[k], size, _32 * np.uint64(k), out)


@njit(cache=True, inline="always")
def _add(o: Any, word: Any, v: Any) -> None:
    """Add ±v at the bucket in the lower half of ``word``."""
    o[word & _LOW31] += -v if word & _NEGATIVE else v


@njit(cache=True, parallel=True)
def _dense(rows: Any, words: Any, out: Any) -> None:
    for i in prange(rows.shape[0]):
        x, o = rows[i], out[i]
        o[:] = 0
        for j in range(x.size):
            _add(o, words[j], x[j])


@njit(cache=True, parallel=True)
def _dense_pair(rows: Any, words: Any, out_left: Any, out_right: Any) -> None:
    for i in prange(rows.shape[0]):
        x, left, right = rows[i], out_left[i], out_right[i]
        left[:] = 0
        right[:] = 0
        for j in range(x.size):
            word, v = words[j], x[j]
            _add(left, word, v)
            _add(right, word >> _32, v)


@njit(cache=True)
def _few(start: Any, row: int, size: int) -> bool:
    """Whether wiping what ``row`` wrote is cheaper than zeroing all: the cost stays O(nnz)."""
    return row >= 0 and 8 * (start[row + 1] - start[row]) <= size


@njit(cache=True, parallel=True)
def _sparse(start: Any, slots: Any, values: Any, first: int, words: Any, out: Any) -> None:
    size = out.shape[0]
    for i in prange(min(size, start.size - 1 - first)):
        o, row = out[i], first + i
        if _few(start, row - size, o.size):
            for e in range(start[row - size], start[row - size + 1]):
                o[words[slots[e]] & _LOW31] = 0
        else:
            o[:] = 0
        for e in range(start[row], start[row + 1]):
            _add(o, words[slots[e]], values[e])


@njit(cache=True, parallel=True)
def _sparse_pair(
    start: Any, slots: Any, values: Any, first: int, words: Any, out_left: Any, out_right: Any
) -> None:
    size = out_left.shape[0]
    for i in prange(min(size, start.size - 1 - first)):
        left, right, row = out_left[i], out_right[i], first + i
        if _few(start, row - size, left.size):
            for e in range(start[row - size], start[row - size + 1]):
                word = words[slots[e]]
                left[word & _LOW31] = 0
                right[(word >> _32) & _LOW31] = 0
        else:
            left[:] = 0
            right[:] = 0
        for e in range(start[row], start[row + 1]):
            word, v = words[slots[e]], values[e]
            _add(left, word, v)
            _add(right, word >> _32, v)


@njit(cache=True, parallel=True)
def _sampled_product(left: Any, right: Any, p: Any, q: Any, scale: Any, out: Any) -> None:
    for i in prange(out.shape[0]):
        a, b, o = left[i], right[i], out[i]
        for r in range(o.size):
            o[r] = a[p[r]] * b[q[r]] * scale


def hash_words(index: Tensor, coefficients: Tensor, size: int) -> Tensor:
    """One or two hashes (h×7: three of the bucket, four of the sign) in one word an index.

    Bits 0-30 hold the first bucket, bit 31 whether its sign is -1, bits 32-63 the second: a
    stored entry then looks up one word where four tables would be four cache misses.
    """
    words = torch.empty_like(index)
    use_threads(index.numel())
    x, c, out = (t.numpy().view(np.uint64) for t in (index, coefficients, words))
    _hash_words(x, c, np.uint64(size), out)
    return words


def dense(rows: Tensor, words: Tensor, *outs: Tensor) -> Fill:
    """CountSketches of dense rows, block by block: ``out[i, b_j] = sum of sign_j rows[i, j]``.

    One buffer (B×s) for each hash in ``words``. The function returned fills them for the B rows
    (fewer at the end) from its argument on.
    """
    kernel = _dense if len(outs) == 1 else _dense_pair
    size, table = outs[0].shape[0], words.numpy().view(np.uint64)
    buffers = [out.numpy() for out in outs]

    def fill(first: int) -> None:
        block = rows[first : first + size].contiguous()
        use_threads(block.numel())
        kernel(block.numpy(), table, *buffers)

    return fill


def sparse(entries: Entries, words: Tensor, *outs: Tensor) -> Fill:
    """CountSketches of sparse rows, block by block, as :func:`dense` does it.

    Entry e of (start, slots, values) adds ``sign value_e`` to the bucket in ``words[slot_e]``.
    Blocks must come in their order and the buffers stay as they are in between: each block
    wipes what the one before it wrote.
    """
    kernel = _sparse if len(outs) == 1 else _sparse_pair
    (start, slots, values), table = (t.numpy() for t in entries), words.numpy().view(np.uint64)
    buffers = [out.numpy() for out in outs]

    work = outs[0].numel() // 8  # zeroing a buffer goes eight times faster than adding to it

    def fill(first: int) -> None:
        use_threads(work)
        kernel(start, slots, values, first, table, *buffers)

    return fill


def sampled_product(
    left: Tensor, right: Tensor, p: Tensor, q: Tensor, scale: float, out: Tensor
) -> None:
    """``out[i, r] = left[i, p_r] right[i, q_r] scale``."""
    a, b, o = left.numpy(), right.numpy(), out.numpy()
    use_threads(out.numel())
    _sampled_product(a, b, p.numpy(), q.numpy(), o.dtype.type(scale), o)
