"""Ridge, on the last layer and on all, against explicit dense matrices."""

import pytest
import torch

from subquad import GELU, ShiftedReLU, ThresholdedLinear, WideNet, train
from subquad.activations import Activation
from subquad.training import TrainResult
from tests.oracles import autograd_jacobian, dense_ridge, targets, unit_rows


def problem(
    layers: str, outputs: int = 1, depth: int = 2, **settings: object
) -> tuple[WideNet, torch.Tensor, torch.Tensor, list[int]]:
    options = {"weights": "dense", "seed": 2, "dtype": torch.float64, **settings}
    net = WideNet(6, [20, 30, 60][-depth:], depth, outputs=outputs, **options)  # type: ignore[arg-type]
    y = targets(6, outputs=None if outputs == 1 else outputs)
    return net, unit_rows(6, 6), y, [depth - 1] if layers == "last" else list(range(depth))


def change(result: TrainResult) -> torch.Tensor:
    """D of all layers side by side; the networks here start without one."""
    parts = [U @ V.T for U, V in (layer.delta() for layer in result.net.layers)]
    return torch.cat([part.reshape(-1) for part in parts])


def objective(result: TrainResult, X: torch.Tensor, y: torch.Tensor, ridge: float) -> float:
    lam = ridge * result.net.widths[-1]
    return float((result.predict(X) - y).square().sum() + lam * change(result).square().sum())


@pytest.mark.parametrize("activation", [ShiftedReLU(0.3), ThresholdedLinear(0.3), GELU()], ids=str)
@pytest.mark.parametrize("ridge", [0.3, 1e-3])
@pytest.mark.parametrize(
    ("layers", "outputs", "depth"),
    [("last", 1, 2), ("last", 3, 2), ("all", 1, 2), ("all", 3, 2), ("all", 2, 3)],
)
def test_every_iteration_equals_the_dense_one(
    activation: Activation, ridge: float, layers: str, outputs: int, depth: int
) -> None:
    """To 1e-10, halved and damped steps among them."""
    net, X, y, trained = problem(layers, outputs, depth, activation=activation)
    result = train(net, X, y, layers=layers, ridge=ridge, max_iter=6)
    assert result.iterations >= 3
    for found, (expected, _) in zip(
        result.residuals, dense_ridge(net, X, y, trained, ridge), strict=False
    ):
        assert abs(found - expected) <= 1e-10
    assert all(c.residual < 1e-10 for c in result.certificates)


@pytest.mark.parametrize("weights", ["hadamard", "gaussian", "circulant", "sparse"])
def test_weights_that_are_not_stored_take_the_same_path(weights: str) -> None:
    net, X, y, trained = problem("all", activation=ShiftedReLU(0.3), weights=weights)
    dense = dense_ridge(net, X, y, trained, 0.05)
    result = train(net, X, y, layers="all", ridge=0.05, max_iter=4)
    explicit = [next(dense) for _ in result.residuals]
    for found, (expected, _) in zip(result.residuals, explicit, strict=True):
        assert abs(found - expected) <= 1e-10
    D = explicit[-1][1]
    assert float((change(result) - D).abs().max()) <= 1e-10


@pytest.mark.parametrize("layers", ["last", "all"])
@pytest.mark.parametrize("outputs", [1, 2])
def test_iterating_beats_its_own_first_step(layers: str, outputs: int) -> None:
    net = WideNet(6, 800, 2, outputs=outputs, weights="dense", dtype=torch.float64)
    X, y = unit_rows(8, 6), targets(8, outputs=None if outputs == 1 else outputs)
    whole = train(net, X, y, layers=layers, ridge=0.02)
    first = train(net, X, y, layers=layers, ridge=0.02, max_iter=1)
    assert whole.status == "converged"
    last, once = (objective(result, X, y, 0.02) for result in (whole, first))
    assert last < 0.98 * once < float(y.square().sum())


@pytest.mark.parametrize("layers", ["last", "all"])
def test_no_small_ridge_stops_short_of_its_minimum(layers: str) -> None:
    """The network trained without ridge is a bound; the undamped step ends far above it."""
    net = WideNet(6, 400, 2, weights="dense", dtype=torch.float64)
    X, y = unit_rows(12, 6), targets(12)
    plain = train(net, X, y, layers=layers, tol=1e-10)
    size = float(change(plain).norm())
    for ridge in (1e-2, 1e-4, 1e-6):
        result = train(net, X, y, layers=layers, ridge=ridge)
        assert result.status == "converged"
        assert objective(result, X, y, ridge) < 1.001 * objective(plain, X, y, ridge)
        assert result.residuals[-1] < 10 * ridge
        assert float(change(result).norm()) < 1.001 * size
    Z = unit_rows(50, 6, 7)
    a, b = result.predict(Z), plain.predict(Z)
    assert float((a - b).norm() / b.norm()) < 0.2


@pytest.mark.parametrize("layers", ["last", "all"])
def test_large_ridge_leaves_the_start(layers: str) -> None:
    net, X, y, _ = problem(layers)
    result = train(net, X, y, layers=layers, ridge=1e9)
    assert result.status == "converged"
    assert float(result.predict(X).abs().max()) < 1e-6


def test_a_full_step_on_all_layers_has_rank_n() -> None:
    net, X, y, _ = problem("all", 3)
    result = train(net, X, y, layers="all", ridge=1e4, max_iter=3)
    assert [layer.rank for layer in result.net.layers] == [6, 6]


