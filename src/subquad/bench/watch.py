"""Times a training run by the residuals that it reports."""

from __future__ import annotations

import itertools
import math
import statistics
import time

TOL = 1e-6
"""Relative residual that everyone trains to."""


class Finished(Exception):
    """The watch has seen enough."""


class Watch:
    """Notes when a rival knew which residual, and stops it.

    Args:
        limit: seconds, initialisation included.
        tol: relative residual to stop at.
        most: residuals to stop after.
    """

    def __init__(self, limit: float, tol: float = TOL, most: int | None = None) -> None:
        self.limit, self.tol, self.most = limit, tol, most
        self.init = 0.0
        self.seen: list[tuple[float, float]] = []  # (seconds, residual)

    def start(self) -> None:
        """Copies are made; time runs."""
        self._began = time.perf_counter()

    def ready(self) -> None:
        """Initialisation is over."""
        self.init = time.perf_counter() - self._began

    def __call__(self, residual: float) -> None:
        """Take note of a residual; raise :class:`Finished` when it is the last one wanted."""
        seconds = time.perf_counter() - self._began
        if not math.isfinite(residual):
            raise Finished
        self.seen.append((seconds, residual))
        if residual <= self.tol or seconds >= self.limit or len(self.seen) == self.most:
            raise Finished

    def confirm(self, residual: float) -> None:
        """Put a residual in the last one's place, which was known for certain only now."""
        self.seen[-1] = time.perf_counter() - self._began, residual

    def until(self, residual: float) -> float | None:
        """Seconds to the first residual that small."""
        return next((s for s, r in self.seen if r <= residual), None)

    @property
    def best(self) -> float:
        """The lowest residual; 1, that of the start, if there is none."""
        return min((r for _, r in self.seen), default=1.0)

    @property
    def per_iteration(self) -> float | None:
        """Median seconds from one residual to the next."""
        times = [self.init, *(s for s, _ in self.seen)]
        gaps = [b - a for a, b in itertools.pairwise(times)]
        # Where the residual is known before the step, the first gap is half an iteration.
        return statistics.median(gaps) if gaps else None
