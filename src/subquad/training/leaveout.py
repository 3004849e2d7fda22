"""Leave-one-out predictions in closed form, from the Gram matrix at the trained point.

The trained network, linearised, is `f(x) = f_0(x) + g(x)^T G^{-1} (y - f_0)`: kernel
regression with kernel G. Leaving out sample i changes its prediction by
`((G^{-1})_ii)^{-1} (G^{-1} (y - f_0))_i`, where (·)_ii is the C×C block of its outputs.

With slack, G is taken where training started, shift included: the network hardly moves then, and
this was closer to training without the sample than G at the end (distance 0.03 against 0.06 on 31
rows of a table of noise in aerofoils).

With ridge, G + lam I stands for G, and `f_t - J_t D` for f_0: what the network linearised at the
trained point makes of no change at all. Without ridge that is further off than f_0 itself, since
nothing then keeps D in the span of J_t.
"""

from __future__ import annotations

import torch
from torch import Tensor

from subquad.errors import InvalidInput
from subquad.gram import TensorJacobian
from subquad.gram.exact import factorise
from subquad.training.ridged import RidgedJacobian
from subquad.training.samplespace import SampleSpaceJacobian


def left_out_of(
    jacobian: TensorJacobian | RidgedJacobian | SampleSpaceJacobian,
    outputs: Tensor,
    target: Tensor,
    shift: float | Tensor,
    wanted: Tensor,
    initial: Tensor,
    *,
    groups: Tensor | None = None,
    counts: Tensor | None = None,
    ordered: bool = False,
) -> Tensor:
    """Return what each sample's outputs would be without it, at the point where training ended.

    Args:
        jacobian: there.
        outputs: there, n×C.
        target: what they were driven to.
        shift: what is added to the diagonal of G: a number by ridge, one per sample by slack.
        wanted: y, n×C; it differs from ``target`` by the starting outputs if they were centred.
        initial: outputs of the starting network, 0 if centred.
        groups: one integer per sample; all of a group are left out together.
        counts: how many equal rows a sample stands for; one of them is left out.
        ordered: a sample is predicted from those before it alone.
    """
    check_left_out(len(wanted), shift, groups, counts, ordered)
    if isinstance(shift, float) and shift:
        assert not isinstance(jacobian, TensorJacobian)
        initial = wanted + (outputs - target) - jacobian.change.reshape(wanted.shape)
    gram = full_gram(jacobian)
    if ordered:
        return foretold(gram, shift, wanted, initial)
    return leave_one_out(gram, shift, wanted, initial, groups, counts)


def check_left_out(
    n: int, shift: float | Tensor, groups: Tensor | None, counts: Tensor | None, ordered: bool
) -> None:
    """Refuse what does not say for each of n samples what is left out with it."""
    if groups is not None and ordered:
        raise InvalidInput("loo_predictions takes groups or ordered=True, not both")
    if groups is not None and groups.shape != (n,):
        raise InvalidInput(f"groups must have shape ({n},), got {tuple(groups.shape)}")
    if counts is None:
        return
    if groups is not None or ordered:
        raise InvalidInput("counts go with single rows: leave groups and ordered out")
    if isinstance(shift, float):
        raise InvalidInput("counts need slack: without it a row cannot stand for several")
    if counts.shape != (n,) or not bool((counts > 0).all()):
        raise InvalidInput(
            f"counts must be {n} numbers > 0, one per row, got shape {tuple(counts.shape)}"
        )


def full_gram(jacobian: TensorJacobian | RidgedJacobian | SampleSpaceJacobian) -> Tensor:
    """Return the (nC)×(nC) Gram matrix of any kind of Jacobian."""
    if isinstance(jacobian, RidgedJacobian):
        return jacobian.rows.gram()
    if isinstance(jacobian, TensorJacobian):
        return jacobian.gram()
    return jacobian.whole()


def leave_one_out(
    gram: Tensor,
    shift: float | Tensor,
    target: Tensor,
    start: Tensor,
    groups: Tensor | None = None,
    counts: Tensor | None = None,
) -> Tensor:
    """Return what each sample's outputs (n×C) would be, had it not been trained on.

    Args:
        gram: G of the trained rows, (nC)×(nC), row i C + c.
        shift: what ridge or slack adds to its diagonal, a number or one per sample.
        target: y, n×C.
        start: outputs of the starting network, n×C.
        groups: one integer per sample; all of a group are left out together.
        counts: how many equal rows a sample stands for; one of them is left out.
    """
    n, outputs = target.shape
    each = torch.as_tensor(shift, dtype=gram.dtype, device=gram.device).expand(n)
    eye = torch.eye(n * outputs, dtype=gram.dtype, device=gram.device)
    inverse = factorise(gram + each.repeat_interleave(outputs).diag()).solve(eye)
    weights = inverse @ (target - start).reshape(-1)
    if groups is not None:
        # (A^-1)_BB^-1 (A^-1 (y - f_0))_B for the block B of a group's rows, whatever its size.
        found = target.clone()
        for group in torch.unique(groups):
            mine = (groups == group).nonzero()[:, 0]
            rows = (mine[:, None] * outputs + torch.arange(outputs, device=gram.device)).reshape(-1)
            off = torch.linalg.solve(inverse[rows][:, rows], weights[rows])
            found[mine] -= off.reshape(-1, outputs)
        return found
    blocks = inverse.reshape(n, outputs, n, outputs)
    own = torch.stack([blocks[i, :, i, :] for i in range(n)])  # (n, C, C)
    missed = torch.linalg.solve(own, weights.reshape(n, outputs))
    if counts is not None:
        # Without all of its w rows f_i has variance V = own^-1 - shift; w - 1 of them, of variance
        # w shift / (w - 1) together, then bring it towards y_i.
        stay = (counts.clamp_min(1) - 1) / (each * counts)
        unknown = torch.linalg.inv(own) - torch.diag_embed(each[:, None].expand(n, outputs))
        one = torch.eye(outputs, dtype=gram.dtype, device=gram.device)
        missed = torch.linalg.solve(one + stay[:, None, None] * unknown, missed)
    return target - missed


def foretold(gram: Tensor, shift: float | Tensor, target: Tensor, start: Tensor) -> Tensor:
    """Return what each sample's outputs would be, had only the samples before it been trained on.

    With `G + diag(shift) = L L^T`, sample i is missed by `L_ii (L^-1 (y - f_0))_i` (for several
    outputs: by the C×C block): forward substitution meets the rows in their order.
    """
    n, outputs = target.shape
    each = torch.as_tensor(shift, dtype=gram.dtype, device=gram.device).expand(n)
    factor = torch.linalg.cholesky(gram + each.repeat_interleave(outputs).diag())
    wanted = (target - start).reshape(-1, 1)
    news = torch.linalg.solve_triangular(factor, wanted, upper=False).reshape(n, outputs)
    blocks = factor.reshape(n, outputs, n, outputs)
    own = torch.stack([blocks[i, :, i, :] for i in range(n)])  # (n, C, C), lower triangular
    return target - (own @ news[:, :, None])[:, :, 0]
