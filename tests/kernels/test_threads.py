"""Threads of compiled loops follow torch's setting, and leave it alone."""

import subprocess
import sys

import pytest

pytest.importorskip("numba")

SCRIPT = """
import torch
torch.set_num_threads(1)
from subquad.kernels.threads import use_threads
use_threads(1 << 30)
import numba
print(torch.get_num_threads(), numba.get_num_threads())
"""


def test_numba_starting_its_threads_changes_no_setting() -> None:
    """In a process of its own: threads start once. Numba sets all of OpenMP to its number then."""
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True)
    assert done.stdout.split() == ["1", "1"], done.stderr
