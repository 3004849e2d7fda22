"""A table as it was read: ordered columns of numbers or text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from subquad.errors import InvalidInput, unknown_name

Numbers: TypeAlias = npt.NDArray[np.float64]
Text: TypeAlias = list[str | None]
Column: TypeAlias = Numbers | Text

MISSING = frozenset({"", "NA", "N/A", "n/a", "NaN", "nan", "NULL", "null", "None", "<NA>"})
"""Text that means that a value is missing, whatever the file format."""


@dataclass(frozen=True)
class Table:
    """Columns by name, all of one length; missing is NaN in numbers and None in text.

    ``lines`` holds the line of the file on which each row ends, where rows have lines.
    """

    columns: Mapping[str, Column]
    rows: int
    source: str = "the table"
    lines: Sequence[int] | None = None

    def column(self, name: str) -> Column:
        """The column called ``name``, or an error that names the nearest."""
        if name not in self.columns:
            raise InvalidInput(f"{self.source}: {unknown_name('column', name, self.columns)}")
        return self.columns[name]

    def place(self, row: int) -> str:
        """Where a row is found, in the words of its file."""
        return f"row {row}" if self.lines is None else f"line {self.lines[row]}"

    def without(self, name: str) -> Table:
        """Every column but ``name``."""
        kept = {key: column for key, column in self.columns.items() if key != name}
        return Table(kept, self.rows, self.source, self.lines)

    def take(self, index: npt.NDArray[np.int64]) -> Table:
        """The rows at ``index``, in its order."""
        kept: dict[str, Column] = {
            name: column[index]
            if isinstance(column, np.ndarray)
            else [column[i] for i in index.tolist()]
            for name, column in self.columns.items()
        }
        lines = None if self.lines is None else [self.lines[i] for i in index.tolist()]
        return Table(kept, len(index), self.source, lines)


def missing_in(column: Column) -> npt.NDArray[np.bool_]:
    """Which rows of a column are missing."""
    if isinstance(column, np.ndarray):
        return np.isnan(column)
    return np.array([value is None for value in column], dtype=np.bool_)


def parse_number(value: str | None) -> float:
    """The number that a cell holds, NaN where it is missing; ValueError where it is text."""
    if value is None or value in MISSING:
        return float("nan")
    # float() also takes 1_000 and digits of other scripts, which no table means as numbers.
    if "_" in value or not value.isascii():
        raise ValueError(value)
    return float(value)


def finish(columns: Mapping[str, Column], source: str, lines: Sequence[int] | None = None) -> Table:
    """Check what no format may hold, nothing or infinities, and return the table."""
    if not columns:
        raise InvalidInput(f"{source} has no columns: give a table with a header and rows")
    rows = len(next(iter(columns.values())))
    if rows == 0:
        raise InvalidInput(f"{source} has a header and no rows: give at least one row of data")
    table = Table(columns, rows, source, lines)
    for name, column in columns.items():
        if isinstance(column, np.ndarray):
            infinite = np.flatnonzero(np.isinf(column))
            if infinite.size:
                place = table.place(int(infinite[0]))
                raise InvalidInput(
                    f"{source}: column {name!r} is infinite at {place}: "
                    "give finite numbers, or leave the cell empty"
                )
    return table


def check_names(names: Sequence[str], source: str) -> None:
    """Refuse columns without a name or with the same one."""
    for position, name in enumerate(names):
        if not name:
            raise InvalidInput(
                f"{source}: column {position + 1} has no name: name it or remove it "
                "(pandas writes such a column for its index unless told index=False)"
            )
    if len(set(names)) < len(names):
        twice = next(name for i, name in enumerate(names) if name in names[:i])
        raise InvalidInput(f"{source}: two columns are called {twice!r}: rename one")
