"""`subquad bench widest` at a small size."""

import builtins
import json

import pytest

from subquad import InvalidInput
from subquad.bench import widest
from subquad.bench.widest import peak_rss_gb, run


def test_keys_and_values(monkeypatch, capsys):
    monkeypatch.setattr(widest, "QUICK_WIDTH", 512)
    monkeypatch.setattr(widest, "QUIET", 0.0)
    found = run(width=4096, samples=16, shift=1.0, quick=True)
    assert json.loads(json.dumps(found)) == found
    assert {"machine", "points", "seconds_total", "seconds_init", "iterations"} <= set(found)
    assert found["width"] == 512
    assert found["virtual_weights"] == 512 * 16 + 2 * 512 * 512
    assert 0 < found["seconds_init"] < found["seconds_total"]
    assert found["iterations"] == len(found["points"])
    assert found["relative_residual"] <= 1e-5
    assert found["status"] == "converged"
    assert 0.05 < found["peak_rss_gb"] < 100
    assert [p["iteration"] for p in found["points"]] == list(range(1, found["iterations"] + 1))
    assert "iteration 1: residual" in capsys.readouterr().err


def test_wide_runs_say_so(monkeypatch, capsys):
    monkeypatch.setattr(widest, "QUICK_WIDTH", 256)
    found = run(width=512, samples=8, shift=1.0, depth=2, weights="circulant")
    assert (found["width"], found["weights"]) == (512, "circulant")
    assert "2 layers of 512 neurons" in capsys.readouterr().err


def test_memory_where_the_system_does_not_tell(monkeypatch):
    real = builtins.__import__

    def without(name, *args, **kwargs):
        if name == "resource":
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    assert peak_rss_gb() is None


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"width": 0}, "width must be an integer >= 1"),
        ({"samples": 1}, "samples must be an integer >= 2"),
        ({"depth": 0}, "depth must be an integer >= 1"),
        ({"shift": -1.0}, "shift must be"),
        ({"seed": -1}, "seed must be"),
        ({"weights": "spares"}, "did you mean 'sparse'"),
        ({"width": 16, "samples": 4, "shift": 8.0}, "training ended at once"),
    ],
)
def test_bad_input_gets_one_line(given, message):
    with pytest.raises(InvalidInput, match=message) as caught:
        run(**given)
    assert "\n" not in str(caught.value)
