"""Charts as inline SVG: lines and points, drawn with the colours of the page's style sheet."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

WIDTH, HEIGHT = 640, 300
LEFT, RIGHT, TOP, BOTTOM = 64, 16, 12, 44
COLOURS = 6  # --series-1 … of the page's style sheet, then again with dashes


@dataclass(frozen=True)
class Series:
    """A line, or a cloud of points, with its name."""

    name: str
    x: Sequence[float]
    y: Sequence[float]
    reference: bool = False  # a thin dashed line to compare with


@dataclass(frozen=True)
class Axis:
    """Range and ticks of one direction; a logarithmic axis holds positive values only."""

    low: float
    high: float
    ticks: tuple[float, ...]
    log: bool = False

    @classmethod
    def over(cls, values: Sequence[float], *, log: bool = False, whole: bool = False) -> Axis:
        """An axis that holds all values, with round ticks."""
        usable = [v for v in values if math.isfinite(v) and (v > 0 or not log)]
        if not usable:
            usable = [1.0]
        return cls._decades(usable) if log else cls._steps(usable, whole)

    @classmethod
    def _decades(cls, values: Sequence[float]) -> Axis:
        first = math.floor(math.log10(min(values)))
        last = max(math.ceil(math.log10(max(values))), first + 1)
        stride = -(-(last - first) // 6)
        ticks = tuple(10.0**k for k in reversed(range(last, first - 1, -stride)) if -300 < k < 300)
        return cls(10.0 ** max(first, -300), 10.0 ** min(last, 300), ticks, log=True)

    @classmethod
    def _steps(cls, values: Sequence[float], whole: bool) -> Axis:
        low, high = min(values), max(values)
        if high - low <= 1e-12 * max(abs(high), abs(low)):
            pad = abs(high) * 0.5 or 0.5
            low, high = low - (0 if whole else pad), high + (1 if whole else pad)
        rough = (high - low) / 5
        unit = 10.0 ** math.floor(math.log10(rough))
        step = next(k * unit for k in (1, 2, 5, 10) if k * unit >= rough)
        if whole:
            step = max(1.0, step)
        first, last = math.floor(low / step), math.ceil(high / step)
        ticks = tuple(k * step for k in range(first, last + 1))
        return cls(ticks[0], ticks[-1], ticks)

    def place(self, value: float) -> float | None:
        """Where a value lies between 0 and 1; None where it cannot be drawn."""
        if not math.isfinite(value) or (self.log and value <= 0):
            return None
        if self.log:
            return math.log10(value / self.low) / math.log10(self.high / self.low)
        return (value - self.low) / (self.high - self.low)


def line_chart(
    series: Sequence[Series],
    *,
    label: str,
    x_label: str,
    y_label: str,
    log: bool = False,
    log_x: bool = False,
) -> str:
    """Lines over whole numbers, such as iterations or, with ``log_x``, widths."""
    x = Axis.over([v for s in series for v in s.x], log=log_x, whole=not log_x)
    y = Axis.over([v for s in series for v in s.y] + ([] if log else [0.0]), log=log)
    marks = "".join(_line(s, i, x, y) for i, s in enumerate(series))
    return _frame(marks, x, y, label=label, x_label=x_label, y_label=y_label) + _legend(series)


def scatter_chart(points: Series, *, label: str, x_label: str, y_label: str) -> str:
    """Points, with the line on which both values are equal."""
    both = Axis.over([*points.x, *points.y])
    ends = (both.low, both.high)
    diagonal = _line(Series("equal", ends, ends, reference=True), 0, both, both)
    dots = []
    for x, y in zip(points.x, points.y, strict=True):
        spot = _spot(x, y, both, both)
        if spot is not None:
            tip = f"<title>{number(x)}, {number(y)}</title>"
            dots.append(f'<circle cx="{spot[0]:.1f}" cy="{spot[1]:.1f}" r="3">{tip}</circle>')
    marks = f'{diagonal}<g class="points series-1">{"".join(dots)}</g>'
    return _frame(marks, both, both, label=label, x_label=x_label, y_label=y_label)


def bar_chart(names: Sequence[str], values: Sequence[float], *, label: str, unit: str) -> str:
    """Horizontal bars from 0, the name left of each and its value at its end."""
    most = max([v for v in values if math.isfinite(v)] or [0.0]) or 1.0
    left, step, room = 200, 24, WIDTH - 200 - 70
    parts = []
    for i, (name, value) in enumerate(zip(names, values, strict=True)):
        top = TOP + i * step
        length = room * max(value, 0.0) / most if math.isfinite(value) else 0.0
        shown = name if len(name) <= 26 else f"{name[:25]}…"
        parts.append(
            f'<text x="{left - 8}" y="{top + 13}" text-anchor="end">{escape(shown)}</text>'
            f'<rect class="bar" x="{left}" y="{top}" width="{length:.1f}" height="18">'
            f"<title>{escape(name)}: {number(value)} {unit}</title></rect>"
            f'<text x="{left + length + 6:.1f}" y="{top + 13}">{number(value)} {unit}</text>'
        )
    return (
        f'<svg class="chart" viewBox="0 0 {WIDTH} {2 * TOP + step * len(names)}" role="img" '
        f'aria-label="{escape(label, quote=True)}">{"".join(parts)}</svg>'
    )


def number(value: float | None) -> str:
    """A number for people: four significant digits, no needless zeros."""
    if value is None or not math.isfinite(value):
        return "-"
    if value == 0 or 1e-3 <= abs(value) < 1e6:
        return f"{value:.4g}" if abs(value) < 1e4 else f"{value:.0f}"
    return f"{value:.3g}"


def _spot(x: float, y: float, x_axis: Axis, y_axis: Axis) -> tuple[float, float] | None:
    across, up = x_axis.place(x), y_axis.place(y)
    if across is None or up is None:
        return None
    return LEFT + across * (WIDTH - LEFT - RIGHT), HEIGHT - BOTTOM - up * (HEIGHT - TOP - BOTTOM)


def _line(series: Series, index: int, x_axis: Axis, y_axis: Axis) -> str:
    spots = [
        (spot, x, y)
        for x, y in zip(series.x, series.y, strict=True)
        if (spot := _spot(x, y, x_axis, y_axis)) is not None
    ]
    if not spots:
        return ""
    path = " ".join(f"{spot[0]:.1f},{spot[1]:.1f}" for spot, _, _ in spots)
    dots = ""
    if len(spots) <= 60 and not series.reference:
        dots = "".join(
            f'<circle cx="{spot[0]:.1f}" cy="{spot[1]:.1f}" r="3.5">'
            f"<title>{escape(series.name)}: {number(y)} at {number(x)}</title></circle>"
            for spot, x, y in spots
        )
    return f'<g class="{_class(series, index)}"><polyline points="{path}"/>{dots}</g>'


def _class(series: Series, index: int) -> str:
    if series.reference:
        return "line reference" + (" dashed" if index % 2 else "")
    dashed = " dashed" if index // COLOURS % 2 else ""
    return f"line series-{index % COLOURS + 1}{dashed}"


def _legend(series: Sequence[Series]) -> str:
    if len(series) < 2:
        return ""
    items = "".join(
        f'<li><svg class="key" viewBox="0 0 24 8" aria-hidden="true"><g class="{_class(s, i)}">'
        f'<polyline points="0,4 24,4"/></g></svg>{escape(s.name)}</li>'
        for i, s in enumerate(series)
    )
    return f'<ul class="legend">{items}</ul>'


def _frame(marks: str, x: Axis, y: Axis, *, label: str, x_label: str, y_label: str) -> str:
    right, floor = WIDTH - RIGHT, HEIGHT - BOTTOM
    parts = []
    for tick in y.ticks:
        height = floor - (y.place(tick) or 0.0) * (floor - TOP)
        parts.append(
            f'<line class="grid" x1="{LEFT}" x2="{right}" y1="{height:.1f}" y2="{height:.1f}"/>'
        )
        parts.append(
            f'<text x="{LEFT - 8}" y="{height + 4:.1f}" text-anchor="end">{_tick(tick, y)}</text>'
        )
    for tick in x.ticks:
        across = LEFT + (x.place(tick) or 0.0) * (right - LEFT)
        parts.append(
            f'<text x="{across:.1f}" y="{floor + 18}" text-anchor="middle">{_tick(tick, x)}</text>'
        )
    parts.append(f'<line class="axis" x1="{LEFT}" x2="{right}" y1="{floor}" y2="{floor}"/>')
    middle = (LEFT + right) / 2
    parts.append(
        f'<text x="{middle:.0f}" y="{HEIGHT - 6}" text-anchor="middle">{escape(x_label)}</text>'
    )
    centre = (TOP + floor) / 2
    parts.append(
        f'<text transform="translate(14 {centre:.0f}) rotate(-90)" text-anchor="middle">'
        f"{escape(y_label)}</text>"
    )
    return (
        f'<svg class="chart" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        f'aria-label="{escape(label, quote=True)}">{"".join(parts)}{marks}</svg>'
    )


def _tick(value: float, axis: Axis) -> str:
    if axis.log:
        power = round(math.log10(value))
        return f'10<tspan dy="-5" font-size=".75em">{power}</tspan>'
    return number(value)
