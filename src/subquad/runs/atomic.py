"""Writing files so that a reader sees the old one or the new one, never a part."""

from __future__ import annotations

import contextlib
import json
import math
import os
import secrets
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Give a temporary path in the same folder that becomes ``path`` when the block succeeds.

    Written, flushed to the disk, renamed, and the folder flushed too; when the block raises,
    the temporary file goes and ``path`` stays as it was.
    """
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        yield temporary
        _flush(temporary)
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    with contextlib.suppress(OSError):  # some systems cannot open a folder
        _flush(path.parent)


def write_text(path: Path, content: str) -> None:
    """Write UTF-8 text atomically, line ends as given."""
    with replacing(path) as temporary:
        temporary.write_bytes(content.encode("utf-8"))


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Write JSON atomically; see :func:`plain` for what becomes null."""
    write_text(path, json.dumps(plain(content), indent=1, allow_nan=False) + "\n")


def plain(value: Any) -> Any:
    """The value as JSON holds it: numbers that are not finite become null."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, (np.ndarray, np.generic)):
        return plain(value.tolist())
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    return value


def _flush(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
