"""`subquad bench peers`: seconds to a residual, beside other ways to train the same network.

Everyone gets the same rows, targets and weight matrices: ours as the operator of the given
kind, the rivals of :mod:`subquad.bench.rivals` the same matrix made dense, for which they are
not charged. Each trains `f - f_0` in float32. Seconds count from the first use of the weights,
initialisation included. An iteration of a first-order or quasi-Newton peer is one evaluation
of loss and gradient.
"""

from __future__ import annotations

import math
import statistics
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

import subquad
from subquad.bench.contest import GRAM, PEERS, Outcome, compete, drive
from subquad.bench.machine import machine_info
from subquad.bench.problem import data, network
from subquad.bench.rivals import Problem
from subquad.bench.watch import TOL, Finished, Watch
from subquad.checks import integer, number
from subquad.errors import InvalidInput
from subquad.memory import SHARE, free_bytes
from subquad.network import WideNet
from subquad.training import Iteration, TrainResult, train

OURS = "subquad"
FAMILIES = {"first_order": ("first-order", "quasi-newton"), "gauss_newton": ("gauss-newton",)}


def run(
    *,
    width: int = 4096,
    samples: int = 256,
    depth: int = 3,
    shift: float = 1.0,
    seed: int = 0,
    quick: bool = False,
    weights: str = "hadamard",
    limit: float | None = None,
    repeats: int = 5,
    iteration_width: int = 16384,
) -> dict[str, object]:
    """Return the JSON object of `subquad bench peers`.

    Ours and dense Gram-Gauss-Newton take turns, ``repeats`` times, after a run that does not
    count, and their rows hold medians. The others run once, after a step that does not count.
    What has settings to tune gets the best of its grid: the first to 1e-6, or else the lowest
    residual, after a quarter of the limit each; `seconds_tuning` is not charged.

    A speed-up is the best peer's seconds over ours; where no peer of a family got there it is
    the time limit over ours, and `at_least` names it. `points` says when each run first fell
    below each half decade. `residual_of_predictions` is what our trained network leaves when it
    is asked for the training rows like any others.

    Args:
        width: m of every layer; at most 1024 with ``quick``.
        samples: n; at most 64 with ``quick``.
        depth: hidden layers.
        shift: b, relative.
        seed: of data and network.
        quick: small, 10 seconds a peer, and without ``iteration_width``.
        weights: kind of frozen weights.
        limit: seconds that a peer may take, by default 60.
        repeats: turns.
        iteration_width: m at which an iteration is compared with dense Gram-Gauss-Newton's.
    """
    width, samples = integer("width", width, least=2), integer("samples", samples, least=2)
    repeats = integer("repeats", repeats, least=1)
    iteration_width = integer("iteration_width", iteration_width, least=2)
    if quick:
        width, samples = min(width, 1024), min(samples, 64)
    limit = number("limit", (10.0 if quick else 60.0) if limit is None else limit, above=True)
    setup = Setup(samples, depth, shift, seed, weights)
    rows, points = [], []

    def enter(name: str, kind: str, version: str, outcome: Outcome) -> None:
        rows.append(_row(name, kind, version, outcome))
        points.extend(_points(name, outcome))
        _say(rows[-1])

    problem, ours, grams, left = _take_turns(setup, width, limit, repeats)
    enter(OURS, "gauss-newton", subquad.__version__, ours)
    enter(GRAM.name, GRAM.kind, torch.__version__, grams)
    missing = {}
    for peer in PEERS:
        version = peer.version
        if version is None:
            missing[peer.name] = "not installed here; `make peers` runs with it"
        else:
            enter(peer.name, peer.kind, version, compete(peer, problem, limit))
    del problem
    speedups, at_least = _speedups(rows, limit)
    return {
        "machine": machine_info(),
        "width": width,
        "samples": samples,
        "depth": depth,
        "shift": shift,
        "weights": weights,
        "limit": limit,
        **speedups,
        "at_least": at_least,
        "residual_of_predictions": left,
        **({} if quick else _at_width(setup, iteration_width, limit)),
        "grids": {peer.name: peer.settings(width) for peer in PEERS if peer.grid},
        "missing": missing,
        "rows": rows,
        "points": points,
    }


@dataclass(frozen=True)
class Setup:
    """What everyone trains, at any width."""

    samples: int
    depth: int
    shift: float
    seed: int
    kind: str

    def data(self) -> tuple[Tensor, Tensor]:
        """Rows and targets."""
        return data(self.samples, integer("seed", self.seed, least=0))

    def net(self, width: int) -> WideNet:
        """The network, its weights as operators."""
        return network(width, self.depth, self.shift, self.kind, self.seed)

    def problem(self, width: int) -> Problem:
        """The same in dense tensors."""
        net = self.net(width)
        dense = [layer.dense().contiguous() for layer in net.layers]
        return Problem(*self.data(), dense, net.output_weights[:, 0].contiguous(), self.shift)

    def train(self, width: int, limit: float) -> tuple[Watch, TrainResult]:
        """Make the network and train it under a watch, from the first line to the last.

        The last residual counts when the result is there, computed from the weights once more.
        """
        X, y = self.data()
        watch = Watch(limit, tol=-1.0)  # when to end is for the training to say

        def note(info: Iteration) -> bool:
            if info.iteration == 1:
                watch.ready()
                watch.init -= info.seconds
            try:
                watch(info.residual)
            except Finished:
                return True
            return False

        watch.start()
        result = train(self.net(width), X, y, method="exact", tol=TOL, callback=note)
        if not watch.seen:
            raise InvalidInput(f"width {width}: training ended at once, {result.remedy}")
        watch.confirm(result.residuals[-1])
        return watch, result


