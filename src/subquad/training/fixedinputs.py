"""What stays the same when only the last layer learns, on a fixed set of samples."""

from __future__ import annotations

import torch
from torch import Tensor

from subquad.gram.jacobian import inner
from subquad.network import WideNet
from subquad.network.passes import forward, row_norms
from subquad.rows import Rows


class FixedInputs:
    """The last layer's inputs, their inner products, and its pre-activations at the start.

    | symbol | shape | meaning |
    |---|---|---|
    | `inputs` | n×m_in | `h_{i,L-1}` |
    | `kernel` | n×n | `K = H H^T`, float64 |
    | `Z` | m×n | `W H^T`, a row per neuron |
    | `rho` | n | what a relative threshold is multiplied by |

    Args:
        net: where to start; it is not touched.
        X: the training rows, n×d.
    """

    def __init__(self, net: WideNet, X: Tensor) -> None:
        self.start, self.activation = net, net.activation
        self.head = net.output_weights  # (m, C)
        self.width, self.samples = net.widths[-1], X.shape[0]
        traces = forward(net.layers[:-1], net.activation, X)
        self.firing = [trace.firing for trace in traces]
        self.dead = [(l, int(i)) for l, trace in enumerate(traces) for i in trace.dead]
        self.inputs: Rows = traces[-1].value if traces else X
        norms = row_norms(self.inputs).to(net.dtype)
        self.rho = norms if net.activation.follows_norm else torch.ones_like(norms)
        self.kernel = inner(self.inputs)
        self.Z = net.layers[-1].query_rows(self.inputs).T.contiguous()

    def net(self, left: Tensor) -> WideNet:
        """Return the network whose last layer has changed by `left^T H` (n×m)."""
        layers = [layer.fork("never") for layer in self.start.layers]
        layers[-1].update_rows(left, self.inputs)
        return self.start.with_layers(layers)

    def dead_samples(self, gram: Tensor) -> list[tuple[int, int]]:
        """(layer, sample) for samples that fire no neuron there."""
        last = (gram.diagonal() == 0).nonzero()[:, 0]
        return self.dead or [(len(self.firing), int(i)) for i in last]
