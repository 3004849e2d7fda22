"""One line of progress on a terminal, once training takes more than a moment."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from subquad.training.result import Iteration

PATIENCE = 2.0
"""Seconds of silence before anything is shown."""


class Progress:
    """Shows residual and time per iteration on stderr.

    Args:
        wanted: True or False, or None to show it on a terminal only.
        max_iter: iterations at most, for the bar.
        tol: where it ends, shown beside the residual.
    """

    def __init__(self, wanted: bool | None, max_iter: int, tol: float) -> None:
        self.wanted = sys.stderr.isatty() if wanted is None else wanted
        self.max_iter, self.tol = max_iter, tol
        self.started = time.perf_counter()
        self._bar: Any = None
        self._task: Any = None

    def show(self, info: Iteration) -> None:
        """Take note of an iteration."""
        if not self.wanted:
            return
        if self._bar is None:
            if time.perf_counter() - self.started < PATIENCE:
                return
            self._open()
        text = f"residual {info.residual:.2e} (to {self.tol:.0e}), {info.cost.flops:.1e} flop"
        self._bar.update(self._task, completed=info.iteration, description=text)

    def close(self) -> None:
        """Leave the terminal as it was."""
        if self._bar is not None:
            self._bar.stop()

    def _open(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
        from rich.progress import Progress as Bar

        self._bar = Bar(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=Console(stderr=True),
            transient=True,
        )
        self._task = self._bar.add_task("training", total=self.max_iter)
        self._bar.start()
