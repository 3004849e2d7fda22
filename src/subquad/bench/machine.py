"""The machine that a benchmark ran on."""

from __future__ import annotations

import importlib.metadata
import os
import platform
from pathlib import Path

import torch

from subquad.kernels import numba_available


def machine_info() -> dict[str, object]:
    """Cores that this process may use, processor, threads and versions, for JSON.

    >>> sorted(machine_info())
    ['cores', 'cpu', 'numba', 'python', 'threads', 'torch']
    """
    affinity = getattr(os, "sched_getaffinity", None)
    return {
        "cores": len(affinity(0)) if affinity else os.cpu_count(),
        "cpu": _processor(),
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),
        "numba": importlib.metadata.version("numba") if numba_available() else None,
        "python": platform.python_version(),
    }


def _processor() -> str:
    """Name of the processor; Linux tells it in /proc alone."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()
