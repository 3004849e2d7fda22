"""Where to go: from the Jacobian and the residual to the weights q of the update `-J^T q`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Protocol

import torch
from torch import Tensor

from subquad.cost import record
from subquad.gram import Certificate, TensorJacobian, solve_gram
from subquad.gram.exact import SOLVED, factorise, solve_exact
from subquad.gram.preconditioned import conjugate_gradients
from subquad.training.ridged import RidgedJacobian
from subquad.training.samplespace import SampleSpaceJacobian


class Direction(Protocol):
    """Turns residuals into update weights."""

    def __call__(
        self, jacobian: Any, residual: Tensor, iteration: int, worse: bool
    ) -> tuple[Tensor, Certificate | None]:
        """Return q and, where a system was solved, its certificate."""
        ...


@dataclass(frozen=True)
class GaussNewton:
    """`q = (G + ridge m I)^{-1} (f - y)`: Algorithm 2, line 17, by any solver of `solve_gram`."""

    solver: str
    sketch: str
    size: int | None
    tol: float
    seed: int
    ridge: float = 0.0

    def __call__(
        self, jacobian: TensorJacobian, residual: Tensor, iteration: int, worse: bool
    ) -> tuple[Tensor, Certificate | None]:
        """Solve the Gram regression; every iteration draws its own sketch."""
        return solve_gram(
            jacobian,
            residual,
            method=self.solver,
            sketch=self.sketch,
            size=self.size,
            ridge=self.ridge,
            tol=self.tol,
            seed=self.seed + iteration,
        )


@dataclass(frozen=True)
class RidgedNewton:
    """`q = (G + ridge m / rho I)^{-1} (f - y - rho J D)`, by any solver of `solve_gram`.

    See :mod:`subquad.training.damping`; rho is 1 to begin with.
    """

    newton: GaussNewton
    ridge: float

    def __call__(
        self, jacobian: RidgedJacobian, residual: Tensor, iteration: int, worse: bool
    ) -> tuple[Tensor, Certificate | None]:
        """Solve for the weights of the rows in D'."""
        newton = replace(self.newton, ridge=self.ridge / jacobian.share)
        rhs = residual - jacobian.share * jacobian.change
        return newton(jacobian.rows, rhs, iteration, worse)


@dataclass(frozen=True)
class SampleSpaceNewton:
    """`q = (G + ridge m / rho I)^{-1} (f - y - rho J D)`, exactly.

    One output: Cholesky. Several: the whole Gram matrix has C equal diagonal blocks and small
    ones off the diagonal, so the block's Cholesky factor preconditions conjugate gradients.
    Condition and rank in the certificate are then those of the block, C times over. A network
    too narrow for n C numbers has a singular whole though its block is not: that is formed.
    """

    shift: float | Tensor  # a number, or one per sample
    tol: float

    def __call__(
        self, jacobian: SampleSpaceJacobian, residual: Tensor, iteration: int, worse: bool
    ) -> tuple[Tensor, Certificate | None]:
        """Solve for the weights of the rows."""
        rhs, shift = residual - jacobian.share * jacobian.change, self.shift / jacobian.share
        n, outputs = jacobian.gram.shape[0], jacobian.outputs
        shift = torch.as_tensor(shift, dtype=torch.float64, device=rhs.device).expand(n)
        each = shift.repeat_interleave(outputs)
        block = jacobian.gram + shift.diag()
        if outputs == 1:
            return solve_exact(block, rhs)
        factor = factorise(block)
        x, residual_left, iterations = conjugate_gradients(
            lambda q: jacobian.product(q) + each * q,
            lambda r: factor.solve(r.reshape(n, outputs)).reshape(-1),
            rhs,
            self.tol,
        )
        path = f"conjugate gradients ({factor.path} of a block)"
        if not residual_left <= SOLVED and factor.rank == n:
            whole = jacobian.whole()
            whole.diagonal().add_(each)
            x, exact = solve_exact(whole, rhs)
            note = f"{path} left a residual of {residual_left:.1e}: solved exactly instead"
            return x, exact.after(path, note)
        found = Certificate(
            residual_left,
            "exact",
            factor.condition,
            factor.rank * outputs,
            path,
            iterations=iterations,
        )
        return x, found.telling_rank(rhs.numel())


class GradientDescent:
    """`q = step (f - y)`, with a preset step or one bounded by the Gram matrix.

    For the squared loss and a linear f any step below `2 / lambda_max(G)` descends. The
    automatic step is `1 / lambda_max`, measured at the start and again whenever an iteration
    made the residual worse.
    """

    def __init__(self, step: float | None) -> None:
        self.preset = step
        self.bounded = 0.0

    def __call__(
        self, jacobian: TensorJacobian, residual: Tensor, iteration: int, worse: bool
    ) -> tuple[Tensor, Certificate | None]:
        """Scale the residual; measure the bound where it is due."""
        if self.preset is not None:
            return residual * self.preset, None
        if worse or self.bounded == 0.0:
            gram = jacobian.gram()
            record("eigh", flops=4 * gram.shape[0] ** 3 // 3, bytes=2 * gram.nbytes)
            fresh = 1.0 / max(float(torch.linalg.eigvalsh(gram)[-1]), 1e-300)
            # A bound that proved too long despite G saying otherwise is halved.
            self.bounded = min(fresh, self.bounded / 2) if worse else fresh
        return residual * self.bounded, None
