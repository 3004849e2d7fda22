"""TensorSRHT of u ⊗ v."""

from __future__ import annotations

import math
from typing import final

import numpy as np
import torch
from torch import Tensor

from subquad import kernels
from subquad.cost import record
from subquad.rows import Rows, SparseRows
from subquad.sketch.base import ProductSketch, block_rows
from subquad.sketch.hadamard import fwht_flops, fwht_into, padded_length


@final
class TensorSRHT(ProductSketch):
    """Sketch of u ⊗ v by sampling randomised Hadamard transforms, in O(m log m + s).

    ``S (u ⊗ v)_r = (H D1 u)[p_r] (H D2 v)[q_r] / sqrt(s)`` with H the ±1 Hadamard matrix, D1 and
    D2 independent uniform signs and (p_r, q_r) independent uniform pairs (the paper's definition
    of TensorSRHT). u and v are padded separately to powers of two. For an n-dimensional space
    ``s = Omega(n log^3(n m / (eps delta)) / eps^2)`` keeps norms to 1 ± eps with probability
    1 - delta (lemma tensorsrht_ose). Sparse rows gain nothing here: the transform fills them.

    >>> sketch = TensorSRHT(3, 2, s=4, seed=1)
    >>> u, v = torch.ones(1, 3, dtype=torch.float64), torch.ones(1, 2, dtype=torch.float64)
    >>> bool(torch.allclose(sketch.sketch(u, v)[0], sketch.dense().sum(dim=1)))
    True
    """

    def __init__(self, m1: int, m2: int, s: int, seed: int = 0) -> None:
        super().__init__(m1, m2, s, seed)
        self.signs1 = _random_signs(self.m1, self.seed, 1)
        self.signs2 = _random_signs(self.m2, self.seed, 2)
        self.p = _random_index(padded_length(self.m1), self.s, self.seed, 3)
        self.q = _random_index(padded_length(self.m2), self.s, self.seed, 4)

    def flops(self, n: int, nnz_u: int, nnz_v: int, groups: int | None = None) -> int:
        """Operations that ``sketch`` counts; the numbers of nonzeros do not matter."""
        transforms = fwht_flops(n, self.m1, signed=True) + fwht_flops(n, self.m2, signed=True)
        return transforms + self._combine_flops(n, groups is not None)

    def _sketch(self, left: Rows, right: Rows, groups: Tensor | None, count: int) -> Tensor:
        n, s, dtype, device = left.shape[0], self.s, left.dtype, left.device
        moved = (5 if groups is not None else 3) * n * s * dtype.itemsize
        record("sketch_combine", flops=self._combine_flops(n, groups is not None), bytes=moved)
        out = torch.zeros(count, s, dtype=dtype, device=device)
        if n == 0:
            return out
        p, q = self.p.to(device), self.q.to(device)
        sides = _Side(left, self.signs1), _Side(right, self.signs2)
        row = sum(side.padded + side.staging for side in sides) + (s if groups is not None else 0)
        size = block_rows(row * dtype.itemsize, n, device)
        for side in sides:
            side.allocate(size)
        product = out if groups is None else out.new_empty(size, s)
        kernel = kernels.pick("sketching", device)
        for first in range(0, n, size):
            last = min(first + size, n)
            a, b = (side.transform(first, last) for side in sides)
            into = product[first:last] if groups is None else product[: last - first]
            kernel.sampled_product(a, b, p, q, 1 / math.sqrt(s), into)
            if groups is not None:
                out.index_add_(0, groups[first:last], into)
        return out

    def _dense(self) -> Tensor:
        left = _hadamard_rows(self.p, self.m1) * self.signs1  # s×m1
        right = _hadamard_rows(self.q, self.m2) * self.signs2  # s×m2
        product = left[:, :, None] * right[:, None, :] / math.sqrt(self.s)
        return product.reshape(self.s, self.m1 * self.m2)

    def _combine_flops(self, n: int, grouped: bool) -> int:
        return n * self.s * (3 if grouped else 2)


class _Side:
    """One batch of rows and the buffers through which its blocks are transformed."""

    def __init__(self, rows: Rows, signs: Tensor) -> None:
        self.rows, self.m = rows, rows.shape[1]
        self.signs = signs.to(rows.dtype).to(rows.device)
        self.padded = padded_length(self.m)
        self.staging = self.m if isinstance(rows, SparseRows) else 0
        self.flat = torch.empty(0, dtype=torch.int64)
        if isinstance(rows, SparseRows):
            self.flat = rows.owners * self.m + rows.columns

    def allocate(self, size: int) -> None:
        self.out = self.signs.new_empty(size, self.padded, 1)
        self.staged = self.signs.new_empty(size, self.staging)

    def transform(self, first: int, last: int) -> Tensor:
        rows = self.rows
        if isinstance(rows, SparseRows):
            low, high = int(rows.start[first]), int(rows.start[last])
            block = self.staged[: last - first].zero_()
            place = self.flat[low:high] - first * self.m
            block.view(-1).index_add_(0, place, rows.values[low:high])
        else:
            block = rows[first:last].contiguous()
        out = self.out[: last - first]
        fwht_into(block[:, :, None], self.signs, out)
        return out[:, :, 0]


def _raw(count: int, seed: int, stream: int) -> np.ndarray:
    """64-bit words of Philox, which numpy keeps the same from version to version."""
    return np.random.Philox(np.random.SeedSequence(seed, spawn_key=(2, stream))).random_raw(count)


def _random_signs(m: int, seed: int, stream: int) -> Tensor:
    """m independent fair signs, one bit each, float64."""
    words = _raw((m + 63) // 64, seed, stream).astype("<u8")
    bits = np.unpackbits(words.view(np.uint8), count=m, bitorder="little")
    return torch.from_numpy(1.0 - 2.0 * bits)


def _random_index(size: int, count: int, seed: int, stream: int) -> Tensor:
    """``count`` uniform integers below ``size``, a power of two: the lowest bits, unbiased."""
    return torch.from_numpy((_raw(count, seed, stream) & np.uint64(size - 1)).astype(np.int64))


def _hadamard_rows(rows: Tensor, m: int) -> Tensor:
    """Rows of the Hadamard matrix cut to m columns: (-1)^popcount(p & i)."""
    bits = rows[:, None] & torch.arange(m)[None, :]
    for shift in (16, 8, 4, 2, 1):
        bits = bits ^ (bits >> shift)
    return 1.0 - 2.0 * (bits & 1).double()
