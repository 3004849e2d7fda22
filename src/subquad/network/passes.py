"""Forward and backward through the layers, keeping only what fires.

| symbol | shape | meaning |
|---|---|---|
| `h_{l-1}` | n×m_{l-1} | input of layer l; `v_i` of its gradient |
| `z_l = W_l h_{l-1}` | n×m_l | pre-activations, dropped as soon as they are used |
| `D_l` | n×m_l | slopes `phi'(z_l)`, on the firing neurons S_l |
| `u_l` | n×m_l | backward vector, `D_l (W_{l+1}^T u_{l+1} + s_{l+1} h_l / ‖h_l‖)`, on S_l |
| `s_l` | n | slope of the output in ‖h_{l-1}‖ through the threshold of layer l |

df_i/dW_l = u_{i,l} h_{i,l-1}^T (paper, section 2, "Gradient"). The term with s is what a
relative threshold adds; leaving it out makes the gradient wrong by more than half at b = 1.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from subquad.activations import Activation
from subquad.cost import record
from subquad.kernels import pick
from subquad.lowrank import LowRankMaintenance
from subquad.memory import row_blocks
from subquad.rows import Rows, SparseRows, join_rows, joined

FORWARD_BYTES = 1 << 28
"""What a block of samples takes on its way through a layer, where nothing asks for less."""
HIDDEN_BYTES = 1 << 26
"""The same where only values are kept: they are copied once more, little beside fresh memory."""


@dataclass(frozen=True)
class LayerTrace:
    """What one layer did to a batch; rows of slope and norm_slope share value's pattern."""

    inputs: Rows  # h_{l-1}
    norms: Tensor  # ‖h_{l-1}‖, (n,)
    value: Rows  # h_l
    slope: Rows  # D_l
    norm_slope: Rows | None  # dphi/d‖h_{l-1}‖

    @property
    def dead(self) -> Tensor:
        """Samples for which no neuron of the layer passes anything on."""
        if isinstance(self.slope, SparseRows):
            return (self.slope.counts == 0).nonzero()[:, 0]
        return (self.slope == 0).all(1).nonzero()[:, 0]

    @property
    def firing(self) -> float:
        """Share of neurons that fire."""
        n, m = self.slope.shape
        return self.slope.nnz / max(1, n * m) if isinstance(self.slope, SparseRows) else 1.0


def fire(activation: Activation, z: Tensor, inputs: Rows, norms: Tensor) -> LayerTrace:
    """Apply the activation to z (n×m) and keep value and slopes of what fires."""
    width = z.shape[1]
    rho = _rho(activation, norms, z)
    kept = _kept(activation, z, rho)
    at, z_at = _entries(kept, rho)
    value, slope = activation.value(z_at, at, width), activation.slope(z_at, at, width)
    norm_slope = activation.norm_slope(z_at, at, width)
    return LayerTrace(
        inputs,
        norms,
        _like(kept, value),
        _like(kept, slope),
        None if norm_slope is None else _like(kept, norm_slope),
    )


def _rho(activation: Activation, norms: Tensor, z: Tensor) -> Tensor:
    """What a sample's threshold is multiplied by, (n,)."""
    return norms.to(z.dtype) if activation.follows_norm else torch.ones_like(norms, dtype=z.dtype)


def _kept(activation: Activation, z: Tensor, rho: Tensor) -> Rows:
    """What fires of z (n×m)."""
    record("activation", flops=2 * z.numel(), bytes=z.nbytes)
    level = activation.level(rho, z.shape[1])
    if level is None:
        return z
    found: SparseRows = pick("sparse", z.device).above(z, level)
    return found


def _entries(kept: Rows, rho: Tensor) -> tuple[Tensor, Tensor]:
    """(rho, z) of each entry."""
    if isinstance(kept, SparseRows):
        return rho.repeat_interleave(kept.counts, output_size=kept.nnz), kept.values
    return rho[:, None], kept


def _like(kept: Rows, values: Tensor) -> Rows:
    return kept.with_values(values) if isinstance(kept, SparseRows) else values


def row_norms(rows: Rows) -> Tensor:
    """Euclidean norm of each row, accumulated in float64."""
    if isinstance(rows, SparseRows):
        return torch.sqrt(pick("sparse", rows.device).square_sums(rows))
    return rows.double().norm(dim=1)


