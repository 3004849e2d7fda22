"""Gauss-Newton in sample space against explicit dense Gauss-Newton."""

import itertools

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
from subquad.training.fixedinputs import FixedInputs
from subquad.training.samplespace import SampleSpaceState
from tests.oracles import autograd_jacobian, dense_gauss_newton, targets, unit_rows

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
def test_all_layers_equal_dense_gauss_newton(activation: Activation) -> None:
    net, X, y = problem(activation)
    result = train(net, X, y, layers="all", tol=1e-12, max_iter=4)
    explicit = dense_gauss_newton(net, X, y, [0, 1], center=True)
    for found, expected in itertools.islice(zip(result.residuals, explicit, strict=False), 3):
        assert abs(found - expected) <= 1e-10


@pytest.mark.parametrize("outputs", [1, 2])
def test_ridge_equals_the_dense_iteration(outputs: int) -> None:
    """q = (G + lam I)^-1 (f - y - J D), D' = -J^T q, with explicit matrices."""
    _, X, y = problem(ShiftedReLU(0.8), outputs)
    net = WideNet(6, [200, 4000], 2, outputs=outputs, weights="dense", dtype=torch.float64)
    ridge = 0.05
    result = train(net, X, y, ridge=ridge)
    assert result.status == "converged"
    module = net.to_module()
    start = module(X).detach()
    weight = list(module.weights)[1]  # type: ignore[arg-type]
    frozen, lam = weight.detach().clone(), ridge * 4000
    best = float("inf")
    compared = 0
    for found in result.residuals:
        error = (module(X).detach() - start - y).reshape(-1)
        objective = float(error.square().sum() + lam * (weight.detach() - frozen).square().sum())
        if objective > best:
            break  # here the line search leaves the dense path
        best, compared = objective, compared + 1
        assert abs(found - float(error.norm() / y.norm())) <= 1e-10
        J = autograd_jacobian(module, X, [1])
        D = (weight.detach() - frozen).reshape(-1)
        G = J @ J.T + lam * torch.eye(J.shape[0])
        q = torch.linalg.solve(G, error - J @ D)
        weight.data = frozen - (J.T @ q).reshape(weight.shape)
    assert compared >= 2
    assert 0.01 < result.residuals[-1] < 0.9
    U, V = result.net.layers[-1].delta()
    last = float((result.predict(X) - y).square().sum() + lam * (U @ V.T).square().sum())
    first = train(net, X, y, ridge=ridge, max_iter=1)
    U, V = first.net.layers[-1].delta()
    once = float((first.predict(X) - y).square().sum() + lam * (U @ V.T).square().sum())
    assert last < once < float(y.square().sum()), "iterating beats its own first step"


def test_large_ridge_leaves_the_start() -> None:
    net, X, y = problem(ShiftedReLU(0.8))
    result = train(net, X, y, ridge=1e9)
    assert result.status == "converged"
    assert float(result.predict(X).abs().max()) < 1e-6


def test_rank_of_the_change_is_at_most_n() -> None:
    net, X, y = problem(ShiftedReLU(0.8))
    result = train(net, X, y, tol=0.0, max_iter=12)
    assert result.net.layers[-1].rank <= 8


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


def test_float32_reaches_1e_6_and_does_not_drift() -> None:
    net = WideNet(16, 8192, 2, weights="dense")
    X, y = unit_rows(64, 16), targets(64)
    assert train(net, X, y, tol=1e-6).status == "converged"
    state = SampleSpaceState(FixedInputs(net, X.float()))
    target = y[:, None] + state.outputs
    for _ in range(50):
        error = state.outputs - target
        state.aim(state.jacobian(), torch.linalg.solve(state.gram, error[:, 0]))
        state.move_to(1.0)
    assert float((state.outputs - target).norm() / y.norm()) < 2e-6


def test_cost_has_no_width_squared_in_it() -> None:
    counted = []
    for width in (1024, 2048, 4096):
        net = WideNet(16, width, 1, weights="dense")
        result = train(net, unit_rows(32, 16), targets(32), max_iter=3, tol=0.0)
        counted.append(result.cost.iterations[1].flops)
    assert counted[2] / counted[1] < 2.05
    assert counted[1] / counted[0] < 2.05
