"""The network: L wide layers of frozen weights and their change, and fixed ±1 readout."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from subquad import memory
from subquad.activations import Activation, ShiftedReLU
from subquad.activations import build as build_activation
from subquad.checks import as_device, as_matrix, integer
from subquad.errors import DeadSampleWarning, InvalidInput, unknown_name
from subquad.lowrank import LowRankMaintenance
from subquad.network.passes import LayerTrace, forward, readout, sample_blocks
from subquad.rows import Rows
from subquad.weights import KINDS, FrozenWeight, stored_bytes
from subquad.weights import build as build_weight

DTYPES = {"float32": torch.float32, "float64": torch.float64}


class WideNet:
    """`f(x) = A^T phi(W_L phi(… phi(W_1 x)))` with frozen weights and low-rank change.

    Args:
        features: length of an input row.
        width: neurons of a hidden layer, or one number per layer.
        depth: number of hidden layers, at least 1.
        outputs: columns of A, entries ±1.
        activation: any of :mod:`subquad.activations`; the default is the shifted ReLU at
            b = 1 with a relative threshold.
        weights: "hadamard", "dense", "gaussian" (generated), "circulant" or "sparse", or a list
            of L matrices or operators.
        seed: decides weights and readout.
        dtype: float32 or float64.
        device: a torch device.

    >>> net = WideNet(4, width=64, depth=2, weights="dense", seed=1)
    >>> net(torch.eye(4)).shape
    torch.Size([4])
    """

    def __init__(
        self,
        features: int,
        width: int | Sequence[int] = 16384,
        depth: int = 3,
        *,
        outputs: int = 1,
        activation: Activation | None = None,
        weights: str | Sequence[Tensor | FrozenWeight] = "hadamard",
        seed: int = 0,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str | None = None,
    ) -> None:
        self.features = integer("features", features, least=1)
        self.depth = integer("depth", depth, least=1)
        self.outputs = integer("outputs", outputs, least=1)
        self.widths = _widths(width, self.depth)
        if dtype not in DTYPES.values():
            raise InvalidInput(f"dtype must be torch.float32 or torch.float64, got {dtype}")
        self.activation = ShiftedReLU() if activation is None else activation
        if not isinstance(self.activation, Activation):
            raise InvalidInput(
                f"activation must be a subquad activation such as ShiftedReLU(shift=1.0), "
                f"got {activation!r}"
            )
        self.seed, self.dtype = integer("seed", seed, least=0), dtype
        self.device = as_device(device)
        *layer_seeds, head_seed = (
            int(s) for s in np.random.SeedSequence(self.seed).generate_state(self.depth + 1)
        )
        self.kind = weights if isinstance(weights, str) else "given"
        self.layers = [LowRankMaintenance(weight) for weight in self._frozen(weights, layer_seeds)]
        generator = torch.Generator().manual_seed(head_seed)
        signs = torch.randint(0, 2, (self.widths[-1], self.outputs), generator=generator)
        self.output_weights = (2 * signs - 1).to(self.device, dtype)

    def __call__(self, X: object) -> Tensor:
        """Return f of every row of X: (n,) for one output, else (n, outputs)."""
        inputs = self.check_inputs(X)
        parts, dead = [], []
        for rows in sample_blocks(self.layers, self.activation, inputs):
            traces = self.trace(inputs[rows])
            dead += [(l, rows.start + int(i)) for l, t in enumerate(traces) for i in t.dead]
            parts.append(readout(traces[-1].value, self.output_weights))
            del traces
        if dead:
            warnings.warn(describe_dead(dead, self.activation), DeadSampleWarning, stacklevel=2)
        f = torch.cat(parts).to(self.dtype)
        return f[:, 0] if self.outputs == 1 else f

    def trace(self, inputs: Rows) -> list[LayerTrace]:
        """Run a batch and keep what every layer did."""
        return forward(self.layers, self.activation, inputs)

    def check_inputs(self, X: object) -> Tensor:
        """Return X as an n×features tensor of the network's type, or say what is wrong."""
        inputs = as_matrix(X, "X")
        if inputs.shape[1] != self.features:
            raise InvalidInput(
                f"X must have {self.features} columns (the network's features), "
                f"got {inputs.shape[1]}"
            )
        inputs = inputs.to(self.device, self.dtype)
        if not bool(torch.isfinite(inputs).all()):
            raise InvalidInput(f"X overflows {self.dtype}: scale its columns to about 1")
        return inputs

    def with_layers(self, layers: list[LowRankMaintenance]) -> WideNet:
        """Return the same network with other layer structures."""
        new = object.__new__(WideNet)
        new.__dict__.update(self.__dict__)
        new.layers = layers
        return new

    def config(self) -> dict[str, object]:
        """What :meth:`from_config` needs to make the network again, as plain JSON values."""
        return {
            "features": self.features,
            "width": list(self.widths),
            "depth": self.depth,
            "outputs": self.outputs,
            "activation": self.activation.config(),
            "weights": self.kind,
            "seed": self.seed,
            "dtype": str(self.dtype).removeprefix("torch."),
        }

    @classmethod
    def from_config(
        cls, config: Mapping[str, object], device: torch.device | str | None = None
    ) -> WideNet:
        """Make the network that :meth:`config` described, without its change."""
        settings = dict(config)
        dtype, activation = str(settings.pop("dtype", None)), settings.pop("activation", None)
        if dtype not in DTYPES:
            raise unknown_name("dtype", dtype, DTYPES)
        if not isinstance(activation, Mapping):
            raise InvalidInput(f"activation must be an object with a name, got {activation!r}")
        if settings.get("weights") == "given":
            raise InvalidInput("a network of given matrices cannot be made from its config alone")
        try:
            return cls(
                **settings,  # type: ignore[arg-type]
                activation=build_activation(activation),
                dtype=DTYPES[dtype],
                device=device,
            )
        except TypeError as error:
            raise InvalidInput(f"network config: {error}") from None

    def change_state(self) -> dict[str, Tensor]:
        """Tensors that the seed cannot bring back: every layer's change."""
        return {
            f"layers.{l}.{name}": tensor
            for l, layer in enumerate(self.layers)
            for name, tensor in layer.state().items()
            if layer.rank or layer.written
        }

    def load_change_state(self, tensors: Mapping[str, Tensor]) -> None:
        """Take over what :meth:`change_state` gave."""
        for l, layer in enumerate(self.layers):
            prefix = f"layers.{l}."
            own = {k.removeprefix(prefix): v for k, v in tensors.items() if k.startswith(prefix)}
            if own:
                layer.load_state(own)

    def to_module(self) -> torch.nn.Module:
        """Return a plain :class:`torch.nn.Module` with dense weights, for small sizes."""
        from subquad.network.module import DenseModule

        return DenseModule(
            [layer.dense() for layer in self.layers], self.output_weights, self.activation
        )

    def _frozen(
        self, weights: str | Sequence[Tensor | FrozenWeight], seeds: list[int]
    ) -> Iterator[Tensor | FrozenWeight]:
        shapes = list(zip(self.widths, (self.features, *self.widths[:-1]), strict=True))
        if isinstance(weights, str):
            self._check_memory(weights, shapes)
            for (m_out, m_in), seed in zip(shapes, seeds, strict=True):
                yield build_weight(weights, m_out, m_in, seed, self.dtype, self.device)
            return
        if not isinstance(weights, list | tuple) or not all(
            isinstance(weight, Tensor | FrozenWeight) for weight in weights
        ):
            raise InvalidInput(
                f"weights must be one of {', '.join(KINDS)}, or a list of matrices or frozen "
                f"weights, got {weights!r:.60}"
            )
        if len(weights) != self.depth:
            raise InvalidInput(f"weights must list {self.depth} matrices, got {len(weights)}")
        for l, (weight, shape) in enumerate(zip(weights, shapes, strict=True)):
            if tuple(weight.shape) != shape:
                raise InvalidInput(
                    f"weights[{l}] must have shape {shape}, got {tuple(weight.shape)}"
                )
            yield weight.to(self.device, self.dtype) if isinstance(weight, Tensor) else weight

    def _check_memory(self, kind: str, shapes: list[tuple[int, int]]) -> None:
        """Refuse weights that do not fit before any is drawn: dense ones take width squared."""

        def needed(share: float) -> float:
            return sum(
                stored_bytes(kind, math.ceil(a * share), math.ceil(b * share), self.dtype.itemsize)
                for a, b in shapes
            )

        if needed(1) <= memory.LEAST_BLOCK:  # not worth asking the system
            return
        room = memory.room() if self.device.type == "cpu" else math.inf
        if needed(1) <= room:
            return
        width = memory.rounded(max(self.widths) * math.sqrt(room / needed(1)))
        raise InvalidInput(
            f"{kind} weights of width {max(self.widths)} take {memory.shown(needed(1))}, "
            f"{memory.shown(room)} may be used: width {width} would fit; or take "
            f"weights='hadamard', which are not stored"
        )


def describe_dead(dead: Sequence[tuple[int, int]], activation: Activation) -> str:
    """One line about samples that fire nowhere: ``dead`` lists (layer, sample)."""
    layer = min(l for l, _ in dead)
    samples = sorted({i for l, i in dead if l == layer})
    shown = ", ".join(str(i) for i in samples[:8]) + (", …" if len(samples) > 8 else "")
    one = len(samples) == 1
    relative = "" if activation.follows_norm else "take relative=True, "
    return (
        f"{'sample' if one else 'samples'} {shown} {'fires' if one else 'fire'} no neuron in "
        f"layer {layer + 1}: lower the shift, {relative}widen the layer, or drop rows that are "
        f"all zero"
    )


def _widths(width: int | Sequence[int], depth: int) -> tuple[int, ...]:
    if isinstance(width, np.ndarray):
        width = width.tolist()
    if not isinstance(width, list | tuple):
        return (integer("width", width, least=1),) * depth
    if len(width) != depth:
        raise InvalidInput(f"width as a list must have depth = {depth} entries, got {len(width)}")
    return tuple(integer(f"width[{l}]", w, least=1) for l, w in enumerate(width))
