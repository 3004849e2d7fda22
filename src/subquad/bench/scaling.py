"""`subquad bench scaling`: log-log slopes of cost in width, for one method of training.

Real training runs are counted and timed: the exact method's to 1e-6, the others' for a number of
iterations. What an iteration costs is the mean over a run and over all that follows its start:
every flush and recompression of the maintenance structure, every flipped bit, the confirmation of
the outputs from the weights, without which no run counts as converged.

The exact method computes what may have flipped, and that is a smaller share of a wider layer:
between widths whose runs take equally many iterations its exponent lies below 1 and comes closer
to it (`flop_exponents_between`). The confirmation computes all, once a run ("look" in
`flop_exponent_by_procedure`), and weighs more where a wider layer needs one iteration less.
"""

from __future__ import annotations

import itertools
import math
import statistics
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from subquad.bench.growth import peak_growth
from subquad.bench.machine import machine_info
from subquad.bench.onerun import Case, measure
from subquad.checks import integer, number
from subquad.errors import InvalidInput, unknown_name

ALPHA = 1 / 3
"""The paper's sparsity parameter: b = sqrt(2 alpha ln m)."""


def powers(low: int, high: int) -> tuple[int, ...]:
    """Return 2^low … 2^high."""
    return tuple(2**k for k in range(low, high + 1))


@dataclass(frozen=True)
class Plan:
    """What a method is measured with where nothing else is asked for.

    Attributes:
        widths: m, ascending.
        quick: the same for the quick form.
        samples: n at a width.
        weights: kind of frozen weights.
        iterations: of every run, at most.
        tol: relative residual at which a run ends; 0 runs all iterations.
        flushes: policies; those that write need stored weights. The first one counts.
        memory: "peak_bytes", measured in a process of its own, or "held_bytes", counted.
    """

    widths: tuple[int, ...]
    quick: tuple[int, ...]
    samples: Callable[[int], int]
    weights: str
    iterations: int
    tol: float
    flushes: tuple[str, ...]
    memory: str


EXACT = Plan(
    widths=powers(13, 18),
    quick=powers(10, 14),
    samples=lambda width: 256,
    weights="hadamard",
    iterations=50,
    tol=1e-6,
    flushes=("never",),
    memory="peak_bytes",
)
PAPER = Plan(
    widths=powers(10, 14),
    quick=powers(8, 12),
    samples=lambda width: math.ceil(width**0.25),
    weights="dense",
    iterations=4,
    tol=0.0,
    flushes=("never", "sparse", "paper", "lazy-columns"),
    memory="held_bytes",
)
PLANS = {"exact": EXACT, "paper": PAPER, "gd": replace(PAPER, iterations=12)}


def run(
    *,
    method: str = "paper",
    quick: bool = False,
    depth: int = 3,
    seed: int = 0,
    shift: float | None = None,
    samples: int | None = None,
    widths: Sequence[int] | None = None,
    weights: str | None = None,
    repeats: int = 3,
) -> dict[str, object]:
    """Return the JSON object of `subquad bench scaling`.

    `seconds` of a point is the median over ``repeats``, in which the widths take turns, after a
    run that does not count. `memory_exponent` is of the most bytes that a fresh process takes
    for a run ("exact") or of the bytes of weights and factors ("paper", "gd").

    Args:
        method: "exact", "paper" or "gd".
        quick: narrower networks, and one repeat.
        depth: hidden layers.
        seed: of data and networks.
        shift: b; by default the paper's sqrt(2 alpha ln m) with alpha = 1/3 at each width, but 1
            for "exact" with weights other than Gaussian.
        samples: n; by default m^(1/4), rounded up, and 256 for "exact".
        widths: at least two widths.
        weights: kind of frozen weights; by default dense, and Hadamard for "exact".
        repeats: turns.
    """
    if method not in PLANS:
        raise unknown_name("method", method, PLANS)
    plan = PLANS[method]
    chosen = tuple(widths) if widths is not None else plan.quick if quick else plan.widths
    chosen = tuple(sorted({integer("widths", width, least=2) for width in chosen}))
    if len(chosen) < 2:
        raise InvalidInput(f"widths must hold at least two different widths, got {chosen}")
    kind = plan.weights if weights is None else weights
    b = number("shift", shift) if shift is not None else None
    if b is None and method == "exact" and kind not in ("gaussian", "dense"):
        b = 1.0
    cases = [
        Case(
            method=method,
            width=width,
            samples=plan.samples(width)
            if samples is None
            else integer("samples", samples, least=2),
            depth=integer("depth", depth, least=1),
            shift=math.sqrt(2 * ALPHA * math.log(width)) if b is None else b,
            weights=kind,
            flush=flush,
            iterations=plan.iterations,
            tol=plan.tol,
            seed=integer("seed", seed, least=0),
        )
        for width in chosen
        for flush in (plan.flushes if kind == "dense" else plan.flushes[:1])
    ]
    points = take_turns(cases, 1 if quick else integer("repeats", repeats, least=1))
    if plan.memory == "peak_bytes":
        for case, point in zip(cases, points, strict=True):
            point["peak_bytes"] = peak_growth(case)
    kept = [p for p in points if p["flush"] == plan.flushes[0]]
    found: dict[str, object] = {
        "benchmark": "scaling",
        "method": method,
        "machine": machine_info(),
        "flop_exponent": slope(kept, "flops"),
        "flop_exponents_between": [slope(pair, "flops") for pair in itertools.pairwise(kept)],
        "flop_exponent_by_procedure": by_procedure(kept),
        "time_exponent": slope(kept, "seconds"),
        "init_flop_exponent": slope(kept, "init_flops"),
        "init_time_exponent": slope(kept, "init_seconds"),
        "memory_exponent": slope(kept, plan.memory),
        "points": points,
    }
    if len(plan.flushes) > 1:
        found["by_flush"] = {
            flush: slope([p for p in points if p["flush"] == flush], "flops")
            for flush in {case.flush: None for case in cases}
        }
    return found


def take_turns(cases: Sequence[Case], repeats: int) -> list[dict[str, Any]]:
    """Measure every case ``repeats`` times; seconds are medians."""
    measure(cases[0])  # compiles and loads kernels
    turns: list[list[dict[str, Any]]] = []
    for repeat in range(repeats):
        turns.append([measure(case) for case in cases])
        if repeats > 1:
            print(f"scaling: turn {repeat + 1} of {repeats} done", file=sys.stderr, flush=True)
    points = []
    for runs in zip(*turns, strict=True):
        point = dict(runs[0])
        for key in ("seconds", "init_seconds"):
            point[key] = statistics.median(float(run[key]) for run in runs)
        points.append(point)
    return points


def by_procedure(points: Sequence[dict[str, Any]]) -> dict[str, float | None]:
    """Slope of each procedure that has operations at every width."""
    parts = [{"width": p["width"], **p["flops_by_procedure"]} for p in points]
    names = [name for name in parts[0] if all(part.get(name, 0) > 0 for part in parts)]
    return {name: slope(parts, name) for name in names if name != "width"}


def slope(points: Sequence[dict[str, Any]], key: str) -> float | None:
    """Least-squares slope of log(key) in log(width); None where a point has no such figure.

    >>> slope([{"width": 2, "flops": 8.0}, {"width": 4, "flops": 32.0}], "flops")
    2.0
    """
    if any(p[key] is None for p in points):
        return None
    x = [math.log2(float(p["width"])) for p in points]
    y = [math.log2(float(p[key])) for p in points]
    return statistics.linear_regression(x, y).slope
