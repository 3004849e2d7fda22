"""Hashing, CountSketch and sampled products: the twin in plain PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import torch
from torch import Tensor

Entries: TypeAlias = tuple[Tensor, Tensor, Tensor]
Fill: TypeAlias = Callable[[int], None]

PRIME = (1 << 61) - 1
_LOW30 = (1 << 30) - 1
_LOW31 = (1 << 31) - 1


def polynomial(coefficients: Tensor, index: Tensor) -> Tensor:
    """Horner's rule mod 2^61-1 for indices below 2^31; highest coefficient first.

    A 61-bit value times a 31-bit index does not fit 64 bits, so the value is cut at bit 30. The
    upper product counts 2^30, and 2^61 = 1 mod p carries its bits from 31 on to bit 0:
    ``v x = (v >> 30) x 2^30 + (v & low) x``. All sums stay below 3·2^61 + 2^31 < 2^63.
    """
    value = coefficients[0].expand(index.shape)
    for c in coefficients[1:]:
        high, low = (value >> 30) * index, (value & _LOW30) * index
        value = (high >> 31) + ((high & _LOW31) << 30) + low + c
        value = (value & PRIME) + (value >> 61)
        value = torch.where(value >= PRIME, value - PRIME, value)
    return value


def to_buckets(value: Tensor, size: int) -> Tensor:
    """``floor(value * size / 2^61)``, exactly, for size < 2^31: cheaper than a remainder."""
    return (((value >> 30) * size) + (((value & _LOW30) * size) >> 30)) >> 31


def hash_words(index: Tensor, coefficients: Tensor, size: int) -> Tensor:
    """One or two hashes (h×7: three of the bucket, four of the sign) in one word an index.

    Bits 0-30 hold the first bucket, bit 31 whether its sign is -1, bits 32-63 the second: a
    stored entry then looks up one word where four tables would be four cache misses.
    """
    words = torch.zeros_like(index)
    for k, row in enumerate(coefficients):
        negative = polynomial(row[3:], index) & 1
        words |= (to_buckets(polynomial(row[:3], index), size) | (negative << 31)) << (32 * k)
    return words


def unpack(words: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Buckets (int64) and signs (±1, int64) of hash k."""
    return (words >> (32 * k)) & _LOW31, 1 - 2 * ((words >> (32 * k + 31)) & 1)


def dense(rows: Tensor, words: Tensor, *outs: Tensor) -> Fill:
    """CountSketches of dense rows, block by block: ``out[i, b_j] = sum of sign_j rows[i, j]``.

    One buffer (B×s) for each hash in ``words``. The function returned fills them for the B rows
    (fewer at the end) from its argument on, and takes the blocks in their order.
    """

    def fill(first: int) -> None:
        for k, out in enumerate(outs):
            buckets, signs = unpack(words, k)
            block = rows[first : first + out.shape[0]]
            out[: block.shape[0]].zero_().index_add_(1, buckets, block * signs)

    return fill


def sparse(entries: Entries, words: Tensor, *outs: Tensor) -> Fill:
    """CountSketches of sparse rows, block by block, as :func:`dense` does it.

    Entry e of (start, slots, values) adds ``sign value_e`` to the bucket in ``words[slot_e]``.
    """
    start, slots, values = entries

    def fill(first: int) -> None:
        for k, out in enumerate(outs):
            span = start[first : first + out.shape[0] + 1]
            count, taken = span.numel() - 1, slice(int(span[0]), int(span[-1]))
            owners = torch.repeat_interleave(torch.arange(count, device=out.device), span.diff())
            buckets, signs = unpack(words[slots[taken]], k)
            place = owners * out.shape[1] + buckets
            out[:count].zero_().view(-1).index_add_(0, place, values[taken] * signs)

    return fill


def sampled_product(
    left: Tensor, right: Tensor, p: Tensor, q: Tensor, scale: float, out: Tensor
) -> None:
    """``out[i, r] = left[i, p_r] right[i, q_r] scale``."""
    torch.mul(left[:, p], right[:, q], out=out).mul_(scale)
