"""Training with slack against kernel ridge regression and explicit dense steps."""

import itertools
import math
from collections.abc import Iterator

import numpy as np
import pytest
import torch
from torch import Tensor

from subquad import GELU, InvalidInput, ReLU, ShiftedReLU, Tanh, ThresholdedLinear, WideNet, train
from subquad.activations import Activation
from subquad.training.api import check_slack
from tests.oracles import autograd_jacobian, targets, unit_rows

PINNED = 1e-6
"""Targets this small leave the Jacobian where it is; outputs are rounded to 1e-9 of them."""
NEAR = 1e-8


def problem(
    layers: str = "last",
    outputs: int = 1,
    activation: Activation | None = None,
    n: int = 7,
    **settings: object,
) -> tuple[WideNet, Tensor, Tensor, list[int]]:
    options = {"weights": "dense", "seed": 2, "dtype": torch.float64, **settings}
    net = WideNet(6, [40, 90], 2, outputs=outputs, activation=activation, **options)  # type: ignore[arg-type]
    y = targets(n, outputs=None if outputs == 1 else outputs)
    return net, unit_rows(n, 6), y, [1] if layers == "last" else [0, 1]


def shifts(slack: float | Tensor, net: WideNet, n: int) -> Tensor:
    """What slack adds to the diagonal of G, one number per row and output."""
    each = torch.as_tensor(slack, dtype=torch.float64).expand(n) * net.widths[-1]
    return each.repeat_interleave(net.outputs)


def kernel_ridge(
    net: WideNet, X: Tensor, y: Tensor, Z: Tensor, trained: list[int], slack: float | Tensor
) -> Tensor:
    """What kernel ridge regression on the starting network's Gram matrix predicts for Z."""
    J, j = (autograd_jacobian(net.to_module(), rows, trained) for rows in (X, Z))
    q = torch.linalg.solve(J @ J.T + shifts(slack, net, len(X)).diag(), y.reshape(-1))
    return (j @ J.T @ q).reshape(len(Z), *y.shape[1:])


def dense_steps(
    net: WideNet, X: Tensor, y: Tensor, trained: list[int], slack: float | Tensor
) -> Iterator[float]:
    """Relative residuals of Gauss-Newton on f + s - y, weights in full, no step halved."""
    module = net.to_module()
    shift, start = shifts(slack, net, len(X)), module(X).detach()
    weights = [list(module.weights)[l] for l in trained]  # type: ignore[arg-type]
    s = torch.zeros_like(shift)
    while True:
        error = (module(X).detach() - start - y).reshape(-1) + s
        yield float(error.norm() / y.norm())
        J = autograd_jacobian(module, X, trained)
        q = torch.linalg.solve(J @ J.T + shift.diag(), error)
        s = s - shift * q
        for weight, part in zip(
            weights, (J.T @ q).split([w.numel() for w in weights]), strict=True
        ):
            weight.data -= part.reshape(weight.shape)


@pytest.mark.parametrize("activation", [ShiftedReLU(0.5), ThresholdedLinear(0.3), GELU()], ids=str)
@pytest.mark.parametrize(("layers", "outputs"), [("last", 1), ("all", 1), ("last", 3), ("all", 2)])
@pytest.mark.parametrize("slack", [0.3, 1e-3])
def test_pinned_rows_get_kernel_ridge_regression(
    layers: str, outputs: int, activation: Activation, slack: float
) -> None:
    net, X, y, trained = problem(layers, outputs, activation)
    y, Z = y * PINNED, unit_rows(9, 6, 5)
    result = train(net, X, y, layers=layers, slack=slack, tol=NEAR)
    assert result.status == "converged"
    for rows in (X, Z):
        expected = kernel_ridge(net, X, y, rows, trained, slack)
        assert float((result.predict(rows) - expected).norm() / y.norm()) < 1e-6


@pytest.mark.parametrize("layers", ["last", "all"])
@pytest.mark.parametrize("outputs", [1, 2])
def test_slack_of_each_row_is_weighted_ridge(layers: str, outputs: int) -> None:
    net, X, y, trained = problem(layers, outputs, ShiftedReLU(0.5))
    y, each = y * PINNED, torch.tensor([1e-4, 1e-2, 0.1, 0.5, 1.0, 30.0, 1e4]).double()
    result = train(net, X, y, layers=layers, slack=each, tol=NEAR)
    expected = kernel_ridge(net, X, y, X, trained, each)
    assert float((result.predict(X) - expected).norm() / y.norm()) < 1e-6
    as_list = train(net, X, y, layers=layers, slack=each.tolist(), tol=NEAR)
    assert torch.equal(as_list.predict(X), result.predict(X))


