"""Training in which every row may keep a distance of its own from its target.

Give row i one more parameter `s_i`, its slack, with `f_i + s_i` to be driven to `y_i`. Its
Jacobian is `[J, diag(shift)^(1/2)]` and its Gram matrix `G + diag(shift)`, so the very steps that
fit every target exactly without slack, quadratically convergent and without a line search to
tune, then find `f_i` that lie near their targets: `min ‖D‖² + sum_i s_i² / shift_i` to first order.
As long as the Jacobian hardly moves that is ridge regression, with weights `1/shift_i` on the rows.

A step takes `s <- s - eta shift ∘ q` beside what the state does with the row weights q. Everything
else is the wrapped state's, compiled ones included: nothing is added to a pass over the width.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from subquad.gram import Certificate, TensorJacobian
from subquad.gram.exact import solve_exact
from subquad.network import WideNet
from subquad.training.loop import State


class SlackedState:
    """A state whose outputs are `f + s`.

    Args:
        state: holds the network.
        shift: what slack adds to the diagonal of G, one number per row (n,), float64.
    """

    penalty = 0.0

    def __init__(self, state: State, shift: Tensor) -> None:
        self._state, self._shift = state, shift[:, None]
        self._slack = self._before = torch.zeros_like(state.outputs)

    @property
    def slack(self) -> Tensor:
        """s, n×C."""
        return self._slack

    @property
    def outputs(self) -> Tensor:
        """`f + s`, n×C in float64."""
        return self._state.outputs + self._slack

    @property
    def doubt(self) -> float:
        """Norm of what f may be off by."""
        return self._state.doubt

    @property
    def net(self) -> WideNet:
        """The network as it stands."""
        return self._state.net

    @property
    def firing(self) -> list[float]:
        """Share of firing neurons in each layer."""
        return self._state.firing

    def dead(self) -> list[tuple[int, int]]:
        """(layer, sample) for samples that fire no neuron there."""
        return self._state.dead()

    def jacobian(self) -> Any:
        """The Jacobian of f; the direction knows what slack adds to its Gram matrix."""
        return self._state.jacobian()

    def aim(self, jacobian: Any, q: Tensor) -> None:
        """Take `-[J, diag(shift)^(1/2)]^T q` as the direction."""
        self._state.aim(jacobian, q)
        self._before = self._slack
        self._turn = self._shift * q.reshape(self._slack.shape)

    def move_to(self, eta: float) -> None:
        """Stand at ``eta`` along it."""
        self._state.move_to(eta)
        self._slack = self._before - eta * self._turn

    def confirm(self) -> None:
        """Compute f from the weights alone."""
        self._state.confirm()

    def release(self) -> None:
        """Let go of what only further steps need."""
        self._state.release()


@dataclass(frozen=True)
class SlackedNewton:
    """`q = (G + diag(shift))^{-1} (f + s - y)` for all layers, exactly."""

    shift: Tensor  # (n,)

    def __call__(
        self, jacobian: TensorJacobian, residual: Tensor, iteration: int, worse: bool
    ) -> tuple[Tensor, Certificate | None]:
        """Form G and solve."""
        gram = jacobian.gram()
        gram.diagonal().add_(self.shift.repeat_interleave(residual.numel() // self.shift.numel()))
        return solve_exact(gram, residual)
