"""`subquad bench accuracy`: sets, folds, peers, cells that are kept, ranks and tests."""

import json
import math
import subprocess
import sys
import types
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

import subquad
from subquad import InvalidInput
from subquad.bench.accuracy import (
    cell,
    classical,
    contest,
    datasets,
    peers,
    process,
    ranks,
    readers,
    run,
    show,
    summary,
    tuning,
    worker,
)
from subquad.bench.accuracy.contest import Cell, Contest, compute
from subquad.bench.accuracy.datasets import QUICK, SETS, Data, Source, load

PEERS = "ridge,svm"


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("cells")


@pytest.fixture(scope="module")
def result(cache):
    found = run(quick=True, peers=PEERS, cache=cache, quiet=True)
    assert json.loads(json.dumps(found)) == found
    return found


@pytest.fixture
def small():
    """Thirty rows, numbers and classes."""
    X = np.random.default_rng(0).normal(size=(60, 3))
    return {
        "regression": Data("numbers", "regression", X, X @ [1.0, 2.0, 0.0], 60, "none"),
        "classification": Data(
            "classes", "classification", X, (X[:, 0] > 0).astype(np.int64), 60, "none"
        ),
    }


# ---- the whole, on scikit-learn's sets


def test_keys(result):
    assert {"machine", "points", "rows", "mean_rank", "tests", "critical_difference"} <= set(result)
    assert result["computed"] == len(result["points"]) == 6 * 2 * 2
    assert result["missing_cells"] == 0
    for row in result["rows"]:
        assert {"data", "task", "peer", "scores", "fit_seconds"} <= set(row)
        assert row["folds"] == 2
    assert set(result["mean_rank"]) == {"regression", "classification", "classification_log_loss"}
    for means in result["mean_rank"].values():
        assert sum(means.values()) == pytest.approx(3.0)
        assert list(means.values()) == sorted(means.values())
    for tests in result["tests"].values():
        assert len(tests) == 1
        assert tests[0]["wins"] + tests[0]["ties"] + tests[0]["losses"] == 3


def test_rows_are_means_of_their_points(result):
    for row in result["rows"]:
        own = [p for p in result["points"] if (p["data"], p["peer"]) == (row["data"], row["peer"])]
        for name, value in row["scores"].items():
            assert value == pytest.approx(np.mean([p["scores"][name] for p in own]))
    both = result["untuned"]["regression"]["svm"]
    assert both["tuned"] < 1
    assert both["untuned"] < 1


def test_a_second_run_computes_nothing(result, cache):
    again = run(quick=True, peers=PEERS, cache=cache, quiet=True)
    assert again["computed"] == 0
    assert again["rows"] == result["rows"]
    assert again["mean_rank"] == result["mean_rank"]


def test_results_from_elsewhere_count(result, cache, tmp_path):
    script = Path(__file__).parents[2] / "benchmarks" / "cells.py"
    listed = subprocess.run(
        [sys.executable, script, cache], capture_output=True, text=True, check=True
    )
    ledger = tmp_path / "cells.jsonl"
    ledger.write_text(listed.stdout)
    told = run(quick=True, peers=PEERS, cache=tmp_path, ledger=ledger, jobs=0, quiet=True)
    assert told["missing_cells"] == 0
    assert told["rows"] == result["rows"]
    ledger.write_text("{}\n")
    with pytest.raises(InvalidInput, match=r"no list of cells.*cells\.py writes one"):
        run(quick=True, peers=PEERS, cache=tmp_path, ledger=ledger, jobs=0, quiet=True)


def test_a_stopped_run_goes_on(result, cache, capsys):
    lost = next(cache.rglob("diabetes/ridge/0-1of2.json"))
    lost.unlink()
    damaged = next(cache.rglob("iris/svm/0-0of2.json"))
    damaged.write_text("{", encoding="utf-8")
    before = run(quick=True, peers=PEERS, cache=cache, jobs=0, quiet=True)
    assert (before["computed"], before["missing_cells"]) == (0, 2)
    assert {row["folds"] for row in before["rows"]} == {1, 2}
    again = run(quick=True, peers=PEERS, cache=cache)
    assert again["computed"] == 2
    assert again["mean_rank"] == result["mean_rank"]
    assert "24 cells, 22 known" in capsys.readouterr().err
    assert not list(cache.rglob("*.tmp"))


