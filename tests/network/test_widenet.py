import itertools
import math
import warnings

import numpy as np
import pytest
import torch

from subquad import (
    GELU,
    Cost,
    DeadSampleWarning,
    InvalidInput,
    ReLU,
    ShiftedReLU,
    SiLU,
    ThresholdedLinear,
    WideNet,
    memory,
)
from subquad.activations import Activation
from subquad.network.passes import backward
from subquad.rows import SparseRows, to_dense
from tests.oracles import autograd_jacobian, sparse_matrix, tensor_rows, unit_rows

ACTIVATIONS = [
    ShiftedReLU(0.7),
    ShiftedReLU(0.5, relative=False),
    ThresholdedLinear(0.7),
    ThresholdedLinear(0.5, relative=False),
    ReLU(),
    GELU(),
    SiLU(),
]


def changed_net(activation: Activation, depth: int, outputs: int = 1) -> WideNet:
    """Layers of different widths that have moved away from their frozen weights."""
    net = WideNet(
        5,
        [60, 50, 70][:depth],
        depth,
        activation=activation,
        outputs=outputs,
        weights="dense",
        seed=3,
        dtype=torch.float64,
    )
    for l, layer in enumerate(net.layers):
        layer.update(
            0.05 * sparse_matrix((layer.shape[0], 2), 1.0, l),
            0.05 * sparse_matrix((layer.shape[1], 2), 1.0, l + 9),
        )
    return net


def scaled_rows() -> torch.Tensor:
    X = unit_rows(6, 5)
    X[0] *= 1.3  # not every input need have unit length
    return X


@pytest.mark.parametrize("activation", ACTIVATIONS, ids=str)
@pytest.mark.parametrize("depth", [1, 2, 3])
@pytest.mark.parametrize("outputs", [1, 3])
def test_gradients_equal_autograd(activation: Activation, depth: int, outputs: int) -> None:
    """The relative threshold's dependence on the norm included."""
    net, X = changed_net(activation, depth, outputs), scaled_rows()
    module = net.to_module()
    assert torch.allclose(net(X), module(X), atol=1e-12)
    traces = net.trace(X)
    backs = backward(net.layers, traces, net.output_weights)
    rows = [
        tensor_rows(to_dense(u), to_dense(t.inputs).repeat_interleave(outputs, 0))
        for u, t in zip(backs, traces, strict=True)
    ]
    J = autograd_jacobian(module, X, list(range(depth)))
    assert torch.allclose(torch.cat(rows, 1), J, atol=1e-12)


def test_norm_term_matters() -> None:
    """Leaving out the threshold's dependence on the norm spoils the gradient."""
    net, X = changed_net(ShiftedReLU(1.0), 3), unit_rows(6, 5)
    traces = net.trace(X)
    blind = [type(t)(t.inputs, t.norms, t.value, t.slope, None) for t in traces]
    full, part = (
        to_dense(backward(net.layers, given, net.output_weights)[0]) for given in (traces, blind)
    )
    assert float((full - part).norm() / full.norm()) > 0.1


def test_cost_follows_firing_neurons_and_never_the_width_squared() -> None:
    """Forward m k, backward k k: the counted work equals these, to the last operation."""
    m, n = 2048, 5
    net = WideNet(8, m, 3, activation=ShiftedReLU(2.0), weights="dense", seed=0)
    X = unit_rows(n, 8).float()
    with Cost() as forward:
        traces = net.trace(X)
    firing = [t.value.nnz for t in traces if isinstance(t.value, SparseRows)]
    assert max(firing) < 0.04 * n * m
    assert forward.procedures["matmul"].flops == 2 * n * 8 * m + 2 * m * sum(firing[:2])
    with Cost() as back:
        backward(net.layers, traces, net.output_weights)
    blocks = sum(
        int((a.value.counts * b.value.counts).sum())  # type: ignore[union-attr]
        for a, b in itertools.pairwise(traces)
    )
    assert back.procedures["matmul_transpose"].flops == 2 * blocks
    assert forward.flops + back.flops < n * m * m / 4


@pytest.mark.parametrize("activation", [ShiftedReLU(0.7), GELU()], ids=str)
def test_blocks_do_not_change_the_answer(activation: Activation) -> None:
    net, X = changed_net(activation, 2), scaled_rows()
    whole, traces = net(X), net.trace(X)
    for size in (1, 8 * 60 * 8):
        with memory.blocks(size):
            assert torch.allclose(net(X), whole, atol=1e-12)
            for found, expected in zip(net.trace(X), traces, strict=True):
                for name in ("value", "slope"):
                    a, b = (to_dense(getattr(trace, name)) for trace in (found, expected))
                    assert torch.allclose(a, b, atol=1e-12)


def test_permuting_samples_permutes_outputs() -> None:
    net, X = changed_net(ShiftedReLU(0.7), 3), scaled_rows()
    order = torch.tensor([3, 1, 5, 0, 2, 4])
    assert torch.allclose(net(X[order]), net(X)[order], atol=1e-13)


def test_permuting_neurons_changes_nothing() -> None:
    net = changed_net(ShiftedReLU(0.7), 2)
    W1, W2 = (layer.dense() for layer in net.layers)
    order = torch.randperm(60, generator=torch.Generator().manual_seed(0))
    settings = {"activation": net.activation, "seed": 3, "dtype": torch.float64}
    same = WideNet(5, [60, 50], 2, weights=[W1, W2], **settings)  # type: ignore[arg-type]
    moved = WideNet(5, [60, 50], 2, weights=[W1[order], W2[:, order]], **settings)  # type: ignore[arg-type]
    assert torch.allclose(same(scaled_rows()), moved(scaled_rows()), atol=1e-13)


