"""Walsh-Hadamard transforms, one along a middle axis or several of a row, compiled for the CPU.

Stages run in ascending order everywhere, as in the plain twin, so both round alike: a step of
radix 4 or 16 computes the very sums of two or four stages of radix 2, with less memory traffic.
"""

# mypy: disable-error-code="call-arg"

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numba import get_num_threads, njit, prange
from torch import Tensor

from subquad.kernels import fwht_plain
from subquad.kernels.lanes_numba import GROUP, butterflies, butterflies_across
from subquad.kernels.threads import use_threads
from subquad.rows import Rows, SparseRows

L1_BLOCK = 4096  # 32 KB of float64: the first twelve stages never leave the first-level cache
CHUNK = 1 << 15  # 256 KB of float64: one thread's share of the second-level cache
NARROW = 8  # fewer trailing elements than this do not fill a vector register: transpose instead


@njit(cache=True)
def _first_stages(a: Any) -> None:
    """Stages 1, 2, 4 and 8 of every sixteen numbers."""
    for b in range(0, a.size, GROUP):
        butterflies(a, b)


@njit(cache=True)
def _stages(a: Any, half: int) -> None:
    """All stages from butterfly distance ``half`` up, in place."""
    while half % GROUP == 0 and GROUP * half <= a.size:
        for b in range(0, a.size, GROUP * half):
            for j in range(b, b + half, GROUP):
                butterflies_across(a, j, half)
        half *= GROUP
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
def _whole(a: Any, factors: Any) -> None:
    """Transform of one contiguous vector, times ``factors`` if there are any, block by block."""
    block = min(a.size, L1_BLOCK)
    for b in range(0, a.size, block):
        part = a[b : b + block]
        if factors.size > 0:  # here, since a long vector is far away by the next pass
            signs = factors[b : b + block]
            for j in range(block):
                part[j] *= signs[j]
        if block < GROUP:
            _stages(part, 1)
        else:
            _first_stages(part)
            _stages(part, GROUP)
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
            _whole(target, signs[:0])


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


@njit(cache=True)
def _through(work: Any, filled: int, inner: Any) -> None:
    """All transforms of one row, of which ``filled`` numbers are given, and what lies between."""
    short = 1
    while short < filled:
        short *= 2
    work[filled:short] = 0
    _whole(work[:short], inner[0][:0])
    while short < work.size:  # the stages from here on meet zeros only: they copy
        upper = work[short : 2 * short]
        for j in range(short):
            upper[j] = work[j]
        short *= 2
    for factors in inner:
        _whole(work, factors)


@njit(cache=True)
def _keep(work: Any, last: Any, out: Any) -> None:
    if last.size > 0:
        for j in range(out.size):
            out[j] = work[j] * last[j]
    else:
        for j in range(out.size):
            out[j] = work[j]


@njit(cache=True, parallel=True)
def _products(
    source: Any, first: Any, inner: Any, last: Any, out: Any, length: int, workers: int
) -> None:
    """Row by row, each staying in one core's caches from its numbers to its products."""
    filled = source.shape[1]
    for worker in prange(workers):
        work = np.empty(length, out.dtype)
        for row in range(worker, out.shape[0], workers):
            _keep(source[row], first, work[:filled])
            _through(work, filled, inner)
            _keep(work, last, out[row])


@njit(cache=True, parallel=True)
def _sparse_products(
    start: Any, columns: Any, values: Any, filled: int, first: Any, inner: Any, last: Any, out: Any,
    length: int, workers: int,
) -> None:  # fmt: skip
    """The same for sparse rows of length ``filled``."""
    for worker in prange(workers):
        work = np.empty(length, out.dtype)
        for row in range(worker, out.shape[0], workers):
            work[:filled] = 0
            for p in range(start[row], start[row + 1]):
                c = columns[p]
                work[c] = values[p] * first[c] if first.size > 0 else values[p]
            _through(work, filled, inner)
            _keep(work, last, out[row])


def products(
    rows: Rows,
    first: Tensor | None,
    inner: Sequence[Tensor],
    last: Tensor | None,
    out: Tensor,
    length: int,
) -> None:
    """``out = last H inner_k … H inner_1 H first rows``, H unnormalised of side ``length``.

    ``rows`` (n×m_in) count as zero beyond their end, and of the products the first m_out numbers
    are kept. ``first`` (m_in), ``inner`` (each as long as H, a power of two; one at least) and
    ``last`` (m_out) are diagonals, None being all ones.
    """
    n = out.shape[0]
    if out.numel() == 0:
        return
    use_threads(n * length)
    workers = get_num_threads()
    if n < workers:  # a few long rows: all threads on each
        fwht_plain.products(rows, first, inner, last, out, length, transform)
        return
    one = np.empty(0, out.numpy().dtype)
    ends = [one if d is None else d.numpy() for d in (first, last)]
    diagonals = ends[0], tuple(d.numpy() for d in inner), ends[1]
    if isinstance(rows, SparseRows):
        parts = rows.start.numpy(), rows.columns.numpy(), rows.values.numpy(), rows.width
        _sparse_products(*parts, *diagonals, out.numpy(), length, workers)
    else:
        _products(rows.numpy(), *diagonals, out.numpy(), length, workers)


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
