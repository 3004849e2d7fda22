import pytest

from subquad import InvalidInput
from subquad.bench.scaling import run, slope


def test_paper_method_is_subquadratic_with_never_and_sparse() -> None:
    """b = sqrt(2 alpha ln m), n = m^(1/4), widths 2^10 … 2^14; exponents from counted flop."""
    found = run(method="paper")
    assert found["flop_exponent"] <= 1.95
    assert found["by_flush"]["sparse"] <= 1.95
    assert found["by_flush"]["paper"] > 2.1, "dense flushes cost m² n with ordinary arithmetic"
    assert found["by_flush"]["never"] == found["flop_exponent"]
    assert {p["width"] for p in found["points"]} == {2**k for k in range(10, 15)}
    widest = next(p for p in found["points"] if p["width"] == 2**14 and p["flush"] == "never")
    assert widest["flops"] < widest["dense_flops"] / 20
    assert found["memory_exponent"] == pytest.approx(2.0, abs=0.05)  # dense weights are stored


def test_quick_form_of_gradient_descent() -> None:
    found = run(method="gd", quick=True, depth=2, widths=(256, 512, 1024))
    assert found["flop_exponent"] < 2
    assert {"machine", "points", "time_exponent", "init_flop_exponent"} <= set(found)


def test_bad_input_gets_one_line() -> None:
    with pytest.raises(InvalidInput, match="did you mean 'paper'"):
        run(method="papers")
    with pytest.raises(InvalidInput, match="at least two different widths"):
        run(widths=(512, 512))
    with pytest.raises(InvalidInput, match="training ended at once"):
        run(widths=(16, 32), shift=6.0)


def test_slope_of_a_power_law() -> None:
    points = [{"width": w, "flops": 3.0 * w**1.5} for w in (10, 20, 40, 80)]
    assert slope(points, "flops") == pytest.approx(1.5)