def test_for_people(result, capsys):
    show(result)
    out = capsys.readouterr().out
    assert "critical difference" in out
    assert "ridge" in out
    assert "missing" not in out
    show({**result, "missing_cells": 3})
    assert "3 cells are missing" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"rows": 100}, "rows must be one of 500, 2000"),
        ({"jobs": -1}, "jobs must be an integer >= 0"),
        ({"repeats": 0}, "repeats must be an integer >= 1"),
        ({"limit": 0.0}, "limit must be a finite number > 0"),
        ({"peers": "rigde"}, "did you mean 'ridge'"),
        ({"data": "irsi"}, "did you mean 'iris'"),
        ({"data": ","}, "no set named"),
    ],
)
def test_bad_input_gets_one_line(given, message, tmp_path):
    with pytest.raises(InvalidInput, match=message) as caught:
        run(quick=True, cache=tmp_path, **given)
    assert "\n" not in str(caught.value)


def test_what_is_not_installed_is_left_out(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(
        "importlib.util.find_spec", lambda name, *_: None if name == "ISLP" else object()
    )
    monkeypatch.setattr(peers, "version", lambda package: None)
    with pytest.raises(InvalidInput, match="pip install --no-deps ISLP"):
        run(data="hitters", peers="ridge", cache=tmp_path)
    with pytest.raises(InvalidInput, match="pip install lightgbm"):
        run(data="iris", peers="lightgbm", cache=tmp_path)


def test_ours_is_there_once_the_estimators_are(monkeypatch):
    seen = {}

    class Estimator:
        def __init__(self, random_state=None):
            seen["seed"] = random_state

    for name in ("SubquadRegressor", "SubquadClassifier"):
        monkeypatch.setattr(subquad, name, Estimator, raising=False)
    assert peers.have_ours()
    assert isinstance(peers.PEERS["subquad"].make(True, 7, True), Estimator)
    assert seen == {"seed": 7}


# ---- cells


def test_folds_are_the_same_for_everyone_and_cover_the_rows(small):
    for data in small.values():
        for repeat in range(2):
            tests = []
            for fold in range(5):
                train, test = cell.outer_fold(data, repeat, fold)
                again = cell.outer_fold(data, repeat, fold)
                assert np.array_equal(train, again[0])
                assert np.array_equal(test, again[1])
                assert not set(train) & set(test)
                tests += test.tolist()
            assert sorted(tests) == list(range(60))
        first, second = (cell.outer_fold(data, repeat, 0)[1] for repeat in range(2))
        assert not np.array_equal(first, second)


def contest_of(small, tmp_path, limit=60.0, **more):
    sets = {data.name: data for data in small.values()}
    given = {"peers": ("ridge",), "repeats": 1, "folds": 2, "rows": 500, **more}
    return Contest(sets=sets, limit=limit, cache=tmp_path, **given)


def test_over_time_is_a_result_without_scores(small, tmp_path):
    sets = contest_of(small, tmp_path, limit=1e-9, folds=1)
    one = Worker_run(small["regression"], 1e-9)
    assert one["scores"] is None
    assert one["error"] == "over 1e-09 s"
    sets.store(Cell("numbers", "ridge", 0, 0), one)
    assert sets.known(Cell("numbers", "ridge", 0, 0)) == one
    assert contest_of(small, tmp_path, folds=1).known(Cell("numbers", "ridge", 0, 0)) is None


def Worker_run(data, limit):
    own = worker.Worker()
    try:
        return own.run(data, "ridge", 0, 0, 2, limit)
    finally:
        own.stop()


class Answers:
    """The other end of a worker's pipe, and the queue of what it will say."""

    def __init__(self, *messages):
        self.messages, self.killed = list(messages), False

    def poll(self, seconds):
        return bool(self.messages)

    def recv(self):
        message = self.messages.pop(0)
        if message is EOFError:
            raise EOFError
        return message

    send = join = close = lambda self, *_: None

    def kill(self):
        self.killed = True

    def is_alive(self):
        return True


@pytest.mark.parametrize(
    ("messages", "error", "killed"),
    [
        ((), "over 5 s", True),
        (("ready",), "over 5 s", True),
        (("ready", EOFError), "its process ended", True),
        (({"error": "ImportError: no"},), "ImportError: no", False),
        (("ready", {"error": "ValueError: bad"}), "ValueError: bad", False),
        (("ready", {"error": None}), None, True),
        (("ready", {"error": None}, {"error": None, "more": 1}), None, False),
    ],
)
def test_what_a_worker_makes_of_its_process(small, messages, error, killed):
    own, other = worker.Worker(), Answers(*messages)
    own._process = own._pipe = other
    assert own.run(small["regression"], "ridge", 0, 0, 5, 5.0)["error"] == error
    assert other.killed == killed


def test_a_process_says_why_it_failed(small):
    asked = [(small["regression"], name, 0, 0, 5) for name in ("ridge", "nobody")]
    said = []

    def recv():
        if not asked:
            raise EOFError
        return asked.pop(0)

    worker.serve(types.SimpleNamespace(recv=recv, send=said.append))
    assert said[0] == worker.READY
    assert said[1] is not said[0]
    assert said[2]["scores"]["r2"] > 0.9
    assert said[2]["untuned_scores"]["r2"] > 0.9
    assert "nobody" in said[3]["error"]


def test_an_interrupted_run_leaves_whole_cells(small, tmp_path, monkeypatch):
    class Fake:
        stopped = 0

        def run(self, data, peer, repeat, fold, folds, limit):
            return worker.failed("not run", 0.0)

        def stop(self):
            Fake.stopped += 1

    monkeypatch.setattr(contest, "Worker", Fake)
    given = contest_of(small, tmp_path)
    cells = list(given.cells())
    seen = []

    def done(one, outcome):
        seen.append(one)
        if len(seen) == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        compute(given, cells, 2, done)
    assert Fake.stopped == 2
    assert set(given.results()) == set(seen)
    compute(given, [c for c in cells if c not in given.results()], 1, lambda *_: None)
    assert len(given.results()) == len(cells) == 4


def test_a_fault_of_the_benchmark_is_raised(small, tmp_path, monkeypatch):
    class Broken:
        def run(self, *_):
            raise RuntimeError("broken")

        def stop(self):
            pass

    monkeypatch.setattr(contest, "Worker", Broken)
    given = contest_of(small, tmp_path)
    with pytest.raises(RuntimeError, match="broken"):
        compute(given, list(given.cells()), 1, lambda *_: None)


def test_another_grid_or_version_makes_other_cells(small, tmp_path, monkeypatch):
    given = contest_of(small, tmp_path)
    one = Cell("numbers", "ridge", 0, 0)
    given.store(one, worker.failed("kept", 0.0))
    assert given.known(one)["error"] == "kept"
    monkeypatch.setitem(classical.GRIDS, "ridge", [{"ridge__alpha": 1.0}])
    assert given.known(one)["error"] == "kept"  # a run keeps to what it began with
    assert contest_of(small, tmp_path).known(one) is None


def test_scores(small):
    model = types.SimpleNamespace(fit=lambda X, y: None, predict=lambda X: X[:, 0])
    fitted = tuning.Standardised(model, False, scale=False)
    X, y = np.array([[1.0], [2.0], [3.0]]), np.array([1.0, 2.0, 6.0])
    found = cell.score(fitted, X, y)
    assert found["r2"] == pytest.approx(1 - 9 / 14)
    assert found["rmse"] == pytest.approx(math.sqrt(9 / 14))
    model.predict = lambda X: X[:, 0] * np.nan
    with pytest.raises(ArithmeticError):
        cell.score(fitted, X, y)
    model = types.SimpleNamespace(
        predict=lambda X: np.array([0, 1]),
        predict_proba=lambda X: np.array([[0.5, 0.5], [1.0, 0.0]]),
        classes_=np.array([0, 1]),
    )
    found = cell.score(tuning.Standardised(model, True), X[:2], np.array([0, 0]))
    assert found["accuracy"] == 0.5
    assert found["log_loss"] == pytest.approx(math.log(2) / 2)
    found = cell.score(tuning.Standardised(model, True), X[:2], np.array([0, 1]))
    assert found["log_loss"] == pytest.approx((math.log(2) - math.log(cell.CLIP)) / 2)


# ---- peers


@pytest.mark.parametrize("task", ["regression", "classification"])
@pytest.mark.parametrize("name", [n for n, p in peers.PEERS.items() if p.kind != "ours"])
def test_every_peer_learns(small, task, name, monkeypatch):
    peer = peers.PEERS[name]
    if peer.version is None:
        pytest.skip(f"{peer.package} is not installed")
    for grid in ("kernel_ridge", "forest", "mlp"):
        monkeypatch.setitem(classical.GRIDS, grid, classical.GRIDS[grid][:2])
    monkeypatch.setattr(classical, "FINAL_TREES", 20)
    monkeypatch.setattr(process, "ITERATIONS", 5)
    monkeypatch.setattr(process, "INNER_ITERATIONS", 3)
    found = cell.run_cell(small[task], name, 0, 0)
    for scores in (found["scores"], found["untuned_scores"]):
        assert scores.get("r2", 1.0) > 0.5
        assert scores.get("accuracy", 1.0) > 0.7
    assert found["fit_seconds"] > 0
    assert json.dumps(found["chosen"])


def test_three_classes_of_a_process():
    data = load(SETS["iris"], 500)
    model = process.Process(True, 0, tuned=False).fit(data.X[::3], data.y[::3])
    assert np.mean(model.predict(data.X[1::3]) == data.y[1::3]) > 0.9
    shares = model.predict_proba(data.X[1::3])
    assert shares.shape == (50, 3)
    assert np.allclose(shares.sum(axis=1), 1)


def test_a_search_keeps_the_defaults_unless_something_is_better(small):
    data = small["regression"]
    model = classical.ridge(False, 0, tuned=False)
    search = tuning.Search(model, [{}, {"ridge__alpha": 1e6}], False, 0).fit(data.X, data.y)
    assert search.chosen == {}
    search = tuning.Search(model, [{}, {"ridge__alpha": 1e-8}], False, 0).fit(data.X, data.y)
    assert search.chosen == {"ridge__alpha": 1e-8}
    assert not hasattr(search, "predict_proba")


def test_a_search_passes_over_failures_and_ends_in_time():
    tried = []

    def judge(settings):
        tried.append(settings["a"])
        if settings["a"] == 0:
            raise ValueError
        return math.nan if settings["a"] == 5 else -min(settings["a"], 3)

    candidates = [{"a": a} for a in range(6)]
    assert tuning.best_of(candidates, judge) == {"a": 3}  # the earlier of two equal ones
    assert sorted(tried) == [0, 1, 2, 3, 4, 5]
    assert tried[0] == 0
    tried.clear()
    assert tuning.best_of(candidates, judge, seconds=-1.0) == {"a": 0}
    assert tried == [0]


# ---- sets


def test_registry():
    assert len(datasets.REGRESSION) >= 24
    assert len(datasets.CLASSIFICATION) >= 16
    sources = (*datasets.REGRESSION, *datasets.CLASSIFICATION)
    assert len({s.name for s in sources}) == len(sources)
    places = [(s.package, s.file) for s in sources]
    assert len(set(places)) == len(places)
    assert {s.package for s in QUICK} == {"scikit-learn"}


def test_every_set_that_is_installed():
    seen = set()
    for source in SETS.values():
        try:
            data = load(source, 500)
        except readers.NotInstalled:
            continue
        assert 100 <= len(data.X) <= 500
        assert len(data.X) == len(data.y)
        assert np.isfinite(data.X).all()
        assert (data.X.min(axis=0) < data.X.max(axis=0)).all()
        if data.task == "classification":
            assert np.bincount(data.y).min() >= datasets.FEWEST
        else:
            assert np.isfinite(data.y).all()
        seen.add(data.fingerprint)
        assert load(source, 500).fingerprint in seen
    assert len(seen) >= 7


@pytest.fixture
def package(tmp_path, monkeypatch):
    """An installed package made of files."""
    monkeypatch.setitem(readers.MODULES, "toy", "toy_tables")
    (tmp_path / "toy_tables").mkdir()
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path / "toy_tables"


def test_text_becomes_columns_and_what_is_missing_is_filled(package):
    (package / "a.csv").write_text("x,colour,same,y\n1,red,5,2\n?,blue,5,4\n3, red,5,NA\n5,,5,8\n")
    source = Source(name="a", task="regression", package="toy", file="a.csv", log=True)
    data = load(source, 500)
    # x, then "" (missing), blue, red, of the rows whose target is known
    assert data.X.tolist() == [[1, 0, 0, 1], [3, 0, 1, 0], [5, 1, 0, 0]]
    assert data.y == pytest.approx(np.log1p([2, 4, 8]))
    assert data.rows == 3


def test_classes_are_cut_in_their_shares(package):
    lines = [f"{i};{i % 7};{'a' if i % 4 else 'b'}" for i in range(400)] + ["1;1;c"] * 3
    (package / "one.dat").write_text("@attribute x\n" + "\n".join(lines[:200]))
    (package / "two.dat").write_text("% more\n" + "\n".join(lines[200:]))
    written = readers.Format(separator=";", header=0)
    source = Source(
        name="b", task="classification", package="toy", file="*.dat", drop=(1,), written=written
    )
    data = load(source, 100)
    assert data.X.shape[1] == 1
    assert np.bincount(data.y).tolist() == pytest.approx([75, 25], abs=1)
    source = Source(
        name="b", task="classification", package="toy", file="*.dat", target=0, above=99.0,
        written=written,
    )  # fmt: skip
    assert np.bincount(load(source, 500).y).tolist() == [103, 300]


def test_names_that_repeat_and_decimal_commas(package):
    (package / "c.csv").write_text("ignored;\na;a;y\n1,5;2;3\n2,5;3;4\n")
    written = readers.Format(separator=";", header=2, decimal=",")
    cells = readers.read("toy", "c.csv", written)
    assert cells == {"a": ["1.5", "2.5"], "x1": ["2", "3"], "y": ["3", "4"]}
    with pytest.raises(FileNotFoundError, match=r"holds no d\.csv"):
        readers.read("toy", "d.csv", written)


# ---- statistics


def test_ranks_by_hand():
    losses = np.array([[0.1, 0.2, 0.3], [0.2, 0.2, 0.1], [np.nan, 0.5, 0.4]])
    assert ranks.ranks(losses).tolist() == [[1, 2, 3], [2.5, 2.5, 1], [3, 2, 1]]
    assert ranks.worst_for_missing(losses)[2].tolist() == [0.5, 0.5, 0.4]


def test_critical_difference_of_demsar():
    # Demšar (2006), section 3.2.2: four classifiers, fourteen sets, CD 1.25 at 0.05, 1.12 at 0.10.
    assert ranks.critical_difference(4, 14) == pytest.approx(1.25, abs=0.005)
    assert ranks.critical_difference(4, 14, 0.10) == pytest.approx(1.12, abs=0.01)


def test_signed_ranks_of_demsar():
    # His table 2: C4.5 with and without cuts on fourteen sets; p below 0.05, 3 losses, 1 tie.
    plain = [
        *(0.763, 0.599, 0.954, 0.628, 0.882, 0.936, 0.661),
        *(0.583, 0.775, 1.000, 0.940, 0.619, 0.972, 0.957),
    ]
    cuts = [
        *(0.768, 0.591, 0.971, 0.661, 0.888, 0.931, 0.668),
        *(0.583, 0.838, 1.000, 0.962, 0.666, 0.981, 0.978),
    ]
    found = ranks.paired(-np.array(cuts), -np.array(plain))
    assert (found["wins"], found["ties"], found["losses"]) == (10, 2, 2)
    assert found["p"] < 0.05
    assert found["p"] == pytest.approx(stats.wilcoxon(cuts, plain).pvalue)
    assert ranks.paired(np.ones(3), np.ones(3))["p"] is None


def test_friedman_needs_three_peers_and_two_sets():
    assert ranks.friedman(np.ones((5, 2))) is None
    assert ranks.friedman(np.ones((1, 3))) is None
    assert ranks.friedman(np.tile([1.0, 2.0, 3.0], (6, 1))) < 0.01


def test_only_folds_that_all_peers_have_count(small):
    data = small["regression"]
    good = {"scores": {"rmse": 0.5, "r2": 0.75}, "untuned_scores": None, "fit_seconds": 1.0}
    bad = {"scores": {"rmse": 0.9, "r2": 0.19}, "untuned_scores": None, "fit_seconds": 1.0}
    good["error"] = bad["error"] = None
    results = {
        Cell("numbers", "ridge", 0, 0): good,
        Cell("numbers", "ridge", 0, 1): bad,
        Cell("numbers", "svm", 0, 0): bad,
    }
    found = summary.summarise(results, {"numbers": data}, ("ridge", "svm"))
    assert [row["scores"]["rmse"] for row in found["rows"]] == [0.5, 0.9]
    assert found["mean_rank"] == {"regression": {"ridge": 1.0, "svm": 2.0}}
    results[Cell("numbers", "ridge", 0, 0)] = worker.failed("over 60 s", 60.0)
    found = summary.summarise(results, {"numbers": data}, ("ridge", "svm"))
    assert found["rows"][0]["scores"] is None
    assert "over 60 s" in found["rows"][0]["error"]
    assert found == json.loads(json.dumps(found))
