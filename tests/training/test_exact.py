"""Gauss-Newton in sample space and on all layers against explicit dense Gauss-Newton."""

import copy
import itertools
import math

import pytest
import torch

from subquad import (
    GELU,
    LeakyReLU,
    ReLU,
    ShiftedReLU,
    Sigmoid,
    SiLU,
    Tanh,
    ThresholdedLinear,
    WideNet,
    train,
)
from subquad.activations import Activation
from subquad.training.firingbits import FiringBitsState
from subquad.training.fixedinputs import FixedInputs
from subquad.training.maintained import MaintainedState
from subquad.training.ridged import RidgedState
from subquad.training.samplespace import SampleSpaceState
from tests.oracles import dense_gauss_newton, targets, unit_rows

EVERY = [
    ShiftedReLU(0.8),
    ShiftedReLU(0.3, relative=False),
    ThresholdedLinear(0.5),
    ThresholdedLinear(0.3, relative=False),
    ReLU(),
    LeakyReLU(),
    GELU(),
    SiLU(),
    Tanh(),
    Sigmoid(),
]


def problem(
    activation: Activation, outputs: int = 1, depth: int = 2
) -> tuple[WideNet, torch.Tensor, torch.Tensor]:
    net = WideNet(
        6,
        600,
        depth,
        activation=activation,
        outputs=outputs,
        weights="dense",
        seed=3,
        dtype=torch.float64,
    )
    y = targets(8, outputs=None if outputs == 1 else outputs)
    return net, unit_rows(8, 6), y


@pytest.mark.parametrize("activation", EVERY, ids=str)
@pytest.mark.parametrize("outputs", [1, 3])
def test_last_layer_equals_dense_gauss_newton(activation: Activation, outputs: int) -> None:
    """To 1e-10 at every iteration that took the full step."""
    net, X, y = problem(activation, outputs)
    result = train(net, X, y, tol=1e-12, max_iter=8)
    explicit = dense_gauss_newton(net, X, y, [1], center=True)
    compared = 0
    before = float("inf")
    for found, expected in zip(result.residuals, explicit, strict=False):
        if expected > before:
            break  # here the line search leaves the dense path
        assert abs(found - expected) <= 1e-10
        compared, before = compared + 1, expected
    assert compared >= 3


@pytest.mark.parametrize("activation", EVERY, ids=str)
@pytest.mark.parametrize(("outputs", "depth"), [(1, 2), (3, 2), (2, 3)])
def test_all_layers_equal_dense_gauss_newton(
    activation: Activation, outputs: int, depth: int
) -> None:
    net = WideNet(
        6,
        [60, 80, 100][-depth:],
        depth,
        activation=activation,
        outputs=outputs,
        weights="dense",
        seed=3,
        dtype=torch.float64,
    )
    X, y = unit_rows(5, 6), targets(5, outputs=None if outputs == 1 else outputs)
    result = train(net, X, y, layers="all", tol=1e-12, max_iter=8)
    explicit = dense_gauss_newton(net, X, y, list(range(depth)), center=True)
    compared, before = 0, float("inf")
    for found, expected in zip(result.residuals, explicit, strict=False):
        if expected > before:
            break  # here the line search leaves the dense path
        assert abs(found - expected) <= 1e-10
        compared, before = compared + 1, expected
    assert compared >= 3


def test_all_layers_converge_quadratically() -> None:
    """At b = 1 the logarithm of the residual doubles: the derivative is complete."""
    net = WideNet(16, 4096, 2, weights="dense", dtype=torch.float64)
    result = train(net, unit_rows(16, 16), targets(16), layers="all", tol=1e-13)
    assert result.status == "converged"
    steps = [r for r in result.residuals if 1e-14 < r < 0.2]
    orders = [math.log(b) / math.log(a) for a, b in itertools.pairwise(steps)]
    assert len(orders) >= 2
    assert min(orders) > 1.5


def test_float32_reaches_1e_6_on_all_layers() -> None:
    net = WideNet(16, 4096, 2, weights="dense")
    result = train(net, unit_rows(64, 16), targets(64), layers="all", tol=1e-6)
    assert result.status == "converged"
    assert result.iterations <= 6


def test_rank_of_the_change_is_at_most_n() -> None:
    net, X, y = problem(ShiftedReLU(0.8))
    result = train(net, X, y, tol=0.0, max_iter=12)
    assert result.net.layers[-1].rank <= 8


def test_rank_on_all_layers_is_that_of_the_steps() -> None:
    """Each adds n, however many outputs there are; recompressed factors are the dense change."""
    net = WideNet(
        6, [60, 80], 2, outputs=3, weights="dense", dtype=torch.float64, activation=ReLU()
    )
    X, y = unit_rows(5, 6), targets(5, outputs=3)
    result = train(net, X, y, layers="all", tol=0.0, max_iter=4)
    for layer, old, most in zip(result.net.layers, net.layers, (5, 20), strict=True):
        assert layer.rank <= most
        change = layer.dense() - old.dense()
        layer.pending.recompress()
        U, V = layer.delta()
        assert layer.rank == int(torch.linalg.matrix_rank(change, rtol=1e-9))
        assert float((U @ V.T - change).abs().max()) <= 1e-10