@pytest.mark.parametrize("activation", [ShiftedReLU(0.5), GELU()], ids=str)
@pytest.mark.parametrize(("layers", "outputs"), [("last", 1), ("last", 3), ("all", 1), ("all", 2)])
@pytest.mark.parametrize("slack", [0.1, torch.linspace(0.01, 0.5, 7, dtype=torch.float64)])
def test_every_step_equals_the_dense_one(
    activation: Activation, layers: str, outputs: int, slack: float | Tensor
) -> None:
    """To 1e-10, as long as no step is halved."""
    net, X, y, trained = problem(layers, outputs, activation)
    y = 0.3 * y
    result = train(net, X, y, layers=layers, slack=slack, tol=1e-11, max_iter=8)
    compared, before = 0, math.inf
    for found, expected in zip(
        result.residuals, dense_steps(net, X, y, trained, slack), strict=False
    ):
        if expected > before:
            break  # here the line search leaves the dense path
        assert abs(found - expected) <= 1e-10
        compared, before = compared + 1, expected
    assert compared >= 3


def test_one_row_of_half_the_slack_equals_two_rows() -> None:
    """At every width, not only where the Jacobian stays."""
    net, X, y, _ = problem("last", 1, ShiftedReLU(0.5))
    twice, again = torch.cat([X, X[:1]]), torch.cat([y, y[:1]])
    each = torch.full((7,), 0.2, dtype=torch.float64)
    each[0] = 0.1
    Z = unit_rows(9, 6, 5)
    for layers in ("last", "all"):
        one = train(net, X, y, layers=layers, slack=each, tol=1e-11)
        two = train(net, twice, again, layers=layers, slack=0.2, tol=1e-11)
        assert one.status == two.status == "converged"
        assert torch.allclose(one.predict(Z), two.predict(Z), atol=1e-8)


@pytest.mark.parametrize("layers", ["last", "all"])
def test_no_slack_is_none_and_much_leaves_the_start(layers: str) -> None:
    net, X, y, _ = problem(layers)
    none, zero = (
        train(net, X, y, layers=layers, max_iter=3, **how) for how in ({}, {"slack": 0.0})
    )
    assert none.residuals == zero.residuals
    much = train(net, X, y, layers=layers, slack=1e9)
    assert much.status == "converged"
    assert float(much.predict(X).abs().max()) < 1e-6


@pytest.mark.parametrize("layers", ["last", "all"])
def test_steps_converge_quadratically(layers: str) -> None:
    """The logarithm of the residual of f + s doubles."""
    net = WideNet(6, 4096, 2, activation=Tanh(), weights="dense", dtype=torch.float64)
    y = 10 * targets(16)  # far enough for the kernel to move
    result = train(net, unit_rows(16, 6), y, layers=layers, slack=0.05, tol=1e-13)
    assert result.status == "converged"
    steps = [r for r in result.residuals if 1e-14 < r < 0.1]
    orders = [math.log(b) / math.log(a) for a, b in itertools.pairwise(steps)]
    assert len(orders) >= 2
    assert min(orders) > 1.5


