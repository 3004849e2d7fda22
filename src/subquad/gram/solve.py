"""One door to the Gram regression: choose a method, run it, certify, fall back."""

from __future__ import annotations

import logging
import math

import torch
from torch import Tensor

from subquad.checks import MOST_RIDGE, as_numbers, choice, integer, number
from subquad.errors import InvalidInput
from subquad.gram.certificate import Certificate
from subquad.gram.exact import solve_exact
from subquad.gram.jacobian import SKETCHES, TensorJacobian
from subquad.gram.preconditioned import solve_preconditioned
from subquad.gram.sketched import certificate_flops, solve_sketched

METHODS = ("auto", "exact", "sketch", "preconditioned")
SKETCH_TOL = 0.05
"""Residual that a sketch alone can be asked for; below it needs conjugate gradients."""

MISSED = 0.75
"""Share of the sketches sized for a residual that cannot show it, so that the exact method runs
after all: measured at 4 n to 128 n rows and residuals of 0.1 to 0.5. What a certificate leaves
open counts against the sketch."""

log = logging.getLogger("subquad")


def solve_gram(
    jacobian: TensorJacobian,
    rhs: object,
    *,
    method: str = "auto",
    sketch: str = "srht",
    size: int | None = None,
    ridge: float = 0.0,
    tol: float = 1e-8,
    seed: int = 0,
) -> tuple[Tensor, Certificate]:
    """Solve `(G + ridge m I) x = rhs`, G = J J^T, and say how well.

    Equal to `torch.linalg.solve(J @ J.T + ridge * m * I, rhs)`.

    Args:
        jacobian: rows u ⊗ v, or sums of them.
        rhs: n numbers.
        method: "exact", "sketch" (the paper's sketch and solve), "preconditioned" (sketch as
            preconditioner), or "auto", which compares their counted cost.
        sketch: "srht" or "tensorsketch".
        size: rows of the sketch; by default 4 n to precondition, 2 n / tol² to solve.
        ridge: in units of G/m.
        tol: residual that "sketch" and "preconditioned" must reach; where they miss it, the
            exact method runs and the certificate says so.
        seed: of the sketch.

    Returns:
        The solution in float64, and its :class:`~subquad.gram.certificate.Certificate`.

    >>> J = TensorJacobian([(torch.eye(2), torch.tensor([[1.0, 2.0], [3.0, 4.0]]))])
    >>> x, certificate = solve_gram(J, [5.0, 50.0])
    >>> x.tolist(), certificate.path
    ([1.0, 2.0], 'exact (cholesky)')
    """
    choice("solver", method, METHODS)
    choice("sketch", sketch, SKETCHES)
    if not isinstance(jacobian, TensorJacobian):
        raise InvalidInput(f"jacobian must be a TensorJacobian, got {type(jacobian).__name__}")
    size = None if size is None else integer("size", size, least=1)
    ridge, tol = number("ridge", ridge, most=MOST_RIDGE), number("tol", tol, above=True)
    seed = integer("seed", seed, least=0)
    c = as_numbers(rhs, "rhs").to(jacobian.device, torch.float64)
    n = jacobian.rows
    if c.shape != (n,):
        raise InvalidInput(f"rhs must have shape ({n},), got {tuple(c.shape)}")
    if not bool(torch.isfinite(c).all()):
        raise InvalidInput("rhs holds NaN or infinity: every entry must be finite")
    shift = ridge * jacobian.scale
    if method == "auto":
        method = cheapest(jacobian, sketch, size, tol)
    if method == "exact":
        return _exact(jacobian, c, shift)
    if method == "sketch":
        x, found = solve_sketched(
            jacobian, c, size=size or sketch_size(n, tol), kind=sketch, seed=seed, shift=shift
        )
    else:
        x, found = solve_preconditioned(
            jacobian, c, size=size or 4 * n, kind=sketch, seed=seed, shift=shift, tol=tol
        )
    worst = found.interval[1] if found.interval else found.residual
    if worst <= tol:
        return x, found.telling_rank(n)
    note = f"{found.path} left a residual of {worst:.1e} > {tol:.1e}: solved exactly instead"
    log.info(note)
    x, exact = _exact(jacobian, c, shift)
    return x, exact.after(found.path, note)


def cheapest(jacobian: TensorJacobian, sketch: str, size: int | None, tol: float) -> str:
    """Name the method with the least counted cost that can reach ``tol``, its certificate and
    the fallback that it may need included.
    """
    n = jacobian.rows
    exact = jacobian.gram_flops() + n**3 // 3
    if tol >= SKETCH_TOL:
        s = size or sketch_size(n, tol)
        other, name = jacobian.sketch_flops(s, sketch) + 2 * n * n * s, "sketch"
        other += certificate_flops(jacobian, s) + int(MISSED * exact)
    else:
        s = size or 4 * n
        other, name = jacobian.sketch_flops(s, sketch) + 2 * n * n * s, "preconditioned"
        other += min(jacobian.gram_flops(), 30 * jacobian.product_flops())
    return "exact" if exact <= other else name


def sketch_size(n: int, tol: float) -> int:
    """Rows of a sketch that may leave a residual of ``tol``: 2 n / tol², 4 n to 128 n.

    Distortion falls like sqrt(n / s); the constant suits the condition numbers, up to ten or
    so, that wide networks on separated rows have. The certificate tells where it does not.
    """
    return math.ceil(2 * n / min(max(tol, 1 / 8), 0.5**0.5) ** 2)


def _exact(jacobian: TensorJacobian, c: Tensor, shift: float) -> tuple[Tensor, Certificate]:
    gram = jacobian.gram()
    eye = torch.eye(gram.shape[0], dtype=gram.dtype, device=gram.device)
    return solve_exact(gram + shift * eye if shift else gram, c)
