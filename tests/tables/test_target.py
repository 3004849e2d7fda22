"""Targets: the rule for the task, the way there and back, probabilities, errors."""

import json

import numpy as np
import pytest

from subquad.errors import InvalidInput
from subquad.tables.table import Table
from subquad.tables.target import Target, guess_task, nearest_distribution


def table(values):
    column = values if isinstance(values[0], str | None) else np.array(values, dtype=float)
    return Table({"y": column, "x": np.arange(len(values), dtype=float)}, len(values), "data.csv")


def fitted(values, task=None):
    return Target.fit(table(values), "y", task)


@pytest.mark.parametrize(
    ("values", "task"),
    [
        (["a", "b", "a"], "classification"),
        ([0, 1] * 3, "classification"),
        ([0, 1, 2, 3, 4], "regression"),
        ([0.5, 1] * 6, "regression"),
        (list(range(11)) * 5, "regression"),
        (list(range(10)) * 3, "classification"),
    ],
)
def test_guessed_task(values, task):
    assert guess_task(table(values).columns["y"]) == task
    assert fitted(values).task == task


def test_regression_there_and_back():
    values = np.array([3.0, 5.0, 10.0])
    target = fitted(values)
    codes = target.encode(target.labels(table(values)))
    np.testing.assert_allclose([codes.mean(), codes.std()], [0, 1], atol=1e-15)
    np.testing.assert_allclose(target.decode(codes), values)
    assert target.score(values, values) == 1
    np.testing.assert_allclose(target.score(values, np.full(3, values.mean())), 0, atol=1e-15)


@pytest.mark.parametrize("size", [1e-300, 1e300])
def test_targets_of_any_size(size):
    values = np.array([1.0, 2.0, 4.0]) * size
    target = fitted(values)
    np.testing.assert_allclose(target.decode(target.encode(values)), values)
    assert target.score(values, values) == 1


def test_two_classes_there_and_back():
    target = fitted(["no", "yes", "no"])
    assert target.outputs == 1
    labels = target.labels(table(["no", "yes", "no"]))
    codes = target.encode(labels)
    np.testing.assert_array_equal(codes, [-1, 1, -1])
    assert target.decode(codes).tolist() == ["no", "yes", "no"]
    shares = target.probabilities(np.array([-2.0, 0.0, 0.5]))
    np.testing.assert_allclose(shares, [[1, 0], [0.5, 0.5], [0.25, 0.75]])


def test_many_classes_there_and_back():
    values = [10, 9, 2, 2, 9, 10, 10]
    target = fitted(values, "classification")
    assert target.classes == ("2", "9", "10")
    codes = target.encode(target.labels(table(values)))
    assert codes.shape == (7, 3)
    np.testing.assert_array_equal(codes.sum(axis=1), -1)
    assert target.decode(codes).tolist() == ["10", "9", "2", "2", "9", "10", "10"]
    assert target.score(target.labels(table(values)), target.decode(codes)) == 1


def test_classes_that_are_not_whole():
    assert fitted([0.5, 1.5, 0.5, 1.5], "classification").classes == ("0.5", "1.5")


def test_probabilities_are_the_nearest_distribution():
    rng = np.random.default_rng(0)
    estimates = rng.normal(size=(200, 4))
    shares = nearest_distribution(estimates)
    assert (shares >= 0).all()
    np.testing.assert_allclose(shares.sum(axis=1), 1)
    np.testing.assert_array_equal(shares.argmax(axis=1), estimates.argmax(axis=1))
    distance = np.linalg.norm(shares - estimates, axis=1)
    for other in rng.dirichlet(np.ones(4), size=50):
        assert (distance <= np.linalg.norm(other - estimates, axis=1) + 1e-12).all()
    already = rng.dirichlet(np.ones(4), size=5)
    np.testing.assert_allclose(nearest_distribution(already), already)


@pytest.mark.parametrize(
    "values", [[1.0, 2.5, 3.0], ["a", "b", "a"], ["ü", "ß", "z", "z", "ß", "ü"]]
)
def test_json_round_trip(values):
    target = fitted(values)
    assert Target.from_dict(json.loads(json.dumps(target.to_dict()))) == target


@pytest.mark.parametrize(
    ("values", "task", "message"),
    [
        ([1.0], None, "has one row"),
        ([1, np.nan, 2], None, "target 'y' is missing in 1 of 3 rows, first at row 1"),
        (["a", None], None, "is missing in 1 of 2 rows"),
        ([2, 2, 2], None, "target 'y' is 2 in every row"),
        ([2, 2, 2], "classification", "has one class, '2'"),
        (["a", "a"], None, "has one class, 'a'"),
        (["a", "b"], "regression", "is text .'a'.: regression needs numbers"),
        (list(range(9)), "classification", "has 9 classes in 9 rows"),
        ([1, 2], "ranking", "unknown task 'ranking'"),
        ([1, 2], "regresion", "did you mean 'regression'"),
    ],
)
def test_targets_that_cannot_be_learned(values, task, message):
    with pytest.raises(InvalidInput, match=message):
        fitted(values, task)


def test_unknown_target():
    with pytest.raises(InvalidInput, match="unknown column 'z'"):
        Target.fit(table([1, 2]), "z")


STORED = {"name": "y", "task": "regression", "classes": [], "mean": 0.0, "scale": 1.0}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"task": "ranking"}, "must be 'regression' without or"),
        ({"task": "classification"}, "with 0 classes"),
        ({"classes": ["a", "b"]}, "with 2 classes"),
        ({"task": "classification", "classes": ["a", "a"]}, "different names"),
        ({"task": "classification", "classes": [1, 2]}, "different names"),
        ({"scale": 0.0}, "must be positive"),
        ({"mean": "x"}, "must be a finite number"),
        ({"extra": 1}, "unknown key"),
    ],
)
def test_damaged_json(change, message):
    with pytest.raises(InvalidInput, match=message):
        Target.from_dict({**STORED, **change})
