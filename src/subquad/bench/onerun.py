"""One training run of `subquad bench scaling`: what it is, what it counts, how long it takes."""

from __future__ import annotations

import time
from dataclasses import dataclass

from subquad.bench.problem import data, network
from subquad.cost import Cost
from subquad.errors import InvalidInput
from subquad.network import WideNet
from subquad.training import Iteration, TrainResult, train


@dataclass(frozen=True)
class Case:
    """A network, its rows and how it is trained.

    Attributes:
        method: of :func:`subquad.train`.
        width: m of every layer.
        samples: n.
        depth: hidden layers.
        shift: b, relative.
        weights: kind of frozen weights.
        flush: policy of the maintenance structure.
        iterations: at most.
        tol: relative residual to stop at; 0 runs all iterations.
        seed: of data and network.
    """

    method: str
    width: int
    samples: int
    depth: int
    shift: float
    weights: str
    flush: str
    iterations: int
    tol: float
    seed: int

    def net(self) -> WideNet:
        """The network at its start."""
        return network(self.width, self.depth, self.shift, self.weights, self.seed)

    def train(self, net: WideNet, began: list[float] | None = None) -> TrainResult:
        """Train it; ``began`` receives the clock at the end of initialisation."""

        def note(info: Iteration) -> bool:
            if began is not None and info.iteration == 1:
                began.append(time.perf_counter() - info.seconds)
            return info.iteration == self.iterations

        result = train(
            net,
            *data(self.samples, self.seed),
            method=self.method,
            flush=self.flush,
            tol=self.tol,
            max_iter=self.iterations,
            seed=self.seed,
            callback=note,
            progress=False,
        )
        if result.iterations < (1 if self.tol else self.iterations):
            raise InvalidInput(
                f"width {self.width}: training ended after {result.iterations} iterations, "
                f"{result.remedy}"
            )
        return result


def measure(case: Case) -> dict[str, object]:
    """Run a case: counts and seconds of an iteration and of the start.

    An iteration is charged with its share of all that follows the start: steps, flushes, the
    outputs' last confirmation from the weights, and making the trained network.
    """
    started, began = time.perf_counter(), list[float]()
    with Cost() as making:
        net = case.net()
    with Cost() as whole:
        result = case.train(net, began)
    ended = time.perf_counter()
    start, T = result.cost.init, result.iterations
    return {
        "width": case.width,
        "samples": case.samples,
        "depth": case.depth,
        "shift": case.shift,
        "weights": case.weights,
        "flush": case.flush,
        "iterations": T,
        "flops": (whole.flops - start.flops) / T,
        "bytes": (whole.bytes - start.bytes) / T,
        "seconds": (ended - began[0]) / T,
        "init_flops": making.flops + start.flops,
        "init_seconds": began[0] - started,
        "held_bytes": held_bytes(result, case.samples),
        "dense_flops": 4 * case.samples * case.width**2,
        "relative_residual": result.residuals[-1],
        "status": result.status,
        "flops_by_procedure": {
            name: (tally.flops - (start.procedures[name].flops if name in start.procedures else 0))
            / T
            for name, tally in whole.procedures.items()
        },
    }


def held_bytes(result: TrainResult, samples: int) -> int:
    """Bytes of weights and factors, and of one layer's pre-activations."""
    net = result.net
    stored = sum(layer.weight.nbytes + layer.pending.nbytes for layer in net.layers)
    return stored + samples * max(net.widths) * net.output_weights.element_size()
