"""Leave-one-out predictions in closed form, from the Gram matrix at the trained point.

The trained network, linearised, is `f(x) = f_0(x) + g(x)^T G^{-1} (y - f_0)`: kernel
regression with kernel G. Leaving out sample i changes its prediction by
`((G^{-1})_ii)^{-1} (G^{-1} (y - f_0))_i`, where (·)_ii is the C×C block of its outputs.
"""

from __future__ import annotations

import torch
from torch import Tensor

from subquad.gram import TensorJacobian
from subquad.gram.exact import factorise
from subquad.training.samplespace import SampleSpaceJacobian


def full_gram(jacobian: TensorJacobian | SampleSpaceJacobian) -> Tensor:
    """Return the (nC)×(nC) Gram matrix of either kind of Jacobian."""
    if isinstance(jacobian, TensorJacobian):
        return jacobian.gram()
    if jacobian.outputs == 1:
        return jacobian.gram
    eye = torch.eye(jacobian.rows, dtype=torch.float64, device=jacobian.gram.device)
    return torch.stack([jacobian.product(column) for column in eye])


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
