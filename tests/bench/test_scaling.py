import json
import math

import pytest
import torch

from subquad import InvalidInput
from subquad.bench import growth
from subquad.bench.growth import peak_growth, resident
from subquad.bench.onerun import Case, measure
from subquad.bench.scaling import PLANS, run, slope

KEYS = {
    *("machine", "points", "flop_exponent", "time_exponent"),
    *("init_flop_exponent", "init_time_exponent", "memory_exponent"),
}


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    """Small arrays, and cores may be shared."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def case(**changes):
    given = {
        **{"method": "exact", "width": 512, "samples": 12, "depth": 2, "shift": 1.0},
        **{"weights": "hadamard", "flush": "never", "iterations": 2, "tol": 0.0},
        "seed": 0,
    }
    return Case(**{**given, **changes})


def test_paper_method_is_subquadratic_with_never_and_sparse():
    """b = sqrt(2 alpha ln m), n = m^(1/4), widths 2^10 … 2^14; exponents from counted flop."""
    found = run(method="paper", repeats=1)
    assert found["flop_exponent"] <= 1.95
    assert found["by_flush"]["sparse"] <= 1.95
    assert found["by_flush"]["paper"] > 2.1, "dense flushes cost m² n with ordinary arithmetic"
    assert found["by_flush"]["never"] == found["flop_exponent"]
    assert {p["width"] for p in found["points"]} == {2**k for k in range(10, 15)}
    widest = next(p for p in found["points"] if p["width"] == 2**14 and p["flush"] == "never")
    assert widest["flops"] < widest["dense_flops"] / 20
    assert found["memory_exponent"] == pytest.approx(2.0, abs=0.05)  # dense weights are stored


def test_quick_form_of_gradient_descent():
    found = run(method="gd", quick=True, depth=2, widths=(256, 512, 1024))
    assert found["flop_exponent"] < 2
    assert set(found) >= KEYS | {"by_flush"}


def test_quick_form_of_exact():
    found = run(method="exact", quick=True, samples=24, widths=(4096, 1024, 1024))
    assert json.loads(json.dumps(found)) == found
    assert set(found) >= KEYS
    assert [p["width"] for p in found["points"]] == [1024, 4096]
    assert {p["shift"] for p in found["points"]} == {1.0}
    assert found["flop_exponents_between"] == [pytest.approx(found["flop_exponent"])]
    assert found["flop_exponent"] < 1.2
    assert found["flop_exponent_by_procedure"]["look"] == pytest.approx(1.0, abs=0.05)
    assert 0.9 < found["init_flop_exponent"] < 1.2
    for point in found["points"]:
        assert point["peak_bytes"] is not None
        assert point["relative_residual"] < 1e-3
        assert sum(point["flops_by_procedure"].values()) == pytest.approx(point["flops"])


def test_exact_default_is_six_widths_from_2_to_the_13():
    assert PLANS["exact"].widths == tuple(2**k for k in range(13, 19))
    assert all(len(plan.quick) >= 5 for plan in PLANS.values())


def test_generated_gaussian_weights_take_the_papers_shift(monkeypatch):
    monkeypatch.setattr("subquad.bench.scaling.peak_growth", lambda case: None)
    found = run(method="exact", quick=True, weights="gaussian", samples=8, widths=(512, 1024))
    assert [p["shift"] for p in found["points"]] == [
        math.sqrt(2 / 3 * math.log(p["width"])) for p in found["points"]
    ]
    assert found["memory_exponent"] is None
    assert found["init_flop_exponent"] < 2
    own = run(method="exact", quick=True, weights="gaussian", shift=0, samples=8, widths=(256, 512))
    assert {p["shift"] for p in own["points"]} == {0.0}


def test_weights_that_are_not_stored_cannot_be_flushed():
    found = run(method="paper", quick=True, weights="hadamard", widths=(256, 512))
    assert set(found["by_flush"]) == {"never"}


def test_an_iteration_is_charged_with_the_confirmation():
    point = measure(case())
    parts = point["flops_by_procedure"]
    assert parts["look"] > 0, "outputs are computed once more from the weights"
    assert parts["matmul"] == 0, "weights are multiplied at the start only"
    assert point["seconds"] > 0 < point["init_seconds"]


def test_memory_is_measured_in_its_own_process(monkeypatch):
    assert resident("VmHWM") >= resident() > 1e7
    found = peak_growth(case(width=2**14, samples=64))
    assert 4 * 2**14 * 64 < found < 1e9
    with pytest.raises(RuntimeError, match="did you mean 'hadamard'"):
        peak_growth(case(weights="hadamart"))
    monkeypatch.setattr(growth, "Path", NoFile)
    assert resident() > 1e7
    monkeypatch.setattr(growth, "peak_rss_gb", lambda: None)
    assert peak_growth(case()) is None


class NoFile:
    def __init__(self, *_): ...

    def read_text(self, encoding):
        raise FileNotFoundError


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"method": "papers"}, "did you mean 'paper'"),
        ({"widths": (512, 512)}, "at least two different widths"),
        ({"widths": (16, 32), "shift": 6.0}, "training ended after 0 iterations"),
        ({"method": "exact", "samples": 1}, "samples must be an integer >= 2"),
        ({"method": "exact", "weights": "hadamart"}, "did you mean 'hadamard'"),
        ({"method": "exact", "shift": -1.0}, "shift must be"),
        ({"method": "exact", "repeats": 0}, "repeats must be"),
    ],
)
def test_bad_input_gets_one_line(given, message):
    with pytest.raises(InvalidInput, match=message) as caught:
        run(**given)
    assert "\n" not in str(caught.value)


def test_slope_of_a_power_law():
    points = [{"width": w, "flops": 3.0 * w**1.5} for w in (10, 20, 40, 80)]
    assert slope(points, "flops") == pytest.approx(1.5)
    assert slope([{"width": 2, "flops": None}], "flops") is None
