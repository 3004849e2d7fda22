"""Frozen weights: operators that are only ever multiplied."""

from subquad.weights.base import FrozenWeight
from subquad.weights.dense import DenseWeight

KINDS: tuple[str, ...] = ("dense",)

__all__ = ["KINDS", "DenseWeight", "FrozenWeight"]
