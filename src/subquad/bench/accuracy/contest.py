"""Which cells there are, which are known already, and running the rest."""

from __future__ import annotations

import functools
import json
import os
import queue
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from subquad.bench.accuracy.datasets import Data
from subquad.bench.accuracy.peers import PEERS
from subquad.bench.accuracy.worker import Worker
from subquad.errors import InvalidInput
from subquad.runs.atomic import write_json

FORMAT = 1


@dataclass(frozen=True)
class Cell:
    """A peer on one fold of one repeat of a set."""

    data: str
    peer: str
    repeat: int
    fold: int


@dataclass(frozen=True, kw_only=True)
class Contest:
    """Everything that says which cells there are, and where their results lie."""

    sets: dict[str, Data]
    peers: Sequence[str]
    repeats: int
    folds: int
    rows: int
    limit: float
    cache: Path
    ledger: Path | None = None  # results of another machine, see benchmarks/cells.py

    def cells(self) -> Iterator[Cell]:
        """Repeat by repeat and fold by fold, so that a run that is stopped is balanced."""
        for repeat in range(self.repeats):
            for fold in range(self.folds):
                for peer in self.peers:
                    for data in self.sets:
                        yield Cell(data, peer, repeat, fold)

    def path(self, cell: Cell) -> Path:
        """The file of a cell."""
        name = f"{cell.repeat}-{cell.fold}of{self.folds}.json"
        return self.cache / str(self.rows) / cell.data / cell.peer / name

    def key(self, cell: Cell) -> dict[str, Any]:
        """What a stored result must have been made from to count."""
        return {
            "format": FORMAT,
            "data": self._sets_as_read[cell.data],
            **self._peers_as_found[cell.peer],
            "limit": self.limit,
        }

    @functools.cached_property
    def _sets_as_read(self) -> dict[str, str]:
        return {name: data.fingerprint for name, data in self.sets.items()}

    @functools.cached_property
    def _peers_as_found(self) -> dict[str, dict[str, Any]]:
        # Once: source that changes during a run must not pass for what was run.
        found = (PEERS[name] for name in self.peers)
        return {
            peer.name: {
                "peer": peer.name,
                "version": peer.version,
                "settings": peer.fingerprint,
            }
            for peer in found
        }

    def known(self, cell: Cell) -> dict[str, Any] | None:
        """A stored result; None where there is none, or one made from something else."""
        path = self.path(cell)
        try:
            stored = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            stored = self._entries.get(path.relative_to(self.cache).as_posix())
        if not isinstance(stored, dict) or stored.get("key") != self.key(cell):
            return None
        result: dict[str, Any] = stored["result"]
        return result

    @functools.cached_property
    def _entries(self) -> dict[str, Any]:
        if self.ledger is None:
            return {}
        try:
            lines = self.ledger.read_text(encoding="utf-8").splitlines()
            return {entry["cell"]: entry for entry in map(json.loads, lines)}
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise InvalidInput(
                f"{self.ledger} is no list of cells ({error}): benchmarks/cells.py writes one"
            ) from None

    def store(self, cell: Cell, result: dict[str, Any]) -> None:
        """Write a result where the next run finds it."""
        path = self.path(cell)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_json(path, {"key": self.key(cell), "result": result})

    def results(self) -> dict[Cell, dict[str, Any]]:
        """All stored results."""
        found = ((cell, self.known(cell)) for cell in self.cells())
        return {cell: result for cell, result in found if result is not None}


def compute(
    contest: Contest, missing: Sequence[Cell], jobs: int, done: Callable[[Cell, Any], None]
) -> None:
    """Run cells in ``jobs`` processes, storing each result as it comes.

    Interrupted, it kills the processes: what was stored stays, and only that.
    """
    waiting: queue.SimpleQueue[Cell] = queue.SimpleQueue()
    finished: queue.SimpleQueue[tuple[Cell, Any] | BaseException] = queue.SimpleQueue()
    for cell in missing:
        waiting.put(cell)
    workers = [Worker() for _ in range(min(jobs, len(missing)))]
    halt = threading.Event()

    def work(worker: Worker) -> None:
        try:
            while not halt.is_set():
                cell = waiting.get_nowait()
                data = contest.sets[cell.data]
                given = (data, cell.peer, cell.repeat, cell.fold, contest.folds, contest.limit)
                finished.put((cell, worker.run(*given)))
        except queue.Empty:
            pass
        except BaseException as error:
            finished.put(error)

    threads = [threading.Thread(target=work, args=(w,), daemon=True) for w in workers]
    try:
        for thread in threads:
            thread.start()
        for _ in missing:
            got = finished.get()
            if isinstance(got, BaseException):
                raise got
            contest.store(*got)
            done(*got)
    finally:
        halt.set()
        for worker in workers:
            worker.stop()


class Progress:
    """How far a contest is and how long it will take, on stderr."""

    def __init__(self, total: int, known: int, quiet: bool = False) -> None:
        self.total, self.known, self.quiet = total, known, quiet
        self.count, self.began, self.spoke = 0, time.perf_counter(), 0.0
        self._bar: Any = None

    def __enter__(self) -> Progress:
        import sys

        if not self.quiet and sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import (
                BarColumn,
                MofNCompleteColumn,
                TextColumn,
                TimeElapsedColumn,
                TimeRemainingColumn,
            )
            from rich.progress import Progress as Bar

            self._bar = Bar(
                *(TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn()),
                *(TimeElapsedColumn(), TextColumn("left"), TimeRemainingColumn()),
                console=Console(stderr=True),
            )
            self._task = self._bar.add_task("cells", total=self.total, completed=self.known)
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def __call__(self, cell: Cell, result: Any) -> None:
        """One more cell is known."""
        import sys

        self.count += 1
        what = f"{cell.data}, {cell.peer}, {cell.repeat}.{cell.fold}"
        if self._bar is not None:
            self._bar.update(self._task, advance=1, description=what)
            return
        seconds = time.perf_counter() - self.began
        last = self.count == self.total - self.known
        if self.quiet or (seconds - self.spoke < 10 and not last and self.count > 1):
            return
        self.spoke = seconds
        left = (self.total - self.known - self.count) * seconds / self.count
        ending = f", {result['error']}" if result["error"] else ""
        print(
            f"{self.known + self.count} of {self.total} cells, {left / 60:.0f} min left: "
            f"{what} {result['fit_seconds']:.1f} s{ending}",
            file=sys.stderr,
            flush=True,
        )


def default_cache() -> Path:
    """Where cells are kept unless told otherwise."""
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "subquad" / "accuracy"
