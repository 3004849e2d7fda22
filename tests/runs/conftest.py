"""One small regression run and one small classification run, made once."""

import shutil

import numpy as np
import pytest

from subquad.runs.fit import FitSettings, Prepared, left_out, summarise, train_on, write_run
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


def make_run(folder, classes):
    table = make_table(classes)
    data = Prepared.of(table, "y")
    fitted = train_on(data, FitSettings(width=512, depth=2))
    summary = {"out": str(folder), **summarise(fitted)}
    return write_run(folder, fitted, summary, left_out(fitted)), fitted, table


@pytest.fixture(scope="session")
def runs(tmp_path_factory):
    base = tmp_path_factory.mktemp("runs")
    made = {}
    for name in ("regression", "classification"):
        (base / name).mkdir()
        made[name] = make_run(base / name, name == "classification")
    return made


@pytest.fixture
def folder(runs, tmp_path):
    """A copy of the regression run that a test may damage."""
    return shutil.copytree(runs["regression"][0].folder, tmp_path / "run")
