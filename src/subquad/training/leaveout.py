"""Leave-one-out predictions in closed form, from the Gram matrix at the trained point.

The trained network, linearised, is `f(x) = f_0(x) + g(x)^T G^{-1} (y - f_0)`: kernel
regression with kernel G. Leaving out sample i changes its prediction by
`((G^{-1})_ii)^{-1} (G^{-1} (y - f_0))_i`, where (·)_ii is the C×C block of its outputs.

With ridge, G + lam I stands for G, and `f_t - J_t D` for f_0: what the network linearised at the
trained point makes of no change at all. Without ridge that is further off than f_0 itself, since
nothing then keeps D in the span of J_t.
"""

from __future__ import annotations

import torch
from torch import Tensor

from subquad.gram import TensorJacobian
from subquad.gram.exact import factorise
from subquad.training.ridged import RidgedJacobian
from subquad.training.samplespace import SampleSpaceJacobian


def left_out_of(
    jacobian: TensorJacobian | RidgedJacobian | SampleSpaceJacobian,
    outputs: Tensor,
    target: Tensor,
    shift: float,
    wanted: Tensor,
    initial: Tensor,
) -> Tensor:
    """Return what each sample's outputs would be without it, at the point where training ended.

    Args:
        jacobian: there.
        outputs: there, n×C.
        target: what they were driven to.
        shift: what ridge adds to the diagonal of G.
        wanted: y, n×C; it differs from ``target`` by the starting outputs if they were centred.
        initial: outputs of the starting network, 0 if centred.
    """
    if shift:
        assert not isinstance(jacobian, TensorJacobian)
        initial = wanted + (outputs - target) - jacobian.change.reshape(wanted.shape)
    return leave_one_out(full_gram(jacobian), shift, wanted, initial)


def full_gram(jacobian: TensorJacobian | RidgedJacobian | SampleSpaceJacobian) -> Tensor:
    """Return the (nC)×(nC) Gram matrix of any kind of Jacobian."""
    if isinstance(jacobian, RidgedJacobian):
        return jacobian.rows.gram()
    if isinstance(jacobian, TensorJacobian):
        return jacobian.gram()
    return jacobian.whole()


def leave_one_out(gram: Tensor, shift: float, target: Tensor, start: Tensor) -> Tensor:
    """Return what each sample's outputs (n×C) would be, had it not been trained on.

    Args:
        gram: G of the trained rows, (nC)×(nC), row i C + c.
        shift: what ridge adds to its diagonal.
        target: y, n×C.
        start: outputs of the starting network, n×C.
    """
    n, outputs = target.shape
    eye = torch.eye(n * outputs, dtype=gram.dtype, device=gram.device)
    inverse = factorise(gram + shift * eye).solve(eye)
    weights = (inverse @ (target - start).reshape(-1)).reshape(n, outputs)
    blocks = inverse.reshape(n, outputs, n, outputs)
    own = torch.stack([blocks[i, :, i, :] for i in range(n)])  # (n, C, C)
    return target - torch.linalg.solve(own, weights)
