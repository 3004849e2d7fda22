"""All layers in training with ridge: the change D = W - W_0 is kept apart, as factors.

| symbol | shape | meaning |
|---|---|---|
| `D` | m_l×m_{l-1} per layer | change since the start of training, factors of low rank |
| `D' = (1 - rho) D - J^T q` | the same | where the direction leads: n terms u v^T per layer |
| `J D` | n C | `sum_l u_l^T D_l v_l`, from the factors on the supports of u and v alone |

Standing at eta along it is `(1 - eta rho) D - eta J^T q`: a full, undamped step takes the place
of D, and leaves rank n however many came before it. Memory is O(m rank); m² is nowhere.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from subquad.gram import TensorJacobian
from subquad.gram.jacobian import inner
from subquad.lowrank.factors import Factors
from subquad.network import WideNet
from subquad.training.damping import Damping
from subquad.training.maintained import MaintainedState, stretched


@dataclass(frozen=True)
class RidgedJacobian:
    """The Jacobian at one point, and what it makes of the change up to there."""

    rows: TensorJacobian
    change: Tensor  # J D, (n C,) float64
    share: float  # rho of :mod:`subquad.training.damping`


class RidgedState:
    """A network in training on fixed samples, every layer of it, and how far it has come.

    Args:
        net: where to start; it is not touched.
        inputs: the training rows, n×d.
        ridge: in units of G/m; the penalty is `ridge m ‖D‖² / 2`, m the last layer's width.
    """

    doubt = 0.0  # outputs are computed from the weights at every step

    def __init__(self, net: WideNet, inputs: Tensor, ridge: float) -> None:
        self._whole = MaintainedState(net, inputs, "all", "never")
        self._shift, self._damping = ridge * net.widths[-1], Damping()
        self._start = [layer.pending.copy() for layer in net.layers]
        self._now = [Factors(*layer.shape, net.dtype, net.device) for layer in net.layers]

    @property
    def net(self) -> WideNet:
        """The network as it stands."""
        return self._whole.net

    @property
    def outputs(self) -> Tensor:
        """f of the training rows, n×C in float64."""
        return self._whole.outputs

    @property
    def firing(self) -> list[float]:
        """Share of firing neurons in each layer."""
        return self._whole.firing

    @property
    def penalty(self) -> float:
        """`ridge m ‖D‖²`, with `‖U V^T‖² = <U^T U, V^T V>`."""
        size = sum(
            float((inner(change.left) * inner(change.right.T)).sum())
            for change in self._now
            if change.rank
        )
        return self._shift * size

    def release(self) -> None:
        """Let go of the last direction, which only further steps need."""
        self._whole.release()
        self._before = self._now
        self.__dict__.pop("_ends", None)

    def dead(self) -> list[tuple[int, int]]:
        """(layer, sample) for samples that fire no neuron there."""
        return self._whole.dead()

    def confirm(self) -> None:
        """Every step queries the weights; there is nothing to add."""

    def jacobian(self) -> RidgedJacobian:
        """Rows u ⊗ v of all layers, `J D`, and how much of D a step may take back."""
        rows = self._whole.jacobian()
        change = torch.zeros(rows.rows, dtype=torch.float64, device=rows.device)
        for (u, v), factors in zip(rows.terms, self._now, strict=True):
            change += factors.between(u, v)
        return RidgedJacobian(rows, change, self._damping.share)

    def aim(self, jacobian: RidgedJacobian, q: Tensor) -> None:
        """Take `D' - D = -J^T q - rho D` as the direction."""
        self._damping.aim(jacobian.share)
        self._share = jacobian.share
        self._ends = self._whole.descent(jacobian.rows, q)
        self._before = self._now

    def move_to(self, eta: float) -> None:
        """Stand at `(1 - eta) D + eta D'`, and go forward."""
        self._damping.move_to(eta)
        self._now = [change.copy() for change in self._before]
        layers = zip(self.net.layers, self._start, self._now, self._ends, strict=True)
        for layer, start, change, (left, right) in layers:
            change.scale(1 - eta * self._share)
            change.append_or_merge(stretched(left, eta), right)
            layer.pending.replace(
                torch.cat([start.left, change.left]), torch.cat([start.right, change.right], 1)
            )
        self._whole.refresh()
