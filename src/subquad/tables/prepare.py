"""From a table of numbers and text to rows of unit length, the same way every time.

Numbers: the median stands in for what is missing, beside a 0/1 column that says so where that
happens; then mean 0 and deviation 1. Text: one 0/1 column a category, at most
``MAX_CATEGORIES`` of those seen at least twice; anything else, unknown or missing, is all
zeros. Columns that tell nothing are dropped. A constant 1 is appended, and every row divided
by its length (section 1 of the mathematics).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from subquad.errors import InvalidInput
from subquad.tables.fields import field, known_only
from subquad.tables.table import Column, Numbers, Table, missing_in, parse_number

MAX_CATEGORIES = 50
LARGEST = 1e100  # deviations from the mean beyond which a value counts as this many


@dataclass(frozen=True)
class NumberColumn:
    """How one column of numbers is prepared."""

    name: str
    median: float
    mean: float
    scale: float  # 0: the value is constant and only its absence tells something
    missing: bool  # whether a 0/1 column for missing values follows

    @classmethod
    def fit(cls, name: str, values: Numbers) -> NumberColumn:
        """Learn the median, mean and deviation of a column."""
        absent = np.isnan(values)
        if absent.all():
            return cls(name, 0.0, 0.0, 0.0, False)
        median = float(np.median(values[~absent]))
        mean, scale = location_and_scale(np.where(absent, median, values))
        return cls(name, median, mean, scale, bool(absent.any()))

    @property
    def width(self) -> int:
        """Number of features that it becomes."""
        return int(self.scale > 0) + int(self.missing)

    def transform(self, table: Table) -> Numbers:
        """The features, rows × width."""
        values = _as_numbers(table, self.name)
        absent = np.isnan(values)
        parts = []
        if self.scale > 0:
            filled = np.where(absent, self.median, values)
            with np.errstate(over="ignore"):
                standard = (filled - self.mean) / self.scale
            parts.append(np.clip(standard, -LARGEST, LARGEST))
        if self.missing:
            parts.append(absent.astype(np.float64))
        return np.stack(parts, axis=1)


@dataclass(frozen=True)
class TextColumn:
    """How one column of text is prepared."""

    name: str
    categories: tuple[str, ...]
    missing: bool

    @classmethod
    def fit(cls, name: str, values: list[str | None]) -> TextColumn:
        """Keep the most frequent categories that are seen at least twice."""
        counts = Counter(value for value in values if value is not None)
        absent = sum(value is None for value in values)
        frequent = sorted(
            (value for value, count in counts.items() if count > 1),
            key=lambda value: (-counts[value], value),
        )[:MAX_CATEGORIES]
        if len(counts) == 1 and not absent:
            frequent = []
        return cls(name, tuple(sorted(frequent)), 0 < absent < len(values))

    @property
    def width(self) -> int:
        """Number of features that it becomes."""
        return len(self.categories) + int(self.missing)

    def transform(self, table: Table) -> Numbers:
        """The features, rows × width."""
        values = _as_text(table, self.name)
        features = np.zeros((len(values), self.width))
        position = {category: j for j, category in enumerate(self.categories)}
        for i, value in enumerate(values):
            if value is None:
                features[i, len(self.categories) :] = 1.0
            elif value in position:
                features[i, position[value]] = 1.0
        return features


@dataclass(frozen=True)
class Preparation:
    """Everything learned from the training table that new rows need."""

    columns: tuple[NumberColumn | TextColumn, ...]
    dropped: tuple[str, ...] = ()

    @classmethod
    def fit(cls, table: Table) -> Preparation:
        """Learn the preparation of a table of features."""
        fitted = [
            NumberColumn.fit(name, column)
            if isinstance(column, np.ndarray)
            else TextColumn.fit(name, column)
            for name, column in table.columns.items()
        ]
        kept = tuple(column for column in fitted if column.width)
        if not kept:
            raise InvalidInput(
                f"{table.source} has no feature to learn from: every column is constant, "
                "missing, or text that never repeats; add a column that varies"
            )
        return cls(kept, tuple(column.name for column in fitted if not column.width))

    def notes(self) -> list[str]:
        """Lines that say which columns are left out, and why."""
        lines = []
        if self.dropped:
            lines.append(f"columns that tell nothing: {', '.join(self.dropped)}")
        return lines

    @property
    def width(self) -> int:
        """Length of a prepared row, the constant included."""
        return sum(column.width for column in self.columns) + 1

    @property
    def text_columns(self) -> frozenset[str]:
        """Columns that hold categories, for :func:`subquad.tables.read.read_table`."""
        return frozenset(c.name for c in self.columns if isinstance(c, TextColumn))

    def features(self, table: Table) -> Numbers:
        """The features before the constant and the unit length, rows × (width - 1)."""
        absent = [column.name for column in self.columns if column.name not in table.columns]
        if absent:
            shown = ", ".join(repr(name) for name in absent[:5])
            more = f" and {len(absent) - 5} more" if len(absent) > 5 else ""
            raise InvalidInput(
                f"{table.source} lacks the column{'s' * (len(absent) > 1)} {shown}{more} "
                "that the model was fitted with: add it, empty where unknown"
            )
        return np.concatenate([column.transform(table) for column in self.columns], axis=1)

    def transform(self, table: Table) -> Numbers:
        """Rows of unit length, rows × width."""
        return unit_rows(self.features(table))

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        kinds = {NumberColumn: "number", TextColumn: "text"}
        return {
            "columns": [{"kind": kinds[type(column)], **asdict(column)} for column in self.columns],
            "dropped": list(self.dropped),
        }

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> Preparation:
        """Rebuild what :meth:`to_dict` gave, or say which field is wrong."""
        known_only(stored, {"columns", "dropped"}, "preparation")
        columns = tuple(
            _column_from(entry, f"preparation.columns[{i}]")
            for i, entry in enumerate(field(stored, "columns", list, "preparation"))
        )
        if not columns:
            raise InvalidInput("preparation.columns is empty: the file is damaged")
        dropped = field(stored, "dropped", list, "preparation")
        if not all(isinstance(name, str) for name in dropped):
            raise InvalidInput("preparation.dropped must hold names: the file is damaged")
        return cls(columns, tuple(dropped))


def unit_rows(features: Numbers) -> Numbers:
    """Append a constant 1 to features and divide every row by its length."""
    rows = np.concatenate([features, np.ones((len(features), 1))], axis=1)
    largest = np.abs(rows).max(axis=1, keepdims=True)  # at least 1, so that squares are safe
    rows = rows / largest
    unit: Numbers = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return unit


def location_and_scale(values: Numbers) -> tuple[float, float]:
    """Mean and deviation; deviation 0 where rounding alone makes the values differ.

    Values are divided by the largest first, since squares of 1e200 overflow.
    """
    largest = float(np.abs(values).max())
    if largest == 0:
        return 0.0, 0.0
    relative = values / largest
    mean, scale = float(relative.mean()), float(relative.std())
    if scale < 1e-14:
        scale = 0.0
    return mean * largest, scale * largest


def _column_from(entry: Any, where: str) -> NumberColumn | TextColumn:
    if not isinstance(entry, Mapping):
        raise InvalidInput(f"{where} must be an object: the file is damaged")
    kind = field(entry, "kind", str, where)
    name, missing = field(entry, "name", str, where), field(entry, "missing", bool, where)
    if kind == "number":
        known_only(entry, {"kind", "name", "median", "mean", "scale", "missing"}, where)
        median, mean, scale = (
            field(entry, key, float, where) for key in ("median", "mean", "scale")
        )
        number = NumberColumn(name, median, mean, scale, missing)
        if scale < 0 or not number.width:
            raise InvalidInput(f"{where}.scale is {scale}: must be positive; the file is damaged")
        return number
    if kind != "text":
        raise InvalidInput(f"{where}.kind is {kind!r}: must be 'number' or 'text'")
    known_only(entry, {"kind", "name", "categories", "missing"}, where)
    categories = field(entry, "categories", list, where)
    if not all(isinstance(c, str) for c in categories) or len(set(categories)) < len(categories):
        raise InvalidInput(f"{where}.categories must hold different names: the file is damaged")
    return TextColumn(name, tuple(categories), missing)


def _as_numbers(table: Table, name: str) -> Numbers:
    column = table.column(name)
    if isinstance(column, np.ndarray):
        return column
    values = np.full(len(column), np.nan)
    for i, value in enumerate(column):
        try:
            values[i] = parse_number(value)
        except ValueError:
            values[i] = np.inf
        if np.isinf(values[i]):
            raise InvalidInput(
                f"{table.source}: column {name!r} held numbers when the model was fitted; "
                f"{table.place(i)} holds {str(value)[:40]!r}: give a number or leave it empty"
            )
    return values


def _as_text(table: Table, name: str) -> list[str | None]:
    column: Column = table.column(name)
    if not isinstance(column, np.ndarray):
        return column
    if missing_in(column).all():
        return [None] * len(column)
    raise InvalidInput(
        f"{table.source}: column {name!r} held text when the model was fitted and holds numbers "
        "here: give the same categories as text"
    )
