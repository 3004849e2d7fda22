"""Run folders read back to the same predictions; damaged ones are refused by name."""

import csv
import json
import os

import numpy as np
import pytest
import safetensors.torch

from subquad.errors import InvalidInput
from subquad.runs.folder import CONFIG, METRICS, MODEL, REPORT, Run, claim_folder
from subquad.runs.predictions import write_predictions


def change(folder, **fields):
    path = folder / CONFIG
    stored = json.loads(path.read_text())
    path.write_text(json.dumps({**stored, **fields}))


KINDS = ["network", "ensemble"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("task", ["regression", "classification"])
def test_predictions_survive_the_folder(runs, kind, task):
    run, fitted, table = runs[kind, task]
    assert sorted(os.listdir(run.folder)) == sorted([CONFIG, METRICS, MODEL, REPORT])
    scores = fitted.model.scores(fitted.data.features)
    again = Run.load(run.folder)
    assert again.target.task == task
    loaded = again.load_model()
    found = loaded.scores(again.preparation.features(table.without("y")))
    np.testing.assert_allclose(found, scores, rtol=1e-12, atol=1e-12)
    prediction = again.predict(table)
    if task == "regression":
        np.testing.assert_allclose(prediction.values, run.target.decode(scores), rtol=1e-12)
        assert prediction.probabilities is None
    else:
        assert prediction.values.tolist() == run.target.decode(scores).tolist()
        np.testing.assert_allclose(prediction.probabilities.sum(axis=1), 1)
        best = prediction.probabilities.argmax(axis=1)
        assert [prediction.classes[k] for k in best] == prediction.values.tolist()
        assert prediction.classes == ("0", "1", "2")


def test_deviations_survive_the_folder(runs):
    run, fitted, table = runs["ensemble", "regression"]
    features = fitted.data.features
    prediction = run.predict(table, std=True, interval=0.8)
    assert list(prediction.more) == ["std", "lower", "upper"]
    std = fitted.model.deviation(features) * run.target.scale
    np.testing.assert_allclose(prediction.more["std"], std, rtol=1e-9)
    reach = fitted.model.reach(features, 0.8) * run.target.scale
    ends = (
        prediction.more["upper"] - prediction.values,
        prediction.values - prediction.more["lower"],
    )
    for end in ends:
        np.testing.assert_allclose(end, reach, rtol=1e-9)
    with pytest.raises(InvalidInput, match="go with regression"):
        runs["ensemble", "classification"][0].predict(table, std=True)
    for asked in ({"std": True}, {"interval": 0.5}):
        with pytest.raises(InvalidInput, match="fit with --method exact"):
            runs["network", "regression"][0].predict(table, **asked)


def test_unknown_categories_and_missing_numbers_predict(runs):
    run, _, table = runs["network", "regression"]
    row = table.take(np.array([0]))
    columns = {**row.columns, "size": np.array([np.nan]), "colour": ["mauve"]}
    values = run.predict(type(table)(columns, 1)).values
    assert np.isfinite(values).all()


@pytest.mark.parametrize("kind", KINDS)
def test_summary(runs, kind):
    for task in ("regression", "classification"):
        summary = runs[kind, task][0].summary
        assert summary["task"] == task
        assert summary["status"] == "converged"
        assert summary["train_score"] > (0.999 if kind == "network" else 0.7)
        assert set(summary["baselines"]) == {"mean", "ridge"}
        chosen = {"depth", "shift", "ridge", "layers", "weights", "width"}
        assert chosen <= set(summary["chosen"])
    assert runs[kind, "regression"][0].summary["baselines"]["mean"] < 0
    _, fitted, _ = runs[kind, "classification"]
    commonest = max(np.unique(fitted.data.labels, return_counts=True)[1]) / 40
    assert runs[kind, "classification"][0].summary["baselines"]["mean"] == commonest
    assert runs[kind, "regression"][0].summary["baselines"]["ridge"] > 0.5


def test_features_and_members_of_an_ensemble(runs):
    summary = runs["ensemble", "regression"][0].summary
    names = [feature["name"] for feature in summary["features"]]
    assert sorted(names) == sorted([f"other{k}" for k in range(6)] + ["size", "weight", "colour"])
    assert names[0] in ("size", "colour", "weight")
    shares = [feature["share"] for feature in summary["features"]]
    assert shares == sorted(shares, reverse=True)
    assert sum(shares) == pytest.approx(1)
    members = summary["members"]
    assert 1 <= len(members) <= 2
    assert sum(member["weight"] for member in members) == pytest.approx(1)
    assert all(member["width"] == 128 for member in members)
    network = runs["network", "regression"][0].summary
    assert network["features"] == network["members"] == []


def test_metrics(runs):
    records = runs["network", "regression"][0].metrics()
    assert records[0]["kind"] == "start"
    assert records[0]["residual"] == pytest.approx(1, abs=1e-5)
    steps = [r for r in records if r["kind"] == "iteration"]
    assert [r["iteration"] for r in steps] == list(range(1, len(steps) + 1))
    assert steps[-1]["residual"] <= 1e-6
    assert all(r["flops"] > 0 and len(r["firing"]) == 2 for r in steps)
    assert records[-1]["kind"] == "predictions"


def test_metrics_of_an_ensemble(runs):
    run = runs["ensemble", "regression"][0]
    records = run.metrics()
    assert [records[0]["kind"], records[-1]["kind"]] == ["start", "predictions"]
    assert any(r["kind"] == "stage" and "training" in r["stage"] for r in records)
    members = [r for r in records if r["kind"] == "member"]
    assert len(members) == len(run.summary["members"])
    for member in members:
        assert member["residuals"][0] == pytest.approx(1)
        assert len(member["residuals"]) == member["iterations"] + 1
        assert {"activation", "depth", "ridge", "weight", "seconds"} <= set(member)


def test_the_model_is_as_readable_as_the_rest(runs):
    folder = runs["network", "regression"][0].folder
    modes = {(folder / name).stat().st_mode for name in ("model.safetensors", "config.json")}
    assert len(modes) == 1


def test_prediction_file(runs, tmp_path):
    run, _, table = runs["network", "classification"]
    prediction = run.predict(table)
    write_predictions(tmp_path / "p.csv", prediction)
    with (tmp_path / "p.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == ["row", "prediction", "proba_0", "proba_1", "proba_2"]
    assert [row["row"] for row in rows] == [str(i) for i in range(40)]
    assert [row["prediction"] for row in rows] == prediction.values.tolist()
    assert float(rows[3]["proba_1"]) == prediction.probabilities[3, 1]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"format": "zip"}, "does not describe a run"),
        ({"version": 1}, "version is 1, this subquad reads 2"),
        ({"version": "1"}, "version must be a whole number"),
        ({"code": "import os"}, "unknown key 'code'"),
        ({"settings": 3}, "settings must be an object"),
        ({"created": None}, "created must be text"),
        ({"preparation": {}}, "preparation.columns is missing"),
        ({"kind": "zip"}, "unknown kind of model 'zip'"),
        ({"target": {}}, "target.task is missing"),
    ],
)
def test_damaged_config(folder, fields, message):
    change(folder, **fields)
    with pytest.raises(InvalidInput, match=message):
        Run.load(folder)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"{", "is not JSON"),
        (b"[" * 100_000, "is not JSON"),
        (b"[]", "must hold an object"),
        (b"\xff", "is not UTF-8"),
    ],
)
def test_config_that_is_no_json(folder, content, message):
    (folder / CONFIG).write_bytes(content)
    with pytest.raises(InvalidInput, match=message):
        Run.load(folder)


