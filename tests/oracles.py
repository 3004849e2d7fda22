"""Slow, readable twins and data that several tests share."""

import itertools
from collections.abc import Iterator

import torch
from torch import Tensor

from subquad import WideNet


def unit_rows(n: int, d: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    rows = torch.randn(n, d, generator=generator, dtype=torch.float64)
    return torch.nn.functional.normalize(rows)


def targets(n: int, seed: int = 0, outputs: int | None = None) -> Tensor:
    generator = torch.Generator().manual_seed(1000 + seed)
    shape = (n,) if outputs is None else (n, outputs)
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


def sparse_matrix(shape: tuple[int, int], density: float, seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    values = torch.randn(*shape, generator=generator, dtype=torch.float64)
    return values * (torch.rand(*shape, generator=generator) < density)


def tensor_rows(U: Tensor, V: Tensor) -> Tensor:
    """Rows u_i ⊗ v_i, written out."""
    return torch.einsum("ni,nj->nij", U, V).flatten(1)


def autograd_jacobian(module: torch.nn.Module, X: Tensor, layers: list[int]) -> Tensor:
    """d f_(i,c) / d W_l for the layers side by side, row i C + c."""
    weights = [list(module.weights)[l] for l in layers]  # type: ignore[arg-type]
    f = module(X).reshape(-1)
    rows = []
    for value in f:
        parts = torch.autograd.grad(value, weights, retain_graph=True)
        rows.append(torch.cat([p.reshape(-1) for p in parts]))
    return torch.stack(rows)


def dense_ridge(
    net: WideNet, X: Tensor, y: Tensor, layers: list[int], ridge: float
) -> Iterator[tuple[float, Tensor]]:
    """Explicit damped Gauss-Newton with ridge and line search: (relative residual, D), centred.

    The step is `-(J^T J + lam / rho I)^{-1} (J^T (f - y) + lam D)` with P×P matrices.
    """
    module, lam = net.to_module(), ridge * net.widths[-1]
    start = module(X).detach()
    weights = [list(module.weights)[l] for l in layers]  # type: ignore[arg-type]
    frozen = [weight.detach().clone() for weight in weights]

    def at(D: Tensor) -> tuple[Tensor, float]:
        for weight, old, part in zip(
            weights, frozen, D.split([w.numel() for w in weights]), strict=True
        ):
            weight.data = old + part.reshape(weight.shape)
        error = (module(X).detach() - start - y).reshape(-1)
        return error, float(error.square().sum() + lam * D.square().sum())

    D, rho = torch.zeros(sum(w.numel() for w in weights), dtype=X.dtype), 1.0
    while True:
        error, goal = at(D)
        yield float(error.norm() / y.norm()), D
        J = autograd_jacobian(module, X, layers)
        hessian = J.T @ J + lam / rho * torch.eye(D.numel(), dtype=X.dtype)
        step, eta = -torch.linalg.solve(hessian, J.T @ error + lam * D), 1.0
        while at(D + eta * step)[1] > goal:
            eta /= 2
        D = D + eta * step
        rho = min(1.0, 2 * rho) if eta == 1 else rho * eta / 2


def dense_gauss_newton(
    net: WideNet, X: Tensor, y: Tensor, layers: list[int], *, center: bool = False
) -> Iterator[float]:
    """Relative residuals of explicit Gauss-Newton: Jacobian by autograd, weights in full."""
    module = net.to_module()
    start = module(X).detach() if center else torch.zeros_like(y)
    weights = [list(module.weights)[l] for l in layers]  # type: ignore[arg-type]
    for _ in itertools.count():
        error = (module(X).detach() - start - y).reshape(-1)
        yield float(error.norm() / y.norm())
        J = autograd_jacobian(module, X, layers)
        step = J.T @ torch.linalg.solve(J @ J.T, error)
        for weight, part in zip(weights, step.split([w.numel() for w in weights]), strict=True):
            weight.data -= part.reshape(weight.shape)
