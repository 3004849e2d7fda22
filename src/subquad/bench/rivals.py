"""What `bench peers` compares with: each rival trains the same network in plain PyTorch.

| symbol | shape | meaning |
|---|---|---|
| `H` | n×m | inputs of the last layer, computed once by those that train it alone |
| `Z = H W^T` | n×m | its pre-activations |
| `over` | n×m | `Z - t rho`: how far a neuron is above its relative threshold |
| `error` | n | `f - f_0 - y` |
| `U` | n×m | `a ∘ phi'(z_i)`, so that df_i/dW = u_i h_i^T |

A rival is a function of (problem, watch, setting). It copies what it will write to, starts the
watch, passes the rows through the frozen layers, says that it is ready, and from then on tells
the watch every residual that it learns on its way. The watch ends it by an exception. Gradients
of the last layer are in closed form, those of all layers by autograd; optimisers are PyTorch's.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from subquad.activations import ShiftedReLU
from subquad.bench.watch import Watch


@dataclass(frozen=True)
class Problem:
    """A dense network with shifted ReLUs (relative threshold), rows X and targets y."""

    inputs: Tensor  # n×d
    target: Tensor  # (n,)
    weights: list[Tensor]  # m_l×m_{l-1}
    head: Tensor  # (m,), ±1
    shift: float

    @property
    def scale(self) -> float:
        """`sqrt(c)`."""
        return math.sqrt(ShiftedReLU(self.shift).normaliser)

    @property
    def size(self) -> float:
        """`‖y‖`."""
        return float(self.target.norm())

    def threshold(self, width: int) -> float:
        """`b sqrt(2/m)`."""
        return self.shift * math.sqrt(2 / width)

    def layer(self, h: Tensor, weight: Tensor) -> Tensor:
        """`phi(h W^T)`, with a gradient."""
        limit = self.threshold(weight.shape[0]) * h.norm(dim=1, keepdim=True)
        return torch.relu(torch.nn.functional.linear(h, weight) - limit) * self.scale

    def outputs(self, weights: Sequence[Tensor]) -> Tensor:
        """f of every row, with a gradient."""
        h = self.inputs
        for weight in weights:
            h = self.layer(h, weight)
        return h @ self.head


class LastLayer:
    """The last layer with cached inputs; making it is what initialisation means to a rival."""

    def __init__(self, problem: Problem, weight: Tensor) -> None:
        h = problem.inputs
        for below in problem.weights[:-1]:
            h = problem.layer(h, below)
        self.H = h
        self.limit = problem.threshold(weight.shape[0]) * h.norm(dim=1, keepdim=True)
        self.signed = problem.head * problem.scale
        self.Z = h @ weight.T
        self.size = problem.size
        self.target = problem.target + torch.relu(self.Z - self.limit) @ self.signed

    def look(self) -> tuple[float, Tensor, Tensor]:
        """Return (relative residual, over, error) at Z."""
        over = self.Z - self.limit
        error = torch.relu(over) @ self.signed - self.target
        return float(error.norm()) / self.size, over, error

    def signal(self, over: Tensor, error: Tensor) -> Tensor:
        """Slope of `‖error‖²/2` in Z."""
        return torch.where(over > 0, error[:, None] * self.signed, 0)


def _start_last(problem: Problem, watch: Watch) -> tuple[Tensor, LastLayer]:
    weight = problem.weights[-1].clone()
    watch.start()
    last = LastLayer(problem, weight)
    watch.ready()
    return weight, last


def _start_all(
    problem: Problem, watch: Watch
) -> tuple[list[torch.nn.Parameter], Callable[[], Tensor]]:
    """Copies of all weights, and the loss `‖error‖²/2`, which tells the watch."""
    weights = [torch.nn.Parameter(w.clone()) for w in problem.weights]
    watch.start()
    with torch.no_grad():
        target = problem.target + problem.outputs(weights)
    size = problem.size
    watch.ready()

    def loss() -> Tensor:
        for weight in weights:
            weight.grad = None
        found = (problem.outputs(weights) - target).square().sum() / 2
        watch(math.sqrt(2 * float(found.detach())) / size)
        found.backward()
        return found

    return weights, loss


def adam_all(problem: Problem, watch: Watch, rate: float) -> None:
    """Adam on every weight."""
    weights, loss = _start_all(problem, watch)
    optimiser = torch.optim.Adam(weights, lr=rate, fused=True)
    while True:
        loss()
        optimiser.step()


def lbfgs_all(problem: Problem, watch: Watch, history: float) -> None:
    """L-BFGS with a strong Wolfe line search on every weight."""
    weights, loss = _start_all(problem, watch)
    _lbfgs(weights, loss, history)


def adam_last(problem: Problem, watch: Watch, rate: float) -> None:
    """Adam on the last layer."""
    weight, last = _start_last(problem, watch)
    weight.grad = torch.empty_like(weight)
    optimiser = torch.optim.Adam([weight], lr=rate, fused=True)
    while True:
        residual, over, error = last.look()
        watch(residual)
        torch.mm(last.signal(over, error).T, last.H, out=weight.grad)
        optimiser.step()
        torch.mm(last.H, weight.T, out=last.Z)


def lbfgs_last(problem: Problem, watch: Watch, history: float) -> None:
    """L-BFGS with a strong Wolfe line search on the last layer."""
    weight, last = _start_last(problem, watch)
    weight.grad = torch.empty_like(weight)

    def loss() -> Tensor:
        torch.mm(last.H, weight.T, out=last.Z)
        residual, over, error = last.look()
        watch(residual)
        torch.mm(last.signal(over, error).T, last.H, out=weight.grad)
        return error.square().sum() / 2

    _lbfgs([weight], loss, history)


def _lbfgs(weights: Sequence[Tensor], loss: Callable[[], Tensor], history: float) -> None:
    optimiser = torch.optim.LBFGS(
        list(weights),
        max_iter=1 << 30,  # one call: a second one would evaluate the last point again
        tolerance_grad=0.0,
        tolerance_change=0.0,
        history_size=int(history),
        line_search_fn="strong_wolfe",
    )
    while True:
        optimiser.step(loss)  # comes back only where the line search is at its end: try afresh


def lora_last(problem: Problem, watch: Watch, rate: float) -> None:
    """LoRA of rank n on the last layer, W + B A, with Adam; `H W^T` is cached."""
    _, last = _start_last(problem, watch)
    n, m_in = last.H.shape
    bound = 1 / math.sqrt(m_in)  # as adapters are commonly started: A uniform, B zero
    generator = torch.Generator().manual_seed(0)
    A = (2 * torch.rand(n, m_in, generator=generator) - 1) * bound
    B = torch.zeros(last.Z.shape[1], n)
    A.grad, B.grad = torch.empty_like(A), torch.empty_like(B)
    optimiser = torch.optim.Adam([A, B], lr=rate, fused=True)
    Z = last.Z.clone()
    inner = last.H @ A.T  # n×n
    watch.ready()
    while True:
        residual, over, error = last.look()
        watch(residual)
        signal = last.signal(over, error)
        torch.mm(signal.T, inner, out=B.grad)
        torch.mm((signal @ B).T, last.H, out=A.grad)
        optimiser.step()
        torch.mm(last.H, A.T, out=inner)
        torch.addmm(Z, inner, B.T, out=last.Z)


def gram_gauss_newton(problem: Problem, watch: Watch, setting: float) -> None:
    """Gauss-Newton on the last layer: exact Gram from u and v, dense update, dense forward."""
    weight = problem.weights[-1].clone()
    watch.start()
    last = LastLayer(problem, weight)
    H = last.H.double()
    kernel = (H @ H.T) * problem.scale**2
    _, over, error = last.look()
    watch.ready()
    while True:
        fires = (over > 0).to(over.dtype)  # a_r² = 1, so U U^T is c times common firing neurons
        gram = (fires @ fires.T).double() * kernel
        q = _solve(gram, error)
        weight.addmm_((fires * q[:, None] * last.signed).T, last.H, alpha=-1)
        torch.mm(last.H, weight.T, out=last.Z)
        residual, over, error = last.look()
        watch(residual)


def explicit_gauss_newton(problem: Problem, watch: Watch, setting: float) -> None:
    """Gauss-Newton on the last layer with the n×m² Jacobian that `torch.func` makes."""
    weight, last = _start_last(problem, watch)

    def output(weight: Tensor, h: Tensor, limit: Tensor) -> Tensor:
        return torch.relu(weight @ h - limit) @ last.signed

    jacobian = torch.func.vmap(torch.func.grad(output), in_dims=(None, 0, 0), chunk_size=16)
    _, _, error = last.look()
    while True:
        J = jacobian(weight, last.H, last.limit[:, 0]).reshape(error.numel(), -1)
        q = _solve((J @ J.T).double(), error)
        weight -= (q @ J).view_as(weight)
        torch.mm(last.H, weight.T, out=last.Z)
        residual, _, error = last.look()
        watch(residual)


def levenberg_marquardt(problem: Problem, watch: Watch, setting: float) -> None:
    """The package `torch-levenberg-marquardt` on the last layer, with its own damping."""
    package = importlib.import_module("torch_levenberg_marquardt")
    weight, last = _start_last(problem, watch)

    class Module(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(weight)

        def forward(self, h: Tensor) -> Tensor:
            return problem.layer(h, self.weight) @ problem.head

    trainer = package.training.LevenbergMarquardtModule(
        Module(), package.loss.MSELoss(), solve_method="cholesky"
    )
    n = last.target.numel()
    stop = False
    while not stop:
        _, loss, stop, _ = trainer.training_step(last.H, last.target)
        watch(math.sqrt(n * float(loss)) / last.size)


def _solve(gram: Tensor, error: Tensor) -> Tensor:
    lower = torch.linalg.cholesky(gram)
    return torch.cholesky_solve(error.double()[:, None], lower)[:, 0].to(error.dtype)
