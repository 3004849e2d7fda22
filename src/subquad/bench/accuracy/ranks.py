"""From scores to ranks, the critical difference and paired tests.

Demšar (2006), "Statistical comparisons of classifiers over multiple data sets": mean ranks over
sets, the Friedman test, Nemenyi's critical difference, and the signed-rank test for pairs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import stats

Array = npt.NDArray[np.float64]


def ranks(losses: Array) -> Array:
    """Rank of each peer (column) on each set (row), 1 the lowest loss, ties shared, NaN last."""
    filled = np.where(np.isnan(losses), np.inf, losses)
    found: Array = stats.rankdata(filled, axis=1)
    return found


def critical_difference(peers: int, sets: int, level: float = 0.05) -> float:
    """Nemenyi's: mean ranks further apart differ; q / √2 · √(k (k + 1) / (6 N)).

    >>> round(critical_difference(4, 14), 2)  # Demšar's example, q = 2.569
    1.25
    """
    q = float(stats.studentized_range.ppf(1 - level, peers, np.inf)) / math.sqrt(2)
    return q * math.sqrt(peers * (peers + 1) / (6 * sets))


def friedman(losses: Array) -> float | None:
    """p of all peers being alike; None with fewer than three peers or two sets."""
    if losses.shape[1] < 3 or losses.shape[0] < 2:
        return None
    p = float(stats.friedmanchisquare(*worst_for_missing(losses).T).pvalue)
    return p if math.isfinite(p) else None


def worst_for_missing(losses: Array) -> Array:
    """Where a peer has no loss, the worst of the others on that set (or fold)."""
    present = np.where(np.isnan(losses), -np.inf, losses)
    worst = present.max(axis=1, keepdims=True)
    filled: Array = np.where(np.isnan(losses), np.where(np.isfinite(worst), worst, 0.0), losses)
    return filled


def paired(mine: Array, theirs: Array) -> dict[str, Any]:
    """Wilcoxon's signed-rank test, two-sided, with wins, ties and losses of the first."""
    difference = mine - theirs
    p = None
    if np.any(difference != 0):
        p = float(stats.wilcoxon(mine, theirs).pvalue)
    return {
        "p": p,
        "wins": int(np.sum(difference < 0)),
        "ties": int(np.sum(difference == 0)),
        "losses": int(np.sum(difference > 0)),
        "median_difference": float(np.median(difference)),
    }


def cliques(means: Sequence[float], difference: float) -> list[tuple[int, int]]:
    """Runs of ranks, given in rising order, that lie within the critical difference.

    >>> cliques([1.0, 1.5, 2.2, 4.0], 1.0)
    [(0, 1), (1, 2)]
    """
    found: list[tuple[int, int]] = []
    for i, low in enumerate(means):
        end = max(j for j in range(i, len(means)) if means[j] - low <= difference)
        if end > i and not any(a <= i and end <= b for a, b in found):
            found.append((i, end))
    return found
