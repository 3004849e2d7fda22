"""`fit` and `predict` as they are without options: ensembles on tables as they come."""

import csv
import json

import numpy as np
import pytest
import safetensors.torch

from subquad.runs.folder import Run
from subquad.tables.read import read_table

QUICK = ("--width", 128, "--members", 1, "--encoding", "plain", "--target", "y")


def write(path, **columns):
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))
    return path


def read(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


@pytest.fixture(scope="module")
def mixed(tmp_path_factory):
    """Numbers with gaps, categories, dates, constant and repeated columns."""
    rng = np.random.default_rng(0)
    n = 60
    size, noise = rng.normal(size=(2, n))
    colour = np.array(["red", "green", "blue"])[rng.integers(0, 3, n)]
    day = rng.integers(0, 700, n)
    y = size + 2 * (colour == "red") + day / 200 + 0.1 * noise
    shown = [f"{v:.4f}" if k % 7 else "" for k, v in enumerate(size)]
    return write(
        tmp_path_factory.mktemp("mixed") / "mixed.csv",
        size=shown,
        colour=colour,
        day=np.datetime64("2020-01-01") + day,
        other=np.round(noise[::-1], 4),
        again=shown,
        always=["x"] * n,
        block=np.arange(n) // 6,
        y=np.round(y, 5),
    )


@pytest.fixture(scope="module")
def fitted(start, mixed, tmp_path_factory):
    """Fitted by a process of its own: (folder, result, stderr)."""
    out = tmp_path_factory.mktemp("fitted") / "run"
    done = start("fit", mixed, *QUICK, "--out", out, "--json")
    assert done.returncode == 0, done.stderr
    return out, json.loads(done.stdout), done.stderr


def test_result_names_baselines_and_features(fitted):
    _, result, err = fitted
    assert result["task"] == "regression"
    assert result["status"] == "converged"
    assert result["loo_score"] > result["baselines"]["mean"]
    assert result["loo_score"] > 0.5
    names = [feature["name"] for feature in result["features"]]
    assert set(names) == {"size", "colour", "day", "other", "block"}
    assert set(names[:3]) == {"size", "colour", "day"}
    assert sum(feature["share"] for feature in result["features"]) == pytest.approx(1)
    assert [member["width"] for member in result["members"]] == [128]
    chosen = result["chosen"]
    assert {"depth", "shift", "ridge", "layers", "weights", "width"} <= set(chosen)
    assert "columns that tell nothing: always" in err
    assert "columns that repeat others: again (size)" in err
    assert "training" in err


def test_predictions_with_deviation_and_interval(fitted, mixed, call, tmp_path):
    folder, out = fitted[0], tmp_path / "p.csv"
    code, _, err = call("predict", folder, mixed, "--out", out, "--std", "--interval", 0.9)
    assert (code, err) == (0, "")
    rows = read(out)
    assert list(rows[0]) == ["row", "prediction", "std", "lower", "upper"]
    truth = np.array([float(row["y"]) for row in read(mixed)])
    found = {name: np.array([float(row[name]) for row in rows]) for name in rows[0]}
    assert (found["std"] > 0).all()
    inside = (found["lower"] <= truth) & (truth <= found["upper"])
    assert inside.mean() > 0.85
    prediction = Run.load(folder).predict(read_table(mixed, text={"colour"}))
    np.testing.assert_allclose(found["prediction"], prediction.values, rtol=1e-12)


def test_new_rows_lack_what_was_dropped_and_hold_what_was_never_seen(fitted, call, tmp_path):
    new = write(
        tmp_path / "new.csv",
        size=["", 1.5],
        colour=["mauve", ""],
        day=["2031-05-05", ""],
        other=["", 0],
        block=[99, ""],
    )
    out = tmp_path / "p.csv"
    assert call("predict", fitted[0], new, "--out", out, "--std")[0] == 0
    assert np.isfinite([float(row["std"]) for row in read(out)]).all()


def test_words_for_people(mixed, call, tmp_path):
    out = tmp_path / "run"
    code, shown, err = call("fit", mixed, *QUICK, "--out", out, "-q", "--groups", "block")
    assert (code, err) == (0, "")
    assert "R² of rows left out with their group" in shown
    assert "ridge regression" in shown
    assert "what mattered: " in shown
    assert "100 %: " in shown
    code, _, err = call("predict", out, mixed, "--out", tmp_path / "p.csv")
    assert code == 0
    assert "block" not in [c.name for c in Run.load(out).preparation.columns]


def test_time(mixed, call, tmp_path):
    code, shown, _ = call(
        "fit", mixed, *QUICK, "--out", tmp_path / "run", "-q", "--validation", "time", "--json"
    )
    assert code == 0
    result = json.loads(shown)
    assert np.isfinite([result["loo_score"], *result["baselines"].values()]).all()
    page = (tmp_path / "run" / "report.html").read_text()
    assert "predicted from the rows before" in page


def test_rare_classes_with_names(call, tmp_path):
    rng = np.random.default_rng(1)
    x, z = rng.normal(size=(2, 80))
    labels = np.where(x + 0.8 * z > 1.3, "rare, and odd", "common")
    data = write(tmp_path / "data.csv", x=x, z=z, w=rng.normal(size=80), y=labels)
    found = {}
    for name, options in (("plain", ()), ("balanced", ("--class-weight", "balanced"))):
        run, out = tmp_path / name, tmp_path / f"{name}.csv"
        code, shown, _ = call("fit", data, *QUICK, "--out", run, "--json", "-q", *options)
        assert code == 0
        assert json.loads(shown)["task"] == "classification"
        assert call("predict", run, data, "--out", out)[0] == 0
        rows = read(out)
        assert list(rows[0]) == ["row", "prediction", "proba_common", "proba_rare, and odd"]
        shares = np.array([[float(v) for v in list(row.values())[2:]] for row in rows])
        np.testing.assert_allclose(shares.sum(axis=1), 1)
        best = np.array(["common", "rare, and odd"])[shares.argmax(axis=1)]
        assert best.tolist() == [row["prediction"] for row in rows]
        found[name] = shares[:, 1].mean()
    assert found["balanced"] > found["plain"]
    code, _, err = call("predict", run, data, "--out", out, "--std")
    assert (code, err.count("\n")) == (2, 1)
    assert "--std and --interval go with regression" in err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--groups", "blok"), "unknown column 'blok'"),
        (("--groups", "y"), "is the target"),
        (("--groups", "always"), "is the same in every row"),
        (("--groups", "size"), "is missing in 9 of 60 rows"),
        (("--class-weight", "balanced"), "goes with classes"),
        (("--max-memory", "1MB"), "raise max_memory"),
        (("--metric", "learnt"), "did you mean 'learned'"),
        (("--interval", 2), "No such option"),
    ],
)
def test_bad_input(mixed, call, tmp_path, options, message):
    code, out, err = call("fit", mixed, *QUICK, "--out", tmp_path / "run", "-q", *options)
    assert (code, out) == (2, "")
    assert message in err
    assert err.count("\n") == 1
    assert not (tmp_path / "run").exists(), "nothing is left behind"


