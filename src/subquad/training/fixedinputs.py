"""What stays the same when only the last layer learns, on a fixed set of samples."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from subquad.gram.jacobian import inner
from subquad.kernels import pick
from subquad.memory import row_blocks
from subquad.network import WideNet
from subquad.network.passes import hidden, row_norms

QUERY_BYTES = 1 << 24
"""Pre-activations asked for at a time, to be laid down a row per neuron from the caches."""
QUERY_ROWS = 16
"""Samples at least: as many numbers fill a cache line of a neuron's row."""


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
        self.inputs, self.firing, self.dead = hidden(net.layers[:-1], net.activation, X)
        norms = row_norms(self.inputs).to(net.dtype)
        self.rho = norms if net.activation.follows_norm else torch.ones_like(norms)
        self.kernel = inner(self.inputs)
        self.Z = torch.empty(self.width, self.samples, dtype=net.dtype, device=net.device)
        last, lay = net.layers[-1], pick("transpose", net.device).transpose
        row_bytes = self.width * net.dtype.itemsize
        most = math.inf if last.frozen.whole_batch else query_bytes(row_bytes)
        for part in row_blocks(self.samples, row_bytes, most):
            lay(last.query_rows(self.inputs[part]), self.Z[:, part])

    def net(self, left: Tensor) -> WideNet:
        """Return the network whose last layer has changed by `left^T H` (n×m)."""
        layers = [layer.fork("never") for layer in self.start.layers]
        layers[-1].update_rows(left, self.inputs)
        return self.start.with_layers(layers)

    def release(self) -> None:
        """Let go of the pre-activations, which only further steps need."""
        self.Z = self.Z[:0].clone()

    def dead_samples(self, gram: Tensor) -> list[tuple[int, int]]:
        """(layer, sample) for samples that fire no neuron there."""
        last = (gram.diagonal() == 0).nonzero()[:, 0]
        return self.dead or [(len(self.firing), int(i)) for i in last]


def query_bytes(row_bytes: float) -> float:
    """Bytes of pre-activations asked for at a time, a sample's taking ``row_bytes``."""
    return max(QUERY_BYTES, QUERY_ROWS * row_bytes)
