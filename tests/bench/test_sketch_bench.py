"""`subquad bench sketch`, the quick form."""

import json

import pytest
import torch

from subquad.bench import machine as machine_module
from subquad.bench.machine import machine_info
from subquad.bench.sketch import run
from subquad.kernels import numba_available
from subquad.sketch import TensorSketch, TensorSRHT

KEYS = (
    *("sketch", "peer", "rows", "m1", "m2", "s", "density"),
    *("seconds", "countsketch_seconds", "peer_seconds", "distortion", "flops", "bytes"),
)
KINDS = {"TensorSketch": TensorSketch, "TensorSRHT": TensorSRHT}


@pytest.fixture(scope="module")
def result() -> dict[str, object]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)  # small arrays, and cores may be shared
    try:
        found = run(quick=True, samples=12, width=200, size=64, seed=1)
    finally:
        torch.set_num_threads(before)
    loaded: dict[str, object] = json.loads(json.dumps(found))
    assert loaded == found
    return found


def rows_of(result: dict[str, object]) -> list[dict[str, object]]:
    rows = result["rows"]
    assert isinstance(rows, list)
    return rows


def test_keys_and_what_may_be_null(result: dict[str, object]) -> None:
    assert {"machine", "points", "rows", "srht_smallest_size", "theorem_size"} <= set(result)
    for row in rows_of(result):
        assert tuple(row) == KEYS
        assert (row["countsketch_seconds"] is None) == (row["sketch"] == "TensorSRHT")
        assert (row["peer"] is None) == (row["peer_seconds"] is None)
        assert (row["peer"] is None) == (row["m1"] != row["m2"])
        assert isinstance(row["distortion"], float)


def test_rows_cover_dense_sparse_and_rectangular(result: dict[str, object]) -> None:
    found = [(row["sketch"], row["m2"], round(float(row["density"]), 1)) for row in rows_of(result)]  # type: ignore[arg-type]
    assert found == [
        ("TensorSketch", 200, 1.0),
        ("TensorSketch", 200, 0.0),
        ("TensorSRHT", 200, 1.0),
        ("TensorSketch", 100, 1.0),
        ("TensorSRHT", 100, 1.0),
    ]


def test_counted_cost_is_the_formula(result: dict[str, object]) -> None:
    for row in rows_of(result):
        n, m1, m2, s = (int(row[key]) for key in ("rows", "m1", "m2", "s"))  # type: ignore[call-overload]
        stored = round(float(row["density"]) * n * m1)  # type: ignore[arg-type]
        right = stored if m1 == m2 else n * m2
        assert row["flops"] == KINDS[str(row["sketch"])](m1, m2, s).flops(n, stored, right)


def test_points_are_the_repeats_of_the_rows(result: dict[str, object]) -> None:
    points = result["points"]
    assert isinstance(points, list)
    assert len(points) == 3 * len(rows_of(result))
    assert all(point["seconds"] > 0 for point in points)


def test_smallest_size_is_below_the_theorem(result: dict[str, object]) -> None:
    smallest, theorem = result["srht_smallest_size"], result["theorem_size"]
    assert isinstance(smallest, int)
    assert isinstance(theorem, int)
    assert 8 <= smallest < theorem


def test_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    found = machine_info()
    assert set(found) == {"cores", "cpu", "torch", "threads", "numba", "python"}
    assert (found["numba"] is not None) == numba_available()
    assert found["cpu"]

    class NoFile:
        def __init__(self, *_: object) -> None: ...

        def read_text(self, encoding: str) -> str:
            raise FileNotFoundError

    monkeypatch.setattr(machine_module, "Path", NoFile)
    assert machine_info()["cpu"]
