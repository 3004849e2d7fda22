"""Hot loops, each written twice under one name: plain PyTorch and a compiled CPU form.

``X_plain.py`` is the twin that a reader can check and that runs everywhere;
``X_numba.py`` holds the same functions with the same arguments, compiled, for CPU tensors.
:func:`pick` chooses. ``SUBQUAD_KERNELS=plain`` in the environment, or no numba installed,
leaves the plain ones.
"""

import functools
import importlib
import importlib.util
import os
from types import ModuleType

import torch


@functools.cache
def numba_available() -> bool:
    """Whether compiled CPU kernels may be used in this process."""
    if os.environ.get("SUBQUAD_KERNELS", "auto") == "plain":
        return False
    return importlib.util.find_spec("numba") is not None


@functools.cache
def _load(name: str) -> ModuleType:
    return importlib.import_module(f"subquad.kernels.{name}")


def pick(topic: str, device: torch.device) -> ModuleType:
    """Return the module that holds the kernels of ``topic`` for tensors on ``device``."""
    if device.type == "cpu" and numba_available():
        _follow_torch_threads()
        return _load(f"{topic}_numba")
    return _load(f"{topic}_plain")


def _follow_torch_threads() -> None:
    import numba

    most = numba.config.NUMBA_NUM_THREADS  # type: ignore[attr-defined]
    numba.set_num_threads(max(1, min(torch.get_num_threads(), most)))