def _take_turns(
    setup: Setup, width: int, limit: float, repeats: int
) -> tuple[Problem, Outcome, Outcome, float]:
    """Run ours and dense Gram-Gauss-Newton in turns.

    Returns the dense problem, both outcomes, and the residual of what our result predicts.
    """
    X, y = setup.data()
    predicted = setup.train(width, math.inf)[1].predict(X)  # compiles kernels, too: no limit
    problem = setup.problem(width)
    note = drive(GRAM, problem, Watch(limit, most=1))
    ours, grams = [], []
    for _ in range(repeats):
        ours.append(setup.train(width, limit)[0])
        grams.append(Watch(limit))
        note = drive(GRAM, problem, grams[-1])
    left = float((predicted - y).norm() / y.norm())
    return problem, Outcome(ours), Outcome(grams, note), left


def _at_width(setup: Setup, width: int, limit: float) -> dict[str, Any]:
    """Seconds of an iteration, ours and dense Gram-Gauss-Newton's, at a larger width."""
    setup.train(width, math.inf)  # a first run pays for fresh memory
    ours, rival = setup.train(width, limit)[0].per_iteration, None
    # Every layer dense, one more while it is made, one that the rival writes to.
    if 4 * (setup.depth + 1) * width * width <= SHARE * free_bytes():
        watch = Watch(limit, most=4)
        drive(GRAM, setup.problem(width), watch)
        rival = watch.per_iteration
    return {
        "iteration_width": width,
        "iteration_seconds": ours,
        "iteration_seconds_gauss_newton": rival,
        "speedup_iteration_gauss_newton": rival / ours if rival and ours else None,
    }


def _row(name: str, kind: str, version: str, outcome: Outcome) -> dict[str, Any]:
    """Medians over repeats; null where one of them never got there, or nothing ran."""

    def middle(values: Sequence[float | None]) -> float | None:
        there = [value for value in values if value is not None]
        return statistics.median(there) if there and len(there) == len(values) else None

    runs = outcome.runs
    return {
        "peer": name,
        "kind": kind,
        "version": version,
        "seconds_init": middle([watch.init for watch in runs]),
        "seconds_to_1e-3": middle([watch.until(1e-3) for watch in runs]),
        "seconds_to_1e-6": middle([watch.until(1e-6) for watch in runs]),
        "seconds_per_iteration": middle([watch.per_iteration for watch in runs]),
        "iterations": middle([len(watch.seen) for watch in runs]),
        "final_residual": middle([watch.best for watch in runs]),
        "tuned": outcome.tuned,
        "seconds_tuning": outcome.seconds_tuning,
        "note": outcome.note,
    }


def _points(name: str, outcome: Outcome) -> list[dict[str, Any]]:
    """When the residual first fell below each half decade."""
    points = []
    for repeat, watch in enumerate(outcome.runs):
        bound = 1.0
        for seconds, residual in watch.seen:
            if residual <= bound:
                at = {"seconds": seconds, "residual": residual}
                points.append({"peer": name, "repeat": repeat, **at})
            while 0 < residual <= bound:
                bound /= 10**0.5
    return points


def _speedups(
    rows: Sequence[dict[str, Any]], limit: float
) -> tuple[dict[str, float | None], list[str]]:
    """Best peer's seconds over ours, and the names of those that are lower bounds."""
    found: dict[str, float | None] = {}
    at_least = []
    for family, kinds in FAMILIES.items():
        others = [r for r in rows[1:] if r["kind"] in kinds and r["seconds_init"] is not None]
        for residual in ("1e-3", "1e-6"):
            key, name = f"seconds_to_{residual}", f"speedup_to_{residual}_{family}"
            ours = rows[0][key]
            best = min((r[key] for r in others if r[key] is not None), default=None)
            if best is None and others and ours:
                at_least.append(name)
                best = limit
            found[name] = best / ours if best and ours else None
    return found, at_least


def _say(row: dict[str, Any]) -> None:
    """One line on stderr as soon as a peer is through."""
    reached, seconds = row["final_residual"], row["seconds_to_1e-3"]
    text = row["note"] if reached is None else f"residual {reached:.1e}"
    when = "" if seconds is None else f", 1e-3 after {seconds:.3g} s"
    print(f"peers: {row['peer']}: {text}{when}", file=sys.stderr, flush=True)