def test_training_goes_on_from_a_trained_network() -> None:
    """The penalty counts from where training starts, and the earlier change stays."""
    net, X, y, _ = problem("all", activation=ShiftedReLU(0.3))
    first = train(net, X, y, layers="all", ridge=0.1)
    held = [layer.dense().clone() for layer in first.net.layers]
    second = train(first.net, X, -y, layers="all", ridge=1e9)
    for layer, old in zip(second.net.layers, held, strict=True):
        assert float((layer.dense() - old).abs().max()) < 1e-6
    third = train(first.net, X, -y, layers="all", ridge=0.1, max_iter=3)
    for found, (expected, _) in zip(
        third.residuals, dense_ridge(first.net, X, -y, [0, 1], 0.1), strict=False
    ):
        assert abs(found - expected) <= 1e-10


@pytest.mark.parametrize("layers", ["last", "all"])
@pytest.mark.parametrize("outputs", [1, 2])
@pytest.mark.parametrize("center", [True, False])
def test_leave_one_out_equals_the_linearised_network_without_each_row(
    layers: str, outputs: int, center: bool
) -> None:
    """Ridge regression on the features J_t at the trained point, row by row."""
    net, X, y, trained = problem(layers, outputs, activation=ShiftedReLU(0.3))
    ridge = 0.1
    result = train(net, X, y, layers=layers, ridge=ridge, center=center)
    found = result.loo_predictions().reshape(6, outputs)
    J = autograd_jacobian(result.net.to_module(), X, trained)
    parts = [U @ V.T for U, V in (result.net.layers[l].delta() for l in trained)]
    D = torch.cat([part.reshape(-1) for part in parts])
    f, goal = result.predict(X).reshape(-1), y.reshape(-1)
    base, lam = f - J @ D, ridge * net.widths[-1]
    for i in range(6):
        own = list(range(outputs * i, outputs * (i + 1)))
        kept = [r for r in range(6 * outputs) if r not in own]
        K = J[kept] @ J[kept].T + lam * torch.eye(len(kept), dtype=J.dtype)
        without = base[own] + J[own] @ J[kept].T @ torch.linalg.solve(K, (goal - base)[kept])
        assert torch.allclose(found[i], without, atol=1e-9)


def test_leave_one_out_comes_near_to_training_without_a_row() -> None:
    net = WideNet(6, 2048, 2, weights="dense", dtype=torch.float64)
    X, y = unit_rows(12, 6), targets(12)
    for layers in ("last", "all"):
        closed = train(net, X, y, layers=layers, ridge=0.1).loo_predictions()
        for i in (0, 7):
            kept = [k for k in range(12) if k != i]
            other = train(net, X[kept], y[kept], layers=layers, ridge=0.1)
            assert float(closed[i]) == pytest.approx(float(other.predict(X[i : i + 1])), abs=0.05)


@pytest.mark.parametrize("solver", ["exact", "preconditioned"])
def test_solvers_take_the_same_path(solver: str) -> None:
    net, X, y, _ = problem("all", 2, activation=ShiftedReLU(0.3))
    auto, other = (
        train(net, X, y, layers="all", ridge=0.05, solver=name, max_iter=5)
        for name in ("auto", solver)
    )
    gaps = [abs(a - b) for a, b in zip(auto.residuals, other.residuals, strict=True)]
    assert max(gaps) < 1e-10


@pytest.mark.parametrize("ridge", [0.0, 0.01])
def test_ten_outputs_are_solved_to_what_the_certificate_says(ridge: float) -> None:
    net = WideNet(6, 300, 2, outputs=10, weights="dense", dtype=torch.float64)
    X, y = unit_rows(8, 6), targets(8, outputs=10)
    result = train(net, X, y, ridge=ridge, max_iter=1)
    certificate = result.certificates[0]
    J = autograd_jacobian(net.to_module(), X, [1])
    shifted = J @ J.T + ridge * 300 * torch.eye(80, dtype=J.dtype)
    q = torch.linalg.solve(shifted, -y.reshape(-1))
    D = (-J.T @ q).reshape(300, -1)
    eta = 1.0
    while float((change(result) - eta * change_of(D, net)).abs().max()) > 1e-10 and eta > 1e-3:
        eta /= 2
    assert eta > 1e-3
    assert certificate.residual < 1e-11
    assert certificate.residual_kind == "exact"
    assert (certificate.rank, certificate.path[:20]) == (80, "conjugate gradients ")


def change_of(D: torch.Tensor, net: WideNet) -> torch.Tensor:
    """D of the last layer beside nothing below."""
    return torch.cat([torch.zeros(net.widths[0] * net.features, dtype=D.dtype), D.reshape(-1)])


def test_outputs_that_a_narrow_network_cannot_tell_apart_are_told() -> None:
    """80 numbers from some 50 firing neurons: every diagonal block is regular, the whole is not."""
    net = WideNet(6, [100, 40], 2, outputs=10, weights="dense", dtype=torch.float64)
    result = train(net, unit_rows(8, 6), targets(8, outputs=10), max_iter=3)
    assert result.status != "failed"
    assert all(b <= a for a, b in zip(result.residuals[:-1], result.residuals[1:], strict=True))
    certificate = result.certificates[0]
    assert certificate.path.endswith("exact (eigendecomposition)")
    assert certificate.rank < 80
    assert any("of 80: solved in the least-squares sense" in note for note in result.notes)