def test_missing_parts(folder, tmp_path, runs):
    table = runs["network", "regression"][2]
    with pytest.raises(InvalidInput, match="there is no run folder"):
        Run.load(tmp_path / "none")
    with pytest.raises(InvalidInput, match=r"config\.json is missing"):
        Run.load(tmp_path)
    run = Run.load(folder)
    (folder / METRICS).unlink()
    with pytest.raises(InvalidInput, match=r"metrics\.jsonl is missing"):
        run.metrics()
    (folder / METRICS).mkdir()
    with pytest.raises(InvalidInput, match=r"metrics\.jsonl cannot be read"):
        run.metrics()
    (folder / MODEL).unlink()
    with pytest.raises(InvalidInput, match=r"model\.safetensors is missing"):
        run.predict(table)


def redigest(folder):
    import hashlib

    change(folder, model_sha256=hashlib.sha256((folder / MODEL).read_bytes()).hexdigest())


def test_damaged_model(folder, runs):
    table = runs["network", "regression"][2]
    tensors = safetensors.torch.load_file(folder / MODEL)
    content = (folder / MODEL).read_bytes()
    (folder / MODEL).write_bytes(content[:-1])
    with pytest.raises(InvalidInput, match=r"is not the model that config\.json describes"):
        Run.load(folder).predict(table)
    redigest(folder)
    with pytest.raises(InvalidInput, match="fit again"):
        Run.load(folder).predict(table)
    name = next(iter(tensors))
    for damaged in ({}, {**tensors, name: tensors[name][..., :-1].contiguous()}):
        safetensors.torch.save_file(damaged, folder / MODEL)
        redigest(folder)
        with pytest.raises(InvalidInput):
            Run.load(folder).predict(table)


def test_model_config_of_another_model(folder, runs):
    for model in ({}, {"net": {}, "centred": True}, {"net": 3, "centred": 1}):
        change(folder, model=model)
        with pytest.raises(InvalidInput):
            Run.load(folder).predict(runs["network", "regression"][2])


def test_claiming_a_folder(tmp_path, folder):
    assert claim_folder(tmp_path / "new" / "deep").is_dir()
    assert os.listdir(tmp_path / "new" / "deep") == []
    assert claim_folder(folder) == folder
    (tmp_path / "file").touch()
    with pytest.raises(InvalidInput, match="is a file"):
        claim_folder(tmp_path / "file")
    with pytest.raises(InvalidInput, match="is not empty and not a run folder"):
        claim_folder(tmp_path)
    with pytest.raises(InvalidInput, match="cannot be written to"):
        claim_folder(tmp_path / "file" / "below")
