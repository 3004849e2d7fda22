"""Axes are round and hold their values; numbers read well."""

import math

import pytest

from subquad.runs.svg import Axis, Series, bar_chart, line_chart, number, scatter_chart


@pytest.mark.parametrize(
    "values",
    [
        [0, 1],
        [3, 3],
        [0, 0],
        [-5, 17.3],
        [1e-9, 2e-9],
        [1e8, 3e9],
        [0, 3],
        [-2, -2],
        [1e300, -1e300],
    ],
)
def test_linear_axis(values):
    axis = Axis.over(values)
    assert all(0 <= axis.place(v) <= 1 for v in values)
    assert 2 <= len(axis.ticks) <= 9
    assert (axis.ticks[0], axis.ticks[-1]) == (axis.low, axis.high)


def test_whole_axis_has_whole_ticks():
    assert Axis.over([0, 1, 2, 3], whole=True).ticks == (0, 1, 2, 3)
    assert Axis.over([1], whole=True).ticks == (1, 2)


@pytest.mark.parametrize("values", [[1, 1e-16], [5], [1e-320, 1.0], [1e11, 2e14]])
def test_log_axis(values):
    axis = Axis.over([*values, 0.0, -1.0, math.nan, math.inf], log=True)
    assert all(-0.1 <= axis.place(v) <= 1 for v in values)
    assert len(axis.ticks) <= 8
    assert axis.place(0.0) is None
    assert axis.place(math.nan) is None


def test_nothing_to_draw():
    assert "polyline" in line_chart([Series("a", [0, 1], [1, 2])], label="", x_label="", y_label="")
    empty = line_chart([Series("a", [], [])], label="", x_label="", y_label="", log=True)
    assert "polyline" not in empty
    assert "circle" not in scatter_chart(Series("a", [], []), label="", x_label="", y_label="")


@pytest.mark.parametrize(
    ("value", "shown"),
    [(0, "0"), (0.12345, "0.1235"), (12, "12"), (123456, "123456"), (1e-7, "1e-07"), (None, "-")],
)
def test_numbers(value, shown):
    assert number(value) == shown
    assert number(math.nan) == "-"


def test_bars():
    chart = bar_chart(["a<b", "x" * 40, "none"], [40.0, 10.0, math.nan], label="l", unit="%")
    assert chart.count("<rect") == 3
    assert "a&lt;b" in chart
    assert "40 %" in chart
    assert f">{'x' * 25}…<" in chart
    widths = [float(part.split('"')[0]) for part in chart.split('width="')[1:]]
    assert widths[0] == pytest.approx(4 * widths[1], abs=0.1)
    assert widths[2] == 0
    assert "<rect" not in bar_chart([], [], label="l", unit="%")
