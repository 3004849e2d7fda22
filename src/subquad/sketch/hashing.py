"""Seeded k-wise independent hashes: polynomials over the prime field 2^61-1."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from subquad import kernels
from subquad.errors import InvalidInput
from subquad.kernels.sketching_plain import PRIME, polynomial, to_buckets

INDEX_LIMIT = 1 << 31  # the limb splitting multiplies 31-bit indices


def seeded_coefficients(k: int, seed: int, stream: tuple[int, ...]) -> Tensor:
    """k uniform numbers below 2^61-1, a function of (seed, stream) alone.

    They come from ``numpy.random.SeedSequence(seed, spawn_key=stream)``, whose integers numpy
    keeps the same from version to version; no device or thread count enters.
    """
    words = np.random.SeedSequence(seed, spawn_key=stream).generate_state(k, np.uint64)
    # The low 61 bits: only 2^61-1 itself has to be folded to 0, a bias of 2^-61.
    return torch.from_numpy(((words & np.uint64(PRIME)) % np.uint64(PRIME)).astype(np.int64))


@dataclass(frozen=True)
class PolynomialHash:
    """``h(x) = c_0 x^(k-1) + ... + c_(k-1) mod 2^61-1``: k-wise independent over x < 2^31.

    Any k distinct arguments give independent uniform values, because k points determine one
    polynomial of degree k-1 (Wegman and Carter). Buckets and signs inherit that up to the
    rounding of 2^61-1 values to ``size`` ones, a bias below ``size / 2^61``.

    Args:
        coefficients: int64, below 2^61-1, the highest power first.

    >>> PolynomialHash(torch.tensor([2, 3, 5])).values(torch.tensor([0, 1, 10]))
    tensor([  5,  10, 235])
    """

    coefficients: Tensor

    @classmethod
    def seeded(cls, k: int, seed: int, stream: tuple[int, ...] = ()) -> PolynomialHash:
        """Draw the k coefficients from ``seed``; different streams are independent."""
        return cls(seeded_coefficients(k, seed, stream))

    def values(self, index: Tensor) -> Tensor:
        """h at each int64 index, below 2^61-1."""
        if index.dtype != torch.int64:
            raise InvalidInput(f"index must be int64, not {index.dtype}: convert it with .long()")
        if index.numel() and (int(index.min()) < 0 or int(index.max()) >= INDEX_LIMIT):
            got = f"{int(index.min())}..{int(index.max())}"
            raise InvalidInput(f"index must lie in 0..2^31-1, got {got}: shorten the vectors")
        return polynomial(self.coefficients.to(index.device), index)

    def buckets(self, index: Tensor, size: int) -> Tensor:
        """``floor(h(x) size / 2^61)`` in 0..size-1, int64."""
        if not 1 <= size < INDEX_LIMIT:
            raise InvalidInput(f"size must lie in 1..2^31-1, got {size}")
        return to_buckets(self.values(index), size)

    def signs(self, index: Tensor, dtype: torch.dtype = torch.float64) -> Tensor:
        """±1 from the lowest bit of h."""
        return (1 - 2 * (self.values(index) & 1)).to(dtype)


@dataclass(frozen=True)
class CountHash:
    """What one CountSketch needs: a 3-wise bucket hash and a 4-wise sign hash."""

    bucket: PolynomialHash
    sign: PolynomialHash

    @classmethod
    def seeded(cls, seed: int, stream: tuple[int, ...]) -> CountHash:
        """Two independent hashes from ``seed``."""
        bucket = PolynomialHash.seeded(3, seed, (*stream, 0))
        return cls(bucket, PolynomialHash.seeded(4, seed, (*stream, 1)))

    @property
    def coefficients(self) -> Tensor:
        """All seven, the bucket's first."""
        return torch.cat((self.bucket.coefficients, self.sign.coefficients))


def hash_words(hashes: Sequence[CountHash], index: Tensor, size: int) -> Tensor:
    """One or two hashes of each index (int64, known to be in range), packed into one word.

    Layout and evaluation are the kernels' affair: see ``kernels/sketching_plain.py``.
    """
    coefficients = torch.stack([h.coefficients for h in hashes]).to(index.device)
    kernel = kernels.pick("sketching", index.device)
    words: Tensor = kernel.hash_words(index, coefficients, size)
    return words
