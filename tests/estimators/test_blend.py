"""Weights of members against brute force and a general optimiser."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from subquad.estimators.blend import (
    WORTH,
    best_few,
    blend,
    convex,
    error_products,
)

FEW = settings(max_examples=40, deadline=None, derandomize=True)
PULL = 0.1
PULLS = st.sampled_from([0.1, 1.0])


def members(seed: int, k: int, n: int = 30, outputs: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """Left-out predictions k×n×C, members of unlike quality that share some of their errors."""
    draw = np.random.default_rng(seed)
    Y = draw.standard_normal((n, outputs))
    shared = draw.standard_normal((n, outputs))
    own = draw.standard_normal((k, n, outputs)) * draw.uniform(0.1, 1, (k, 1, 1))
    return Y + own + 0.5 * shared, Y


def objective(w: np.ndarray, M: np.ndarray, towards_equal: float) -> float:
    k = len(M)
    pull = towards_equal * np.trace(M) / k
    return float(w @ M @ w + pull * ((w - 1 / k) ** 2).sum())


@FEW
@given(seed=st.integers(0, 10**6), k=st.integers(1, 6), pull=PULLS)
def test_the_least_of_all_convex_combinations(seed: int, k: int, pull: float) -> None:
    """As a general optimiser finds it, and no random combination is better."""
    left_out, Y = members(seed, k)
    M = error_products(left_out, Y, np.ones(len(Y)))
    found = convex(M, pull)
    assert (found >= 0).all()
    assert found.sum() == pytest.approx(1)
    value = objective(found, M, pull)
    other = minimize(
        objective,
        np.full(k, 1 / k),
        args=(M, pull),
        method="SLSQP",
        bounds=[(0, 1)] * k,
        constraints={"type": "eq", "fun": lambda w: w.sum() - 1},
        options={"ftol": 1e-13, "maxiter": 500},
    )
    assert value <= other.fun * (1 + 1e-5)
    assert np.allclose(found, other.x, atol=2e-3)
    for w in np.random.default_rng(seed).dirichlet(np.ones(k), 50):
        assert value <= objective(w, M, pull) * (1 + 1e-5)


@FEW
@given(seed=st.integers(0, 10**6), k=st.integers(2, 6), outputs=st.integers(1, 3))
def test_order_and_units_do_not_matter(seed: int, k: int, outputs: int) -> None:
    """Permuted members get permuted weights; targets of any size, and shifted, the same ones."""
    left_out, Y = members(seed, k, outputs=outputs)
    weights = np.random.default_rng(seed).uniform(0.1, 3, len(Y))
    found = blend(left_out, Y, weights, PULL)
    order = np.random.default_rng(seed).permutation(k)
    assert np.allclose(blend(left_out[order], Y, weights, PULL), found[order], atol=1e-6)
    for factor in (1e-9, 1e9):
        assert np.allclose(blend(factor * left_out, factor * Y, weights, PULL), found, atol=1e-6)
    assert np.allclose(blend(left_out + 7, Y + 7, weights, PULL), found, atol=1e-6)
    assert np.allclose(blend(left_out, Y, 10 * weights, PULL), found, atol=1e-6)
    rows = np.random.default_rng(seed).permutation(len(Y))
    assert np.allclose(blend(left_out[:, rows], Y[rows], weights[rows], PULL), found, atol=1e-6)


def test_error_products_by_hand() -> None:
    left_out, Y = members(1, 3, n=5, outputs=2)
    weights = np.array([1.0, 2.0, 1.0, 0.5, 3.0])
    left_out[1, 2, 0] = np.nan  # this row is not judged
    kept = [0, 1, 3, 4]
    M = error_products(left_out, Y, weights)
    for i, j in itertools.product(range(3), repeat=2):
        total = sum(
            weights[row] * float((left_out[i, row] - Y[row]) @ (left_out[j, row] - Y[row]))
            for row in kept
        )
        assert M[i, j] == pytest.approx(total / weights[kept].sum())


def test_a_row_of_weight_w_counts_like_w_rows() -> None:
    left_out, Y = members(2, 4, n=10)
    weights = np.arange(1, 11)
    whole = np.repeat(np.arange(10), weights)
    one = blend(left_out, Y, weights.astype(float), PULL)
    assert np.allclose(
        one, blend(left_out[:, whole], Y[whole], np.ones(len(whole)), PULL), atol=1e-9
    )


def test_equal_members_share_and_useless_ones_get_nothing() -> None:
    left_out, Y = members(3, 1)
    same = np.repeat(left_out, 3, axis=0)
    assert np.allclose(blend(same, Y, np.ones(30), PULL), 1 / 3, atol=1e-6)
    far = np.concatenate([left_out, Y[None] + 100])
    assert blend(far, Y, np.ones(30), PULL) == pytest.approx([1, 0], abs=0.1)
    perfect = np.repeat(Y[None], 2, axis=0)
    assert np.allclose(blend(perfect, Y, np.ones(30), PULL), 0.5)


@FEW
@given(seed=st.integers(0, 10**6), k=st.integers(1, 6), most=st.integers(1, 4), pull=PULLS)
def test_few_are_the_best_and_each_one_more_is_worth_it(
    seed: int, k: int, most: int, pull: float
) -> None:
    left_out, Y = members(seed, k)
    M = error_products(left_out, Y, np.ones(len(Y)))
    chosen = best_few(M, most, pull)
    assert 1 <= len(chosen) <= min(most, k)
    assert len(set(chosen)) == len(chosen)
    assert chosen[0] == int(np.diag(M).argmin())

    def error(some: list[int]) -> float:
        part = M[np.ix_(some, some)]
        w = convex(part, pull)
        return float(w @ part @ w)

    for count in range(1, len(chosen)):
        others = [i for i in range(k) if i not in chosen[:count]]
        best = min(error([*chosen[:count], i]) for i in others)
        assert error(chosen[: count + 1]) == pytest.approx(best)
        assert best <= (1 - WORTH) * error(chosen[:count])
    if len(chosen) < min(most, k):
        rest = [i for i in range(k) if i not in chosen]
        assert min(error([*chosen, i]) for i in rest) > (1 - WORTH) * error(chosen)
