"""Fixtures that several sketch tests share."""

import importlib
from collections.abc import Callable, Iterator
from types import ModuleType

import pytest
import torch

from subquad import kernels


@pytest.fixture
def use_plain(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Call it to switch to the plain kernels for the rest of the test."""

    def plain(topic: str, device: torch.device) -> ModuleType:
        return importlib.import_module(f"subquad.kernels.{topic}_plain")

    return lambda: monkeypatch.setattr(kernels, "pick", plain)


@pytest.fixture(autouse=True)
def set_threads() -> Iterator[Callable[[int], None]]:
    """One thread, because the arrays are small and cores may be shared; call it for more."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield torch.set_num_threads
    torch.set_num_threads(before)
