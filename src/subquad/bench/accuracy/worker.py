"""A process that runs cells one after the other, on one thread, and can be killed."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import time
import warnings
from collections.abc import Iterator
from multiprocessing.connection import Connection
from typing import Any

from subquad.bench.accuracy.datasets import Data

THREADS = (
    *("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"),
    *("BLIS_NUM_THREADS", "NUMEXPR_NUM_THREADS", "NUMBA_NUM_THREADS"),
)
READY = "ready"
IMPORTS = 300.0
"""Seconds that a peer's packages may take to be imported, which its limit does not count."""


class Worker:
    """Runs cells in a process of its own; a cell over its limit is killed with the process."""

    def __init__(self) -> None:
        self._process: Any = None

    def run(self, data: Data, peer: str, repeat: int, fold: int, folds: int, limit: float) -> Any:
        """The cell's result; scores are None, with the reason, where there are none."""
        self._start()
        began = time.perf_counter()
        try:
            self._pipe.send((data, peer, repeat, fold, folds))
            ready = self._expect(IMPORTS)
            if ready != READY:
                return ready
            began = time.perf_counter()
            found = self._expect(limit)
            if found["error"] is None:
                # Untuned scores that take longer stay unknown: the cell itself was in time.
                with contextlib.suppress(TimeoutError):
                    found = self._expect(limit)
            return found
        except TimeoutError:
            return failed(f"over {limit:g} s", time.perf_counter() - began)
        except EOFError:
            self.stop()
            return failed("its process ended", time.perf_counter() - began)

    def stop(self) -> None:
        """Kill the process."""
        if self._process is not None:
            self._process.kill()
            self._process.join()
            self._pipe.close()
            self._process = None

    def _start(self) -> None:
        if self._process is not None and self._process.is_alive():
            return
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=serve, args=(theirs,), daemon=True)
        with single_thread():
            self._process.start()
        theirs.close()

    def _expect(self, seconds: float) -> Any:
        if not self._pipe.poll(seconds):
            self.stop()
            raise TimeoutError
        return self._pipe.recv()


def failed(why: str, seconds: float) -> dict[str, Any]:
    """The result of a cell without scores."""
    return {
        "scores": None,
        "untuned_scores": None,
        "fit_seconds": seconds,
        "predict_seconds": None,
        "chosen": None,
        "error": why,
    }


@contextlib.contextmanager
def single_thread() -> Iterator[None]:
    """Processes started inside get libraries of one thread; ours keeps its own."""
    before = {name: os.environ.get(name) for name in THREADS}
    os.environ.update(dict.fromkeys(THREADS, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def serve(pipe: Connection) -> None:
    """The other side: run what is asked until nobody asks any more."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides when work ends
    import torch

    from subquad.bench.accuracy.cell import run_cell

    torch.set_num_threads(1)
    warm: set[str] = set()
    while True:
        try:
            data, peer, repeat, fold, folds = pipe.recv()
        except EOFError:
            return
        began = time.perf_counter()
        try:
            if peer not in warm:
                warm_up(peer, data.task == "classification")
                warm.add(peer)
            pipe.send(READY)
            began = time.perf_counter()
            pipe.send(run_cell(data, peer, repeat, fold, folds, tell=pipe.send))
        except Exception as error:  # a peer's failure is a result like any other
            first = str(error).splitlines()[0] if str(error) else type(error).__name__
            pipe.send(failed(f"{type(error).__name__}: {first[:200]}", time.perf_counter() - began))


def warm_up(peer: str, classes: bool) -> None:
    """Import a peer's packages, and let it compile what it compiles, on a tiny table."""
    import numpy as np

    from subquad.bench.accuracy.peers import PEERS

    X = np.random.default_rng(0).normal(size=(48, 2))
    y = (X[:, 0] > 0).astype(np.int64) if classes else X[:, 0]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        PEERS[peer].make(classes, 0, False).fit(X, y).predict(X)
