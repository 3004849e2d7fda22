"""How one column of numbers or of text becomes features."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

import numpy as np

from subquad.errors import InvalidInput
from subquad.tables.fields import field, known_only
from subquad.tables.table import Column, Numbers, Table, missing_in, parse_number

MAX_CATEGORIES = 50
LARGEST = 1e100  # deviations from the mean beyond which a value counts as this many


@dataclass(frozen=True)
class NumberColumn:
    """How one column of numbers is prepared."""

    kind: ClassVar[str] = "number"
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
        return self.features(as_numbers(table, self.name))

    def features(self, values: Numbers) -> Numbers:
        """The features of numbers, rows × width."""
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

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {"kind": self.kind, **asdict(self)}

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any], where: str) -> NumberColumn:
        """Rebuild what :meth:`to_dict` gave, or say which field is wrong."""
        known_only(stored, {"kind", "name", "median", "mean", "scale", "missing"}, where)
        name, missing = field(stored, "name", str, where), field(stored, "missing", bool, where)
        median, mean, scale = (
            field(stored, key, float, where) for key in ("median", "mean", "scale")
        )
        column = cls(name, median, mean, scale, missing)
        if scale < 0 or not column.width:
            raise InvalidInput(f"{where}.scale is {scale}: must be positive; the file is damaged")
        return column


@dataclass(frozen=True)
class TextColumn:
    """How one column of text is prepared."""

    kind: ClassVar[str] = "text"
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
        values = as_text(table, self.name)
        features = np.zeros((len(values), self.width))
        position = {category: j for j, category in enumerate(self.categories)}
        for i, value in enumerate(values):
            if value is None:
                features[i, len(self.categories) :] = 1.0
            elif value in position:
                features[i, position[value]] = 1.0
        return features

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {"kind": self.kind, **asdict(self)}

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any], where: str) -> TextColumn:
        """Rebuild what :meth:`to_dict` gave, or say which field is wrong."""
        known_only(stored, {"kind", "name", "categories", "missing"}, where)
        name, missing = field(stored, "name", str, where), field(stored, "missing", bool, where)
        found = field(stored, "categories", list, where)
        if not all(isinstance(c, str) for c in found) or len(set(found)) < len(found):
            raise InvalidInput(f"{where}.categories must hold different names: the file is damaged")
        column = cls(name, tuple(found), missing)
        if not column.width:
            raise InvalidInput(f"{where}.categories is empty: the file is damaged")
        return column


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


def as_numbers(table: Table, name: str) -> Numbers:
    """Return a column as numbers; text that holds no number is refused."""
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


def as_text(table: Table, name: str) -> list[str | None]:
    """Return a column as text; numbers are refused unless all are missing."""
    column: Column = table.column(name)
    if not isinstance(column, np.ndarray):
        return column
    if missing_in(column).all():
        return [None] * len(column)
    raise InvalidInput(
        f"{table.source}: column {name!r} held text when the model was fitted and holds numbers "
        "here: give the same categories as text"
    )
