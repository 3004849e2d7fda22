"""Features: unit rows, medians, categories, JSON; each rule and each error."""

import json

import numpy as np
import pytest

from subquad.errors import InvalidInput
from subquad.tables.columns import MAX_CATEGORIES, location_and_scale
from subquad.tables.prepare import Preparation
from subquad.tables.table import Table


def table(**columns):
    kept = {
        name: values if isinstance(values[0], str | None) else np.array(values, dtype=float)
        for name, values in columns.items()
    }
    return Table(kept, len(next(iter(kept.values()))), "data.csv")


def test_numbers_are_standardised_and_rows_have_unit_length():
    data = table(a=[1, 2, 3, 4], b=[10.0, -10.0, 0.0, 30.0])
    preparation = Preparation.fit(data)
    features = preparation.features(data)
    np.testing.assert_allclose(features.mean(axis=0), 0, atol=1e-15)
    np.testing.assert_allclose(features.std(axis=0), 1)
    rows = preparation.transform(data)
    assert rows.shape == (4, preparation.width) == (4, 3)
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1)
    np.testing.assert_allclose(rows[:, :2] / rows[:, 2:], features)


def test_missing_numbers_become_the_median_with_a_mark():
    data = table(a=[1, 2, np.nan, 9])
    preparation = Preparation.fit(data)
    features = preparation.features(data)
    assert preparation.columns[0].median == 2.0
    assert features[2, 0] == features[1, 0]
    np.testing.assert_array_equal(features[:, 1], [0, 0, 1, 0])


def test_missing_only_where_new_has_no_mark():
    preparation = Preparation.fit(table(a=[1, 2, 6]))
    features = preparation.features(table(a=[np.nan, 2]))
    assert features.shape == (2, 1)
    assert features[0] == features[1]


def test_categories():
    data = table(kind=["x", "y", None, "x", "y", "once"])
    preparation = Preparation.fit(data)
    assert preparation.columns[0].categories == ("x", "y")
    features = preparation.features(table(kind=["y", "unknown", None]))
    np.testing.assert_array_equal(features, [[0, 1, 0], [0, 0, 0], [0, 0, 1]])


def test_categories_are_capped_to_the_most_frequent():
    values = [f"c{k:03}" for k in range(MAX_CATEGORIES + 10) for _ in range(2)] + ["c059"]
    kept = Preparation.fit(table(kind=values)).columns[0].categories
    assert len(kept) == MAX_CATEGORIES
    assert "c059" in kept
    assert "c000" in kept
    assert "c058" not in kept


def test_columns_that_tell_nothing_are_dropped():
    data = table(
        a=[1, 2, 3],
        constant=[5, 5, 5],
        again=[5, 5, 5],
        empty=[np.nan] * 3,
        same=["x", "x", "x"],
        name=["p", "q", "r"],
        nothing=[None, None, None],
    )
    preparation = Preparation.fit(data)
    assert [column.name for column in preparation.columns] == ["a"]
    assert preparation.dropped == ("constant", "again", "empty", "same", "name", "nothing")
    assert preparation.repeated == ()
    np.testing.assert_array_equal(preparation.transform(data)[:, 0] < 0, [True, False, False])


def test_columns_that_repeat_others_are_dropped():
    data = table(
        a=[1, np.nan, 0], k=["x", "x", None], b=[1, np.nan, -0.0], c=[1, 2, 0], l=["x", "x", None]
    )
    preparation = Preparation.fit(data)
    assert [column.name for column in preparation.columns] == ["a", "k", "c"]
    assert preparation.repeated == (("b", "a"), ("l", "k"))
    assert preparation.notes() == ["columns that repeat others: b (a), l (k)"]
    again = Preparation.from_dict(json.loads(json.dumps(preparation.to_dict())))
    assert again == preparation
    short = table(a=[2], k=["x"], c=[3])
    np.testing.assert_array_equal(again.features(short), preparation.features(short))


def test_a_constant_with_gaps_keeps_its_mark():
    features = Preparation.fit(table(a=[5, np.nan, 5])).features(table(a=[5, np.nan]))
    np.testing.assert_array_equal(features, [[0], [1]])


@pytest.mark.parametrize("size", [1e-300, 1e-30, 1.0, 1e30, 1e300])
def test_scale_of_numbers_does_not_matter(size):
    plain = np.array([1.0, 2.0, 4.0, -3.0])
    a = Preparation.fit(table(a=plain)).transform(table(a=plain))
    b = Preparation.fit(table(a=plain * size)).transform(table(a=plain * size))
    np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-15)


def test_values_far_outside_stay_finite():
    rows = Preparation.fit(table(a=[0, 1e-200])).transform(table(a=[1e300, -1e300]))
    np.testing.assert_allclose(rows, [[1, 0], [-1, 0]], atol=1e-15)


