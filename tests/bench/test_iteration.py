"""`subquad bench iteration` at a small size."""

import json

import pytest
import torch

from subquad import InvalidInput, ShiftedReLU, ThresholdedLinear, WideNet
from subquad.bench.iteration import PlainTorch, run
from subquad.training.fixedinputs import FixedInputs
from tests.oracles import targets, unit_rows

KEYS = {
    "machine",
    "points",
    "seconds_per_iteration",
    "stream_pass_seconds",
    "ratio_to_limit",
    "dense_step_seconds",
    "speedup_vs_dense",
    "plain_torch_seconds",
    "speedup_vs_plain_torch",
    "relative_residual",
}


def test_keys_and_ratios(capsys):
    found = run(widths=(1024, 512), samples=16, quick=True)
    assert json.loads(json.dumps(found)) == found
    assert set(found) >= KEYS
    assert found["width"] == 1024
    assert [p["width"] for p in found["points"]] == [512, 1024]
    assert len(found["speedup_growth"]) == 1
    ours = found["seconds_per_iteration"]
    assert found["ratio_to_limit"] == pytest.approx(ours / found["stream_pass_seconds"])
    assert found["speedup_vs_dense"] == pytest.approx(found["dense_step_seconds"] / ours)
    plain = found["plain_torch_seconds"]
    assert found["speedup_vs_plain_torch"] == pytest.approx(plain / ours)
    assert found["relative_residual"] <= 1e-6
    assert found["iterations"] == len(found["seconds_by_iteration"])
    assert "width 1024" in capsys.readouterr().err


@pytest.mark.parametrize(
    "activation", [ShiftedReLU(0.0), ShiftedReLU(1.0), ShiftedReLU(0.4, relative=False)], ids=str
)
def test_plain_torch_does_the_same_iterations(activation):
    """The peer is no straw man: its residuals are those of explicit Gauss-Newton."""
    from tests.oracles import dense_gauss_newton

    net = WideNet(6, 500, 2, activation=activation, weights="dense", dtype=torch.float64)
    X, y = unit_rows(9, 6), targets(9)
    peer = PlainTorch(FixedInputs(net, X), y)
    explicit = dense_gauss_newton(net, X, y, [1], center=True)
    for expected in [next(explicit) for _ in range(4)]:
        assert peer.iterate() / float(y.norm()) == pytest.approx(expected, abs=1e-10)


def test_no_dense_step_where_it_does_not_fit(monkeypatch):
    monkeypatch.setattr("subquad.bench.iteration.free_bytes", lambda: 1e6)
    found = run(widths=(1024,), samples=16, quick=True)
    assert found["dense_step_seconds"] is None
    assert found["speedup_vs_dense"] is None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"widths": ()}, "widths is empty"),
        ({"widths": (1,)}, "width must be an integer >= 2"),
        ({"samples": 1}, "samples must be"),
        ({"repeats": 0}, "repeats must be"),
    ],
)
def test_bad_input(options, message):
    with pytest.raises(InvalidInput, match=message):
        run(**{"quick": True, **options})


def test_the_peer_takes_only_what_it_can_do():
    net = WideNet(6, 100, 1, activation=ThresholdedLinear(0.5), weights="dense")
    with pytest.raises(InvalidInput, match="ReLU"):
        PlainTorch(FixedInputs(net, unit_rows(4, 6).float()), targets(4))
