"""`subquad bench iteration`: one exact Gauss-Newton iteration beside the memory's limit and peers.

| task | what runs |
|---|---|
| ours | `train(method="exact")` on the last layer to 1e-6; seconds of every iteration of the run |
| stream pass | one in-place read and write of a width×samples float32 array: the memory's limit |
| plain PyTorch | the same iteration in a few lines: whole passes over Z, no bits, no kernels |
| dense step | forward product and in-place rank-n update of the dense last layer, 4 n m² flop |

Tasks take turns within each repeat. Our figure for a run is the mean of its iterations, from the
start to 1e-6: early ones move most and cost most. Once a run, before it counts as converged, all
outputs are computed from the weights anew; that is told apart, in `confirm_seconds`. The figures
are medians over repeats; `seconds_training` is a whole run, from `train` to its result.
"""

from __future__ import annotations

import itertools
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from subquad.activations import ShiftedReLU
from subquad.bench.machine import machine_info
from subquad.bench.problem import data, network
from subquad.checks import integer, number
from subquad.errors import InvalidInput
from subquad.memory import SHARE, free_bytes
from subquad.network import WideNet
from subquad.training import Iteration, train
from subquad.training.fixedinputs import FixedInputs

TOL = 1e-6
QUICK = (2048, 64)
LONG = 2.0
"""Seconds of a dense step from which it is measured once, not in every turn."""


def run(
    *,
    widths: Sequence[int] = (65536,),
    samples: int = 256,
    depth: int = 3,
    shift: float = 1.0,
    seed: int = 0,
    quick: bool = False,
    weights: str = "hadamard",
    repeats: int = 7,
) -> dict[str, object]:
    """Return the JSON object of `subquad bench iteration`.

    The figures are those of the widest network; `points` has a row per width, and with several
    widths `speedup_growth` says by how much the speed-up over dense grew per doubling of width.

    Args:
        widths: m of every layer, one or several.
        samples: n.
        depth: hidden layers.
        shift: b, relative.
        seed: of data and network.
        quick: at most 2048 neurons, 64 samples, 3 repeats.
        weights: kind of frozen weights.
        repeats: turns.
    """
    chosen = sorted({integer("width", width, least=2) for width in widths})
    samples, depth = integer("samples", samples, least=2), integer("depth", depth, least=1)
    repeats, seed = integer("repeats", repeats, least=1), integer("seed", seed, least=0)
    shift = number("shift", shift)
    if not chosen:
        raise InvalidInput("widths is empty: name at least one width")
    if quick:
        chosen = sorted({min(width, QUICK[0]) for width in chosen})
        samples, repeats = min(samples, QUICK[1]), min(repeats, 3)
    points = []
    for width in chosen:
        net = network(width, depth, shift, weights, seed)
        points.append(_measure(net, *data(samples, seed), repeats))
        _say(points[-1])
    widest = points[-1]
    return {
        "machine": machine_info(),
        "width": widest["width"],
        "samples": samples,
        "depth": depth,
        "shift": shift,
        "weights": weights,
        **{key: value for key, value in widest.items() if key != "width"},
        **({"speedup_growth": _growth(points)} if len(points) > 1 else {}),
        "points": points,
    }


def _measure(net: WideNet, X: Tensor, y: Tensor, repeats: int) -> dict[str, Any]:
    """One width: all tasks in turns."""
    m, n = net.widths[-1], X.shape[0]
    fixed = FixedInputs(net, X)
    plain = PlainTorch(fixed, y)
    stream = torch.ones(m, n)
    dense = DenseStep(m, n) if DenseStep.bytes(m, n) < SHARE * free_bytes() else None
    runs: list[list[Iteration]] = []
    times: dict[str, list[float]] = {"stream": [], "plain": [], "dense": []}
    left, confirmed = 0.0, []
    for turn in range(repeats + 1):
        seen: list[Iteration] = []
        began = time.perf_counter()
        result = train(
            net,
            X,
            y,
            tol=TOL,
            callback=seen.append,
            progress=False,
        )
        if not seen:
            raise InvalidInput(f"width {m}: training ended at once, {result.remedy}")
        whole = time.perf_counter() - began
        here = {
            "stream": _seconds(lambda: stream.mul_(-1.0)),
            "plain": _seconds(plain.iterate),
        }
        if dense is not None and (turn == 0 or times["dense"][0] < LONG):
            times["dense"].append(_seconds(dense.step))
        if turn == 0:
            continue  # compiles and touches fresh memory
        runs.append(seen)
        confirmed.append(whole)
        left = result.residuals[-1]
        for name, spent in here.items():
            times[name].append(spent)
    seconds = [[info.seconds - info.confirm_seconds for info in run] for run in runs]
    ours = statistics.median(statistics.fmean(run) for run in seconds)
    limit, slow = (statistics.median(times[name]) for name in ("stream", "plain"))
    step = statistics.median(times["dense"][1:] or times["dense"]) if dense is not None else None
    return {
        "width": m,
        "seconds_per_iteration": ours,
        "stream_pass_seconds": limit,
        "ratio_to_limit": ours / limit,
        "dense_step_seconds": step,
        "speedup_vs_dense": None if step is None else step / ours,
        "plain_torch_seconds": slow,
        "speedup_vs_plain_torch": slow / ours,
        "relative_residual": left,
        "iterations": len(runs[-1]),
        "seconds_by_iteration": [
            statistics.median(column) for column in zip(*seconds, strict=True)
        ],
        "confirm_seconds": statistics.median(
            sum(info.confirm_seconds for info in run) for run in runs
        ),
        "seconds_training": statistics.median(confirmed),
        "flops": sum(c.flops for c in result.cost.iterations) / result.iterations,
        "bytes": sum(c.bytes for c in result.cost.iterations) / result.iterations,
    }


