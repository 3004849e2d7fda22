"""What is free, what a job may take, and the blocks that follow."""

import math

import numpy as np
import pytest

from subquad import InvalidInput, memory


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (2, 2e9),
        (0.5, 5e8),
        (np.float32(1.5), 1.5e9),
        ("6", 6e9),
        ("6GB", 6e9),
        (" 6 gb ", 6e9),
        ("500MB", 5e8),
        (".5g", 5e8),
        ("1GiB", 2.0**30),
        ("4096KB", 4096e3),
        ("1e3", None),
        ("70000000000b", 7e10),
        ("99999TB", 99999e12),
        ("", None),
        ("GB", None),
        ("6 apples", None),
        ("6ib", None),
        ("-1GB", None),
        ("0", None),
        ("0%", None),
        ("101%", None),
        (0, None),
        (-2.0, None),
        (math.nan, None),
        (math.inf, None),
        (True, None),
        ([2], None),
    ],
)
def test_ceiling(given, expected):
    if expected is None:
        with pytest.raises(InvalidInput, match="max_memory must be a number of GB > 0"):
            memory.ceiling(given)
    else:
        assert memory.ceiling(given) == expected


def test_shares_of_what_is_free(monkeypatch):
    monkeypatch.setattr(memory, "free_bytes", lambda: 10e9)
    monkeypatch.setattr(memory, "resident_bytes", lambda: 1e9)
    assert memory.ceiling() == 9e9
    assert memory.ceiling("50%") == 6e9
    assert memory.room("6GB") == 5e9
    assert memory.room("500MB") == 0
    with memory.limit("3GB"):
        assert memory.room() == 2e9
        assert memory.room(4) == 3e9, "what is said counts before the limit that is open"
        assert memory.block_bytes(1e12) == 5e8
        with memory.blocks(40):
            assert memory.block_bytes(1e12) == 40
    with memory.limit("1MB"):
        assert memory.block_bytes(1e12) == memory.LEAST_BLOCK
    assert memory.room() == 8e9


def test_blocks():
    assert memory.block_bytes(100) == 100
    with memory.blocks(40):
        assert memory.block_bytes(100) == 40
        parts = list(memory.row_blocks(5, 20, 100))
        assert [(p.start, p.stop) for p in parts] == [(0, 2), (2, 4), (4, 5)]
        assert len(list(memory.row_blocks(3, 1000, 100))) == 3, "a row at least"
    assert len(list(memory.row_blocks(5, 20, math.inf))) == 1
    assert list(memory.row_blocks(0, 20, 100)) == []


MEMINFO = {"/proc/meminfo": "MemTotal: 9 kB\nMemAvailable:  8000 kB\n"}


@pytest.mark.parametrize(
    ("files", "free"),
    [
        ({}, math.inf),
        (MEMINFO, 8000 * 1024),
        (
            {
                **MEMINFO,
                "/proc/self/cgroup": "0::/a/b\n",
                "/sys/fs/cgroup/a/b/memory.max": "max\n",
                "/sys/fs/cgroup/a/b/memory.current": "5\n",
                "/sys/fs/cgroup/a/memory.max": "7000\n",
                "/sys/fs/cgroup/a/memory.current": "5000\n",
                "/sys/fs/cgroup/a/memory.stat": "anon 1\ninactive_file 1000\n",
            },
            3000,
        ),
        (
            {
                **MEMINFO,
                "/proc/self/cgroup": "5:cpuset:/\n4:hugetlb,memory:/of/the/host\n0::/\n",
                "/sys/fs/cgroup/memory/memory.limit_in_bytes": "6000\n",
                "/sys/fs/cgroup/memory/memory.usage_in_bytes": "9000\n",
                "/sys/fs/cgroup/memory/memory.stat": "total_inactive_file 2000\n",
            },
            0,
        ),
    ],
)
def test_free_memory_is_the_least_that_any_group_leaves(monkeypatch, files, free):
    monkeypatch.setattr(memory, "_lines", lambda path: files.get(path, "").splitlines())
    assert memory.free_bytes() == free
    assert memory.resident_bytes() == 0


def test_this_machine():
    assert memory.free_bytes() > 1e6
    assert memory._lines("/no/such/file") == []
