import pytest
import torch

from subquad import WideNet, train
from tests.oracles import autograd_jacobian, targets, unit_rows

N, D = 12, 8


def start() -> tuple[WideNet, torch.Tensor, torch.Tensor]:
    net = WideNet(D, 256, 3, weights="dense", seed=2, dtype=torch.float64)
    return net, unit_rows(N, D), targets(N)


@pytest.mark.parametrize("layers", ["all", "last"])
def test_equals_gradient_descent_by_autograd(layers: str) -> None:
    net, X, y = start()
    step = 2e-4
    result = train(net, X, y, method="gd", layers=layers, step=step, max_iter=20, tol=1e-9)
    module = net.to_module()
    base = module(X).detach()
    trained = [2] if layers == "last" else [0, 1, 2]
    for found in result.residuals:
        error = module(X).detach() - base - y
        assert found == pytest.approx(float(error.norm() / y.norm()), abs=1e-10)
        gradient = autograd_jacobian(module, X, trained).T @ error
        weights = [list(module.weights)[l] for l in trained]  # type: ignore[arg-type]
        for weight, part in zip(weights, gradient.split([w.numel() for w in weights]), strict=True):
            weight.data -= step * part.reshape(weight.shape)


@pytest.mark.parametrize("flush", ["sparse", "paper", "lazy-columns", 40])
def test_every_flush_takes_the_same_path(flush: str | int) -> None:
    net, X, y = start()
    plain, other = (
        train(net, X, y, method="gd", max_iter=15, flush=f).residuals for f in ("never", flush)
    )
    assert max(abs(a - b) for a, b in zip(plain, other, strict=True)) < 1e-9


def test_bounded_step_descends_to_the_end() -> None:
    net, X, y = start()
    result = train(net, X, y, method="gd", tol=1e-3, max_iter=2000)
    assert result.status == "converged"
    assert all(b <= a for a, b in zip(result.residuals[:-1], result.residuals[1:], strict=True))
    assert float((result.predict(X) - y).norm() / y.norm()) == pytest.approx(
        result.residuals[-1], rel=1e-6
    )


def test_all_layers_move_by_default() -> None:
    net, X, y = start()
    result = train(net, X, y, method="gd", max_iter=3, tol=1e-9)
    for before, after in zip(net.layers, result.net.layers, strict=True):
        assert float((after.dense() - before.dense()).norm()) > 1e-6


def test_too_long_a_step_fails_by_name() -> None:
    net, X, y = start()
    result = train(net, X, y, method="gd", step=1.0, max_iter=500)
    assert result.status == "failed"
    assert "smaller step" in result.remedy or "fire no neuron" in result.remedy
