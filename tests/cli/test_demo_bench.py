"""The demonstration and the benchmarks' command."""

import json
import sys
import types

import pytest

from subquad.cli.bench import show


def test_demo(call, monkeypatch, tmp_path):
    monkeypatch.setattr(sys.modules["subquad.cli.demo"], "WIDTH", 1024)
    code, out, err = call("demo", "--json", "--out", tmp_path / "demo")
    assert code == 0
    result = json.loads(out)
    assert {"out", "report", "residuals", "iterations", "status", "seconds"} <= set(result)
    assert result["status"] == "converged"
    assert result["residuals"][-1] <= 1e-6
    assert "a dense gradient step" in err
    page = (tmp_path / "demo" / "report.html").read_text("utf-8")
    assert "Rows held out" in page
    code, out, _ = call("demo", "--out", tmp_path / "demo", "-q")
    assert code == 0
    assert "next: subquad fit" in out
    assert str(tmp_path / "demo" / "report.html") in out


def test_demo_overwrites_nothing_of_yours(call, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").touch()
    code, _, err = call("demo", "--out", "mine")
    assert code == 2
    assert "not empty and not a run folder" in err


@pytest.fixture
def benchmarks(monkeypatch):
    """Stand-ins that say what they were asked."""

    def sketch(quick=False, seed=0, width=None, samples=None, size=None):
        asked = {k: v for k, v in locals().items() if v not in (None, False)}
        return {"machine": {"cores": 2}, "points": [], "rows": [{"s": 0.12345, "a": None}], **asked}

    def scaling(method="paper", quick=False, widths=None, depth=3):
        return {"method": method, "widths": widths, "points": [{"width": 2, "more": {}}]}

    for name, run in (("sketch", sketch), ("scaling", scaling)):
        module = types.ModuleType(f"subquad.bench.{name}")
        module.run = run
        monkeypatch.setitem(sys.modules, f"subquad.bench.{name}", module)


def test_bench_passes_options_on(call, benchmarks):
    code, out, _ = call("bench", "sketch", "--json", "--quick", "--width", 64, "--size", 8)
    assert code == 0
    asked = json.loads(out)
    assert (asked["quick"], asked["width"], asked["size"]) == (True, 64, 8)
    asked = json.loads(call("bench", "scaling", "--json", "--width", 64, "--width", 128)[1])
    assert (asked["method"], asked["widths"]) == ("paper", [64, 128])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("sketch", "--method", "gd"), "bench sketch takes no --method"),
        (("scaling", "--size", "4"), "bench scaling takes no --size"),
        (("sketch", "--width", "4", "--width", "8"), "takes one --width, not 2"),
    ],
)
def test_bench_refuses_what_it_would_ignore(call, benchmarks, arguments, message):
    code, out, err = call("bench", *arguments)
    assert (code, out) == (2, "")
    assert message in err


def test_bench_for_people(call, benchmarks, capsys):
    code, out, _ = call("bench", "sketch")
    assert code == 0
    assert "sketch: rows" in out
    assert "0.1235" in out
    assert "machine: cores 2" in out
    show("x", {"points": [{"a": 1.0, "b": {"c": 2}}], "slope": {"never": 1.5}})
    assert "slope: never 1.5" in capsys.readouterr().out
