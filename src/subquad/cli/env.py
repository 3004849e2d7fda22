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
    """Total and available memory in GB, as far as the system tells."""
    import os

    names = {"total_gb": "SC_PHYS_PAGES", "available_gb": "SC_AVPHYS_PAGES"}
    sizes: dict[str, float | None] = {}
    for name, pages in names.items():
        try:
            sizes[name] = round(os.sysconf(pages) * os.sysconf("SC_PAGE_SIZE") / 1e9, 2)
        except (AttributeError, ValueError, OSError):
            sizes[name] = None
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            fields = dict(line.split(":", 1) for line in file)
        sizes["available_gb"] = round(int(fields["MemAvailable"].split()[0]) * 1024 / 1e9, 2)
    except (OSError, KeyError, ValueError):
        pass
    return sizes
