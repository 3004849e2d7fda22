"""From a table to predictions through the command line."""

import csv
import json

import numpy as np
import pytest
import torch

from subquad import ShiftedReLU, WideNet, train
from subquad.tables.prepare import Preparation
from subquad.tables.read import read_table
from subquad.tables.target import Target

KEYS = {
    "out",
    "task",
    "train_score",
    "loo_score",
    "baselines",
    "iterations",
    "seconds",
    "status",
    "remedy",
    "chosen",
    "features",
    "members",
}
SIZE = ("--target", "y", "--width", 512, "--depth", 2)
SMALL = (*SIZE, "--method", "paper", "--weights", "dense")


@pytest.fixture(scope="module")
def fitted(start, tables, tmp_path_factory):
    """Both tables, fitted each by a process of its own."""
    base = tmp_path_factory.mktemp("fitted")
    made = {}
    for name, path in tables.items():
        done = start("fit", path, *SMALL, "--out", base / name, "--json", "--max-iter", 60)
        assert done.returncode == 0, done.stderr
        made[name] = (base / name, json.loads(done.stdout), done.stderr)
    return made


def read(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize("task", ["regression", "classification"])
def test_json_is_all_there_is_on_stdout(fitted, task):
    folder, summary, err = fitted[task]
    assert set(summary) == KEYS
    assert summary["out"] == str(folder)
    assert summary["task"] == task
    assert summary["train_score"] > 0.99
    assert set(summary["baselines"]) == {"mean", "ridge"}
    chosen = {"depth": 2, "shift": 1.0, "ridge": 0.0, "layers": "last", "weights": "dense"}
    assert summary["chosen"] == {**chosen, "width": 512}
    assert "iteration 1: residual" in err
    assert f"{task} of 'y'" in err


def test_predictions_equal_those_of_the_library(fitted, tables, call, tmp_path):
    table = read_table(tables["regression"])
    features = table.without("y")
    target = Target.fit(table, "y")
    X = torch.from_numpy(Preparation.fit(features).transform(features)).float()
    y = torch.from_numpy(target.encode(target.labels(table))).float()
    net = WideNet(
        X.shape[1],
        width=512,
        depth=2,
        activation=ShiftedReLU(shift=1.0, relative=True),
        weights="dense",
        dtype=torch.float32,
    )
    scores = train(net, X, y, method="paper", center=True, max_iter=60).predict(X)
    expected = target.decode(scores.double().numpy())
    out = tmp_path / "p.csv"
    folder = fitted["regression"][0]
    code, shown, err = call("predict", folder, tables["regression"], "--out", out, "--json")
    assert (code, err) == (0, "")
    assert json.loads(shown) == {"out": str(out), "rows": 40, "task": "regression"}
    rows = read(out)
    assert list(rows[0]) == ["row", "prediction"]
    found = [float(row["prediction"]) for row in rows]
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


def test_classes(fitted, tables, call, tmp_path):
    out = tmp_path / "p.csv"
    code, shown, _ = call(
        "predict", fitted["classification"][0], tables["classification"], "--out", out
    )
    assert code == 0
    assert shown == f"40 predictions: {out}\n"
    rows = read(out)
    assert list(rows[0]) == ["row", "prediction", "proba_high", "proba_low", "proba_mid"]
    truth = [row["y"] for row in read(tables["classification"])]
    assert np.mean([row["prediction"] == y for row, y in zip(rows, truth, strict=True)]) > 0.99
    for row in rows:
        shares = {name: float(row[f"proba_{name}"]) for name in ("high", "low", "mid")}
        assert sum(shares.values()) == pytest.approx(1)
        assert shares[row["prediction"]] == max(shares.values())


def test_new_tables(fitted, call, tmp_path):
    folder, out = fitted["regression"][0], tmp_path / "p.csv"
    new = tmp_path / "new.csv"
    new.write_text(
        "note,colour,weight,size,a,b,c,d,e,f\nhi,mauve,1,,0,0,0,0,0,\n,red,0,2,1,1,1,1,1,1\n"
    )
    assert call("predict", folder, new, "--out", out, "-q")[0] == 0
    assert len(read(out)) == 2
    new.write_text("colour,weight,a,b,c,d,e,f\nred,1,0,0,0,0,0,0\n")
    code, shown, err = call("predict", folder, new, "--out", out)
    assert (code, shown) == (2, "")
    assert "lacks the column 'size'" in err
    assert len(read(out)) == 2


def test_report_command(fitted, call):
    page = fitted["classification"][0] / "report.html"
    page.write_text("old")
    assert call("report", page.parent) == (0, f"{page}\n", "")
    assert page.read_text().startswith("<!doctype html>")


def test_words_for_people_and_a_second_run_in_the_folder(fitted, tables, call):
    folder = fitted["regression"][0]
    code, out, err = call(
        "fit", tables["regression"], *SMALL, "--out", folder, "-v", "--threads", 1
    )
    assert code == 0
    assert "converged after" in out
    assert f"next: subquad predict {folder}" in out
    assert "solved by exact (cholesky): residual" in err
    code, out, err = call("fit", tables["regression"], *SMALL, "--out", folder, "-q", "--seed", 1)
    assert (code, err) == (0, "")


def test_gradient_descent_that_ends_early(tables, call, tmp_path):
    arguments = ("--method", "gd", "--layers", "all", "--max-iter", 2, "--flush", "sparse")
    code, out, err = call(
        "fit", tables["regression"], *SMALL, *arguments, "--out", tmp_path / "run", "--json"
    )
    assert code == 0
    summary = json.loads(out)
    assert summary["status"] == "max_iter"
    assert summary["remedy"] in err
    assert summary["chosen"]["layers"] == "all"
    assert summary["iterations"] == 2


def test_the_rank_of_a_flush(tables, call, tmp_path):
    for rank, expected in (("90", 0), ("0", 2)):
        arguments = ("--method", "paper", "--flush", rank, "--out", tmp_path / rank)
        code, _, err = call("fit", tables["regression"], *SMALL, *arguments, "-q")
        assert code == expected
    assert "a rank must be an integer >= 1, got 0" in err


def test_dropped_columns_are_named(tables, call, tmp_path):
    path = tmp_path / "more.csv"
    lines = tables["regression"].read_text().splitlines()
    path.write_text("\n".join(["same," + lines[0], *("1," + line for line in lines[1:])]))
    code, _, err = call("fit", path, *SMALL, "--out", tmp_path / "run", "--max-iter", 1)
    assert code == 0
    assert "columns that tell nothing: same" in err


def test_a_failed_training_is_exit_1_with_the_remedy(tables, call, tmp_path):
    dead = ("--width", 4, "--depth", 3, "--shift", 6)
    out = tmp_path / "run"
    code, shown, err = call("fit", tables["regression"], *SMALL, *dead, "--out", out)
    assert (code, shown) == (1, "")
    last = err.splitlines()[-1]
    assert last.startswith("subquad: training failed: ")
    assert "shift" in last
    assert list(out.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--target", "z"), "unknown column 'z'"),
        (("--task", "clustering"), "Invalid value for '--task'"),
        (("--task", "classification"), "has 40 classes in 40 rows"),
        (("--width", 0), "Invalid value for '--width'"),
        (("--shift", -1), "Invalid value for '--shift'"),
        (("--shift", "nan"), "shift"),
        (("--width", "wide"), "must be auto or a whole number >= 1, got 'wide'"),
        (("--method", "papper"), "did you mean 'paper'"),
        (("--solver", "exakt"), "did you mean 'exact'"),
        (("--flush", "spare"), "did you mean 'sparse'"),
        (("--weights", "denes"), "did you mean 'dense'"),
        (("--ridge", "x"), "Invalid value for '--ridge'"),
        (("--tol", "nan"), "Invalid value for '--tol': must be a finite number >= 0, got nan"),
        (("--shift", 50), "shift must be <= 30"),
        (("--target", "Y"), "did you mean 'y'"),
        (("--task", "regresion"), "did you mean 'regression'"),
        (("--layers", "lats"), "did you mean 'last'"),
        (("--max-memory", "much"), "max_memory must be a number of GB"),
        (("--max-memory", "1MB"), "raise max_memory"),
        (("--max-memory", "8GB", "--width", 200000), "weights='hadamard' would"),
        (("--out", "pyproject.toml"), "is a file"),
    ],
)
def test_bad_input(tables, call, tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pyproject.toml").touch()
    code, out, err = call("fit", tables["regression"], *SMALL, "--out", "run", *arguments)
    assert (code, out) == (2, "")
    last = err.splitlines()[-1]
    assert last.startswith("subquad: ")
    assert message in last
    assert not (tmp_path / "run").exists(), "nothing is left behind"


def test_settings_are_refused_before_the_data_is_read(call, tmp_path):
    arguments = ("--target", "y", "--out", tmp_path / "run")
    for bad, message in [
        (("--method", "papr"), "did you mean 'paper'"),
        (("--method", "gd", "--solver", "sketch"), "solves no Gram regression"),
        (("--method", "gd", "--members", 2), "--members goes with --method exact"),
        (("--method", "paper", "--class-weight", "balanced"), "--class-weight goes with"),
        (("--solver", "sketch"), "--solver goes with --method paper or gd"),
        (("--flush", "never"), "--flush goes with --method paper or gd"),
        (("--tol", 1e-3), "--tol goes with --method paper or gd"),
        (("--ridge", 0), "ridge must be a finite number > 0"),
        (("--groups", "a", "--validation", "time"), "exclude each other"),
        (("--weights", "denes"), "did you mean 'dense'"),
    ]:
        code, _, err = call("fit", tmp_path / "none.csv", *arguments, *bad)
        assert code == 2
        assert message in err


def test_bad_predict_input(fitted, tables, call, tmp_path):
    folder, data = fitted["regression"][0], tables["regression"]
    for arguments, message in [
        ((tmp_path, data, "--out", tmp_path / "p.csv"), "config.json is missing"),
        ((folder, tmp_path / "no.csv", "--out", tmp_path / "p.csv"), "there is no file"),
        ((folder, data, "--out", tmp_path), "is a folder"),
        ((folder, data, "--out", tmp_path / "no" / "p.csv"), "there is no folder"),
        ((folder, data, "--out", data), "is the input itself"),
    ]:
        code, out, err = call("predict", *arguments)
        assert (code, out) == (2, "")
        assert message in err
        assert err.count("\n") == 1
