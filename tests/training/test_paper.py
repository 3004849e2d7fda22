"""Algorithm 2 of the paper against explicit dense Gauss-Newton, and its contraction."""

import itertools

import pytest
import torch
from sklearn.datasets import load_diabetes

from subquad import ReLU, ShiftedReLU, ThresholdedLinear, WideNet, train
from subquad.activations import GELU, Activation
from tests.oracles import dense_gauss_newton, targets, unit_rows

FORMS = [
    ShiftedReLU(0.8),
    ThresholdedLinear(0.8),
    ShiftedReLU(0.3, relative=False),
    ThresholdedLinear(0.3, relative=False),
]


def agrees(net: WideNet, n: int, layers: str, **settings: object) -> None:
    X, y = unit_rows(n, net.features), targets(n, outputs=net.outputs)
    y = y[:, 0] if net.outputs == 1 else y
    result = train(net, X, y, layers=layers, tol=1e-13, max_iter=6, **settings)  # type: ignore[arg-type]
    assert result.status != "failed", result.remedy
    trained = [net.depth - 1] if layers == "last" else list(range(net.depth))
    center = bool(settings.get("center"))
    explicit = dense_gauss_newton(net, X, y, trained, center=center)
    for found, expected in zip(result.residuals, explicit, strict=False):
        assert abs(found - expected) <= 1e-8
    assert len(result.residuals) >= 4


@pytest.mark.parametrize("activation", FORMS, ids=str)
@pytest.mark.parametrize("depth", [1, 2, 3])
def test_residuals_equal_dense_gauss_newton(activation: Activation, depth: int) -> None:
    net = WideNet(
        6, 400, depth, activation=activation, weights="dense", seed=depth, dtype=torch.float64
    )
    agrees(net, 10, "last", method="paper")


@pytest.mark.parametrize("solver", ["exact", "preconditioned"])
@pytest.mark.parametrize("flush", ["never", "sparse", "paper", "lazy-columns", 25])
def test_every_solver_and_flush_takes_the_same_path(solver: str, flush: str | int) -> None:
    net = WideNet(6, 400, 3, weights="dense", seed=5, dtype=torch.float64)
    agrees(net, 10, "last", method="paper", solver=solver, flush=flush)


@pytest.mark.parametrize("activation", [*FORMS, ReLU(), GELU()], ids=str)
def test_all_layers_equal_dense_gauss_newton(activation: Activation) -> None:
    net = WideNet(
        6, [50, 60, 70], 3, activation=activation, weights="dense", seed=1, dtype=torch.float64
    )
    agrees(net, 5, "all", method="paper")


@pytest.mark.parametrize("layers", ["last", "all"])
def test_several_outputs_equal_dense_gauss_newton(layers: str) -> None:
    net = WideNet(
        6,
        300 if layers == "last" else 80,
        2,
        outputs=3,
        weights="dense",
        seed=4,
        dtype=torch.float64,
    )
    agrees(net, 6, layers, method="paper")


def test_centred_training_equals_dense_gauss_newton() -> None:
    net = WideNet(6, 300, 2, weights="dense", seed=4, dtype=torch.float64)
    agrees(net, 8, "last", method="paper", center=True)


def test_all_layers_converge_quadratically() -> None:
    """The derivative is complete: at b = 1 the residual's exponent doubles."""
    net = WideNet(16, 1024, 3, weights="dense", dtype=torch.float64)
    result = train(net, unit_rows(20, 16), targets(20), method="paper", layers="all", tol=1e-10)
    assert result.status == "converged"
    steps = [r for r in result.residuals if 1e-12 < r < 0.5]
    assert len(steps) >= 3
    for before, after in itertools.pairwise(steps):
        assert after < before**1.5


@pytest.mark.parametrize("seed", range(20))
def test_each_iteration_contracts_to_a_tenth(seed: int) -> None:
    """n=64, d=16, L=3, m=4096, b=1, float64, preconditioned by a sketch."""
    net = WideNet(16, 4096, 3, weights="dense", seed=seed, dtype=torch.float64)
    result = train(
        net,
        unit_rows(64, 16, seed),
        targets(64, seed),
        method="paper",
        solver="preconditioned",
        tol=1e-12,
        seed=seed,
    )
    assert result.status == "converged"
    assert result.iterations <= 5
    for before, after in itertools.pairwise(result.residuals):
        assert after <= max(before / 10, 1e-12)
    assert {c.path for c in result.certificates} == {"preconditioned (srht)"}


def test_diabetes_contracts_to_a_third() -> None:
    """Real data: 442 rows, m=16384, L=3, float64, preconditioned by a sketch."""
    data = load_diabetes()
    X, y = torch.tensor(data.data), torch.tensor(data.target)
    X, y = (X - X.mean(0)) / X.std(0), (y - y.mean()) / y.std()
    X = torch.nn.functional.normalize(torch.cat([X, torch.ones(len(X), 1)], 1))
    net = WideNet(X.shape[1], 16384, 3, weights="dense", dtype=torch.float64)
    result = train(net, X, y, method="paper", solver="preconditioned", tol=1e-6)
    assert result.status == "converged"
    for before, after in itertools.pairwise(result.residuals):
        assert after <= max(before / 3, 1e-6)
    assert all(c.residual <= 1e-10 for c in result.certificates)
    assert {c.path for c in result.certificates} == {"preconditioned (srht)"}


def test_sketch_and_solve_contracts_to_a_third() -> None:
    net = WideNet(16, 4096, 2, weights="dense", dtype=torch.float64)
    result = train(
        net,
        unit_rows(32, 16),
        targets(32),
        method="paper",
        solver="sketch",
        sketch_size=100 * 32,
        tol=1e-6,
    )
    assert result.status == "converged"
    assert {c.path for c in result.certificates} == {"sketch (srht)"}
    for before, after in itertools.pairwise(result.residuals):
        assert after <= before / 3