def test_norm_is_kept_from_layer_to_layer() -> None:
    """In the mean within 3 %; one sample's spread is about 4 % after two layers of 8192."""
    net = WideNet(16, 8192, 3, weights="dense")
    for trace in net.trace(unit_rows(20, 16).float()):
        assert abs(float(trace.norms.mean()) - 1) < 0.03
        assert float((trace.norms - 1).abs().max()) < 0.2


def test_float32_follows_float64() -> None:
    X = unit_rows(10, 6)
    wide = WideNet(6, 500, 3, weights="dense", dtype=torch.float64)
    matrices = [layer.dense().float() for layer in wide.layers]
    narrow = WideNet(6, 500, 3, weights=matrices, dtype=torch.float32)
    narrow.output_weights = wide.output_weights.float()
    assert narrow(X).dtype == torch.float32
    assert torch.allclose(narrow(X).double(), wide(X), atol=1e-3)


def test_same_seed_same_network() -> None:
    X = unit_rows(4, 5)
    a, b, c = (WideNet(5, 300, 2, weights="dense", seed=s)(X) for s in (1, 1, 2))
    assert torch.equal(a, b)
    assert not torch.equal(a, c)
    again = WideNet.from_config(WideNet(5, 300, 2, weights="dense", seed=1).config())
    assert torch.equal(again(X), a)


def test_change_is_saved_and_loaded() -> None:
    net, X = changed_net(ThresholdedLinear(0.7), 3), scaled_rows()
    again = WideNet.from_config(net.config())
    assert not torch.allclose(again(X), net(X))
    again.load_change_state(net.change_state())
    assert torch.equal(again(X), net(X))


def test_numpy_numbers_are_numbers() -> None:
    net = WideNet(np.int64(3), np.array([8, 9]), np.int32(2), weights="dense", seed=np.int64(1))
    assert net.widths == (8, 9)


def test_what_is_returned_is_not_shared() -> None:
    a, X = changed_net(ShiftedReLU(0.7), 2), scaled_rows()
    before = a(X)
    b = WideNet.from_config(a.config())
    b.load_change_state(a.change_state())
    a.layers[1].update(torch.ones(50, 1), torch.ones(60, 1))
    a.layers[0].dense().zero_()
    assert torch.equal(b(X), before)


def test_dead_samples_are_named_with_what_to_do() -> None:
    net = WideNet(4, 30, 2, activation=ShiftedReLU(1.0), weights="dense", dtype=torch.float64)
    X = unit_rows(5, 4)
    X[3] = 0
    with pytest.warns(DeadSampleWarning, match=r"sample 3 fires no .* layer 1: lower the shift, w"):
        f = net(X)
    low = WideNet(4, 30, 1, activation=ShiftedReLU(1.0, relative=False), weights="dense")
    with pytest.warns(DeadSampleWarning, match="take relative=True"):
        low(X)
    assert float(f[3]) == 0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        net(X[:3])


def test_bad_input_gets_one_line() -> None:
    net = WideNet(3, 16, 1, weights="dense")
    nan = torch.zeros(2, 3)
    nan[1, 2] = math.nan
    cases = [
        (lambda: WideNet(3, 0), "width.* must be an integer >= 1, got 0"),
        (lambda: WideNet(0), "features must be an integer >= 1"),
        (lambda: WideNet(3, 8, 0), "depth must be"),
        (lambda: WideNet(3, 8, True), "depth must be"),
        (lambda: WideNet(3, "8"), "width must be an integer"),
        (lambda: WideNet(3, [8], 2), "must have depth = 2 entries"),
        (lambda: WideNet(3, [8, 0], 2), r"width\[1\] must be"),
        (lambda: WideNet(3, 8, outputs=0), "outputs must be"),
        (lambda: WideNet(3, 8, seed=-1), "seed must be"),
        (lambda: WideNet(3, 8, dtype=torch.float16), "dtype must be"),
        (lambda: WideNet(3, 8, activation="relu"), "activation must be a subquad activation"),
        (lambda: WideNet(3, 8, 1, weights="denze"), "did you mean 'dense'"),
        (lambda: WideNet(3, 8, 2, weights=[torch.zeros(8, 3)]), "must list 2 matrices"),
        (lambda: WideNet(3, 8, 1, weights=[torch.zeros(8, 4)]), r"weights\[0\] must have shape"),
        (lambda: net(torch.zeros(2, 4)), "must have 3 columns"),
        (lambda: net(torch.zeros(3)), "must have two axes"),
        (lambda: net(torch.zeros(0, 3)), "X is empty"),
        (lambda: net(nan), "X holds nan at row 1, column 2"),
        (lambda: net(torch.full((1, 3), math.inf)), "X holds inf at row 0, column 0"),
        (lambda: net([["a", "b", "c"]]), "not a numeric array"),
        (lambda: net(torch.zeros(1, 3, dtype=torch.complex64)), "must be real"),
        (lambda: WideNet(3, 8, 1, weights=None), "weights must be one of"),
        (lambda: WideNet(3, 8, 1, weights=["x"]), "weights must be one of"),
        (lambda: WideNet(3, 8, 1, device="foo"), "device 'foo' cannot be used"),
        (lambda: net(torch.full((1, 3), 1e39, dtype=torch.float64)), "X overflows torch.float32"),
        (lambda: WideNet.from_config({"dtype": "int8"}), "unknown dtype"),
        (lambda: WideNet.from_config({"dtype": "float32"}), "activation must be an object"),
        (
            lambda: WideNet.from_config({**net.config(), "weights": "given"}),
            "cannot be made from its config alone",
        ),
        (lambda: WideNet.from_config({**net.config(), "colour": 1}), "network config"),
    ]
    for call, message in cases:
        with pytest.raises(InvalidInput, match=message):
            call()
