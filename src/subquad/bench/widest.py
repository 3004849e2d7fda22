"""`subquad bench widest`: the largest network that one machine trains, and what that takes.

`peak_rss_gb` is the whole process's, interpreter and libraries (some 0.3 GB) included.
"""

from __future__ import annotations

import sys
import time

from subquad.bench.machine import machine_info
from subquad.bench.problem import data, network
from subquad.checks import integer, number
from subquad.errors import InvalidInput
from subquad.training import Iteration, train

TOL = 1e-5
QUICK_WIDTH = 65536
QUIET = 2.0
"""Seconds before progress is shown."""


def run(
    *,
    width: int = 1048576,
    samples: int = 128,
    depth: int = 3,
    shift: float = 2.0,
    seed: int = 0,
    quick: bool = False,
    weights: str = "hadamard",
) -> dict[str, object]:
    """Return the JSON object of `subquad bench widest`.

    Makes the network and trains its last layer by `train(method="exact")`, in float32, to a
    relative residual of 1e-5. `seconds_total` is all of that, `seconds_init` what came before
    the first iteration; `points` has a row per iteration, with seconds since the start.

    Args:
        width: m of every layer; at most 65536 with ``quick``.
        samples: n.
        depth: hidden layers.
        shift: b, relative.
        seed: of data and network.
        quick: a narrower network.
        weights: kind of frozen weights.
    """
    width, depth = integer("width", width, least=1), integer("depth", depth, least=1)
    samples, shift = integer("samples", samples, least=2), number("shift", shift)
    width = min(width, QUICK_WIDTH) if quick else width
    X, y = data(samples, integer("seed", seed, least=0))
    points: list[dict[str, object]] = []
    began = last = time.perf_counter()

    def note(info: Iteration) -> None:
        nonlocal last
        last = time.perf_counter()
        points.append(
            {
                "iteration": info.iteration,
                "seconds": last - began,
                "seconds_iteration": info.seconds,
                "residual": info.residual,
                "peak_rss_gb": peak_rss_gb(),
            }
        )
        if last - began > QUIET:
            text = f"iteration {info.iteration}: residual {info.residual:.1e}, {last - began:.1f} s"
            print(f"widest: {text}", file=sys.stderr, flush=True)

    if width > QUICK_WIDTH:
        print(f"widest: {depth} layers of {width} neurons", file=sys.stderr, flush=True)
    net = network(width, depth, shift, weights, seed)
    result = train(net, X, y, method="exact", tol=TOL, callback=note, progress=False)
    total = time.perf_counter() - began
    if not points:
        raise InvalidInput(f"width {width}: training ended at once, {result.remedy}")
    first = points[0]
    return {
        "machine": machine_info(),
        "width": width,
        "samples": samples,
        "depth": depth,
        "shift": shift,
        "weights": weights,
        "virtual_weights": sum(m_out * m_in for m_out, m_in in (l.shape for l in net.layers)),
        "seconds_total": total,
        "seconds_init": float(first["seconds"]) - float(first["seconds_iteration"]),  # type: ignore[arg-type]
        "iterations": result.iterations,
        "peak_rss_gb": peak_rss_gb(),
        "relative_residual": result.residuals[-1],
        "status": result.status,
        "points": points,
    }


def peak_rss_gb() -> float | None:
    """Most memory that this process has held so far; None where the system does not tell."""
    try:
        import resource
    except ImportError:
        return None
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e9
