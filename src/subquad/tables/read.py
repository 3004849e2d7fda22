"""Reading a data file whatever its format."""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path

from subquad.errors import InvalidInput
from subquad.tables.arrays import read_arrow, read_npz
from subquad.tables.delimited import read_delimited
from subquad.tables.table import Table

_DELIMITERS = {".csv": ",", ".tsv": "\t", ".tab": "\t"}
_PARQUET = (".parquet", ".pq")
_ARROW = (".arrow", ".feather", ".ipc")
SUFFIXES = (*_DELIMITERS, ".npz", *_PARQUET, *_ARROW)


def read_table(path: str | os.PathLike[str], *, text: Collection[str] = ()) -> Table:
    """Read a CSV, TSV, NPZ, Parquet or Arrow file; its suffix says which.

    A CSV column is numbers where every cell that is not missing is one; the columns named in
    ``text`` stay text nevertheless, as a fitted preparation wants its categories.
    """
    path = Path(path)
    suffix = path.suffix.lower()
    if path.is_dir():
        raise InvalidInput(f"{path} is a folder: give a data file ({', '.join(SUFFIXES)})")
    if not path.exists():
        raise InvalidInput(f"there is no file {path}: check the path")
    if suffix not in SUFFIXES:
        raise InvalidInput(
            f"{path.name} has the unknown suffix {suffix!r}: give one of {', '.join(SUFFIXES)}"
        )
    try:
        if path.stat().st_size == 0:
            raise InvalidInput(f"{path.name} is empty: give a header line and rows")
        if suffix in _DELIMITERS:
            return read_delimited(path, _DELIMITERS[suffix], text)
        if suffix == ".npz":
            return read_npz(path)
        return read_arrow(path, parquet=suffix in _PARQUET)
    except OSError as error:
        raise InvalidInput(f"{path} cannot be read: {error.strerror or error}") from error
