"""From a table to features, the same way every time.

Numbers: the median stands in for what is missing, beside a 0/1 column that says so where that
happens; then mean 0 and deviation 1. Text: one 0/1 column a category, at most
``MAX_CATEGORIES`` of those seen at least twice; anything else, unknown or missing, is all
zeros. Dates: see :mod:`subquad.tables.dates`. Columns that tell nothing, and columns that repeat
another, are dropped.

One network sees unit rows: a constant 1 is appended, and every row divided by its length
(section 1 of the mathematics). Estimators scale features themselves.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from subquad.errors import InvalidInput
from subquad.tables.columns import NumberColumn, TextColumn
from subquad.tables.dates import DateColumn, are_dates
from subquad.tables.fields import field, known_only
from subquad.tables.table import Column, Numbers, Table

Prepared = NumberColumn | TextColumn | DateColumn
KINDS: dict[str, type[Prepared]] = {
    kind.kind: kind for kind in (NumberColumn, TextColumn, DateColumn)
}


@dataclass(frozen=True)
class Preparation:
    """Everything learned from the training table that new rows need."""

    columns: tuple[Prepared, ...]
    dropped: tuple[str, ...] = ()
    repeated: tuple[tuple[str, str], ...] = ()  # a column, and the one that it repeats

    @classmethod
    def fit(cls, table: Table) -> Preparation:
        """Learn the preparation of a table of features."""
        repeated = _repeated(table)
        fitted = [
            _fit(name, column) for name, column in table.columns.items() if name not in repeated
        ]
        kept = tuple(column for column in fitted if column.width)
        if not kept:
            raise InvalidInput(
                f"{table.source} has no feature to learn from: every column is constant, "
                "missing, or text that never repeats; add a column that varies"
            )
        dropped = [column.name for column in fitted if not column.width]
        # What repeats a column that tells nothing tells nothing, too.
        dropped += [name for name, other in repeated.items() if other in dropped]
        return cls(
            kept,
            tuple(name for name in table.columns if name in dropped),
            tuple(pair for pair in repeated.items() if pair[0] not in dropped),
        )

    def notes(self) -> list[str]:
        """Lines that say which columns are left out, and why."""
        lines = []
        if self.dropped:
            lines.append(f"columns that tell nothing: {', '.join(self.dropped)}")
        if self.repeated:
            pairs = ", ".join(f"{name} ({other})" for name, other in self.repeated)
            lines.append(f"columns that repeat others: {pairs}")
        return lines

    @property
    def width(self) -> int:
        """Length of a prepared row, the constant included."""
        return sum(column.width for column in self.columns) + 1

    @property
    def text_columns(self) -> frozenset[str]:
        """Columns that hold categories or dates, for :func:`subquad.tables.read.read_table`."""
        return frozenset(c.name for c in self.columns if not isinstance(c, NumberColumn))

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
        return {
            "columns": [column.to_dict() for column in self.columns],
            "dropped": list(self.dropped),
            "repeated": [list(pair) for pair in self.repeated],
        }

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> Preparation:
        """Rebuild what :meth:`to_dict` gave, or say which field is wrong."""
        known_only(stored, {"columns", "dropped", "repeated"}, "preparation")
        columns = tuple(
            _column_from(entry, f"preparation.columns[{i}]")
            for i, entry in enumerate(field(stored, "columns", list, "preparation"))
        )
        if not columns:
            raise InvalidInput("preparation.columns is empty: the file is damaged")
        dropped = field(stored, "dropped", list, "preparation")
        if not all(isinstance(name, str) for name in dropped):
            raise InvalidInput("preparation.dropped must hold names: the file is damaged")
        pairs = field(stored, "repeated", list, "preparation")
        if not all(
            isinstance(pair, list) and len(pair) == 2 and all(isinstance(n, str) for n in pair)
            for pair in pairs
        ):
            raise InvalidInput("preparation.repeated must hold pairs of names: the file is damaged")
        return cls(columns, tuple(dropped), tuple((name, other) for name, other in pairs))


def unit_rows(features: Numbers) -> Numbers:
    """Append a constant 1 to features and divide every row by its length."""
    rows = np.concatenate([features, np.ones((len(features), 1))], axis=1)
    largest = np.abs(rows).max(axis=1, keepdims=True)  # at least 1, so that squares are safe
    rows = rows / largest
    unit: Numbers = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return unit


def _fit(name: str, column: Column) -> Prepared:
    if isinstance(column, np.ndarray):
        return NumberColumn.fit(name, column)
    return DateColumn.fit(name, column) if are_dates(column) else TextColumn.fit(name, column)


def _repeated(table: Table) -> dict[str, str]:
    """Return columns whose cells all equal those of an earlier one, and which that is."""
    first: dict[bytes | tuple[str | None, ...], str] = {}
    found = {}
    for name, column in table.columns.items():
        # Adding 0 makes -0 the same as 0.
        cells = (column + 0.0).tobytes() if isinstance(column, np.ndarray) else tuple(column)
        if first.setdefault(cells, name) != name:
            found[name] = first[cells]
    return found


def _column_from(entry: Any, where: str) -> Prepared:
    if not isinstance(entry, Mapping):
        raise InvalidInput(f"{where} must be an object: the file is damaged")
    kind = field(entry, "kind", str, where)
    if kind not in KINDS:
        raise InvalidInput(f"{where}.kind is {kind!r}: must be one of {', '.join(sorted(KINDS))}")
    return KINDS[kind].from_dict(entry, where)
