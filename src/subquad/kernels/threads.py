"""How many threads a compiled loop gets."""

from __future__ import annotations

import numba
import torch

SMALL = 1 << 15
"""Elements: below, a loop ends sooner than a second thread has started."""


def use_threads(work: int) -> None:
    """Let the next compiled loops of this thread use torch's threads, or one if ``work`` is small.

    Waiting for a thread costs microseconds, and a scheduler's time slice of milliseconds where
    other processes want the cores too.
    """
    most: int = numba.config.NUMBA_NUM_THREADS  # type: ignore[attr-defined]
    numba.set_num_threads(1 if work < SMALL else max(1, min(torch.get_num_threads(), most)))
