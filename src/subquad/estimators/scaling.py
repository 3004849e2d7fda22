"""Inputs brought to mean 0 and deviation 1."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from subquad.theory.duals import Array

FURTHEST = 1e6
"""Deviations from the mean that anything further counts as."""


@dataclass(frozen=True)
class Scaling:
    """Inputs with mean 0 and deviation 1; columns that do not vary are left out."""

    mean: Array
    scale: Array  # 0 where a column does not vary

    @classmethod
    def fit(cls, X: Array, weights: Array) -> Scaling:
        """Learn weighted means and deviations; columns are divided by their largest first."""
        largest = np.abs(X).max(axis=0)
        safe = np.where(largest > 0, largest, 1.0)
        share = weights / weights.sum()
        relative = X / safe
        mean = share @ relative
        deviation = np.sqrt(share @ (relative - mean) ** 2)
        return cls(mean * safe, np.where(deviation > 1e-12, deviation, 0.0) * safe)

    @property
    def kept(self) -> Any:
        """Which columns vary; the first alone where none does, and it counts as 0 then."""
        varies = self.scale > 0
        return varies if varies.any() else np.arange(len(varies)) == 0

    def __call__(self, X: Array) -> Array:
        """Return standardised inputs, n×kept."""
        kept = self.kept
        scale = self.scale[kept]
        away = (X[:, kept] - self.mean[kept]) / np.where(scale > 0, scale, 1.0)
        found: Array = np.where(scale > 0, np.clip(away, -FURTHEST, FURTHEST), 0.0)
        return found
