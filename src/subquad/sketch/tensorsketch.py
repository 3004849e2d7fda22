"""TensorSketch of u ⊗ v."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import final

import torch
from torch import Tensor

from subquad.cost import record
from subquad.rows import Rows, SparseRows
from subquad.sketch.base import ProductSketch, block_rows, stored
from subquad.sketch.countsketch import CountSketches, count_flops
from subquad.sketch.hashing import CountHash


@final
class TensorSketch(ProductSketch):
    """Sketch of u ⊗ v in O(s log s + nnz(u) + nnz(v)).

    ``S_{r,(i,j)} = g1(i) g2(j) 1[h1(i) + h2(j) = r mod s]`` with 3-wise independent hashes h and
    4-wise independent signs g (the paper's definition of TensorSketch). A sum of hashes is a
    convolution: ``S (u ⊗ v) = irfft(rfft(C1 u) * rfft(C2 v))`` with C1, C2 the two CountSketches.
    For an n-dimensional space, ``s >= 11 n^2 / (eps^2 delta)`` keeps ``| |Sx|^2/|x|^2 - 1 |``
    below eps with probability 1 - delta (lemma tensorsketch_ose; 11 = 2 + 3^2 is the constant
    of Avron, Nguyen and Woodruff, Theorem 1).

    >>> sketch = TensorSketch(3, 2, s=4, seed=1)
    >>> u, v = torch.ones(1, 3, dtype=torch.float64), torch.ones(1, 2, dtype=torch.float64)
    >>> bool(torch.allclose(sketch.sketch(u, v)[0], sketch.dense().sum(dim=1)))
    True
    """

    def __init__(self, m1: int, m2: int, s: int, seed: int = 0) -> None:
        super().__init__(m1, m2, s, seed)
        self.left = CountHash.seeded(self.seed, (1, 1))
        self.right = CountHash.seeded(self.seed, (1, 2))

    def count_sketches(self, left: Rows, right: Rows) -> Iterator[tuple[int, Tensor, Tensor]]:
        """Yield (first row, C1 of a block of U, C2 of the same block of V), block after block.

        The two buffers (B×s) are used again for the next block. Hashes are evaluated here, on
        demand, for the lesser of m columns and nnz entries, and forgotten at the end.

        Args:
            left: rows of U as :meth:`checked` returns them.
            right: rows of V; the same object as ``left`` where U is V.
        """
        n, dtype = left.shape[0], left.dtype
        self._record_count_sketches(left, right)
        if n == 0:
            return
        # Buffers of a block: two CountSketches and two spectra of s/2 + 1 complex numbers.
        size = block_rows(4 * self.s * dtype.itemsize, n, left.device)
        # The same rows under both hashes are read once.
        hashes = (self.left, self.right)
        if left is right:
            batches = [CountSketches(left, hashes, self.s, size)]
        else:
            pairs = zip((left, right), hashes, strict=True)
            batches = [CountSketches(rows, (h,), self.s, size) for rows, h in pairs]
        for first in range(0, n, size):
            one, two = (out for batch in batches for out in batch.block(first))
            yield first, one, two

    def flops(self, n: int, nnz_u: int, nnz_v: int, groups: int | None = None) -> int:
        """Operations that ``sketch`` counts: CountSketches, 2n + (results) transforms, products."""
        entries = count_flops(self.m1, nnz_u) + count_flops(self.m2, nnz_v)
        transforms = (2 * n + (n if groups is None else groups)) * self._fft_flops()
        return entries + transforms + self._combine_flops(n, groups is not None)

    def _sketch(self, left: Rows, right: Rows, groups: Tensor | None, count: int) -> Tensor:
        n, s, item = left.shape[0], self.s, left.dtype.itemsize
        half, device = s // 2 + 1, left.device
        record(
            "fft", flops=(2 * n + count) * self._fft_flops(), bytes=(2 * n + count) * 2 * s * item
        )
        flops = self._combine_flops(n, groups is not None)
        record(
            "sketch_combine",
            flops=flops,
            bytes=(3 + 2 * (groups is not None)) * n * 2 * half * item,
        )
        out = torch.empty(count, s, dtype=left.dtype, device=device)
        kind = torch.complex64 if item == 4 else torch.complex128
        if n == 0:
            return out
        spectra: list[Tensor] = []
        total = None if groups is None else torch.zeros(count, half, dtype=kind, device=device)
        for first, a, b in self.count_sketches(left, right):
            rows = a.shape[0]
            if not spectra:
                spectra = [torch.empty(rows, half, dtype=kind, device=device) for _ in range(2)]
            x, y = (spectrum[:rows] for spectrum in spectra)
            torch.fft.rfft(a, out=x)
            torch.fft.rfft(b, out=y)
            torch.mul(x, y, out=x)
            if groups is None or total is None:
                torch.fft.irfft(x, n=s, out=out[first : first + rows])
            else:
                total.index_add_(0, groups[first : first + rows], x)
        if total is not None:  # one inverse transform a group, not one a row
            torch.fft.irfft(total, n=s, out=out)
        return out

    def _dense(self) -> Tensor:
        i, j = torch.arange(self.m1), torch.arange(self.m2)
        h1, h2 = self.left.bucket.buckets(i, self.s), self.right.bucket.buckets(j, self.s)
        target = (h1[:, None] + h2[None, :]) % self.s  # m1×m2
        signs = self.left.sign.signs(i)[:, None] * self.right.sign.signs(j)[None, :]
        out = torch.zeros(self.s, self.m1 * self.m2, dtype=torch.float64)
        out[target.flatten(), torch.arange(target.numel())] = signs.flatten()
        return out

    def _fft_flops(self) -> int:
        """2.5 s log2 s: half the customary count of a complex transform."""
        return int(2.5 * self.s * math.log2(self.s))

    def _combine_flops(self, n: int, grouped: bool) -> int:
        """A complex product is 6 operations, a complex sum 2."""
        return n * (self.s // 2 + 1) * (8 if grouped else 6)

    def _record_count_sketches(self, left: Rows, right: Rows) -> None:
        flops = count_flops(self.m1, stored(left)) + count_flops(self.m2, stored(right))
        read = 0
        for rows in (left,) if left is right else (left, right):
            read += (
                rows.nbytes if isinstance(rows, SparseRows) else stored(rows) * left.dtype.itemsize
            )
        record(
            "countsketch",
            flops=flops,
            bytes=read + 2 * left.shape[0] * self.s * left.dtype.itemsize,
        )
