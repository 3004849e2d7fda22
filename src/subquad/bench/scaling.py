"""`subquad bench scaling`: log-log slopes of cost in width, for one method of training.

Iterations of real training runs are counted and timed. What an iteration costs is the mean
over a run, so every flush and recompression of the maintenance structure is in it.
"""

from __future__ import annotations

import itertools
import math
import statistics
import time
from collections.abc import Sequence

import torch

from subquad.activations import ShiftedReLU
from subquad.bench.machine import machine_info
from subquad.cost import Cost
from subquad.errors import InvalidInput, unknown_name
from subquad.network import WideNet
from subquad.training import METHODS, TrainResult, train

ALPHA = 1 / 3
"""The paper's sparsity parameter: b = sqrt(2 alpha ln m)."""
WIDTHS = tuple(2**k for k in range(10, 15))
QUICK_WIDTHS = tuple(2**k for k in range(8, 13))
FLUSHES = ("never", "sparse", "paper", "lazy-columns")
ITERATIONS = {"paper": 4, "gd": 12}
FEATURES = 16


def run(
    *,
    method: str = "paper",
    quick: bool = False,
    depth: int = 3,
    seed: int = 0,
    shift: float | None = None,
    samples: int | None = None,
    widths: Sequence[int] | None = None,
) -> dict[str, object]:
    """Return the JSON object of `subquad bench scaling`.

    Args:
        method: "paper" or "gd".
        quick: widths 2^8 … 2^12 instead of 2^10 … 2^14.
        depth: hidden layers.
        seed: of data and networks.
        shift: b; by default sqrt(2 alpha ln m) with alpha = 1/3, at each width.
        samples: n; by default m^(1/4), rounded up.
        widths: at least two widths.
    """
    if method not in METHODS:
        raise unknown_name("method", method, METHODS)
    chosen = tuple(widths) if widths is not None else QUICK_WIDTHS if quick else WIDTHS
    if len(set(chosen)) < 2:
        raise InvalidInput(f"widths must hold at least two different widths, got {chosen}")
    points = [
        point for width in chosen for point in _measure(method, width, depth, seed, shift, samples)
    ]
    by_flush = {
        flush: slope([p for p in points if p["flush"] == flush], "flops") for flush in FLUSHES
    }
    kept = [p for p in points if p["flush"] == "never"]
    return {
        "benchmark": "scaling",
        "method": method,
        "machine": machine_info(),
        "flop_exponent": by_flush["never"],
        "time_exponent": slope(kept, "seconds"),
        "init_flop_exponent": slope(kept, "init_flops"),
        "memory_exponent": slope(kept, "held_bytes"),
        "by_flush": by_flush,
        "points": points,
    }


def _measure(
    method: str, width: int, depth: int, seed: int, shift: float | None, samples: int | None
) -> list[dict[str, object]]:
    """Train one network of this width under every flush policy."""
    b = math.sqrt(2 * ALPHA * math.log(width)) if shift is None else shift
    n = math.ceil(width**0.25) if samples is None else samples
    generator = torch.Generator().manual_seed(seed)
    X = torch.nn.functional.normalize(torch.randn(n, FEATURES, generator=generator))
    y = torch.randn(n, generator=generator)
    with Cost() as making:
        net = WideNet(FEATURES, width, depth, activation=ShiftedReLU(b), weights="dense", seed=seed)
    points: list[dict[str, object]] = []
    for flush in FLUSHES:
        ends: list[float] = []
        result = train(
            net,
            X,
            y,
            method=method,
            flush=flush,
            tol=0.0,
            max_iter=ITERATIONS[method],
            seed=seed,
            callback=lambda info, ends=ends: ends.append(time.perf_counter()),  # type: ignore[misc]
            progress=False,
        )
        if result.iterations < 2:
            raise InvalidInput(f"width {width}: training ended at once, {result.remedy}")
        steps = [b - a for a, b in itertools.pairwise(ends)]
        points.append(
            {
                "width": width,
                "samples": n,
                "depth": depth,
                "shift": b,
                "flush": flush,
                "iterations": result.iterations,
                "flops": sum(c.flops for c in result.cost.iterations) / result.iterations,
                "bytes": sum(c.bytes for c in result.cost.iterations) / result.iterations,
                "seconds": statistics.median(steps),
                "init_flops": making.flops + result.cost.init.flops,
                "held_bytes": held_bytes(result, n),
                "dense_flops": 4 * n * width * width,
                "relative_residual": result.residuals[-1],
            }
        )
    return points


def held_bytes(result: TrainResult, samples: int) -> int:
    """Bytes of weights and factors, and of one layer's pre-activations."""
    net = result.net
    stored = sum(layer.weight.nbytes + layer.pending.nbytes for layer in net.layers)
    return stored + samples * max(net.widths) * net.output_weights.element_size()


def slope(points: Sequence[dict[str, object]], key: str) -> float:
    """Least-squares slope of log(key) in log(width).

    >>> slope([{"width": 2, "flops": 8.0}, {"width": 4, "flops": 32.0}], "flops")
    2.0
    """
    x = [math.log2(float(p["width"])) for p in points]  # type: ignore[arg-type]
    y = [math.log2(float(p[key])) for p in points]  # type: ignore[arg-type]
    return statistics.linear_regression(x, y).slope
