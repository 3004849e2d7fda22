"""Solve with the Gram matrix itself: Cholesky, then jitter, then eigendecomposition.

All in float64, whatever the network's type: a Gram matrix has the square of the Jacobian's
condition, and float32 would lose it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from subquad.cost import record
from subquad.gram.certificate import Certificate

EPS = torch.finfo(torch.float64).eps
TINY = torch.finfo(torch.float64).tiny
POWERS = 6
"""Steps of the power iterations behind a condition number: its size is wanted, not its digits."""
GROWN = 1.1
"""Growth of the estimate in a step, below which it is large enough."""
SOLVED = 1e-8
"""Residual up to which a system counts as solved rather than singular."""


@dataclass(frozen=True)
class Factorised:
    """A positive matrix ready to be solved with, again and again."""

    matrix: Tensor
    lower: Tensor | None  # Cholesky factor, or
    values: Tensor  # eigenvalues (empty beside a Cholesky factor)
    vectors: Tensor
    condition: float
    rank: int
    path: str

    def solve(self, c: Tensor) -> Tensor:
        """Return the solution, that of least norm where the matrix is singular."""
        n = self.matrix.shape[0]
        columns = 1 if c.dim() == 1 else c.shape[1]
        record("solve", flops=2 * n * n * columns, bytes=8 * n * n)
        if self.lower is not None:
            flat = c[:, None] if c.dim() == 1 else c
            return torch.cholesky_solve(flat, self.lower).reshape(c.shape)
        keep = self.values > EPS * n * self.values[-1]
        inner = self.vectors[:, keep].T @ c
        scale = self.values[keep] if c.dim() == 1 else self.values[keep][:, None]
        return self.vectors[:, keep] @ (inner / scale)


def factorise(matrix: Tensor) -> Factorised:
    """Factorise a symmetric positive semidefinite float64 matrix: Cholesky where it is safe."""
    return _cholesky(matrix, 0.0) or _eigen(matrix)


def solve_exact(gram: Tensor, rhs: Tensor) -> tuple[Tensor, Certificate]:
    """Solve `gram x = rhs` and certify by the true residual.

    Equal to `torch.linalg.solve(gram, rhs)` where gram is well conditioned. A jittered
    factor counts only if refinement then solves the true system: where the system has no
    solution it would blow up what the eigendecomposition leaves out.
    """
    factor = _cholesky(gram, 0.0) or _cholesky(gram, 16 * gram.shape[0] * EPS)
    if factor is not None:
        x, residual = _refined(factor, rhs)
    if factor is None or residual > SOLVED:
        factor = _eigen(gram)
        x = factor.solve(rhs)
        residual = float((rhs - gram @ x).norm()) / max(float(rhs.norm()), TINY)
    path = f"exact ({factor.path})"
    found = Certificate(residual, "exact", factor.condition, factor.rank, path)
    return x, found.telling_rank(gram.shape[0])


def _refined(factor: Factorised, rhs: Tensor) -> tuple[Tensor, float]:
    """Solve, then refine: each step wins back what conditioning lost in the last one."""
    size = max(float(rhs.norm()), TINY)
    x = factor.solve(rhs)
    residual = float((rhs - factor.matrix @ x).norm()) / size
    for _ in range(4):
        if residual <= 10 * EPS:
            break
        better = x + factor.solve(rhs - factor.matrix @ x)
        new = float((rhs - factor.matrix @ better).norm()) / size
        if not new < residual:
            break
        x, residual = better, new
    return x, residual


def _cholesky(matrix: Tensor, jitter: float) -> Factorised | None:
    """Return the Cholesky factor of the (jittered) matrix if rounding leaves it a meaning."""
    n = matrix.shape[0]
    shift = jitter * float(matrix.diagonal().abs().max())
    shifted = matrix + shift * torch.eye(n).to(matrix) if shift else matrix
    lower, failed = torch.linalg.cholesky_ex(shifted)
    record("cholesky", flops=n**3 // 3, bytes=16 * n * n)
    if int(failed) != 0:
        return None
    condition = _condition(shifted, lower)
    if not condition * n * EPS < 0.1:
        return None
    rank = int((lower.diagonal() ** 2 > 4 * shift).sum())
    none = matrix.new_empty(0)
    path = "cholesky with jitter" if shift else "cholesky"
    return Factorised(matrix, lower, none, none, condition, rank, path)


def _eigen(matrix: Tensor) -> Factorised:
    n = matrix.shape[0]
    values, vectors = torch.linalg.eigh(matrix)
    record("eigh", flops=9 * n**3, bytes=32 * n * n)
    top = float(values[-1])
    rank = int((values > EPS * n * top).sum())
    condition = top / max(float(values[0]), EPS * top / n, TINY) if top > 0 else math.inf
    return Factorised(matrix, None, values, vectors, condition, rank, "eigendecomposition")


def _condition(matrix: Tensor, lower: Tensor) -> float:
    """Estimate the condition number by power iteration on the matrix and its inverse."""
    n = matrix.shape[0]
    start = torch.ones(n, dtype=torch.float64, device=matrix.device)
    start[1::2] = -0.7  # not an eigenvector of anything symmetric under exchange
    top, low = start / start.norm(), start / start.norm()
    found, steps = 0.0, 0
    while steps < POWERS:
        top = matrix @ top
        low = torch.cholesky_solve(low[:, None], lower)[:, 0]
        largest, smallest = float(top.norm()), float(low.norm())
        if not (0 < smallest < float("inf")) or largest == 0:
            return float("inf")
        top, low = top / largest, low / smallest
        steps, before, found = steps + 1, found, largest * smallest
        if found < GROWN * before:
            break
    record("condition", flops=steps * 4 * n * n, bytes=steps * 16 * n * n)
    return max(1.0, found)