def forward(
    layers: Sequence[LowRankMaintenance], activation: Activation, inputs: Rows
) -> list[LayerTrace]:
    """Run a batch (n×m_0) through the layers."""
    traces = []
    for layer in layers:
        trace = advance(layer, activation, inputs, row_norms(inputs))
        traces.append(trace)
        inputs = trace.value
    return traces


def advance(
    layer: LowRankMaintenance, activation: Activation, inputs: Rows, norms: Tensor
) -> LayerTrace:
    """Run a batch through one layer, a block of rows at a time where memory is tight."""
    blocks = sample_blocks([layer], activation, inputs)
    if len(blocks) == 1:
        return fire(activation, layer.query_rows(inputs), inputs, norms)
    parts = [
        fire(activation, layer.query_rows(inputs[part]), inputs[part], norms[part])
        for part in blocks
    ]
    values: list[Rows] = [part.value for part in parts]
    slopes, moved = [part.slope for part in parts], [part.norm_slope for part in parts]
    del parts
    value = join_rows(values)

    def like_value(rows: list[Rows]) -> Rows:
        if not isinstance(value, SparseRows):
            return join_rows(rows)
        return value.with_values(joined([r.values for r in rows if isinstance(r, SparseRows)]))

    slope, pulls = like_value(slopes), [rows for rows in moved if rows is not None]
    del slopes, moved
    return LayerTrace(inputs, norms, value, slope, like_value(pulls) if pulls else None)


def hidden(
    layers: Sequence[LowRankMaintenance], activation: Activation, inputs: Rows
) -> tuple[Rows, list[float], list[tuple[int, int]]]:
    """Run a batch through the layers and keep only what comes out at their end.

    Returns:
        The last layer's values, each layer's share of firing neurons, and (layer, sample) for
        samples that fire no neuron there.
    """
    if not layers:
        return inputs, [], []
    n, kept = inputs.shape[0], []
    firing, dead = [0.0] * len(layers), []
    for part in sample_blocks(layers, activation, inputs, HIDDEN_BYTES):
        rows = inputs[part]
        for l, layer in enumerate(layers):
            rows, share, silent = _pass_on(layer, activation, rows)
            firing[l] += share * (part.stop - part.start) / n
            dead += [(l, part.start + i) for i in silent]
        kept.append(rows)
    return join_rows(kept), firing, sorted(dead)


def _pass_on(
    layer: LowRankMaintenance, activation: Activation, inputs: Rows
) -> tuple[Rows, float, list[int]]:
    """One layer's values, share of firing neurons, and samples that fire none; no slopes."""
    norms, z = row_norms(inputs), layer.query_rows(inputs)
    if activation.threshold is None:  # only slopes tell which samples are dead
        trace = fire(activation, z, inputs, norms)
        return trace.value, trace.firing, trace.dead.tolist()
    rho = _rho(activation, norms, z)
    kept = _kept(activation, z, rho)
    assert isinstance(kept, SparseRows)
    at, z_at = _entries(kept, rho)
    value = kept.with_values(activation.value(z_at, at, z.shape[1]))
    return value, kept.nnz / max(1, z.numel()), (kept.counts == 0).nonzero()[:, 0].tolist()


def sample_blocks(
    layers: Sequence[LowRankMaintenance],
    activation: Activation,
    inputs: Rows,
    most: float = FORWARD_BYTES,
) -> list[slice]:
    """Cut a batch into blocks of samples that may pass the layers together.

    Weights that are made anew for every product take all samples at once, if memory allows;
    otherwise a block takes ``most`` bytes at most.
    """
    item = inputs.dtype.itemsize
    each = sum(trace_bytes(activation, item) * layer.shape[0] for layer in layers)
    each += max(neuron_bytes(activation, item) * layer.shape[0] for layer in layers)
    if any(layer.frozen.whole_batch for layer in layers):
        most = math.inf
    return list(row_blocks(inputs.shape[0], each, most))


def trace_bytes(activation: Activation, item: int) -> float:
    """Bytes that a trace keeps for a neuron and a sample: value and slopes, and their columns."""
    if activation.threshold is None:
        return 2 * item
    return activation.rate * (3 * item + 8)


def neuron_bytes(activation: Activation, item: int) -> float:
    """Bytes that :func:`fire` works on for a neuron and a sample, beside what it keeps."""
    if activation.threshold is None:
        return 4 * item
    return item + 1 + activation.rate * (8 + 4 * item)


