"""Small runs of either kind of model, for regression and for classes, made once."""

import shutil

import numpy as np
import pytest

from subquad.runs.ensemble import EnsembleSettings
from subquad.runs.fit import left_out, summarise, write_run
from subquad.runs.model import Prepared
from subquad.runs.network import NetworkSettings
from subquad.tables.table import Table


def make_table(classes):
    rng = np.random.default_rng(0)
    size, weight = rng.normal(size=(2, 40))
    colour = [["red", "green", None][k] for k in rng.integers(0, 3, 40)]
    value = size + 0.5 * weight + np.array([c == "red" for c in colour])
    target = np.digitize(value, [0.0, 1.0]).astype(float) if classes else value
    size = np.where(rng.random(40) < 0.1, np.nan, size)
    # Enough columns that no two rows are close: a narrow network then fits them in few steps.
    others = {f"other{k}": rng.normal(size=40) for k in range(6)}
    columns = {"size": size, "weight": weight, "colour": colour, **others, "y": target}
    return Table(columns, 40, "made.csv")


SETTINGS = {
    "network": NetworkSettings(width=512, depth=2),
    "ensemble": EnsembleSettings(width=128, members=2, encoding="values"),
}


def make_run(folder, kind, classes):
    table = make_table(classes)
    data = Prepared.of(table, "y")
    fitted = SETTINGS[kind].train(data)
    summary = {"out": str(folder), **summarise(fitted)}
    return write_run(folder, fitted, summary, left_out(fitted)), fitted, table


@pytest.fixture(scope="session")
def runs(tmp_path_factory):
    """Runs, fits and tables by kind of model and task."""
    base = tmp_path_factory.mktemp("runs")
    made = {}
    for kind in SETTINGS:
        for task in ("regression", "classification"):
            folder = base / f"{kind}-{task}"
            folder.mkdir()
            made[kind, task] = make_run(folder, kind, task == "classification")
    return made


@pytest.fixture
def folder(runs, tmp_path):
    """A copy of the network's regression run that a test may damage."""
    return shutil.copytree(runs["network", "regression"][0].folder, tmp_path / "run")


@pytest.fixture
def ensemble_folder(runs, tmp_path):
    """A copy of the ensemble's classification run that a test may damage."""
    return shutil.copytree(runs["ensemble", "classification"][0].folder, tmp_path / "ensemble")
