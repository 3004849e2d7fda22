"""The frame of a report page: style sheet, sections, tables."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

STYLE = """
:root { color-scheme: light dark; --page: #fcfcfb; --ink: #1b1b1a; --soft: #5a5a57;
  --line: #dededa; --shade: 42, 120, 214; --series-1: #2a78d6; --series-2: #c2410c;
  --series-3: #0f7b55; --series-4: #7a3fc0; --series-5: #a16207; --series-6: #be185d; }
@media (prefers-color-scheme: dark) { :root { --page: #1a1a19; --ink: #f2f2ef;
  --soft: #b5b5af; --line: #3d3d3a; --shade: 95, 160, 240; --series-1: #5fa0f0;
  --series-2: #f08a5d; --series-3: #3fbf8f; --series-4: #b48cf2; --series-5: #e0b040;
  --series-6: #f27fb2; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1.5rem 1rem 4rem; max-width: 46rem; background: var(--page);
  color: var(--ink); font: 16px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.5rem; margin: 0; overflow-wrap: anywhere; }
h2 { font-size: 1.15rem; margin: 2.25rem 0 .5rem; }
p { margin: .4rem 0; } .soft { color: var(--soft); }
a { color: var(--series-1); }
nav ul, .legend { display: flex; flex-wrap: wrap; gap: .3rem 1rem; list-style: none;
  padding: 0; margin: .6rem 0; }
.legend { font-size: .85rem; } .legend li { display: flex; align-items: center; gap: .4rem; }
figure { margin: .6rem 0; } figcaption { color: var(--soft); font-size: .9rem; }
.chart { width: 100%; height: auto; } .key { width: 24px; height: 8px; }
.chart text { fill: var(--soft); font: 12px system-ui, sans-serif; }
.grid { stroke: var(--line); } .axis { stroke: var(--soft); }
.line polyline { fill: none; stroke-width: 2; } .dashed polyline { stroke-dasharray: 7 4; }
.bar { fill: var(--series-1); }
.line circle { stroke: none; } .points circle { stroke: none; fill-opacity: .55; }
.reference polyline { stroke: var(--soft); stroke-width: 1.5; stroke-dasharray: 2 4; }
.reference.dashed polyline { stroke-dasharray: 9 4; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-size: .9rem; font-variant-numeric: tabular-nums; }
caption { text-align: left; color: var(--soft); padding: .2rem 0; }
th, td { text-align: right; padding: .2rem .7rem; border-bottom: 1px solid var(--line);
  vertical-align: top; }
th:first-child, td:first-child { text-align: left; padding-left: 0; }
td[style] { background: rgba(var(--shade), var(--share)); }
.text td, .text th { text-align: left; overflow-wrap: anywhere; }
summary { cursor: pointer; color: var(--soft); font-size: .9rem; }
@media (max-width: 32rem) { .chart text { font-size: 17px; } }
@media print { :root { color-scheme: light; --page: #fff; --ink: #000; --soft: #444;
  --line: #ccc; } body { max-width: none; padding: 0; font-size: 11pt; } nav { display: none; }
  section { break-inside: avoid-page; } }
""" + "".join(
    f".series-{k} polyline {{ stroke: var(--series-{k}); }} "
    f".series-{k} circle {{ fill: var(--series-{k}); }}\n"
    for k in range(1, 7)
)


def page(title: str, intro: str, sections: Sequence[tuple[str, str]]) -> str:
    """A whole HTML document; sections are pairs of a heading and its HTML."""
    links = "".join(f'<li><a href="#{_slug(head)}">{escape(head)}</a></li>' for head, _ in sections)
    bodies = "".join(
        f'<section aria-labelledby="{_slug(head)}">'
        f'<h2 id="{_slug(head)}">{escape(head)}</h2>\n{body}</section>\n'
        for head, body in sections
    )
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n"
        f"<header><h1>{escape(title)}</h1>\n{intro}</header>\n"
        f'<nav aria-label="Sections"><ul>{links}</ul></nav>\n<main>\n{bodies}</main>\n'
        "</body>\n</html>\n"
    )


def table(
    caption: str,
    head: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    text: bool = False,
    shares: Sequence[Sequence[float]] = (),
) -> str:
    """A table with a caption; the first cell of a row is its heading. Cells are escaped.

    ``shares`` between 0 and 1, one a cell, shade the cells after the heading.
    """

    def cell(content: str, i: int, j: int) -> str:
        shade = f' style="--share: {0.5 * shares[i][j]:.3f}"' if shares else ""
        return f"<td{shade}>{escape(content)}</td>"

    top = "".join(f'<th scope="col">{escape(name)}</th>' for name in head)
    body = "".join(
        f'<tr><th scope="row">{escape(row[0])}</th>'
        + "".join(cell(content, i, j) for j, content in enumerate(row[1:]))
        + "</tr>"
        for i, row in enumerate(rows)
    )
    kind = ' class="text"' if text else ""
    label = escape(caption, quote=True)
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{label}">'
        f"<table{kind}><caption>{escape(caption)}</caption>"
        f"<thead><tr>{top}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def figure(chart: str, caption: str, numbers: str) -> str:
    """A chart, what it shows, and its numbers."""
    return (
        f"<figure>{chart}<figcaption>{escape(caption)}</figcaption></figure>"
        f"<details open><summary>The numbers</summary>{numbers}</details>"
    )


MAX_ROWS = 40
"""Rows of a table of numbers at most."""


def some(rows: Sequence[Sequence[str]]) -> list[Sequence[str]]:
    """Return rows at equal distances, and the last, where there are many."""
    step = -(-len(rows) // MAX_ROWS)
    return [row for i, row in enumerate(rows) if i % max(step, 1) == 0 or i == len(rows) - 1]


def thinned(caption: str, rows: Sequence[object]) -> str:
    """Return a caption that says so where rows are left out."""
    if len(rows) <= MAX_ROWS:
        return caption
    return f"{caption}; one row in {-(-len(rows) // MAX_ROWS)} of {len(rows)}"


def value(stored: Any) -> float:
    """A stored number; null stands for one that was not finite."""
    return float("nan") if stored is None else float(stored)


def _slug(head: str) -> str:
    return "-".join(head.lower().split())
