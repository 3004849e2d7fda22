"""Hadamard weights: three signed Walsh-Hadamard transforms, nothing stored but signs."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from subquad.kernels import pick
from subquad.rows import Rows
from subquad.weights.structured import StructuredWeight, power_covering


class HadamardWeight(StructuredWeight):
    """W = sqrt(2M/m_out) (H D1 H D2 H D3), cut to m_out×m_in (`math.md` 5).

    H is the orthonormal Hadamard matrix of size M, the D are diagonals of random signs. Entries
    have mean square 2/m_out and are close to normal; W is part of an orthogonal matrix, so its
    columns are exactly orthogonal where m_out = M, its rows where m_in = M. Keeps 3M signs;
    a row costs 3 M log2 M additions.

    Args:
        m_out: rows of W.
        m_in: columns of W.
        seed: of the signs.
        dtype: float32 or float64.
        device: a torch device.

    >>> weight = HadamardWeight(4, 4, 0, torch.float64, torch.device("cpu"))
    >>> W = weight.dense()
    >>> torch.allclose(W.T @ W, 2 * torch.eye(4, dtype=torch.float64))
    True
    """

    kind = "hadamard"

    def __init__(
        self, m_out: int, m_in: int, seed: int, dtype: torch.dtype, device: torch.device
    ) -> None:
        super().__init__(m_out, m_in, dtype, device)
        generator = torch.Generator().manual_seed(seed)
        bits = torch.randint(0, 2, (3, self.length), generator=generator, dtype=torch.int8)
        signs = (2 * bits - 1).to(device, dtype)
        # The scale and the three factors 1/sqrt(M) ride on a sign diagonal, so they cost nothing.
        self._first, self._last = signs[0], signs[2]
        self._middle = signs[1] * (math.sqrt(2 / m_out) / self.length)

    @property
    def nbytes(self) -> int:
        """Bytes of the three diagonals."""
        return 3 * self._first.nbytes

    def _multiply(self, rows: Rows, out: Tensor) -> None:
        m_in = self.shape[1]
        self._products(rows, self._last[:m_in], (self._middle, self._first), None, out)

    def _multiply_transpose(self, rows: Rows, out: Tensor) -> None:
        m_in = self.shape[1]
        self._products(rows, None, (self._first, self._middle), self._last[:m_in], out)

    def _products(
        self,
        rows: Rows,
        first: Tensor | None,
        inner: tuple[Tensor, Tensor],
        last: Tensor | None,
        out: Tensor,
    ) -> None:
        pick("fwht", self.device).products(rows, first, inner, last, out, self.length)

    def _row_flops(self, given: int) -> int:
        """Of the first transform only the stages that numbers enter; the rest copy."""
        M, short = self.length, power_covering(given)
        log, short_log = M.bit_length() - 1, short.bit_length() - 1
        return short * short_log + 2 * M * log + 2 * M + self.shape[1]

    def _bytes(self, rows: Rows, out: Tensor) -> int:
        """Bytes read and written: on its way a row stays in the caches."""
        return rows.nbytes + out.nbytes
