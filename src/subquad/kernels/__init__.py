"""Hot loops, each written twice under one name: plain PyTorch and a compiled CPU form.

``X_plain.py`` is the twin that a reader can check and that runs everywhere;
``X_numba.py`` holds the same functions with the same arguments, compiled, for CPU tensors.
:func:`pick` chooses. ``SUBQUAD_KERNELS=plain`` in the environment, or no numba installed,
leaves the plain ones.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import os
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch


@functools.cache
def numba_available() -> bool:
    """Whether compiled CPU kernels may be used in this process."""
    if os.environ.get("SUBQUAD_KERNELS", "auto") == "plain":
        return False
    return importlib.util.find_spec("numba") is not None


def short_waits() -> None:
    """Let OpenMP threads that wait give up their core soon; best called before torch comes up.

    torch and numba bring an OpenMP library each, and threads of the one that spin take the
    cores of the other: on a busy machine a loop of 10 ms took half a second.
    """
    os.environ.setdefault("GOMP_SPINCOUNT", "20000")


@functools.cache
def _load(name: str) -> ModuleType:
    return importlib.import_module(f"subquad.kernels.{name}")


def pick(topic: str, device: torch.device) -> ModuleType:
    """Return the module that holds the kernels of ``topic`` for tensors on ``device``."""
    if device.type == "cpu" and numba_available():
        short_waits()
        return _load(f"{topic}_numba")
    return _load(f"{topic}_plain")
