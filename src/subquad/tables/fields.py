"""Reading typed fields out of stored JSON, with an error that names the field."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from typing import Any, TypeVar, cast

from subquad.errors import InvalidInput

T = TypeVar("T")

_WORDS = {
    str: "text",
    bool: "true or false",
    int: "a whole number",
    float: "a finite number",
    list: "a list",
    dict: "an object",
}


def field(stored: Mapping[str, Any], key: str, kind: type[T], where: str) -> T:
    """``stored[key]``, which must be there and be a ``kind``; whole numbers pass as float."""
    if key not in stored:
        raise InvalidInput(f"{where}.{key} is missing: the file is damaged or of another version")
    value = stored[key]
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        value = float(value) if abs(value) < 2**1023 else math.inf
    fits = isinstance(value, kind) and (kind is bool or not isinstance(value, bool))
    if not fits or (isinstance(value, float) and not math.isfinite(value)):
        raise InvalidInput(f"{where}.{key} must be {_WORDS[kind]}, not {str(value)[:40]!r}")
    return cast(T, value)


def known_only(stored: Mapping[str, Any], known: Collection[str], where: str) -> None:
    """Refuse keys that are not ``known``."""
    strange = sorted(set(stored) - set(known))
    if strange:
        raise InvalidInput(
            f"{where} has the unknown key {strange[0]!r}: known are {', '.join(sorted(known))}"
        )
