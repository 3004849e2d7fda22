"""CountSketch of blocks of rows."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from subquad import kernels
from subquad.rows import Rows, SparseRows
from subquad.sketch.hashing import CountHash, hash_words


def count_flops(m: int, nnz: int) -> int:
    """Operations of one CountSketch of rows of length m with ``nnz`` entries in all.

    A sign and an addition for each entry; for each index that is hashed, two Horner steps of the
    bucket and three of the sign, of two operations.
    """
    return 2 * nnz + 10 * min(m, nnz)


class CountSketches:
    """CountSketches of the same rows under one or two hashes, a block at a time.

    ``(C x)_b = sum of g(j) x_j over all j with h(j) = b``. The hashes are evaluated here, for the
    lesser of m columns and nnz entries, and live no longer than this object.

    Args:
        rows: n×m.
        hashes: one or two.
        s: length of a CountSketch.
        size: rows of a block; the buffers (size×s) are used again for the next block.
    """

    def __init__(self, rows: Rows, hashes: Sequence[CountHash], s: int, size: int) -> None:
        self.n, self.size = rows.shape[0], size
        m, device = rows.shape[1], rows.device
        if isinstance(rows, SparseRows) and rows.nnz < m:
            index, slots = rows.columns, torch.arange(rows.nnz, device=device)
        else:
            index = torch.arange(m, device=device)
            slots = rows.columns if isinstance(rows, SparseRows) else index
        # slots: where in the hash values a stored entry finds its own
        self.outs = [torch.empty(size, s, dtype=rows.dtype, device=device) for _ in hashes]
        words = hash_words(hashes, index.contiguous(), s)
        kernel = kernels.pick("sketching", device)
        if isinstance(rows, SparseRows):
            self._fill = kernel.sparse((rows.start, slots, rows.values), words, *self.outs)
        else:
            self._fill = kernel.dense(rows, words, *self.outs)

    def block(self, first: int) -> list[Tensor]:
        """CountSketches (B×s) of the rows from ``first`` on; ask for blocks in their order."""
        self._fill(first)
        count = min(self.size, self.n - first)
        return self.outs if count == self.size else [out[:count] for out in self.outs]
