"""Who takes part in `bench peers`, with what settings, and how one of them is run."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch

from subquad.bench import rivals
from subquad.bench.rivals import Problem
from subquad.bench.watch import TOL, Finished, Watch
from subquad.memory import SHARE, free_bytes

PROBE = 1 / 4
"""Share of the time limit that one setting of a grid gets."""
REFERENCE = 4096
"""Learning rates are stated for this width and scaled by its ratio to the actual one."""


@dataclass(frozen=True)
class Peer:
    """One rival: what to try it with and what it needs.

    Attributes:
        name: for the table.
        kind: "first-order", "quasi-newton" or "gauss-newton".
        train: one of :mod:`subquad.bench.rivals`.
        grid: learning rates at width 4096, or lengths of history.
        numbers: float32 numbers it keeps, from n, m, the count of all weights, and the setting.
        package: distribution that it comes from.
    """

    name: str
    kind: str
    train: Callable[[Problem, Watch, float], None]
    grid: tuple[float, ...] = ()
    numbers: Callable[[int, int, int, float], float] = lambda n, m, weights, setting: 0
    package: str = "torch"

    @property
    def version(self) -> str | None:
        """Version of the package; None where it is not installed."""
        if importlib.util.find_spec(self.package.replace("-", "_")) is None:
            return None
        return importlib.metadata.version(self.package)

    def settings(self, width: int) -> list[float]:
        """The grid for this width."""
        rates = self.kind == "first-order"
        return [s * REFERENCE / width if rates else s for s in self.grid]


@dataclass(frozen=True)
class Outcome:
    """How one peer did: runs under a watch (none: it could not run), and why it ended early."""

    runs: list[Watch]
    note: str | None = None
    tuned: float | None = None
    seconds_tuning: float = 0.0


HISTORY = (5.0, 10.0, 30.0)
GRAM = Peer("dense gram gauss-newton", "gauss-newton", rivals.gram_gauss_newton)
PEERS = (
    Peer("adam, all layers", "first-order", rivals.adam_all, (3e-7, 1e-6, 3e-6, 1e-5, 3e-5)),
    Peer("adam, last layer", "first-order", rivals.adam_last, (1e-5, 3e-5, 1e-4, 3e-4, 1e-3)),
    Peer("adam, lora", "first-order", rivals.lora_last, (3e-5, 1e-4, 3e-4, 1e-3, 3e-3)),
    Peer(
        "l-bfgs, all layers",
        "quasi-newton",
        rivals.lbfgs_all,
        HISTORY,
        lambda n, m, weights, history: (2 * history + 6) * weights,
    ),
    Peer(
        "l-bfgs, last layer",
        "quasi-newton",
        rivals.lbfgs_last,
        HISTORY,
        lambda n, m, weights, history: (2 * history + 6) * m * m,
    ),
    Peer(
        "torch.func gauss-newton",
        "gauss-newton",
        rivals.explicit_gauss_newton,
        numbers=lambda n, m, weights, setting: 2 * n * m * m,  # pieces, and J joined from them
    ),
    Peer(
        "torch-levenberg-marquardt",
        "gauss-newton",
        rivals.levenberg_marquardt,
        numbers=lambda n, m, weights, setting: 3 * n * m * m,
        package="torch-levenberg-marquardt",
    ),
)


def compete(peer: Peer, problem: Problem, limit: float) -> Outcome:
    """Warm a peer up, tune it, and run it once."""
    n, m = problem.inputs.shape[0], problem.weights[-1].shape[0]
    count, room = sum(w.numel() for w in problem.weights), SHARE * free_bytes()
    settings = peer.settings(m) or [0.0]
    fits = [s for s in settings if 4 * peer.numbers(n, m, count, s) <= room]
    if not fits:
        need = 4 * peer.numbers(n, m, count, min(settings))
        short = f"needs {need / 1e9:.3g} GB of memory, {room / 1e9:.3g} GB may be used"
        return Outcome([], short)
    drive(peer, problem, Watch(limit, most=2), fits[0])
    began, scores = time.perf_counter(), []
    for setting in fits if len(fits) > 1 else ():
        watch = Watch(limit * PROBE)
        drive(peer, problem, watch, setting)
        reached = watch.until(TOL)
        scores.append((limit if reached is None else reached, watch.best, setting))
    tuning = time.perf_counter() - began
    best = min(scores)[2] if scores else fits[0]
    watch = Watch(limit)
    note = drive(peer, problem, watch, best)
    return Outcome([watch], note, best if peer.grid else None, tuning)


def drive(peer: Peer, problem: Problem, watch: Watch, setting: float = 0.0) -> str | None:
    """Run a peer until its watch ends it; return what ended it otherwise."""
    try:
        with torch.enable_grad():
            peer.train(problem, watch, setting)
    except Finished:
        return None
    except RuntimeError as error:  # singular matrices and lack of memory, too
        return str(error).splitlines()[0]
    return "it stopped by itself"