@pytest.mark.parametrize("ridge", [0.0, 0.1])
def test_halved_steps_leave_no_rank_behind(ridge: float) -> None:
    net, X, _ = problem(ShiftedReLU(0.8))
    state = RidgedState(net, X, ridge) if ridge else MaintainedState(net, X, "all", "never")
    for _ in range(2):
        before = state.net.layers[-1].rank
        jacobian = state.jacobian()
        state.aim(jacobian, torch.ones(8, dtype=torch.float64))
        for eta in (1.0, 0.5, 0.25, 0.125):
            state.move_to(eta)
        assert state.net.layers[-1].rank == before + 8


def test_every_step_lessens_the_error() -> None:
    """The line search sees to it, also for the form that jumps and for few neurons."""
    for activation in (ThresholdedLinear(1.0), ShiftedReLU(1.0)):
        net = WideNet(6, 60, 2, activation=activation, weights="dense", dtype=torch.float64)
        X, y = unit_rows(12, 6), targets(12)
        result = train(net, X, y, max_iter=10)
        steps = itertools.pairwise(result.residuals)
        assert sum(b > a for a, b in steps) <= 1


def test_chunks_do_not_change_the_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    net, X, y = problem(ShiftedReLU(0.8), 2)
    whole = train(net, X, y, ridge=0.01)
    monkeypatch.setattr("subquad.training.samplespace.CHUNK_BYTES", 8 * 8 * 37)
    parts = train(net, X, y, ridge=0.01)
    assert max(abs(a - b) for a, b in zip(whole.residuals, parts.residuals, strict=True)) < 1e-12


@pytest.mark.parametrize("compiled", [True, False])
def test_float32_reaches_1e_6_and_does_not_drift(compiled: bool) -> None:
    """1000 iterations past convergence; outputs are those of the weights, in float64."""
    net, X, y = WideNet(8, 1024, 2, weights="dense"), unit_rows(16, 8), targets(16)
    assert train(net, X, y, tol=1e-6).status == "converged"
    fixed = FixedInputs(net, X.float())
    state = FiringBitsState(fixed) if compiled else SampleSpaceState(fixed)
    target = y[:, None] + state.outputs
    base, gaps = net.to_module().double(), []
    for iteration in range(1001):
        error = state.outputs - target
        jacobian = state.jacobian()
        state.aim(jacobian, torch.linalg.solve(jacobian.gram, error[:, 0]))
        state.move_to(1.0)
        if iteration in (10, 100, 1000):
            U, V = (part.double() for part in state.net.layers[-1].delta())
            module = copy.deepcopy(base)
            module.weights[-1].data += U @ V.T
            f = module(X.float().double()).detach()[:, None]
            gaps.append(float((f - target).norm() / y.norm()))
    assert max(gaps) < 2e-6
    assert gaps[-1] < 3 * max(gaps[:2]), "and does not grow"


def test_cost_has_no_width_squared_in_it() -> None:
    counted = []
    for width in (1024, 2048, 4096):
        net = WideNet(16, width, 1, weights="dense")
        result = train(net, unit_rows(32, 16), targets(32), max_iter=3, tol=0.0)
        counted.append(result.cost.iterations[1].flops)
    assert counted[2] / counted[1] < 2.05
    assert counted[1] / counted[0] < 2.05


def test_float32_residuals_on_alike_rows_are_those_of_the_weights() -> None:
    """Rows that are nearly one direction make G ill-conditioned and the weights large.

    Outputs that are carried along then differ from those of the rounded weights; what callbacks
    and remedies are told must not.
    """
    generator = torch.Generator().manual_seed(0)
    B = torch.randn(64, 6, generator=generator, dtype=torch.float64)
    X = torch.nn.functional.normalize(1 + 0.1 * B).float()
    y = torch.sin(B[:, 0]) + 0.3 * B[:, 1]
    net = WideNet(6, 4096, 2, activation=ShiftedReLU(0.0), seed=1)
    told: list[float] = []
    result = train(net, X, y, max_iter=30, callback=lambda info: told.append(info.residual))
    assert result.status == "stalled"
    assert told == pytest.approx(result.residuals[1:])
    assert "float64" in result.remedy
    assert f"{result.residuals[-1]:.1e}" in result.remedy
    # What is lost besides is the rounding of float32 predictions.
    left = float((result.predict(X).double() - y).norm() / y.norm())
    assert result.residuals[-1] > left / 5
