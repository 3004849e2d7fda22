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

from subquad.kernels.sketching_plain import Entries, Fill, Target

# Unsigned throughout: numba turns a mixed uint64/int64 operation into float64.
_PRIME = np.uint64((1 << 61) - 1)
_LOW30 = np.uint64((1 << 30) - 1)
_LOW31 = np.uint64((1 << 31) - 1)
_1, _30, _31, _61 = np.uint64(1), np.uint64(30), np.uint64(31), np.uint64(61)
_SPAN = 2048  # indices per task: some microseconds of work


@njit(cache=True, inline="always")
def _step(value: Any, x: Any, c: Any) -> Any:
    high, low = (value >> _30) * x, (value & _LOW30) * x
    value = (high >> _31) + ((high & _LOW31) << _30) + low + c
    value = (value & _PRIME) + (value >> _61)
    return value - _PRIME if value >= _PRIME else value


@njit(cache=True, parallel=True)
def _hash(index: Any, b: Any, g: Any, size: Any, buckets: Any, signs: Any) -> None:
    tasks = (index.size + _SPAN - 1) // _SPAN
    for task in prange(tasks):
        b0, b1, b2 = b[0], b[1], b[2]
        g0, g1, g2, g3 = g[0], g[1], g[2], g[3]
        low = task * _SPAN
        part = index[low : low + _SPAN]
        into, sign = buckets[low : low + _SPAN], signs[low : low + _SPAN]
        for i in range(part.size):
            x = part[i]
            v = _step(_step(b0, x, b1), x, b2)
            into[i] = ((v >> _30) * size + (((v & _LOW30) * size) >> _30)) >> _31
            w = _step(_step(_step(g0, x, g1), x, g2), x, g3)
            sign[i] = 1 - 2 * np.int64(w & _1)


@njit(cache=True, parallel=True)
def _dense(rows: Any, buckets: Any, signs: Any, out: Any) -> None:
    for i in prange(rows.shape[0]):
        x, o = rows[i], out[i]
        o[:] = 0
        for j in range(x.size):
            o[np.uint32(buckets[j])] += signs[j] * x[j]


@njit(cache=True, parallel=True)
def _dense_pair(
    rows: Any, bl: Any, sl: Any, out_left: Any, br: Any, sr: Any, out_right: Any
) -> None:
    for i in prange(rows.shape[0]):
        x, left, right = rows[i], out_left[i], out_right[i]
        left[:] = 0
        right[:] = 0
        for j in range(x.size):
            v = x[j]
            left[np.uint32(bl[j])] += sl[j] * v
            right[np.uint32(br[j])] += sr[j] * v


@njit(cache=True)
def _wipe(start: Any, slots: Any, row: int, buckets: Any, o: Any) -> None:
    """Zero ``o``, which holds the CountSketch of ``row``, or anything where that is negative."""
    if row < 0 or 8 * (start[row + 1] - start[row]) > o.size:
        o[:] = 0
    else:  # only what was written: the cost stays O(nnz), whatever the size of the sketch
        for e in range(start[row], start[row + 1]):
            o[np.uint32(buckets[slots[e]])] = 0


@njit(cache=True, parallel=True)
def _sparse(
    start: Any, slots: Any, values: Any, first: int, buckets: Any, signs: Any, out: Any
) -> None:
    size = out.shape[0]
    for i in prange(min(size, start.size - 1 - first)):
        o, row = out[i], first + i
        _wipe(start, slots, row - size, buckets, o)
        for e in range(start[row], start[row + 1]):
            slot = slots[e]
            o[np.uint32(buckets[slot])] += signs[slot] * values[e]


@njit(cache=True, parallel=True)
def _sparse_pair(
    start: Any,
    slots: Any,
    values: Any,
    first: int,
    bl: Any,
    sl: Any,
    out_left: Any,
    br: Any,
    sr: Any,
    out_right: Any,
) -> None:
    size = out_left.shape[0]
    for i in prange(min(size, start.size - 1 - first)):
        left, right, row = out_left[i], out_right[i], first + i
        _wipe(start, slots, row - size, bl, left)
        _wipe(start, slots, row - size, br, right)
        for e in range(start[row], start[row + 1]):
            slot, v = slots[e], values[e]
            left[np.uint32(bl[slot])] += sl[slot] * v
            right[np.uint32(br[slot])] += sr[slot] * v


@njit(cache=True, parallel=True)
def _sampled_product(left: Any, right: Any, p: Any, q: Any, scale: Any, out: Any) -> None:
    for i in prange(out.shape[0]):
        a, b, o = left[i], right[i], out[i]
        for r in range(o.size):
            o[r] = a[p[r]] * b[q[r]] * scale


def buckets_and_signs(
    index: Tensor, bucket: Tensor, sign: Tensor, size: int, dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    """Bucket (int32, below ``size``) and sign (±1 in ``dtype``) of each index."""
    buckets = torch.empty(index.numel(), dtype=torch.int32)
    signs = torch.empty(index.numel(), dtype=dtype)
    x, b, g = (t.numpy().view(np.uint64) for t in (index, bucket, sign))
    _hash(x, b, g, np.uint64(size), buckets.numpy(), signs.numpy())
    return buckets, signs


def dense(rows: Tensor, *targets: Target) -> Fill:
    """CountSketches of dense rows, block by block: ``out[i, b_j] = sum of sign_j rows[i, j]``.

    One or two targets (buckets, signs, out), out B×s; two read the rows once. The function
    returned fills them for the B rows (fewer at the end) from its argument on.
    """
    kernel = _dense if len(targets) == 1 else _dense_pair
    size, arrays = targets[0][2].shape[0], _arrays(targets)

    def fill(first: int) -> None:
        kernel(rows[first : first + size].contiguous().numpy(), *arrays)

    return fill


def sparse(entries: Entries, *targets: Target) -> Fill:
    """CountSketches of sparse rows, block by block, as :func:`dense` does it.

    Entry e of (start, slots, values) adds ``sign[slot_e] value_e`` to bucket ``[slot_e]``. The
    blocks must come in their order, with ``out`` left as it is: each wipes what the last wrote.
    """
    kernel = _sparse if len(targets) == 1 else _sparse_pair
    (start, slots, values), arrays = (t.numpy() for t in entries), _arrays(targets)

    def fill(first: int) -> None:
        kernel(start, slots, values, first, *arrays)

    return fill


def _arrays(targets: tuple[Target, ...]) -> list[Any]:
    return [t.numpy() for target in targets for t in target]


def sampled_product(
    left: Tensor, right: Tensor, p: Tensor, q: Tensor, scale: float, out: Tensor
) -> None:
    """``out[i, r] = left[i, p_r] right[i, q_r] scale``."""
    a, b, o = left.numpy(), right.numpy(), out.numpy()
    _sampled_product(a, b, p.numpy(), q.numpy(), o.dtype.type(scale), o)
