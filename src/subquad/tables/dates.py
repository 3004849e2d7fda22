"""Dates as numbers: how long ago, and where in the year, the week and the day.

A column of text is one of dates where every cell that is not missing is an ISO date, with or
without a time: 2026-11-20, 2026-11-20 17:30, 2026-11-20T17:30:00.5+01:00. It becomes days since
1970-01-01, standardised as any number, and for each cycle (year, week, day) in which the dates
differ the sine and cosine of their place in it, by the clock that the cell shows. A missing date
is the median of the days, beside a 0/1 column that says so, and at the middle of every cycle.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from subquad.errors import InvalidInput
from subquad.tables.columns import NumberColumn, as_text
from subquad.tables.fields import field, known_only
from subquad.tables.table import Numbers, Table

CYCLES = {"year": 365.2425, "week": 7.0, "day": 1.0}
"""Lengths in days."""
SEASON = 30.0
"""Days that dates must span before their place in the year tells more than the days do."""

_EPOCH = datetime.date(1970, 1, 1).toordinal()
_ISO = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)"
    r"(?:[T ](\d\d):(\d\d)(?::(\d\d(?:\.\d{1,9})?))?(Z|[+-]\d\d:?\d\d)?)?",
    re.ASCII,
)


def parse_date(value: str) -> tuple[float, float]:
    """Return days since 1970-01-01 in UTC, and by the clock that the text shows.

    Raises:
        ValueError: where the text is no ISO date.

    >>> parse_date("1970-01-02T12:00+06:00")
    (1.25, 1.5)
    """
    found = _ISO.fullmatch(value)
    if found is None:
        raise ValueError(value)
    year, month, day, hour, minute, second, zone = found.groups()
    days = datetime.date(int(year), int(month), int(day)).toordinal() - _EPOCH
    hours, minutes, seconds = int(hour or 0), int(minute or 0), float(second or 0)
    if hours > 23 or minutes > 59 or seconds >= 61:  # a leap second is a second
        raise ValueError(value)
    shown = days + (hours + (minutes + seconds / 60) / 60) / 24
    if zone is None or zone == "Z":
        return shown, shown
    ahead = (int(zone[1:3]) + int(zone[-2:]) / 60) / 24
    return shown - ahead if zone[0] == "+" else shown + ahead, shown


def are_dates(values: Sequence[str | None]) -> bool:
    """Whether every value that is there is an ISO date, and there is one."""
    given = {value for value in values if value is not None}
    try:
        for value in given:
            parse_date(value)
    except ValueError:
        return False
    return bool(given)


@dataclass(frozen=True)
class DateColumn:
    """How one column of dates is prepared."""

    kind: ClassVar[str] = "date"
    name: str
    days: NumberColumn
    cycles: tuple[str, ...]

    @classmethod
    def fit(cls, name: str, values: Sequence[str | None]) -> DateColumn:
        """Learn the median, mean and deviation of the days, and which cycles they differ in."""
        days, shown = _read(values)
        column = NumberColumn.fit(name, days)
        given = shown[~np.isnan(shown)]
        span = np.ptp(given)
        differ = {
            "year": span >= SEASON,
            "week": np.ptp(np.floor(given)) > 0,
            "day": np.ptp(given % 1) > 0,
        }
        found = tuple(cycle for cycle in CYCLES if differ[cycle])
        return cls(name, column, found if column.width else ())

    @property
    def missing(self) -> bool:
        """Whether a 0/1 column for missing values follows."""
        return self.days.missing

    @property
    def width(self) -> int:
        """Number of features that it becomes."""
        return self.days.width + 2 * len(self.cycles)

    def transform(self, table: Table) -> Numbers:
        """The features, rows × width."""
        values = as_text(table, self.name)
        try:
            days, shown = _read(values)
        except ValueError as error:
            row = values.index(error.args[0])
            raise InvalidInput(
                f"{table.source}: column {self.name!r} held dates when the model was fitted; "
                f"{table.place(row)} holds {error.args[0][:40]!r}: give an ISO date such as "
                "2026-11-20, or leave it empty"
            ) from None
        cycles = [_place(shown, cycle) for cycle in self.cycles]
        return np.concatenate([self.days.features(days), *cycles], axis=1)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {"kind": self.kind, "days": self.days.to_dict(), "cycles": list(self.cycles)}

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any], where: str) -> DateColumn:
        """Rebuild what :meth:`to_dict` gave, or say which field is wrong."""
        known_only(stored, {"kind", "days", "cycles"}, where)
        days = NumberColumn.from_dict(field(stored, "days", dict, where), f"{where}.days")
        cycles = field(stored, "cycles", list, where)
        if cycles != [cycle for cycle in CYCLES if cycle in cycles]:
            raise InvalidInput(
                f"{where}.cycles must be some of {', '.join(CYCLES)} in this order: "
                "the file is damaged"
            )
        return cls(days.name, days, tuple(cycles))


def _read(values: Sequence[str | None]) -> tuple[Numbers, Numbers]:
    """Return days since 1970-01-01 in UTC and by the clock, NaN where they are missing."""
    pairs = []
    for value in values:
        try:
            pairs.append((np.nan, np.nan) if value is None else parse_date(value))
        except ValueError:
            raise ValueError(value) from None
    both = np.array(pairs, dtype=np.float64).reshape(-1, 2)
    return both[:, 0], both[:, 1]


def _place(shown: Numbers, cycle: str) -> Numbers:
    """Return the sine and cosine of dates' place in a cycle, n×2; 0 where they are missing."""
    angle = 2 * np.pi * shown[:, None] / CYCLES[cycle]
    return np.nan_to_num(np.concatenate([np.sin(angle), np.cos(angle)], axis=1))
