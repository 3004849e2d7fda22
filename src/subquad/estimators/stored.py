"""Checked reading of what a file holds: tensors, and numbers within bounds."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from subquad.errors import InvalidInput
from subquad.tables.fields import field
from subquad.theory.duals import Array


class Stored:
    """Tensors that are taken out one by one, each checked; none may be left over."""

    def __init__(self, tensors: Mapping[str, Tensor]) -> None:
        self._left = dict(tensors)

    def __contains__(self, name: str) -> bool:
        return name in self._left

    def tensor(self, name: str, dtype: torch.dtype = torch.float64) -> Tensor:
        """Return a tensor of finite numbers."""
        if name not in self._left:
            raise InvalidInput(f"tensor {name!r} is missing: the model is damaged")
        tensor = self._left.pop(name)
        if tensor.dtype != dtype:
            raise InvalidInput(f"tensor {name!r} must be {dtype}, got {tensor.dtype}")
        if not bool(torch.isfinite(tensor).all()):
            raise InvalidInput(f"tensor {name!r} must be finite: the model is damaged")
        return tensor

    def take(self, name: str, shape: tuple[int, ...], *, least: float = -math.inf) -> Array:
        """Return an array of a shape, its numbers at least ``least``."""
        tensor = self.tensor(name)
        if tuple(tensor.shape) != shape:
            raise InvalidInput(
                f"tensor {name!r} must have shape {shape}, got {tuple(tensor.shape)}"
            )
        if bool((tensor < least).any()):
            raise InvalidInput(f"tensor {name!r} must be at least {least:g}")
        return tensor.numpy()

    def finish(self) -> None:
        """Refuse what nobody asked for."""
        if self._left:
            raise InvalidInput(f"unknown tensor {min(self._left)!r}: the model is damaged")


def within(entry: Mapping[str, Any], key: str, where: str, least: float, most: float) -> float:
    """Return a number of an entry that lies between two others."""
    value = field(entry, key, float, where)
    if least <= value <= most:
        return value
    raise InvalidInput(f"{where}.{key} must lie between {least:g} and {most:g}, got {value:g}")