def test_rounding_is_no_deviation():
    assert location_and_scale(np.array([0.1 + 0.2, 0.3]))[1] == 0
    assert location_and_scale(np.zeros(3)) == (0, 0)


def test_json_round_trip():
    data = table(a=[1, np.nan, 3], kind=["ü", None, "ü"], c=[1, 1, 1])
    preparation = Preparation.fit(data)
    again = Preparation.from_dict(json.loads(json.dumps(preparation.to_dict())))
    assert again == preparation
    assert again.text_columns == {"kind"}
    np.testing.assert_array_equal(again.transform(data), preparation.transform(data))


def test_no_feature_left():
    with pytest.raises(InvalidInput, match="no feature to learn from"):
        Preparation.fit(table(a=[1, 1], b=["p", "q"]))


def test_new_rows_that_do_not_fit():
    preparation = Preparation.fit(table(a=[1, 2], b=[3, 4], kind=["x", "x"], k=["y", None]))
    with pytest.raises(InvalidInput, match="lacks the columns 'b', 'k' that"):
        preparation.transform(table(a=[1]))
    with pytest.raises(InvalidInput, match=r"column 'a' held numbers.*row 1 holds 'many'"):
        preparation.transform(table(a=["1", "many"], b=[1, 2], k=["y", "y"]))
    with pytest.raises(InvalidInput, match="row 0 holds 'inf'"):
        preparation.transform(table(a=["inf"], b=[1], k=["y"]))
    with pytest.raises(InvalidInput, match="column 'k' held text"):
        preparation.transform(table(a=[1], b=[1], k=[1]))
    many = Preparation.fit(table(**{f"c{k}": [0, 1 + k] for k in range(9)}))
    with pytest.raises(InvalidInput, match="'c5' and 3 more"):
        many.transform(table(c0=[1]))


def test_new_rows_may_be_all_missing_or_numbers_as_text():
    preparation = Preparation.fit(table(a=[1, 2, 6], k=["y", None, "y"]))
    features = preparation.features(table(a=["2", None], k=[np.nan, np.nan]))
    np.testing.assert_array_equal(features[:, 1:], [[0, 1], [0, 1]])
    assert features[0, 0] == features[1, 0]


NUMBER = {"kind": "number", "name": "a", "median": 0, "mean": 0.0, "scale": 1.0, "missing": False}
TEXT = {"kind": "text", "name": "a", "categories": ["x"], "missing": False}


@pytest.mark.parametrize(
    ("stored", "message"),
    [
        ({}, "preparation.columns is missing"),
        ({"columns": [], "dropped": [], "repeated": []}, "columns is empty"),
        ({"columns": 3, "dropped": [], "repeated": []}, "columns must be a list"),
        ({"columns": [NUMBER], "dropped": [1], "repeated": []}, "dropped must hold names"),
        ({"columns": [NUMBER], "dropped": [], "repeated": [], "code": "x"}, "unknown key 'code'"),
        ({"columns": [NUMBER], "dropped": [], "repeated": ["ab"]}, "must hold pairs of names"),
        ({"columns": [{**TEXT, "categories": []}], "dropped": [], "repeated": []}, "is empty"),
        ({"columns": ["x"], "dropped": [], "repeated": []}, r"columns\[0\] must be an object"),
        (
            {"columns": [{**NUMBER, "kind": "zip"}], "dropped": [], "repeated": []},
            "must be one of date",
        ),
        ({"columns": [{**NUMBER, "scale": -1.0}], "dropped": [], "repeated": []}, "scale is -1"),
        (
            {"columns": [{**NUMBER, "scale": float("inf")}], "dropped": [], "repeated": []},
            "must be a finite",
        ),
        (
            {"columns": [{**NUMBER, "mean": 10**400}], "dropped": [], "repeated": []},
            "must be a finite",
        ),
        (
            {"columns": [{**NUMBER, "mean": True}], "dropped": [], "repeated": []},
            "must be a finite number",
        ),
        (
            {"columns": [{**NUMBER, "missing": 1}], "dropped": [], "repeated": []},
            "must be true or false",
        ),
        (
            {"columns": [{**NUMBER, "extra": 1}], "dropped": [], "repeated": []},
            "unknown key 'extra'",
        ),
        (
            {"columns": [{**TEXT, "categories": ["x", "x"]}], "dropped": [], "repeated": []},
            "different names",
        ),
        (
            {"columns": [{**TEXT, "categories": [1]}], "dropped": [], "repeated": []},
            "different names",
        ),
    ],
)
def test_damaged_json(stored, message):
    with pytest.raises(InvalidInput, match=message):
        Preparation.from_dict(stored)
