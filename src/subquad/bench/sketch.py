"""`subquad bench sketch`: sketches of u ⊗ v beside scikit-learn's, and how small they may be."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import scipy.sparse
import torch
from sklearn.kernel_approximation import PolynomialCountSketch
from torch import Tensor

from subquad.bench.machine import machine_info
from subquad.cost import Cost
from subquad.rows import Rows, SparseRows, density, to_dense
from subquad.sketch import TensorSketch, TensorSRHT
from subquad.sketch.base import ProductSketch
from subquad.sketch.embedding import (
    distortion,
    exact_gram,
    example_jacobian,
    smallest_size,
    tensorsrht_size,
)

SPARSE = 0.02
CHECKED_ROWS = 64
EPSILON, RATE = 0.5, 0.9
SHORTEST = 0.02
"""Seconds that a timed turn of a task should take at least."""


def run(
    quick: bool = False,
    seed: int = 0,
    width: int = 8192,
    samples: int = 512,
    size: int = 4096,
    repeats: int = 5,
) -> dict[str, object]:
    """Measure and return the JSON object of `subquad bench sketch`.

    Every row is float64. `seconds`, `countsketch_seconds` and `peer_seconds` are medians of
    repeats that take turns, each after an untimed run. The peer, where u = v, is the
    `transform` of scikit-learn's PolynomialCountSketch of degree 2 at the same size.

    Args:
        quick: at most 64 samples of width 1024 and size 512, 3 repeats, 20 seeds.
        seed: of data and sketches.
        width: m1, and m2 but for the rectangular row, where m2 is half of it.
        samples: rows to sketch.
        size: s.
        repeats: timed turns.
    """
    seeds = range(seed, seed + 200)
    if quick:
        samples, width, size = min(samples, 64), min(width, 1024), min(size, 512)
        repeats, seeds = 3, seeds[:20]
    dense = _rows(samples, width, 1.0, seed)
    sparse = SparseRows.from_dense(_rows(samples, width, SPARSE, seed + 1))
    other = _rows(samples, max(width // 2, 1), 1.0, seed + 2)
    cases: list[tuple[type[ProductSketch], Rows, Rows, bool]] = [
        (TensorSketch, dense, dense, True),
        (TensorSketch, sparse, sparse, True),
        (TensorSRHT, dense, dense, True),
        (TensorSketch, dense, other, False),
        (TensorSRHT, dense, other, False),
    ]
    measured = [_measure(*case, size, seed, repeats) for case in cases]
    return {
        "machine": machine_info(),
        "points": [point for _, points in measured for point in points],
        "rows": [row for row, _ in measured],
        **_smallest(seeds, 256 if quick else 1024, seed),
    }


def _rows(n: int, m: int, share: float, seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    rows = torch.randn(n, m, generator=generator, dtype=torch.float64)
    kept = torch.rand(n, m, generator=generator) < share if share < 1 else None
    return rows if kept is None else rows * kept


def _measure(
    kind: type[ProductSketch], U: Rows, V: Rows, peered: bool, s: int, seed: int, repeats: int
) -> tuple[dict[str, object], list[dict[str, object]]]:
    sketch = kind(U.shape[1], V.shape[1], s, seed=seed)
    tasks: dict[str, Callable[[], object]] = {"seconds": lambda: sketch.sketch(U, V)}
    if isinstance(sketch, TensorSketch):
        tasks["countsketch_seconds"] = lambda: _count_sketches(sketch, U, V)
    if peered:
        peer = PolynomialCountSketch(degree=2, n_components=s, random_state=seed)
        matrix = _for_peer(U)
        peer.fit(matrix)
        tasks["peer_seconds"] = lambda: peer.transform(matrix)
    with Cost() as cost:
        sketch.sketch(U, V)
    times = _take_turns(tasks, repeats)
    few = slice(0, CHECKED_ROWS)
    name = kind.__name__
    row: dict[str, object] = {
        "sketch": name,
        "peer": "sklearn PolynomialCountSketch" if peered else None,
        "rows": U.shape[0],
        "m1": U.shape[1],
        "m2": V.shape[1],
        "s": s,
        "density": density(U),
        **{key: None for key in ("seconds", "countsketch_seconds", "peer_seconds")},
        **{key: statistics.median(values) for key, values in times.items()},
        "distortion": distortion(sketch.sketch(U[few], V[few]), exact_gram(U[few], V[few])),
        "flops": cost.flops,
        "bytes": cost.bytes,
    }
    where = {key: row[key] for key in ("sketch", "m1", "m2", "s", "density")}
    points: list[dict[str, object]] = [
        {**where, "repeat": i, **{key: values[i] for key, values in times.items()}}
        for i in range(repeats)
    ]
    return row, points


def _count_sketches(sketch: TensorSketch, U: Rows, V: Rows) -> None:
    for _ in sketch.count_sketches(U, V):
        pass


def _for_peer(rows: Rows) -> object:
    if isinstance(rows, SparseRows):
        parts = (rows.values.numpy(), rows.columns.numpy(), rows.start.numpy())
        return scipy.sparse.csr_matrix(parts, shape=rows.shape)
    return to_dense(rows).numpy()


def _take_turns(tasks: dict[str, Callable[[], object]], repeats: int) -> dict[str, list[float]]:
    """Seconds of each task, in ``repeats`` turns.

    Within a turn every task runs once untimed, because the peer leaves cold caches and sleeping
    threads, and then as often as fits into SHORTEST: one run of a third of a millisecond is
    mostly noise, the median of many is not.
    """
    times: dict[str, list[float]] = {name: [] for name in tasks}
    for _ in range(repeats):
        for name, task in tasks.items():
            runs = max(1, int(SHORTEST / _seconds(task)))
            times[name].append(statistics.median(_seconds(task) for _ in range(runs)))
    return times


def _seconds(task: Callable[[], object]) -> float:
    start = time.perf_counter()
    task()
    return time.perf_counter() - start


def _smallest(seeds: range, m: int, seed: int) -> dict[str, object]:
    """The least TensorSRHT on the row space of a sparse Jacobian, beside the lemma's size."""
    n = 8
    U, V = example_jacobian(n, m, seed=seed)
    return {
        "srht_smallest_size": smallest_size(
            TensorSRHT, U, V, epsilon=EPSILON, rate=RATE, seeds=seeds
        ),
        "theorem_size": tensorsrht_size(n, m, epsilon=EPSILON, delta=1 - RATE),
        "theorem_formula": "n ln(n m / (epsilon delta))^3 / epsilon^2, the constant taken as 1",
        "embedding": {
            "n": n,
            "m": m,
            "epsilon": EPSILON,
            "rate": RATE,
            "seeds": len(seeds),
            "density_u": density(U),
            "density_v": density(V),
        },
    }
