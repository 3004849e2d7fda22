"""CSV and TSV files."""

from __future__ import annotations

import csv
from collections.abc import Collection
from pathlib import Path

import numpy as np

from subquad.errors import InvalidInput
from subquad.tables.table import MISSING, Column, Table, check_names, finish, parse_number

_SIGNATURES = {
    b"\xff\xfe": "UTF-16",
    b"\xfe\xff": "UTF-16",
    b"PK\x03\x04": "a ZIP archive",
    b"\x1f\x8b": "a gzip archive",
    b"PAR1": "Parquet",
    b"ARROW1": "Arrow",
}


def read_delimited(path: Path, delimiter: str, text: Collection[str]) -> Table:
    """Read a file of separated values with a header; columns in ``text`` stay text."""
    source = path.name
    records, lines = _records(_decode(path), delimiter, source)
    header = [name.strip() for name in records[0]] if records else []
    if not any(header):
        raise InvalidInput(f"{source} is empty: give a header line and rows")
    if len(header) == 1 and ";" in header[0] and delimiter != ";":
        raise InvalidInput(
            f"{source} seems to be separated by semicolons: save it with commas, or with "
            "tabs as .tsv, and with decimal points"
        )
    check_names(header, source)
    for record, line in zip(records[1:], lines[1:], strict=True):
        if len(record) != len(header):
            raise InvalidInput(
                f"{source}, line {line}: {len(record)} cells where the header has "
                f"{len(header)}: give every row one cell a column"
            )
    cells = list(zip(*records[1:], strict=True)) or [()] * len(header)
    columns = {
        name: _column(list(values), name in text)
        for name, values in zip(header, cells, strict=True)
    }
    return finish(columns, source, lines[1:])


def _decode(path: Path) -> str:
    content = path.read_bytes()
    for signature, kind in _SIGNATURES.items():
        if content.startswith(signature):
            raise InvalidInput(f"{path.name} holds {kind}, not UTF-8 text: save it as UTF-8 text")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise InvalidInput(
            f"{path.name}, line {line}: byte {error.start} is not UTF-8: save the file as UTF-8"
        ) from error


def _records(content: str, delimiter: str, source: str) -> tuple[list[list[str]], list[int]]:
    """Every record that is not blank, with the line on which it ends."""
    # Only \r\n, \n and \r end a line for the csv module; str.splitlines would also cut at
    # form feeds and at Unicode separators inside cells.
    pieces = content.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    reader = csv.reader((piece + "\n" for piece in pieces), delimiter=delimiter, strict=True)
    records: list[list[str]] = []
    lines: list[int] = []
    try:
        for record in reader:
            if record:
                records.append(record)
                lines.append(reader.line_num)
    except csv.Error as error:
        raise InvalidInput(
            f"{source}, line {reader.line_num}: {error}: mend the quotes or the cell there"
        ) from error
    return records, lines


def _column(cells: list[str], as_text: bool) -> Column:
    values = [cell.strip() for cell in cells]
    if not as_text:
        try:
            return np.array([parse_number(value) for value in values], dtype=np.float64)
        except ValueError:
            pass
    return [None if value in MISSING else value for value in values]
