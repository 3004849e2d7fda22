"""Circulant weights: a Gaussian circulant matrix times a signed Hadamard matrix, by FFT."""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch
from torch import Tensor

from subquad.kernels import pick
from subquad.rows import Rows, SparseRows
from subquad.weights.structured import StructuredWeight

BLOCK_BYTES = 1 << 24
"""Rows transformed at a time: a block stays in the caches, and memory use has a bound."""


class CirculantWeight(StructuredWeight):
    """W = sqrt(2/m_out) C D2 H D1, cut to m_out×m_in (`math.md` 5).

    C is circulant of size M with M independent normals g, `C_rc = g[(r - c) mod M]`, H the
    orthonormal Hadamard matrix, the D diagonals of random signs; M is the next power of two, so
    other widths are padded at the input and cut at the output. Every row by itself is exactly
    i.i.d. N(0, 2/m_out); rows are uncorrelated, but all shifts of one vector. H D1 spreads an
    input over all of g, D2 breaks the pattern of H's rows: without both, neighbouring neurons
    would see almost the same. Keeps the spectrum of g and 2M signs. The FFT splits its work by the
    number of threads, so products are equal to rounding, not bit for bit.

    Args:
        m_out: rows of W.
        m_in: columns of W.
        seed: of normals and signs.
        dtype: float32 or float64; the FFT runs in it.
        device: a torch device.

    >>> weight = CirculantWeight(4, 3, 0, torch.float64, torch.device("cpu"))
    >>> Y = torch.eye(3, dtype=torch.float64)
    >>> torch.allclose(weight.matmul(Y), weight.dense().T)
    True
    """

    kind = "circulant"

    def __init__(
        self, m_out: int, m_in: int, seed: int, dtype: torch.dtype, device: torch.device
    ) -> None:
        super().__init__(m_out, m_in, dtype, device)
        M = self.length
        generator = torch.Generator().manual_seed(seed)
        g = torch.randn(M, generator=generator, dtype=torch.float64)
        bits = torch.randint(0, 2, (2, M), generator=generator, dtype=torch.int8)
        self._signs = (2 * bits - 1).to(device, dtype)
        # The scale and H's 1/sqrt(M) ride on the spectrum, so they cost nothing.
        spectrum = torch.fft.rfft(g * math.sqrt(2 / (m_out * M)))
        complex_dtype = torch.complex64 if dtype == torch.float32 else torch.complex128
        self._spectrum = spectrum.to(device, complex_dtype)

    @property
    def nbytes(self) -> int:
        """Bytes of spectrum and signs."""
        return self._spectrum.nbytes + self._signs.nbytes

    def _multiply(self, rows: Rows, out: Tensor) -> None:
        m_out, m_in = self.shape
        for part, block, work in self._blocks(rows):
            self._hadamard(block, self._signs[0, :m_in], work)
            work.mul_(self._signs[1])
            out[part] = self._convolve(work, self._spectrum)[:, :m_out]

    def _multiply_transpose(self, rows: Rows, out: Tensor) -> None:
        m_in = self.shape[1]
        for part, block, work in self._blocks(rows):
            full = self._convolve(block, self._spectrum.conj())
            self._hadamard(full, self._signs[1], work)
            torch.mul(work[:, :m_in], self._signs[0, :m_in], out=out[part])

    def _blocks(self, rows: Rows) -> Iterator[tuple[slice, Tensor, Tensor]]:
        """Runs of rows, these rows dense, and scratch memory (a block's rows × M)."""
        n = rows.shape[0]
        step = max(1, BLOCK_BYTES // (self.length * self.dtype.itemsize))
        scratch = torch.empty(min(step, n), self.length, dtype=self.dtype, device=self.device)
        dense = pick("sparse", self.device).spread
        for low in range(0, n, step):
            run = slice(low, min(low + step, n))
            part = rows[run]
            block = dense(part) if isinstance(part, SparseRows) else part
            yield run, block, scratch[: run.stop - low]

    def _convolve(self, block: Tensor, spectrum: Tensor) -> Tensor:
        waves = torch.fft.rfft(block, n=self.length).mul_(spectrum)
        return torch.fft.irfft(waves, n=self.length)

    def _hadamard(self, source: Tensor, signs: Tensor, out: Tensor) -> None:
        pick("fwht", self.device).transform(source[:, :, None], signs, out[:, :, None])

    def _bytes(self, rows: Rows, out: Tensor) -> int:
        """Bytes of all passes over a block."""
        n, width = out.shape
        return out.element_size() * n * (7 * self.length + width)

    def _row_flops(self, given: int) -> int:
        M = self.length
        log = M.bit_length() - 1
        return M * log + 2 * M + 2 * (5 * M * log // 2) + 3 * M  # real FFTs: 2.5 M log2 M each
