"""NPZ archives, and Parquet and Arrow files."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from subquad.errors import InvalidInput
from subquad.tables.table import MISSING, Column, Table, check_names, finish


def read_npz(path: Path) -> Table:
    """Read arrays of equal first length; a 2-D array ``X`` becomes columns X0, X1, …."""
    source = path.name
    names: list[str] = []
    arrays: list[np.ndarray[Any, Any]] = []
    if not zipfile.is_zipfile(path):
        raise InvalidInput(f"{source} is not an NPZ archive: save named arrays with np.savez")
    try:
        with np.load(path, allow_pickle=False) as archive:
            stored = {name: archive[name] for name in archive.files}
    except MemoryError as error:
        raise InvalidInput(f"{source} holds an array larger than memory") from error
    except (OSError, ValueError, EOFError, KeyError, SyntaxError, zipfile.BadZipFile) as error:
        why = "pickled objects" if "allow_pickle" in str(error) else f"damage ({_short(error)})"
        raise InvalidInput(
            f"{source} holds {why}: save plain numeric or text arrays with np.savez"
        ) from error
    for name, array in stored.items():
        if not isinstance(array, np.ndarray):
            raise InvalidInput(f"{source}: {name!r} is not an array: save it with np.savez")
        if array.ndim not in (1, 2):
            raise InvalidInput(
                f"{source}: array {name!r} has {array.ndim} dimensions: "
                "give 1 (a column) or 2 (rows by columns)"
            )
        if array.ndim == 1:
            names.append(name)
            arrays.append(array)
        else:
            names.extend(f"{name}{j}" for j in range(array.shape[1]))
            arrays.extend(array.T)
    check_names(names, source)
    lengths = {name: len(array) for name, array in stored.items()}
    if len(set(lengths.values())) > 1:
        shown = ", ".join(f"{name}: {length}" for name, length in lengths.items())
        raise InvalidInput(f"{source}: arrays differ in length ({shown}): give one row a sample")
    pairs = zip(names, arrays, strict=True)
    return finish({name: _from_numpy(name, array, source) for name, array in pairs}, source)


def _from_numpy(name: str, array: np.ndarray[Any, Any], source: str) -> Column:
    if array.dtype.kind in "biuf":
        return array.astype(np.float64)
    if array.dtype.kind == "M":
        array = np.where(np.isnat(array), "", np.datetime_as_string(array))
    if array.dtype.kind in "US":
        try:
            return _text([str(value) for value in array.astype(np.str_).tolist()])
        except UnicodeDecodeError as error:
            raise InvalidInput(f"{source}: array {name!r} is not ASCII: save it as str") from error
    raise InvalidInput(
        f"{source}: array {name!r} has type {array.dtype}: give numbers, booleans, text or dates"
    )


def read_arrow(path: Path, parquet: bool) -> Table:
    """Read a Parquet file, or an Arrow IPC (Feather) file or stream; dates become text."""
    try:
        import pyarrow as pa
        import pyarrow.feather
        import pyarrow.parquet
    except ImportError as error:
        raise InvalidInput(
            f"{path.name} needs pyarrow, which is not installed: pip install 'subquad[tables]'"
        ) from error
    source = path.name
    try:
        if parquet:
            data = pyarrow.parquet.ParquetFile(path).read()
        else:
            data = _read_ipc(pa, path)
        check_names(data.column_names, source)
        columns = {
            name: _from_arrow(pa, name, data.column(name), source) for name in data.column_names
        }
    except InvalidInput:
        raise
    except MemoryError as error:
        raise InvalidInput(f"{source} does not fit into memory") from error
    except (pa.ArrowException, OSError, ValueError) as error:
        kind = "Parquet" if parquet else "Arrow"
        raise InvalidInput(f"{source} cannot be read as {kind}: {_short(error)}") from error
    return finish(columns, source)


def _read_ipc(pa: Any, path: Path) -> Any:
    with pa.OSFile(str(path)) as file:
        if file.read(4) == b"FEA1":
            raise InvalidInput(f"{path.name} is Feather version 1: save it as version 2")
    try:
        with pa.OSFile(str(path)) as file:
            return pa.ipc.open_file(file).read_all()
    except pa.ArrowInvalid:
        with pa.OSFile(str(path)) as file:
            return pa.ipc.open_stream(file).read_all()


def _from_arrow(pa: Any, name: str, column: Any, source: str) -> Column:
    kinds, kind = pa.types, column.type
    if kinds.is_dictionary(kind):
        column = column.cast(kind.value_type)
        kind = column.type
    if kinds.is_boolean(kind):
        column = column.cast(pa.int8())
        kind = column.type
    if kinds.is_integer(kind) or kinds.is_floating(kind) or kinds.is_decimal(kind):
        values = column.cast(pa.float64(), safe=False).to_numpy()
        return np.array(values, dtype=np.float64)
    if kinds.is_null(kind):
        return np.full(len(column), np.nan)
    if kinds.is_string(kind) or kinds.is_large_string(kind) or kinds.is_string_view(kind):
        return _text(column.to_pylist())
    if kinds.is_temporal(kind):
        return _text(column.cast(pa.string()).to_pylist())
    raise InvalidInput(
        f"{source}: column {name!r} has type {kind}: give numbers, booleans, text or dates"
    )


def _text(values: list[str | None]) -> list[str | None]:
    stripped = [None if value is None else value.strip() for value in values]
    return [None if value is None or value in MISSING else value for value in stripped]


def _short(error: BaseException) -> str:
    lines = str(error).splitlines() or [type(error).__name__]
    return lines[0][:120]
