"""What the paper's two lemmas promise: norms on a row space, at the stated size and rate."""

import math

import pytest
import torch

from subquad.rows import density
from subquad.sketch import TensorSketch, TensorSRHT
from subquad.sketch.base import ProductSketch
from subquad.sketch.embedding import (
    distortion,
    exact_gram,
    example_jacobian,
    failure_rate,
    smallest_size,
    tensorsketch_size,
    tensorsrht_size,
)
from tests.oracles import tensor_rows
from tests.sketch.cases import random

EPSILON, DELTA, N, M = 0.5, 0.1, 8, 300
SEEDS = range(200)
KINDS = pytest.mark.parametrize("kind", [TensorSketch, TensorSRHT])


@KINDS
def test_inner_products_are_unbiased(kind: type[ProductSketch]) -> None:
    """The mean of <Sx, Sy> over 600 seeds lies within 4 standard errors of <x, y>."""
    U, V = random(2, 12), random(2, 9, seed=1)
    x, y = tensor_rows(U, V)
    for exact, i, j in ((x @ y, 0, 1), (x @ x, 0, 0)):
        found = []
        for seed in range(600):
            rows = kind(12, 9, 32, seed=seed).sketch(U, V)
            found.append(float(rows[i] @ rows[j]))
        values = torch.tensor(found, dtype=torch.float64)
        error = float(values.std()) / math.sqrt(values.numel())
        assert abs(float(values.mean() - exact)) < 4 * error


def test_tensorsketch_holds_at_the_size_of_the_lemma() -> None:
    U, V = example_jacobian(N, M)
    s = tensorsketch_size(N, epsilon=EPSILON, delta=DELTA)
    assert s == 28160
    assert failure_rate(TensorSketch, U, V, s, epsilon=EPSILON, seeds=SEEDS) <= DELTA


@KINDS
def test_far_too_small_a_sketch_fails(kind: type[ProductSketch]) -> None:
    """Negative control: the criterion can fail."""
    U, V = example_jacobian(N, M)
    assert failure_rate(kind, U, V, 2 * N, epsilon=EPSILON, seeds=SEEDS) > DELTA


def test_tensorsrht_holds_far_below_the_size_of_the_lemma() -> None:
    U, V = example_jacobian(N, M)
    options = {"epsilon": EPSILON, "rate": 1 - DELTA}
    s = smallest_size(TensorSRHT, U, V, seeds=range(60), **options)  # type: ignore[arg-type]
    assert s < tensorsrht_size(N, M, epsilon=EPSILON, delta=DELTA)
    assert failure_rate(TensorSRHT, U, V, s, epsilon=EPSILON, seeds=range(60)) <= DELTA
    # Fresh seeds: half as much again makes up for having picked the best of few.
    later = range(1000, 1200)
    assert failure_rate(TensorSRHT, U, V, s * 3 // 2, epsilon=EPSILON, seeds=later) <= DELTA


def test_distortion_is_the_worst_over_all_vectors() -> None:
    U, V = random(4, 6), random(4, 5, seed=1)
    J, sketch = tensor_rows(U, V), TensorSketch(6, 5, 40)
    small = sketch.sketch(U, V)
    worst = distortion(small, exact_gram(U, V))
    ratio = torch.linalg.eigvals(torch.linalg.solve(J @ J.T, small @ small.T)).real
    assert worst == pytest.approx(float((ratio - 1).abs().max()))
    x = random(500, 4, seed=2)
    tried = (x @ small).square().sum(1) / (x @ J).square().sum(1)
    assert float((tried - 1).abs().max()) <= worst


def test_smallest_size_finds_the_step() -> None:
    U, V = example_jacobian(4, 64)
    options = {"epsilon": 0.9, "seeds": range(20)}
    s = smallest_size(TensorSRHT, U, V, rate=0.9, **options)  # type: ignore[arg-type]
    assert failure_rate(TensorSRHT, U, V, s, **options) <= 0.1  # type: ignore[arg-type]
    assert failure_rate(TensorSRHT, U, V, s - 1, **options) > 0.1  # type: ignore[arg-type]


def test_sizes_of_the_lemmas() -> None:
    assert tensorsketch_size(2, epsilon=1.0, delta=0.5) == 88
    assert tensorsrht_size(2, 4, epsilon=0.5, delta=0.5) == math.ceil(8 * math.log(32) ** 3)


def test_example_is_a_sparse_jacobian_of_unit_size() -> None:
    U, V = example_jacobian(N, 1000, shift=1.0, seed=3)
    for rows in (U, V):
        assert density(rows) == pytest.approx(0.1587, abs=0.03)  # 1 - Phi(1)
    assert len(set(U.values.abs().tolist())) == 1
    assert float(V.dense().square().sum(1).mean()) == pytest.approx(1, abs=0.15)
    gram = exact_gram(U, V)
    torch.testing.assert_close(gram, (J := tensor_rows(U.dense(), V.dense())) @ J.T)
