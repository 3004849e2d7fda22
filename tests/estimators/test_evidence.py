"""The evidence and its gradient against finite differences, repeated rows and scikit-learn."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from subquad import GELU, ReLU, ShiftedReLU
from subquad.activations import Activation
from subquad.estimators.evidence import (
    Settings,
    Task,
    evidence,
    kernel,
    most_evident,
    unit_rows,
)
from subquad.theory import profile
from subquad.theory.duals import Array

FEW = settings(max_examples=20, deadline=None, derandomize=True)


def task(seed: int, n: int = 12, d: int = 3, outputs: int = 1, *, weighted: bool = False) -> Task:
    draw = np.random.default_rng(seed)
    X = draw.standard_normal((n, d))
    Y = np.sin(X[:, :1]) + 0.3 * draw.standard_normal((n, outputs))
    return Task(X, Y, draw.uniform(0.3, 4, n) if weighted else np.ones(n), np.arange(d))


def shuffled(seed: int, d: int) -> Settings:
    draw = np.random.default_rng(seed + 77)
    return Settings(draw.uniform(-1.5, 0.5, d), float(draw.uniform(-4, 1)))


def dense_evidence(at: Settings, given: Task, curve: object, spread: float, reach: float) -> float:
    """The value as the module's head states it, by a determinant and a solve."""
    rows = np.c_[given.X * np.exp(at.scales)[given.owner], np.ones(len(given.X))]
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    theta = np.arccos(np.clip(rows @ rows.T, -1, 1))
    np.fill_diagonal(theta, 0)
    K = curve(theta) / curve(np.zeros(1))[0]  # type: ignore[operator]
    A = K + np.diag(np.exp(at.noise) / given.weights)
    n, C = given.Y.shape
    value = C / 2 * np.linalg.slogdet(A)[1]
    for y in given.Y.T:
        value += n / 2 * math.log(y @ np.linalg.solve(A, y) / n)
    value += math.log(np.exp(2 * at.scales).sum()) ** 2 / (2 * reach**2)
    if spread:
        value += ((at.scales - at.scales.mean()) ** 2).sum() / (2 * spread**2)
    return float(value)


@pytest.mark.parametrize("activation", [ReLU(), ShiftedReLU(1.0), GELU()], ids=str)
@FEW
@given(
    seed=st.integers(0, 10**6),
    d=st.integers(1, 4),
    outputs=st.integers(1, 3),
    weighted=st.booleans(),
    shared=st.booleans(),
    spread=st.sampled_from([0.0, 0.4, 1.0]),
    reach=st.sampled_from([0.5, 1.5]),
)
def test_value_and_gradient(
    activation: Activation,
    seed: int,
    d: int,
    outputs: int,
    weighted: bool,
    shared: bool,
    spread: float,
    reach: float,
) -> None:
    """The value equals the dense one; the gradient its finite differences."""
    given_task, at = task(seed, 12, d, outputs, weighted=weighted), shuffled(seed, d)
    if shared:  # every input has two coordinates
        X = np.c_[given_task.X, given_task.X[::-1]]
        owner = np.tile(given_task.owner, 2)
        given_task = Task(X, given_task.Y, given_task.weights, owner)
    curve = profile(activation, 2)
    value, gradient = evidence(at, given_task, curve, spread=spread, reach=reach)
    assert value == pytest.approx(
        dense_evidence(at, given_task, curve, spread, reach), rel=1e-9, abs=1e-9
    )
    assert gradient.shape == (d + 1,)
    h = 1e-5
    for k in range(d + 1):
        step = h * np.eye(d + 1)[k]
        ahead, behind = (
            evidence(
                Settings(at.scales + sign * step[:d], at.noise + sign * step[d]),
                given_task,
                curve,
                spread=spread,
                reach=reach,
            )[0]
            for sign in (1, -1)
        )
        assert gradient[k] == pytest.approx((ahead - behind) / (2 * h), rel=1e-5, abs=1e-5)


def test_sizes_of_targets_and_order_of_rows_do_not_matter() -> None:
    """Multiplying the targets adds a constant; every output has a size of its own."""
    given_task, at, curve = task(3, 10, 3, 2, weighted=True), shuffled(3, 3), profile(GELU(), 1)
    value, gradient = evidence(at, given_task, curve, spread=0.4, reach=0.5)
    scaled = Task(given_task.X, given_task.Y * [10.0, 0.01], given_task.weights, given_task.owner)
    other, turned = evidence(at, scaled, curve, spread=0.4, reach=0.5)
    assert other - value == pytest.approx(10 * (math.log(10.0) + math.log(0.01)))
    assert np.allclose(gradient, turned, atol=1e-8)
    order = np.random.default_rng(0).permutation(10)
    mixed = Task(
        given_task.X[order], given_task.Y[order], given_task.weights[order], given_task.owner
    )
    again, same = evidence(at, mixed, curve, spread=0.4, reach=0.5)
    assert again == pytest.approx(value)
    assert np.allclose(gradient, same, atol=1e-8)


