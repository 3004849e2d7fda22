"""Walsh-Hadamard transform along the middle axis, compiled for CPU tensors.

Stages run in ascending order everywhere, as in the plain twin, so both round alike: the radix-4
step computes (a+b)+(c+d), the very sums of two radix-2 stages, with half the memory traffic.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import get_num_threads, njit, prange
from torch import Tensor

from subquad.kernels.threads import use_threads

L1_BLOCK = 4096  # 32 KB of float64: the first twelve stages never leave the first-level cache
CHUNK = 1 << 15  # 256 KB of float64: one thread's share of the second-level cache
NARROW = 8  # fewer trailing elements than this do not fill a vector register: transpose instead


@njit(cache=True)
def _first_stages(a: Any) -> None:
    """Stages 1, 2 and then 4, 8 in groups of sixteen: spelled out so that they vectorise."""
    for i in range(a.size // 4):
        w, x, y, z = a[4 * i], a[4 * i + 1], a[4 * i + 2], a[4 * i + 3]
        p, q, r, s = w + x, w - x, y + z, y - z
        a[4 * i], a[4 * i + 1], a[4 * i + 2], a[4 * i + 3] = p + r, q + s, p - r, q - s
    for b in range(a.size // 16):
        t = a[16 * b : 16 * b + 16]
        for i in range(4):
            w, x, y, z = t[i], t[4 + i], t[8 + i], t[12 + i]
            p, q, r, s = w + x, w - x, y + z, y - z
            t[i], t[4 + i], t[8 + i], t[12 + i] = p + r, q + s, p - r, q - s


@njit(cache=True)
def _stages(a: Any, half: int) -> None:
    """All stages from butterfly distance ``half`` up, in place."""
    while 4 * half <= a.size:
        for b in range(0, a.size, 4 * half):
            a0, a1 = a[b : b + half], a[b + half : b + 2 * half]
            a2, a3 = a[b + 2 * half : b + 3 * half], a[b + 3 * half : b + 4 * half]
            for j in range(half):
                w, x, y, z = a0[j], a1[j], a2[j], a3[j]
                p, q, r, s = w + x, w - x, y + z, y - z
                a0[j], a1[j], a2[j], a3[j] = p + r, q + s, p - r, q - s
        half *= 4
    if 2 * half <= a.size:
        b0, b1 = a[:half], a[half : 2 * half]
        for j in range(half):
            w, x = b0[j], b1[j]
            b0[j], b1[j] = w + x, w - x


@njit(cache=True)
def _whole(a: Any) -> None:
    """Transform of one contiguous vector, cache block by cache block."""
    if a.size < 16:
        _stages(a, 1)
        return
    block = min(a.size, L1_BLOCK)
    for b in range(0, a.size, block):
        part = a[b : b + block]
        _first_stages(part)
        _stages(part, 16)
    _stages(a, block)


@njit(cache=True, parallel=True)
def _contiguous(source: Any, signs: Any, out: Any, chunk: int) -> None:
    """Copy rows (times signs) into ``out`` and transform every chunk of it by itself."""
    length = source.shape[1]
    per_row = out.shape[1] // chunk
    for task in prange(out.shape[0] * per_row):
        row, low = task // per_row, (task % per_row) * chunk
        filled = min(max(length - low, 0), chunk)
        target = out[row, low : low + chunk]
        origin = source[row, low : low + filled]
        if signs.size > 0:
            factor = signs[low : low + filled]
            for j in range(filled):
                target[j] = origin[j] * factor[j]
        else:
            for j in range(filled):
                target[j] = origin[j]
        target[filled:] = 0
        if filled > 0:
            _whole(target)


@njit(cache=True, parallel=True)
def _strided(source: Any, signs: Any, out: Any, chunk: int, tile: int, threads: int) -> None:
    """Transform chunks of axis 1 in tiles of ``tile`` trailing elements.

    A tile is copied to a contiguous buffer first: rows that lie a power of two apart fall into
    the same few cache sets, and would evict one another.
    """
    length, inner = source.shape[1], source.shape[2]
    chunks = out.shape[1] // chunk
    tiles = (inner + tile - 1) // tile
    tasks = out.shape[0] * chunks * tiles
    workers = min(threads, tasks)
    for worker in prange(workers):
        buffer = np.empty(chunk * tile, out.dtype)
        for task in range(worker, tasks, workers):
            o, rest = task // (chunks * tiles), task % (chunks * tiles)
            low, left = (rest // tiles) * chunk, (rest % tiles) * tile
            width = min(tile, inner - left)
            filled = min(max(length - low, 0), chunk)
            work = buffer[: chunk * width]
            for r in range(filled):
                target = work[r * width : (r + 1) * width]
                origin = source[o, low + r, left : left + width]
                if signs.size > 0:
                    factor = signs[low + r]
                    for j in range(width):
                        target[j] = origin[j] * factor
                else:
                    for j in range(width):
                        target[j] = origin[j]
            work[filled * width :] = 0
            if filled > 0:
                _stages_of_rows(work, width, chunk)
            for r in range(chunk):
                target = out[o, low + r, left : left + width]
                origin = work[r * width : (r + 1) * width]
                for j in range(width):
                    target[j] = origin[j]


@njit(cache=True)
def _stages_of_rows(work: Any, width: int, rows: int) -> None:
    """All stages over ``rows`` rows, blocked like :func:`_whole`."""
    block = rows
    while block > 1 and block * width > L1_BLOCK:
        block //= 2
    for b in range(0, rows, block):
        _stages(work[b * width : (b + block) * width], width)
    _stages(work, block * width)


def transform(source: Tensor, signs: Tensor | None, out: Tensor) -> None:
    """``out = H D source`` along axis 1: source (o×m×i), D = diag(signs), out (o×M×i), M = 2^k.

    What lies beyond row m counts as zero. Both are contiguous; ``source`` may be ``out`` itself.
    """
    outer, padded, inner = out.shape
    if out.numel() == 0:
        return
    use_threads(out.numel())
    a, b = source.numpy(), out.numpy()
    factors = np.empty(0, b.dtype) if signs is None else signs.numpy()
    if inner == 1:
        chunk = min(padded, CHUNK)
        _contiguous(a[:, :, 0], factors, b[:, :, 0], chunk)
    elif inner < NARROW:
        columns = source.transpose(1, 2).contiguous().reshape(outer * inner, -1, 1)
        rows = columns.new_empty(outer * inner, padded, 1)
        transform(columns, signs, rows)
        out.copy_(rows.reshape(outer, inner, padded).transpose(1, 2))
        return
    else:
        chunk = min(padded, L1_BLOCK)
        _strided(a, factors, b, chunk, max(16, CHUNK // (2 * chunk)), get_num_threads())
    if padded > chunk:
        high = b.reshape(outer, padded // chunk, chunk * inner)
        tile = max(16, CHUNK // (2 * high.shape[1]))
        _strided(high, factors[:0], high, high.shape[1], tile, get_num_threads())
