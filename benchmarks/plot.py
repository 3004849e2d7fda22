"""Draws `docs/images/*.svg` from `benchmarks/results/*.json`.

`python benchmarks/plot.py` after `subquad bench NAME --json > benchmarks/results/NAME.json`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

from subquad.bench.accuracy.ranks import cliques
from subquad.runs.page import STYLE
from subquad.runs.svg import HEIGHT, WIDTH, Series, line_chart

HERE = Path(__file__).parent
RESULTS, IMAGES = HERE / "results", HERE.parent / "docs" / "images"
ROW = 18


def result(name: str) -> dict[str, Any]:
    """What a benchmark printed."""
    return json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))


def style() -> str:
    """The page's rules for charts, its colours written out: not every viewer knows variables."""
    light, dark = (
        dict(re.findall(r"(--[\w-]+): ([^;]+);", block))
        for block in re.findall(r":root {(.*?)}", STYLE, flags=re.S)[:2]
    )
    rules = "\n".join(
        re.findall(r"^ ?\.(?:grid|line|dashed|reference|series).*$", STYLE, flags=re.M)
    )
    rules += "text { fill: var(--soft); font: 12px sans-serif; } .paper { fill: var(--page); }"
    rules += ".pointer { stroke: var(--soft); fill: none; }"

    def with_colours(palette: dict[str, str]) -> str:
        return re.sub(r"var\((--[\w-]+)\)", lambda found: palette[found[1]], rules)

    night = with_colours({**light, **dark})
    return f"{with_colours(light)} @media (prefers-color-scheme: dark) {{ {night} }}"


def standalone(chart: str, series: Sequence[Series]) -> str:
    """A file of its own: the page's colours, and the names of the lines below the chart."""
    body = re.sub(r"<ul.*</ul>", "", chart, flags=re.S)
    keys = []
    for i, one in enumerate(series):
        kind = "reference" if one.reference else f"series-{i + 1}"
        y = HEIGHT + ROW * (i + 1) - 4
        keys.append(
            f'<g class="line {kind}"><polyline points="64,{y - 4} 92,{y - 4}"/></g>'
            f'<text x="100" y="{y}">{escape(one.name)}</text>'
        )
    tall = HEIGHT + ROW * len(series) + 8
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {tall}" role="img"'
    body = re.sub(r'<svg class="chart" viewBox="[^"]*" role="img"', head, body, count=1)
    label_end = body.index(">") + 1
    paper = f'<rect class="paper" width="{WIDTH}" height="{tall}"/>'
    body = body[:label_end] + f"<style>{style()}</style>{paper}" + body[label_end:]
    return body.replace("</svg>", "".join(keys) + "</svg>") + "\n"


def draw(name: str, series: Sequence[Series], *, label: str, y_label: str) -> None:
    """One log-log chart over width."""
    chart = line_chart(
        series, label=label, x_label="width m", y_label=y_label, log=True, log_x=True
    )
    (IMAGES / f"{name}.svg").write_text(standalone(chart, series), encoding="utf-8")


def scaling() -> None:
    """Operations of an iteration and of the start, beside a dense step."""
    points = result("scaling-exact")["points"]
    m = [p["width"] for p in points]
    draw(
        "scaling",
        [
            Series("one iteration, all of a run to 1e-6 counted", m, [p["flops"] for p in points]),
            Series("initialisation, once", m, [p["init_flops"] for p in points]),
            Series("a dense last-layer step, 4 n m²", m, [p["dense_flops"] for p in points], True),
        ],
        label="Counted operations against width: an exact iteration grows about like the width, "
        "a dense step like its square",
        y_label="operations",
    )