def test_it_is_the_marginal_likelihood_of_a_gaussian_process() -> None:
    """scikit-learn's, with the targets' size at its best: the same differences between noises."""
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import ConstantKernel, DotProduct, WhiteKernel

    given_task, scales = task(8, 15, 2), np.array([-0.5, -1.0])
    rows = given_task.rows(scales)

    class Angle:
        """A kernel that is rho itself: what `DotProduct` makes of unit rows."""

        values = np.cos(np.linspace(0, math.pi, 2049))
        slopes = -np.sin(np.linspace(0, math.pi, 2049))

    y = given_task.Y[:, 0]
    ours, theirs = [], []
    for noise in (-3.0, -1.0, 0.5):
        found = evidence(Settings(scales, noise), given_task, Angle, spread=0.0, reach=1.0)[0]  # type: ignore[arg-type]
        K = kernel(Angle, rows) + math.exp(noise) * np.eye(15)  # type: ignore[arg-type]
        size = float(y @ np.linalg.solve(K, y)) / 15
        process = GaussianProcessRegressor(
            ConstantKernel(size) * DotProduct(0.0, "fixed") + WhiteKernel(size * math.exp(noise)),
            optimizer=None,
            alpha=1e-13,
        ).fit(rows, y)
        ours.append(found)
        theirs.append(-process.log_marginal_likelihood_value_)
    assert np.allclose(np.diff(ours), np.diff(theirs), atol=1e-7)


@pytest.mark.parametrize("rho", [1.0, 0.3, -1.0])
def test_the_kernel_of_equal_rows_is_one(rho: float) -> None:
    X = np.array([[1.0, 2.0], [1.0, 2.0], [rho, 0.5]])
    rows = unit_rows(X, np.array([0.3, -0.2]))
    assert np.allclose(np.linalg.norm(rows, axis=1), 1)
    assert np.allclose(rows / rows[:, -1:], np.c_[X * np.exp([0.3, -0.2]), np.ones(3)])
    K = kernel(profile(ShiftedReLU(1.0), 2), rows)
    assert np.allclose(K.diagonal(), 1, atol=1e-14)
    assert K[0, 1] == pytest.approx(1, abs=1e-14)
    others = kernel(profile(ShiftedReLU(1.0), 2), rows[:1], rows)
    assert np.allclose(others, K[:1], atol=1e-14)


def climbed(spread: float, noise: float | None = None, n: int = 60) -> tuple[Settings, float, Task]:
    draw = np.random.default_rng(1)
    X = draw.standard_normal((n, 4))
    Y = (np.sin(2 * X[:, 0]) + 0.5 * X[:, 1])[:, None] + 0.1 * draw.standard_normal((n, 1))
    given_task = Task(X, Y - Y.mean(), np.ones(n), np.arange(4))
    start = Settings(np.array([-0.7, -0.6, -0.7, -0.5]), -2.0)
    found, value = most_evident(
        given_task, profile(ReLU(), 1), start, spread=spread, reach=0.5, steps=40, noise=noise
    )
    assert value < evidence(start, given_task, profile(ReLU(), 1), spread=spread, reach=0.5)[0]
    return found, value, given_task


def test_scales_that_move_together_keep_their_distances() -> None:
    found, _, _ = climbed(0.0)
    moved: Array = found.scales - np.array([-0.7, -0.6, -0.7, -0.5])
    assert np.ptp(moved) < 1e-12


def test_free_scales_find_the_inputs_that_matter_and_the_noise() -> None:
    found, value, given_task = climbed(1.0)
    assert found.scales[:2].min() > found.scales[2:].max() + 0.5
    at, gradient = evidence(found, given_task, profile(ReLU(), 1), spread=1.0, reach=0.5)
    assert at == pytest.approx(value)
    assert np.abs(gradient).max() < 0.5


def test_noise_that_is_given_stays() -> None:
    for noise in (-5.0, 0.0):
        found, _, _ = climbed(0.4, noise)
        assert found.noise == noise
    quiet = climbed(0.4, math.log(1e-9))[0]
    assert quiet.noise == math.log(1e-9)


def test_a_kernel_that_cannot_be_factored_is_no_evidence() -> None:
    """Equal rows and no noise to speak of: infinite, so that a climb turns back."""
    X = np.ones((6, 2))
    given_task = Task(X, np.arange(6.0)[:, None] - 2.5, np.ones(6), np.arange(2))
    value, gradient = evidence(
        Settings(np.zeros(2), -80.0), given_task, profile(ReLU(), 1), spread=0.4, reach=0.5
    )
    assert value == math.inf
    assert np.all(gradient == 0)
