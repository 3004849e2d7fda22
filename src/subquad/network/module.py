"""The network as a plain PyTorch module: dense weights, autograd, any tool of PyTorch's."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from subquad.activations import Activation


class DenseModule(torch.nn.Module):
    """The slow twin of :class:`subquad.WideNet`: `forward` in five lines, m² work a row."""

    def __init__(
        self, weights: Sequence[Tensor], output_weights: Tensor, activation: Activation
    ) -> None:
        super().__init__()
        self.weights = torch.nn.ParameterList(
            torch.nn.Parameter(weight.detach().clone()) for weight in weights
        )
        self.register_buffer("output_weights", output_weights.clone())
        self.activation = activation

    def forward(self, h: Tensor) -> Tensor:
        """Return f of every row: (n,) for one output, else (n, outputs)."""
        for weight in self.weights:
            h = self.activation(h @ weight.T, h.norm(dim=1), weight.shape[0])
        f = h @ self.get_buffer("output_weights")
        return f[:, 0] if f.shape[1] == 1 else f
