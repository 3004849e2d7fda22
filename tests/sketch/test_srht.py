"""TensorSRHT: its definition, its randomness, what it counts."""

import math

import torch
from scipy.linalg import hadamard

from subquad.cost import Cost
from subquad.sketch import TensorSRHT
from subquad.sketch.srht import _random_index, _random_signs
from tests.sketch.cases import random


def test_dense_follows_the_definition() -> None:
    m1, m2, s = 5, 3, 12
    sketch = TensorSRHT(m1, m2, s, seed=4)
    H1, H2 = (torch.from_numpy(hadamard(size)).double() for size in (8, 4))
    left = (H1[:, :m1] * sketch.signs1)[sketch.p]
    right = (H2[:, :m2] * sketch.signs2)[sketch.q]
    rows = torch.stack([torch.kron(a, b) for a, b in zip(left, right, strict=True)])
    torch.testing.assert_close(sketch.dense(), rows / math.sqrt(s))


def test_signs_and_indices_are_uniform_and_independent() -> None:
    signs = _random_signs(20000, 0, 1)
    assert set(signs.tolist()) == {-1.0, 1.0}
    assert abs(float(signs.mean())) < 4 / math.sqrt(20000)
    assert abs(float((signs[1:] * signs[:-1]).mean())) < 4 / math.sqrt(20000)
    counts = torch.bincount(_random_index(16, 16000, 0, 3), minlength=16)
    chi_squared = float(((counts - 1000) ** 2 / 1000).sum())
    assert chi_squared < 45  # 15 degrees of freedom: one in 10^4
    assert _random_index(1, 5, 0, 3).tolist() == [0] * 5


def test_same_seed_same_integers_in_every_version() -> None:
    # Recorded once with numpy 2.4: a change here changes every sketch that anyone has stored.
    sketch = TensorSRHT(1000, 10, 4, seed=1)
    assert sketch.p.tolist() == GOLDEN_P
    assert sketch.signs2.int().tolist() == GOLDEN_SIGNS


GOLDEN_P = [909, 1008, 297, 791]
GOLDEN_SIGNS = [-1, -1, -1, 1, 1, -1, 1, 1, 1, -1]


def test_more_rows_keep_the_first_ones() -> None:
    small, large = TensorSRHT(30, 20, 8), TensorSRHT(30, 20, 64)
    U, V = random(3, 30), random(3, 20, seed=1)
    torch.testing.assert_close(
        small.sketch(U, V) * math.sqrt(8), large.sketch(U, V)[:, :8] * math.sqrt(64)
    )


def test_counts_each_stage() -> None:
    n, s = 6, 10
    U, V = random(n, 12), random(n, 30, seed=1)
    for ids, product in ((None, 2), (torch.arange(n) // 2, 3)):
        with Cost() as cost:
            TensorSRHT(12, 30, s).sketch(U, V, ids)
        assert cost.procedures["fwht"].flops == n * (16 * 4 + 12 + 32 * 5 + 30)
        assert cost.procedures["sketch_combine"].flops == n * s * product
        assert set(cost.procedures) == {"fwht", "sketch_combine"}