def iteration() -> None:
    """Seconds of an iteration beside plain PyTorch, a dense step, and a pass over memory."""
    names = ("iteration-narrow", "iteration-widths", "iteration-65536")
    points = [point for name in names for point in result(name)["points"]]
    m = [p["width"] for p in points]
    dense = [p for p in points if p["dense_step_seconds"] is not None]
    draw(
        "iteration",
        [
            Series(
                "subquad, mean of a run to 1e-6", m, [p["seconds_per_iteration"] for p in points]
            ),
            Series(
                "the same in plain PyTorch, sample space",
                m,
                [p["plain_torch_seconds"] for p in points],
            ),
            Series(
                "a dense last-layer step",
                [p["width"] for p in dense],
                [p["dense_step_seconds"] for p in dense],
            ),
            Series("one pass over Z", m, [p["stream_pass_seconds"] for p in points], True),
        ],
        label="Seconds of one iteration against width, n = 256, b = 1",
        y_label="seconds",
    )


def mean_ranks(means: dict[str, float], difference: float, label: str) -> str:
    """Mean ranks on a line, best on the left; bars join peers that the test cannot tell apart."""
    order = sorted(means, key=means.__getitem__)
    ranks = [means[peer] for peer in order]
    low, high = 1.0, float(max(len(order), 2))
    left, right, line = 170, WIDTH - 170, 64

    def across(rank: float) -> float:
        return left + (rank - low) / (high - low) * (right - left)

    parts = [f'<line class="axis" x1="{left}" x2="{right}" y1="{line}" y2="{line}"/>']
    for tick in range(1, len(order) + 1):
        x = across(tick)
        parts.append(f'<line class="axis" x1="{x:.1f}" x2="{x:.1f}" y1="{line - 5}" y2="{line}"/>')
        parts.append(f'<text x="{x:.1f}" y="{line - 10}" text-anchor="middle">{tick}</text>')
    end = across(min(low + difference, high))
    parts.append(f'<g class="line series-1"><polyline points="{left},24 {end:.1f},24"/></g>')
    words = f"critical difference {difference:.2f}"
    parts.append(f'<text x="{left}" y="16">{words}</text>')
    groups = cliques(ranks, difference)
    for i, (first, last) in enumerate(groups):
        y = line + 8 + 7 * i
        ends = f"{across(ranks[first]) - 3:.1f},{y} {across(ranks[last]) + 3:.1f},{y}"
        parts.append(f'<g class="line series-1"><polyline points="{ends}"/></g>')
    begin = line + 20 + 7 * len(groups)
    half = -(-len(order) // 2)
    for i, peer in enumerate(order):
        x = across(ranks[i])
        y = begin + ROW * (i if i < half else len(order) - 1 - i)
        edge, anchor = (left - 8, "end") if i < half else (right + 8, "start")
        corner = f"{x:.1f},{line} {x:.1f},{y} {edge:.1f},{y}"
        parts.append(f'<polyline class="pointer" points="{corner}"/>')
        text = f"{ranks[i]:.2f}  {peer}" if anchor == "start" else f"{peer}  {ranks[i]:.2f}"
        shift = 4 if anchor == "start" else -4
        parts.append(
            f'<text x="{edge + shift:.1f}" y="{y + 4}" text-anchor="{anchor}">{escape(text)}</text>'
        )
    tall = begin + ROW * half + 8
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {tall}" role="img" '
        f'aria-label="{escape(label, quote=True)}"><style>{style()}</style>'
        f'<rect class="paper" width="{WIDTH}" height="{tall}"/>{"".join(parts)}</svg>\n'
    )


def accuracy() -> None:
    """Mean ranks over the small tables, one picture a task."""
    found = result("accuracy")
    for task, means in found["mean_rank"].items():
        words = task.replace("_", " ")
        label = f"Mean ranks, {words}: " + ", ".join(f"{p} {r:.2f}" for p, r in means.items())
        picture = mean_ranks(means, found["critical_difference"][task], label)
        name = f"accuracy-{task.replace('_', '-')}.svg"
        (IMAGES / name).write_text(picture, encoding="utf-8")


if __name__ == "__main__":
    IMAGES.mkdir(parents=True, exist_ok=True)
    scaling()
    iteration()
    if (RESULTS / "accuracy.json").exists():
        accuracy()