class PlainTorch:
    """The last layer in sample space in plain PyTorch, float32 with a float64 solve.

    Args:
        fixed: what does not change.
        y: targets.
    """

    def __init__(self, fixed: FixedInputs, y: Tensor) -> None:
        if not isinstance(fixed.activation, ShiftedReLU):
            raise InvalidInput(f"the peer trains (shifted) ReLU networks, got {fixed.activation}")
        self.Z = fixed.Z.clone()
        scale = fixed.activation.normaliser**0.5
        self.signed = fixed.head[:, 0] * scale
        self.kernel, self.constant = fixed.kernel, scale**2
        self.kernel32 = fixed.kernel.to(fixed.Z.dtype)
        unit = (2 / fixed.width) ** 0.5
        self.level = (fixed.activation.threshold or 0.0) * unit * fixed.rho
        self.target = y.double() + self._outputs(self.Z - self.level).double()

    def iterate(self) -> float:
        """One iteration; returns the residual that it began with."""
        over = self.Z - self.level
        error = self._outputs(over).double() - self.target
        fires = (over > 0).to(over.dtype)
        gram = (fires.T @ fires).double() * self.kernel * self.constant
        q = torch.cholesky_solve(error[:, None], torch.linalg.cholesky(gram))[:, 0]
        weights = fires.mul_(q.to(over.dtype)).mul_(self.signed[:, None])
        self.Z.addmm_(weights, self.kernel32, alpha=-1)
        return float(error.norm())

    def _outputs(self, over: Tensor) -> Tensor:
        return self.signed @ torch.relu(over)


class DenseStep:
    """What training the dense last layer takes at the least, whatever the method."""

    def __init__(self, width: int, samples: int) -> None:
        self.weight = torch.full((width, width), 1e-3)
        self.inputs, self.left = (
            torch.full((samples, width), 1e-3),
            torch.full((width, samples), 1e-9),
        )
        self.out = torch.empty(samples, width)

    @staticmethod
    def bytes(width: int, samples: int) -> int:
        """What it keeps."""
        return 4 * (width * width + 3 * width * samples)

    def step(self) -> None:
        """Forward product and in-place rank-n update."""
        torch.mm(self.inputs, self.weight.T, out=self.out)
        self.weight.addmm_(self.left, self.inputs)


def _seconds(task: Callable[[], object]) -> float:
    task()  # whoever ran before left other data in the caches
    began = time.perf_counter()
    task()
    return time.perf_counter() - began


def _growth(points: Sequence[dict[str, Any]]) -> list[float | None]:
    """Ratios of the speed-ups over dense, each raised to what a doubling of width makes of it."""
    found: list[float | None] = []
    for a, b in itertools.pairwise(points):
        if a["speedup_vs_dense"] is None or b["speedup_vs_dense"] is None:
            found.append(None)
            continue
        doublings = torch.log2(torch.tensor(b["width"] / a["width"])).item()
        found.append((b["speedup_vs_dense"] / a["speedup_vs_dense"]) ** (1 / doublings))
    return found


def _say(point: dict[str, Any]) -> None:
    """One line on stderr when a width is through."""
    print(
        f"iteration: width {point['width']}: {1e3 * point['seconds_per_iteration']:.3g} ms, "
        f"{point['ratio_to_limit']:.3g} stream passes",
        file=sys.stderr,
        flush=True,
    )