def readout(hidden: Rows, output_weights: Tensor) -> Tensor:
    """Return `f = h_L A` (n×C), accumulated in float64."""
    n, outputs = hidden.shape[0], output_weights.shape[1]
    if not isinstance(hidden, SparseRows):
        record("readout", flops=2 * n * output_weights.numel(), bytes=hidden.nbytes)
        return hidden.double() @ output_weights.double()
    record("readout", flops=2 * hidden.nnz * outputs, bytes=hidden.nbytes * outputs)
    terms = hidden.values.double()[:, None] * output_weights[hidden.columns].double()
    total = torch.zeros(n, outputs, dtype=torch.float64, device=hidden.device)
    return total.index_add_(0, hidden.owners, terms)


def backward(
    layers: Sequence[LowRankMaintenance],
    traces: Sequence[LayerTrace],
    output_weights: Tensor,
    *,
    first: int = 0,
) -> list[Rows]:
    """Return u_l for layers ``first`` … L-1, rows ordered (sample, output): n·C each.

    Layer l's vectors are read from the S_l × S_{l+1} block of W_{l+1} alone.
    """
    outputs = output_weights.shape[1]
    last = len(layers) - 1
    slope = _repeat(traces[last].slope, outputs)
    found: list[Rows] = [_weigh(slope, output_weights)]
    above = found[0]  # D_l-weighted
    for l in range(last - 1, first - 1, -1):
        upper = traces[l + 1]
        slope = _repeat(traces[l].slope, outputs)
        pattern = slope if isinstance(slope, SparseRows) else None
        back = layers[l + 1].query_transpose_rows(above, pattern)
        if upper.norm_slope is not None:
            pull = _norm_pull(above, upper, outputs)
            back = back + _along_input(pull, upper, pattern, outputs)
        above = (
            slope.with_values(slope.values * back)
            if isinstance(slope, SparseRows)
            else slope * back
        )
        found.append(above)
    return found[::-1]


def _repeat(rows: Rows, times: int) -> Rows:
    if isinstance(rows, SparseRows):
        return rows.repeat(times)
    return rows if times == 1 else rows.repeat_interleave(times, 0)


def _weigh(slope: Rows, output_weights: Tensor) -> Rows:
    """Return `a_c ∘ D_L`: output c of sample i is row i C + c."""
    outputs = output_weights.shape[1]
    record("head", flops=slope.nnz if isinstance(slope, SparseRows) else slope.numel())
    if isinstance(slope, SparseRows):
        return slope.with_values(
            slope.values * output_weights[slope.columns, slope.owners % outputs]
        )
    return slope * output_weights.T.repeat(slope.shape[0] // outputs, 1)


def _norm_pull(above: Rows, upper: LayerTrace, outputs: int) -> Tensor:
    """Return s: how f moves with ‖h‖ through the thresholds of the layer above.

    ``above`` is e ∘ phi'(z) with e the signal at the layer's output; e ∘ dphi/d‖h‖ is wanted.
    Where phi' is not 0 the ratio of the two slopes gives it.
    """
    slope, norm_slope = _repeat(upper.slope, outputs), upper.norm_slope
    assert norm_slope is not None
    moved = _repeat(norm_slope, outputs)
    if isinstance(above, SparseRows):
        assert isinstance(slope, SparseRows)
        assert isinstance(moved, SparseRows)
        return above.with_values(above.values * moved.values / slope.values).sums()
    assert isinstance(slope, Tensor)
    assert isinstance(moved, Tensor)
    return (above * moved / slope).double().sum(1)


def _along_input(
    pull: Tensor, upper: LayerTrace, pattern: SparseRows | None, outputs: int
) -> Tensor:
    """Return `s h / ‖h‖` on the pattern: h is ``upper``'s input and fires just there."""
    inputs = _repeat(upper.inputs, outputs)
    factor = (pull / upper.norms.repeat_interleave(outputs).clamp_min(1e-300)).to(inputs.dtype)
    if isinstance(inputs, SparseRows):
        record("norm_term", flops=2 * inputs.nnz)
        return inputs.scale(factor).values
    record("norm_term", flops=2 * inputs.numel())
    full = inputs * factor[:, None]
    return full if pattern is None else full[pattern.owners, pattern.columns]