def test_std_of_one_network_is_refused(mixed, call, tmp_path):
    run = tmp_path / "run"
    options = ("--method", "paper", "--width", 256, "--weights", "dense", "--max-iter", 2)
    assert call("fit", mixed, "--target", "y", "--out", run, "-q", *options)[0] == 0
    code, _, err = call("predict", run, mixed, "--out", tmp_path / "p.csv", "--std")
    assert (code, err.count("\n")) == (2, 1)
    assert "fit with --method exact" in err
    code, _, err = call("predict", run, mixed, "--out", tmp_path / "p.csv", "--interval", 1.5)
    assert code == 2
    assert "must lie between 0 and 1" in err


def test_a_changed_run_is_one_line(fitted, mixed, call, tmp_path):
    import hashlib
    import shutil

    folder = shutil.copytree(fitted[0], tmp_path / "run")
    tensors = safetensors.torch.load_file(folder / "model.safetensors")
    del tensors["X"]
    safetensors.torch.save_file(tensors, folder / "model.safetensors")
    config = json.loads((folder / "config.json").read_text())
    digest = hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest()
    config |= {"model_sha256": digest, "tensors": sorted(tensors)}
    (folder / "config.json").write_text(json.dumps(config))
    code, out, err = call("predict", folder, mixed, "--out", tmp_path / "p.csv")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "tensor 'X' is missing" in err
