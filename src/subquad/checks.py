"""Checks of arguments that every part shares. Each message: name, rule, what was received."""

from __future__ import annotations

import math
import numbers
import operator
from collections.abc import Iterable

import numpy as np
import torch
from torch import Tensor

from subquad.errors import InvalidInput, unknown_name

MOST_RIDGE = 1e30
"""Ridge beyond which nothing is learned, and squares of what is solved would overflow."""


def integer(name: str, value: object, *, least: int) -> int:
    """Return an int of at least ``least``; numpy's integers count, booleans do not."""
    if not isinstance(value, bool):
        try:
            found = operator.index(value)  # type: ignore[arg-type]
        except TypeError:
            pass
        else:
            if found >= least:
                return found
    raise InvalidInput(f"{name} must be an integer >= {least}, got {value!r}")


def number(
    name: str,
    value: object,
    *,
    least: float = 0.0,
    above: bool = False,
    most: float = math.inf,
) -> float:
    """Return a finite float of at least ``least``, or above it, and at most ``most``."""
    if isinstance(value, numbers.Real) and not isinstance(value, bool):
        found = float(value)
        enough = found > least or (found == least and not above)
        if math.isfinite(found) and enough and found <= most:
            return found
    sign = ">" if above else ">="
    limit = "" if math.isinf(most) else f" and <= {most:g}"
    raise InvalidInput(f"{name} must be a finite number {sign} {least:g}{limit}, got {value!r}")


def choice(kind: str, value: object, known: Iterable[str]) -> str:
    """Return a name that is one of ``known``."""
    if isinstance(value, str) and value in known:
        return value
    raise unknown_name(kind, value, known)


def flag(name: str, value: object, *, unset: bool = False) -> None:
    """Refuse what is neither True nor False, nor None where it may be ``unset``."""
    if isinstance(value, bool | np.bool_) or (unset and value is None):
        return
    rule = "True, False or None" if unset else "True or False"
    raise InvalidInput(f"{name} must be {rule}, got {value!r}")


def as_numbers(given: object, name: str) -> Tensor:
    """Return a dense real floating tensor, or say why there is none."""
    try:
        found = torch.as_tensor(given)
    except (TypeError, ValueError, RuntimeError) as error:
        raise InvalidInput(f"{name} is not a numeric array: {error}") from None
    if found.layout != torch.strided:
        raise InvalidInput(f"{name} must be dense, got layout {found.layout}: use .to_dense()")
    if found.is_complex():
        raise InvalidInput(f"{name} must be real, got {found.dtype}")
    return found.detach() if found.is_floating_point() else found.double()


def as_matrix(given: object, name: str) -> Tensor:
    """Return a finite 2-D floating tensor with at least one row, or say what is wrong."""
    matrix = as_numbers(given, name)
    if matrix.dim() != 2:
        raise InvalidInput(
            f"{name} must have two axes (rows, columns), got shape {tuple(matrix.shape)}"
        )
    if 0 in matrix.shape:
        raise InvalidInput(f"{name} is empty: shape {tuple(matrix.shape)}")
    finite = torch.isfinite(matrix)
    if not bool(finite.all()):
        row, column = (int(k) for k in (~finite).nonzero()[0])
        raise InvalidInput(
            f"{name} holds {float(matrix[row, column])} at row {row}, column {column}: "
            f"drop or fill such entries first"
        )
    return matrix


def as_device(given: object) -> torch.device:
    """Return a device that is there."""
    try:
        device = torch.device("cpu" if given is None else given)  # type: ignore[call-overload]
        torch.empty(0, device=device)
    except (RuntimeError, TypeError, AssertionError, ValueError) as error:
        reason = str(error).splitlines()[0]
        raise InvalidInput(f"device {given!r} cannot be used: {reason}") from None
    return device
