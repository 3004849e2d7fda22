"""Sketch and solve: the paper's regression (Theorem "fast_kronecker_regression").

`x = (J̃ J̃^T)^{-1} c` with `J̃ = J S^T` (n×s). On the row space `‖J̃^T y‖ = (1±eps) ‖J^T y‖`
gives `‖G x - c‖ <= O(eps sqrt(kappa)) ‖c‖`: the paper leaves the sqrt(kappa) out, because it
symmetrises a product that is not symmetric (docs/paper.md).
"""

from __future__ import annotations

import torch
from torch import Tensor

from subquad.cost import record
from subquad.gram.certificate import Certificate
from subquad.gram.exact import factorise
from subquad.gram.jacobian import TensorJacobian

BLOCKS = 8
CHECKED = BLOCKS * 64
"""Rows of the second sketch at least."""
STUDENT = 2.365
"""97.5 % point of Student's t with BLOCKS - 1 degrees of freedom."""


def sketched_gram(
    jacobian: TensorJacobian, size: int, kind: str, seed: int, shift: float
) -> Tensor:
    """Return `J̃ J̃^T + shift I`."""
    small = jacobian.sketch(size, kind, seed)
    n = small.shape[0]
    record("sketched_gram", flops=2 * n * n * size, bytes=small.nbytes)
    return small @ small.T + shift * torch.eye(n, dtype=small.dtype, device=small.device)


def solve_sketched(
    jacobian: TensorJacobian, rhs: Tensor, *, size: int, kind: str, seed: int, shift: float
) -> tuple[Tensor, Certificate]:
    """Solve with the sketched Gram alone and certify the true system's residual.

    The certificate is exact where one product with G costs no more than another sketch of the
    size, and estimated otherwise.
    """
    factor = factorise(sketched_gram(jacobian, size, kind, seed, shift))
    x = factor.solve(rhs)
    scale = max(float(rhs.norm()), 1e-300)
    check_size, path = max(CHECKED, size), f"sketch ({kind})"
    if certificate_flops(jacobian, size) < _estimate_flops(jacobian, check_size):
        if jacobian.gram_flops() < jacobian.product_flops():
            jacobian.gram()
        residual = float((jacobian.gram_matvec(x) + shift * x - rhs).norm()) / scale
        return x, Certificate(residual, "exact", factor.condition, factor.rank, path, size=size)
    low, middle, high = estimate_residual(jacobian, x, rhs, check_size, seed + 1, shift)
    return x, Certificate(
        middle / scale,
        "estimated",
        factor.condition,
        factor.rank,
        path,
        interval=(low / scale, high / scale),
        size=size,
    )


def certificate_flops(jacobian: TensorJacobian, size: int) -> int:
    """Operations of the certificate of a sketch of a size, exact or estimated."""
    exact = min(jacobian.gram_flops(), jacobian.product_flops())
    return min(exact, _estimate_flops(jacobian, max(CHECKED, size)))


def _estimate_flops(jacobian: TensorJacobian, size: int) -> int:
    return jacobian.sketch_flops(size, "srht") + 4 * jacobian.rows * size


def estimate_residual(
    jacobian: TensorJacobian, x: Tensor, rhs: Tensor, size: int, seed: int, shift: float
) -> tuple[float, float, float]:
    """Estimate `‖(G + shift I) x - c‖` from an independent TensorSRHT: low, middle, high.

    The sampled pairs fall into blocks; block b gives an unbiased, independent `r_b` of the
    residual vector, and products `<r_b, r_b'>` of different blocks are unbiased for its
    squared norm. The interval comes from leaving out one block at a time. An estimate below its
    own standard error, which may be negative, says that much and no less.
    """
    width = -(-size // BLOCKS)
    small = jacobian.sketch(BLOCKS * width, "srht", seed) * BLOCKS**0.5
    n = small.shape[0]
    record("certificate", flops=4 * n * BLOCKS * width, bytes=2 * small.nbytes)
    parts = small.reshape(n, BLOCKS, width)
    inner = torch.einsum("nbw,n->bw", parts, x)
    residuals = torch.einsum("nbw,bw->bn", parts, inner) + shift * x - rhs  # (BLOCKS, n)
    products = residuals @ residuals.T
    cross = products - torch.diag(products.diagonal())
    middle = float(cross.sum()) / (BLOCKS * (BLOCKS - 1))
    left_out = (cross.sum() - 2 * cross.sum(1)) / ((BLOCKS - 1) * (BLOCKS - 2))
    error = float(((left_out - left_out.mean()) ** 2).sum() * (BLOCKS - 1) / BLOCKS) ** 0.5
    middle = max(middle, error)
    low, high = (max(middle + sign * STUDENT * error, 0.0) ** 0.5 for sign in (-1, 1))
    return low, middle**0.5, high