@pytest.mark.parametrize("activation", [ReLU(), ShiftedReLU(1.0), ThresholdedLinear(0.4)], ids=str)
@pytest.mark.parametrize("slack", [1e-3, 0.3])
def test_plain_and_compiled_paths_agree(
    activation: Activation, slack: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("numba")
    net = WideNet(6, 700, 2, activation=activation, weights="dense", dtype=torch.float64)
    X, y, Z = unit_rows(20, 6), targets(20), unit_rows(9, 6, 5)
    compiled = train(net, X, y, slack=slack, tol=1e-11, max_iter=6)
    monkeypatch.setattr("subquad.training.firingbits.numba_available", lambda: False)
    plain = train(net, X, y, slack=slack, tol=1e-11, max_iter=6)
    assert np.allclose(compiled.residuals, plain.residuals, rtol=0, atol=1e-10)
    for found in (
        (compiled.predict(Z), plain.predict(Z)),
        (compiled.loo_predictions(), plain.loo_predictions()),
    ):
        assert torch.allclose(*found, atol=1e-9)


@pytest.mark.parametrize("weights", ["hadamard", "gaussian", "sobol"])
@pytest.mark.parametrize("layers", ["last", "all"])
def test_float32_and_weights_that_are_not_stored(weights: str, layers: str) -> None:
    X, y, Z = unit_rows(20, 6), targets(20), unit_rows(9, 6, 5)
    narrow, wide = (
        train(
            WideNet(6, 512, 2, weights=weights, dtype=dtype), X.to(dtype), y, layers=layers,
            slack=0.1,
        )
        for dtype in (torch.float32, torch.float64)
    )  # fmt: skip
    assert narrow.status == wide.status == "converged"
    assert torch.allclose(narrow.predict(Z.float()).double(), wide.predict(Z), atol=1e-4)


@pytest.mark.parametrize("layers", ["last", "all"])
@pytest.mark.parametrize("outputs", [1, 2])
@pytest.mark.parametrize("center", [True, False])
def test_left_out_rows_equal_refitting_at_a_fixed_kernel(
    layers: str, outputs: int, center: bool
) -> None:
    """Kernel ridge regression without the row, on the Gram matrix of the starting network."""
    net, X, y, trained = problem(layers, outputs, ShiftedReLU(0.5))
    start = 0.0 if center else net.to_module()(X).detach()
    y, each = start + y * PINNED, torch.linspace(0.05, 0.4, 7).double()
    result = train(net, X, y, layers=layers, slack=each, center=center, tol=NEAR)
    labels = ["b", "a", "c", "a", "b", "b", "c"]
    J = autograd_jacobian(net.to_module(), X, trained)
    G, shift = J @ J.T, shifts(each, net, 7)
    goal = (y - start).reshape(-1)

    def without(own: list[int], known: list[int]) -> Tensor:
        rows, kept = (
            [outputs * i + c for i in part for c in range(outputs)] for part in (own, known)
        )
        A = G[kept][:, kept] + shift[kept].diag()
        return (G[rows][:, kept] @ torch.linalg.solve(A, goal[kept])).reshape(-1, *y.shape[1:])

    cases = [
        (result.loo_predictions(), [([i], [k for k in range(7) if k != i]) for i in range(7)]),
        (
            result.loo_predictions(labels),
            [
                (
                    [i for i in range(7) if labels[i] == name],
                    [i for i in range(7) if labels[i] != name],
                )
                for name in "abc"
            ],
        ),
        (result.loo_predictions(ordered=True), [([i], list(range(i))) for i in range(7)]),
    ]
    for found, splits in cases:
        assert found.shape == y.shape
        for own, known in splits:
            gap = (found - start)[own] - without(own, known)
            assert float(gap.norm()) < 2e-6 * float(goal.norm())


@pytest.mark.parametrize("layers", ["last", "all"])
def test_leaving_rows_out_comes_near_to_training_without_them(layers: str) -> None:
    """Targets of their own size, so that training moves the kernel."""
    net = WideNet(6, 4096, 2, weights="dense", dtype=torch.float64)
    X, y = unit_rows(12, 6), targets(12)
    labels = [0, 0, 1, 1, 1, 2, 2, 3, 4, 5, 6, 6]
    result = train(net, X, y, layers=layers, slack=0.05)
    alone, together, foretold = (
        result.loo_predictions(),
        result.loo_predictions(labels),
        result.loo_predictions(ordered=True),
    )
    for found, own, known in (
        (alone, [3], [k for k in range(12) if k != 3]),
        (together, [2, 3, 4], [0, 1, *range(5, 12)]),
        (foretold, [9], list(range(9))),
    ):
        other = train(net, X[known], y[known], layers=layers, slack=0.05)
        assert float((found[own] - other.predict(X[own])).abs().max()) < 0.05


def test_a_row_that_stands_for_several_keeps_the_others() -> None:
    """Leaving one of w equal rows out equals training on w - 1 of them."""
    net, X, y, _ = problem("last", 1, ShiftedReLU(0.5))
    y, counts = y * PINNED, torch.tensor([1.0, 2, 3, 1, 1, 5, 1]).double()
    found = train(net, X, y, slack=0.2 / counts, tol=NEAR).loo_predictions(counts=counts)
    whole = [i for i in range(7) for _ in range(int(counts[i]))]
    repeated = train(net, X[whole], y[whole], slack=0.2, tol=NEAR).loo_predictions()
    assert torch.allclose(found[whole], repeated, rtol=0, atol=1e-5 * PINNED)


def test_misuse_gets_one_line() -> None:
    net, X, y, _ = problem()
    clash = "slack needs method='exact', no ridge, and solver and flush at their defaults"
    number = "slack must be a finite number >= 0 and <= 1e\\+30, got"
    rows = r"slack must be a number >= 0 or 7 numbers > 0, one per row, got shape"
    cases: list[tuple[dict[str, object], str]] = [
        ({"slack": 0.1, "ridge": 0.1}, clash),
        ({"slack": 0.1, "method": "paper"}, clash),
        ({"slack": 0.1, "method": "gd"}, clash),
        ({"slack": 0.1, "layers": "all", "flush": "sparse"}, clash),
        ({"slack": 0.1, "layers": "all", "solver": "preconditioned"}, clash),
        ({"slack": -0.1}, number),
        ({"slack": math.nan}, number),
        ({"slack": math.inf}, number),
        ({"slack": True}, number),
        ({"slack": 1e31}, number),
        ({"slack": torch.ones(6)}, rows),
        ({"slack": torch.ones(7, 1)}, rows),
        ({"slack": [0.1] * 6 + [0.0]}, rows),
        ({"slack": [0.1] * 6 + [-1.0]}, rows),
        ({"slack": [0.1] * 6 + [math.nan]}, rows),
        ({"slack": "much"}, "slack is not a numeric array"),
    ]
    for how, message in cases:
        with pytest.raises(InvalidInput, match=message):
            train(net, X, y, **how)  # type: ignore[arg-type]
    assert check_slack(0.0, 7, "paper", 0.1, "auto", "never") is None
