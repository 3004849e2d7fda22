"""Dates: which text is one, what becomes of it, and what new rows may hold."""

import datetime
import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

from subquad.errors import InvalidInput
from subquad.tables.dates import CYCLES, DateColumn, are_dates, parse_date
from subquad.tables.prepare import Preparation
from subquad.tables.read import read_table
from subquad.tables.table import Table


def table(*values):
    return Table({"day": list(values)}, len(values), "data.csv")


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("1970-01-01", datetime.datetime(1970, 1, 1)),
        ("2026-11-20", datetime.datetime(2026, 11, 20)),
        ("2026-11-20 17:30", datetime.datetime(2026, 11, 20, 17, 30)),
        ("1969-07-20T20:17:40.25Z", datetime.datetime(1969, 7, 20, 20, 17, 40, 250000)),
        ("2024-02-29 00:00:00.000000000", datetime.datetime(2024, 2, 29)),
        ("2024-02-29 01:30-0100", datetime.datetime(2024, 2, 29, 2, 30)),
        ("2024-02-29 01:30+02:30", datetime.datetime(2024, 2, 28, 23, 0)),
    ],
)
def test_days_are_those_of_the_calendar(text, moment):
    expected = (moment - datetime.datetime(1970, 1, 1)).total_seconds() / 86400
    assert parse_date(text)[0] == pytest.approx(expected, abs=1e-10)


@pytest.mark.parametrize(
    "text",
    ["2023-02-29", "2023-13-01", "20230101", "2023-1-1", "2023-W01-1", "2023-01-01 24:00", "x",
     "2023-01-01 12:60", "2023-01-01T", "٢٠٢٣-01-01", "2023-01-01 12", "0000-01-01"],
)  # fmt: skip
def test_what_is_no_date(text):
    with pytest.raises(ValueError, match=r"\w"):
        parse_date(text)
    assert not are_dates(["2023-01-01", text])


def test_a_column_is_dates_where_all_cells_are():
    assert are_dates(["2023-01-01", None])
    assert not are_dates([None, None])
    assert isinstance(Preparation.fit(table("2023-01-01", "2023-01-02")).columns[0], DateColumn)


def test_cycles_are_those_that_vary():
    def cycles(*values):
        return DateColumn.fit("day", values).cycles

    assert cycles("2023-01-01", "2023-01-02") == ("week",)
    assert cycles("2023-01-01", "2023-03-01") == ("year", "week")
    assert cycles("2023-01-01 10:00", "2023-01-01 11:00", None) == ("day",)
    assert cycles("2023-01-01", "2023-01-01", None) == ()


def test_features():
    data = table("2023-01-02", "2023-01-09 12:00", "2023-04-05 06:00", None)
    column = DateColumn.fit("day", data.columns["day"])
    assert column.cycles == tuple(CYCLES)
    features = column.transform(data)
    assert features.shape == (4, column.width) == (4, 8)
    assert features[3, 0] == features[1, 0]  # the median
    np.testing.assert_array_equal(features[:, 1], [0, 0, 0, 1])
    np.testing.assert_array_equal(features[3, 2:], 0)
    np.testing.assert_allclose(np.square(features[:3, 2:]).sum(axis=1), 3)
    # Half a day further in the week, and half a turn in the day.
    np.testing.assert_allclose(features[0, 6:], -features[1, 6:], atol=1e-9)
    again = column.transform(table("2030-01-07"))  # a Monday, as the first
    np.testing.assert_allclose(again[0, 4:], features[0, 4:], atol=1e-9)


def test_json_round_trip_and_new_rows():
    data = table("2023-01-01", None, "2023-05-01")
    preparation = Preparation.fit(data)
    again = Preparation.from_dict(json.loads(json.dumps(preparation.to_dict())))
    assert again == preparation
    assert again.text_columns == {"day"}
    np.testing.assert_array_equal(again.features(data), preparation.features(data))
    missing = Table({"day": np.array([np.nan])}, 1)
    np.testing.assert_array_equal(again.features(missing), again.features(table(None)))
    with pytest.raises(InvalidInput, match=r"held dates when .* row 1 holds '5\.1\.2023'"):
        again.features(table("2023-01-01", "5.1.2023"))


def test_a_constant_date_tells_nothing():
    data = Table({"day": ["2023-01-01"] * 2, "x": np.array([1.0, 2.0])}, 2)
    assert Preparation.fit(data).dropped == ("day",)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"cycles": ["day", "week"]}, "cycles must be some of year, week, day in this order"),
        ({"cycles": [{}]}, "cycles must be some of"),
        ({"days": 3}, "days must be an object"),
        ({"code": 3}, "unknown key 'code'"),
    ],
)
def test_damaged_json(change, message):
    stored = Preparation.fit(table("2023-01-01", "2023-01-02")).to_dict()
    stored["columns"][0] |= change
    with pytest.raises(InvalidInput, match=message):
        Preparation.from_dict(stored)


def test_files_of_dates(tmp_path):
    days = [datetime.date(2023, 1, 1), None, datetime.date(2023, 3, 1)]
    times = [datetime.datetime(2023, 1, 1, 5), datetime.datetime(2023, 2, 1, 17), None]
    zoned = pa.array(times, pa.timestamp("us", tz="Europe/Rome"))
    stored = pa.table({"day": pa.array(days), "time": times, "zoned": zoned})
    pyarrow.parquet.write_table(stored, tmp_path / "data.parquet")
    text = np.array(["2023-01-01", "NaT", "2023-03-01"], dtype="datetime64[D]")
    np.savez(tmp_path / "data.npz", day=text)
    for name, expected in (("data.parquet", 3), ("data.npz", 1)):
        columns = Preparation.fit(read_table(tmp_path / name)).columns
        assert [type(column) for column in columns] == [DateColumn] * expected
