"""Training as it goes: a table on a terminal, one line an iteration elsewhere."""

from __future__ import annotations

import sys
import time
from collections import deque
from types import TracebackType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.live import Live
    from rich.table import Table

    from subquad.training import Iteration

HEAD = ("iteration", "residual", "", "firing, %", "flop", "dense step", "seconds")
SHOWN = 15


class TrainingView:
    """Shows residual, firing rate and cost of each iteration on stderr while it is open."""

    def __init__(self, *, dense_step: float, aim: float, quiet: bool, verbose: bool) -> None:
        self._dense_step, self._aim = dense_step, aim
        self._quiet, self._verbose = quiet, verbose
        self._rows: deque[tuple[str, ...]] = deque(maxlen=SHOWN)
        self._begin = self._last = time.perf_counter()
        self._live: Live | None = None

    def __enter__(self) -> TrainingView:
        if not self._quiet and sys.stderr.isatty():
            from rich.console import Console
            from rich.live import Live

            self._live = Live(self._table(), console=Console(stderr=True), auto_refresh=False)
            self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._live is not None:
            self._live.update(self._table(), refresh=True)
            self._live.stop()

    def __call__(self, info: Iteration) -> bool:
        """Show one iteration; never stops the training."""
        if self._quiet:
            return False
        now = time.perf_counter()
        self._rows.append(self._row(info, now - self._begin))
        if self._live is not None:
            self._live.update(self._table(), refresh=True)
        elif self._verbose or info.iteration <= SHOWN or now - self._last >= 1.0:
            self._last = now
            self._print(info)
        return False

    def _row(self, info: Iteration, seconds: float) -> tuple[str, ...]:
        flops = info.cost.flops
        return (
            str(info.iteration),
            f"{info.residual:.2e}",
            _bar(info.residual, self._aim),
            " ".join(f"{100 * rate:.1f}" for rate in info.firing),
            si(flops),
            share(flops / self._dense_step),
            f"{seconds:.1f}",
        )

    def _print(self, info: Iteration) -> None:
        number, residual, _, firing, flops, part, seconds = self._rows[-1]
        of = "of " if part.endswith("%") else ""
        line = (
            f"iteration {number}: residual {residual}, firing {firing} %, {flops}flop "
            f"({part} {of}a dense step), {seconds} s"
        )
        if self._verbose and info.certificate is not None:
            line += f", {info.certificate}"
        print(line, file=sys.stderr, flush=True)

    def _table(self) -> Table:
        from rich.table import Table

        table = Table(box=None, pad_edge=False)
        for name in HEAD:
            table.add_column(name, justify="left" if name == "" else "right", no_wrap=True)
        for row in self._rows:
            table.add_row(*row)
        return table


class StageView:
    """Shows what is being done: its last line moves on a terminal, one line a stage elsewhere."""

    def __init__(self, *, quiet: bool) -> None:
        self._quiet = quiet
        self._begin = time.perf_counter()
        self._live: Live | None = None
        self._stages: list[tuple[str, float]] = []
        self._ended = 0.0

    def __enter__(self) -> StageView:
        if not self._quiet and sys.stderr.isatty():
            from rich.console import Console
            from rich.live import Live

            self._live = Live(
                get_renderable=self._shown, console=Console(stderr=True), refresh_per_second=8
            )
            self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._live is not None:
            self._ended = self._seconds()
            self._live.stop()

    def __call__(self, stage: str) -> None:
        """Begin a stage."""
        self._stages.append((stage, self._seconds()))
        if not self._quiet and self._live is None:
            print(f"{self._stages[-1][1]:.1f} s: {stage}", file=sys.stderr, flush=True)

    def _seconds(self) -> float:
        return time.perf_counter() - self._begin

    def _shown(self) -> Table:
        from rich.table import Table

        table = Table.grid(padding=(0, 2))
        table.add_column(justify="right", no_wrap=True)
        table.add_column(no_wrap=True)
        ends = [*(begin for _, begin in self._stages[1:]), self._ended or self._seconds()]
        for (stage, begin), end in zip(self._stages, ends[: len(self._stages)], strict=True):
            table.add_row(f"{end - begin:.1f} s", stage)
        return table


def si(value: float) -> str:
    """A count with its prefix: 1.23e9 is ``1.23 G``."""
    for size, prefix in ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:.3g} {prefix}"
    return f"{value:.3g} "


def share(ratio: float) -> str:
    """A part in percent, more than the whole as a multiple: ``25 %``, ``72 times``."""
    return f"{100 * ratio:.2g} %" if ratio < 1 else f"{ratio:.3g} times"


def _bar(residual: float, aim: float, cells: int = 12) -> str:
    """How far the residual has come on its way from 1 to the aim, on a logarithmic scale."""
    import math

    if not 0 < residual < math.inf or not 0 < aim < 1:
        return ""
    done = min(max(math.log(residual) / math.log(aim), 0.0), 1.0)
    return "█" * round(done * cells) + "░" * (cells - round(done * cells))
