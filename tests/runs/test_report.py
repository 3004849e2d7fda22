"""The report is one valid page with every section, readable without charts, loading nothing."""

import json
from html.parser import HTMLParser

import pytest

from subquad.errors import InvalidInput
from subquad.runs.folder import METRICS, Run
from subquad.runs.report import render, write_report

SECTIONS = {
    "network": ["Convergence", "Firing rate", "Cost", "Certificates"],
    "ensemble": ["What mattered", "Members", "Convergence"],
}
VOID = {"meta"}


class Page(HTMLParser):
    def __init__(self, content):
        super().__init__()
        self.open, self.tags, self.headings, self.ids = [], [], [], []
        self.attributes = []
        self.feed(content)
        self.close()
        assert not self.open

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes.append((tag, dict(attrs)))
        self.ids += [value for name, value in attrs if name == "id"]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] == "h2":
            self.headings.append(data)


@pytest.mark.parametrize("kind", ["network", "ensemble"])
@pytest.mark.parametrize("task", ["regression", "classification"])
def test_page(runs, kind, task):
    run = runs[kind, task][0]
    content = (run.folder / "report.html").read_text("utf-8")
    assert content == render(Run.load(run.folder))
    assert "http:" not in content
    assert "https:" not in content
    assert "<script" not in content
    page = Page(content)
    assert page.headings == ["Result", *SECTIONS[kind], "Predictions", "Settings", "Versions"]
    assert len(page.ids) == len(set(page.ids))
    assert not {"link", "img", "iframe", "object"} & set(page.tags)
    links = [a["href"] for tag, a in page.attributes if tag == "a"]
    assert {link.removeprefix("#") for link in links} <= set(page.ids)
    assert "prefers-color-scheme: dark" in content
    assert "@media print" in content
    charts = [a for tag, a in page.attributes if a.get("role") == "img"]
    assert len(charts) == (3 if kind == "network" else 2) + (task == "regression")
    assert all(chart["aria-label"] for chart in charts)
    sections = len(page.headings)
    assert page.tags.count("table") == page.tags.count("caption") == sections
    assert ("nan" in content.lower().replace("finance", "")) is False


def test_names_are_escaped(folder):
    path = folder / "config.json"
    stored = json.loads(path.read_text())
    stored["settings"]["<script>alert(1)</script>"] = "<b>"
    stored["target"]["name"] = "<i>&"
    stored["summary"]["remedy"] = "widen <it>"
    path.write_text(json.dumps(stored))
    content = render(Run.load(folder))
    assert "<script" not in content
    assert "<b>" not in content
    assert "&lt;i&gt;&amp;" in content
    assert "What to try: widen &lt;it&gt;" in content
    Page(content)


def rewrite(folder, change):
    path = folder / METRICS
    records = [json.loads(line) for line in path.read_text().splitlines()]
    path.write_text("".join(json.dumps(r) + "\n" for r in change(records)))


def test_long_runs_are_thinned_and_gaps_are_drawn(folder):
    def stretch(records):
        start, step, shown = records[0], records[1], records[-1]
        many = [{**step, "iteration": i, "certificate": None} for i in range(1, 501)]
        many[7]["residual"] = None
        many[9]["residual"] = 0.0
        return [start, *many, shown]

    rewrite(folder, stretch)
    content = write_report(Run.load(folder)).read_text("utf-8")
    assert "one row in 13 of 501" in content
    assert "solves no linear system" in content
    Page(content)


def test_a_run_without_iterations(folder):
    rewrite(folder, lambda records: [records[0]])
    content = render(Run.load(folder))
    assert "No iteration was run." in content
    Page(content)


@pytest.mark.parametrize(
    "damage",
    [
        lambda records: records[1:],
        lambda records: [{"kind": "start"}],
        lambda records: [{}],
        lambda records: [{**records[0], "residual": "x"}],
        lambda records: [records[0], {**records[1], "firing": None}],
    ],
)
def test_damaged_metrics(folder, damage):
    rewrite(folder, damage)
    with pytest.raises(InvalidInput, match="does not hold what a report needs"):
        render(Run.load(folder))


def test_metrics_that_are_no_json(folder):
    (folder / METRICS).write_text('{"kind": "start"}\n{')
    with pytest.raises(InvalidInput, match="line 2 is not JSON"):
        render(Run.load(folder))
