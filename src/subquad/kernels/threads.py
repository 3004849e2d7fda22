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
    wanted = torch.get_num_threads()
    numba.set_num_threads(1 if work < SMALL else max(1, min(wanted, most)))
    if torch.get_num_threads() != wanted:  # numba has just started its threads, and set all of
        torch.set_num_threads(wanted)  # OpenMP to their number
