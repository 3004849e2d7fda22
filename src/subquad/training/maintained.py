"""The state of training as the paper keeps it: every weight in a maintenance structure.

Paper, Algorithm 2 ("Training last layer"): forward by query, backward vectors from the slopes,
update by rank-n factors. With ``layers="all"`` every layer is queried and updated.
"""

from __future__ import annotations

import torch
from torch import Tensor

from subquad.gram import TensorJacobian
from subquad.gram.jacobian import scale_rows
from subquad.network import WideNet
from subquad.network.passes import LayerTrace, advance, backward, forward, readout, row_norms
from subquad.rows import Rows, SparseRows


class MaintainedState:
    """A network in training on fixed samples; its own copy of all that changes.

    Args:
        net: where to start; it is not touched.
        inputs: the training rows, n×d.
        layers: "last" or "all".
        flush: policy of the structures that are trained.
    """

    doubt = 0.0  # outputs are computed from the weights at every step

    def __init__(self, net: WideNet, inputs: Tensor, layers: str, flush: str | int) -> None:
        self.first = net.depth - 1 if layers == "last" else 0
        self.net = net.with_layers(
            [layer.fork(flush) if l >= self.first else layer for l, layer in enumerate(net.layers)]
        )
        # Inputs of the first trained layer never change: "Store h_{i,L-1} in memory" (line 5).
        below = net.layers[: self.first]
        self.below: list[LayerTrace] = forward(below, net.activation, inputs)
        self.inputs: Rows = self.below[-1].value if below else inputs
        self.norms = row_norms(self.inputs)
        self.refresh()

    @property
    def traces(self) -> list[LayerTrace]:
        """What all layers did, frozen ones first."""
        return [*self.below, *self.above]

    @property
    def penalty(self) -> float:
        """There is no ridge here."""
        return 0.0

    @property
    def firing(self) -> list[float]:
        """Share of firing neurons in each layer."""
        return [trace.firing for trace in self.traces]

    def refresh(self) -> None:
        """Forward through the trained layers (lines 10-14)."""
        layers, activation = self.net.layers[self.first :], self.net.activation
        first = advance(layers[0], activation, self.inputs, self.norms)
        self.above = [first, *forward(layers[1:], activation, first.value)]
        self.outputs = readout(self.above[-1].value, self.net.output_weights)  # (n, C), float64

    def confirm(self) -> None:
        """Every step queries the weights; there is nothing to add."""

    def release(self) -> None:
        """Let go of the last direction, which only further steps need."""
        self.__dict__.pop("direction", None)

    def dead(self) -> list[tuple[int, int]]:
        """(layer, sample) for samples that fire no neuron there."""
        return [(l, int(i)) for l, trace in enumerate(self.traces) for i in trace.dead]

    def jacobian(self) -> TensorJacobian:
        """Rows u ⊗ v of the trained layers, row i C + c for output c of sample i (line 16)."""
        outputs = self.net.outputs
        backs = backward(
            self.net.layers[self.first :], self.above, self.net.output_weights, first=0
        )
        return TensorJacobian(
            [
                (u, _repeat(trace.inputs, outputs))
                for u, trace in zip(backs, self.above, strict=True)
            ]
        )

    def descent(self, jacobian: TensorJacobian, q: Tensor) -> list[tuple[Rows, Rows]]:
        """Return `-J^T q` as one pair of row factors per trained layer, n terms each.

        The paper's listing has a plus there, which is a slip.
        """
        outputs = self.net.outputs
        return [
            (_per_sample(scale_rows(u, -q), outputs), trace.inputs)
            for (u, _), trace in zip(jacobian.terms, self.above, strict=True)
        ]

    def aim(self, jacobian: TensorJacobian, q: Tensor) -> None:
        """Take `-J^T q` as the direction."""
        self.direction, self.eta = self.descent(jacobian, q), 0.0

    def move_to(self, eta: float) -> None:
        """`W_l <- W_l - eta sum_i q_i u_i v_i^T` in every trained layer, then forward (line 18)."""
        step, self.eta = eta - self.eta, eta
        for layer, (left, right) in zip(self.net.layers[self.first :], self.direction, strict=True):
            layer.update_rows(stretched(left, step), right)
        self.refresh()


def stretched(rows: Rows, step: float) -> Rows:
    """Return the rows times one number."""
    n = rows.shape[0]
    return scale_rows(rows, torch.full((n,), step, dtype=torch.float64, device=rows.device))


def _per_sample(rows: Rows, outputs: int) -> Rows:
    """Sum what the outputs of a sample give: they share the pattern, and the input vector."""
    if outputs == 1:
        return rows
    if isinstance(rows, SparseRows):
        parts = [rows[slice(c, None, outputs)] for c in range(outputs)]
        return parts[0].with_values(torch.stack([part.values for part in parts]).sum(0))
    return rows.reshape(-1, outputs, rows.shape[1]).sum(1)


def _repeat(rows: Rows, times: int) -> Rows:
    if isinstance(rows, SparseRows):
        return rows.repeat(times)
    return rows if times == 1 else torch.repeat_interleave(rows, times, 0)
