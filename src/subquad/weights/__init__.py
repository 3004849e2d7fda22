"""Frozen weights: operators that are only ever multiplied."""

from __future__ import annotations

from collections.abc import Callable

import torch

from subquad.errors import unknown_name
from subquad.weights.base import FrozenWeight
from subquad.weights.circulant import CirculantWeight
from subquad.weights.dense import DenseWeight
from subquad.weights.gaussian import GaussianWeight
from subquad.weights.hadamard import HadamardWeight
from subquad.weights.mapped import MappedWeight
from subquad.weights.sobol import MOST_INPUTS, sobol
from subquad.weights.sparse import SparseGaussianWeight, nonzeros

_MAKERS: dict[str, Callable[[int, int, int, torch.dtype, torch.device], FrozenWeight]] = {
    "dense": DenseWeight.gaussian,
    "gaussian": GaussianWeight,
    "hadamard": HadamardWeight,
    "circulant": CirculantWeight,
    "sparse": SparseGaussianWeight,
    "sobol": sobol,
}

KINDS: tuple[str, ...] = tuple(_MAKERS)
"""Names of what :func:`build` makes."""


def build(
    kind: str, m_out: int, m_in: int, seed: int, dtype: torch.dtype, device: torch.device
) -> FrozenWeight:
    """Make a weight of a kind, its entries of mean 0 and variance 2/m_out decided by ``seed``.

    >>> build("hadamard", 6, 4, 0, torch.float32, torch.device("cpu")).shape
    (6, 4)
    """
    if kind not in _MAKERS:
        raise unknown_name("kind of weights", kind, KINDS)
    return _MAKERS[kind](m_out, m_in, seed, dtype, device)


def stored_bytes(kind: str, m_out: int, m_in: int, item: int) -> int:
    """Bytes that a weight of a kind will keep, at ``item`` bytes a number.

    >>> stored_bytes("dense", 100, 50, 4), stored_bytes("hadamard", 100, 50, 4)
    (20000, 1536)
    """
    if kind == "sobol":
        kind = "dense" if m_in <= MOST_INPUTS else "hadamard"
    if kind == "dense":
        return item * m_out * m_in
    if kind == "sparse":
        return (item + 4) * m_out * nonzeros(m_in)
    length = 1 << (max(m_out, m_in) - 1).bit_length()
    return {"hadamard": 3, "circulant": 4}.get(kind, 0) * item * length


__all__ = [
    "KINDS",
    "CirculantWeight",
    "DenseWeight",
    "FrozenWeight",
    "GaussianWeight",
    "HadamardWeight",
    "MappedWeight",
    "SparseGaussianWeight",
    "build",
    "stored_bytes",
]
