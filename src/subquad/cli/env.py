"""``subquad env``: what this machine offers."""

from __future__ import annotations

from typing import Any

from subquad.cli.options import Json, Output, Verbose


def env(json: Json = False, verbose: Verbose = False) -> None:
    """Show versions, devices, threads and memory.

    Example: `subquad env --json`
    """
    output = Output()
    facts = collect()
    if json:
        output.json(facts)
        return
    for topic, content in facts.items():
        if isinstance(content, dict):
            for name, value in content.items():
                output.result(f"{topic:9} {name:20} {'not installed' if value is None else value}")
        else:
            shown = ", ".join(content) if isinstance(content, list) else content
            output.result(f"{topic:30} {shown}")


def collect() -> dict[str, Any]:
    """The facts, as ``--json`` prints them."""
    import importlib.metadata
    import os
    import platform

    import torch

    import subquad
    from subquad.kernels import numba_available

    packages = (
        "torch",
        "numpy",
        "safetensors",
        "scikit-learn",
        "typer",
        "rich",
        "numba",
        "pyarrow",
    )
    versions: dict[str, str | None] = {
        "subquad": subquad.__version__,
        "python": platform.python_version(),
    }
    for package in packages:
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            versions[package] = None
    devices = ["cpu"]
    if torch.cuda.is_available():
        devices += [torch.cuda.get_device_name(k) for k in range(torch.cuda.device_count())]
    return {
        "versions": versions,
        "platform": platform.platform(),
        "devices": devices,
        "kernels": "numba" if numba_available() else "plain",
        "threads": {"cores": os.cpu_count(), "torch": torch.get_num_threads()},
        "memory": _memory(),
    }


def _memory() -> dict[str, float | None]:
    """Total memory, what is free and what a job may take by default, in GB, where known."""
    import math
    import os

    from subquad.memory import SHARE, free_bytes

    try:
        total: float | None = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 1e9
    except (AttributeError, ValueError, OSError):
        total = None
    free = free_bytes() / 1e9
    known = math.isfinite(free)
    return {
        "total_gb": None if total is None else round(total, 2),
        "available_gb": round(free, 2) if known else None,
        "default_max_memory_gb": round(SHARE * free, 2) if known else None,
    }
