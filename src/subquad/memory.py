"""Memory: what is free, how much a job may hold, and how large its blocks of work may be.

A limit is a ceiling on what this process holds, interpreter and libraries included, as the
systems that end processes count it. Whoever starts a job opens one with :func:`limit`; what
allocates asks :func:`room` before it does, and loops over blocks ask :func:`block_bytes`:

>>> with limit("100 GB"), blocks(1 << 20):
...     block_bytes(1 << 28), [part.stop for part in row_blocks(5, 1 << 19, 1 << 28)]
(1048576, [2, 4, 5])
"""

from __future__ import annotations

import math
import numbers
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from subquad.errors import InvalidInput

SHARE = 0.8
"""Share of the free memory that a job may take where no limit is given."""
LEAST_BLOCK = 1 << 20
"""Blocks are not planned smaller: their loop would cost more than the memory is worth."""
UNITS = {"": 3, "b": 0, "k": 1, "m": 2, "g": 3, "t": 4}

_ceiling: ContextVar[float | None] = ContextVar("subquad_memory_ceiling", default=None)
_block: ContextVar[float | None] = ContextVar("subquad_memory_block", default=None)


def ceiling(max_memory: object = None) -> float:
    """Return the bytes that this process may hold in all.

    Args:
        max_memory: GB as a number, or text: "6", "6GB", "500MB", "2GiB", or "50%" of what is
            free now, on top of what the process holds. None is the limit that is open, and
            where none is, 80 % of what is free.

    >>> ceiling(2), ceiling("500MB"), ceiling("1 GiB")
    (2000000000.0, 500000000.0, 1073741824.0)
    """
    if max_memory is None:
        opened = _ceiling.get()
        return resident_bytes() + SHARE * free_bytes() if opened is None else opened
    if isinstance(max_memory, numbers.Real) and not isinstance(max_memory, bool):
        size = 1e9 * float(max_memory)
        if 0 < size < math.inf:
            return size
    if isinstance(max_memory, str):
        found = re.fullmatch(r"(\d+\.?\d*|\.\d+) *(%|[kmgt]?(?:i?b)?)", max_memory.strip().lower())
        if found and float(found[1]) > 0 and found[2] != "ib":
            amount, unit = float(found[1]), found[2]
            if unit != "%":
                return amount * (1024 if "i" in unit else 1000) ** UNITS[unit[:1]]
            if amount <= 100:
                return resident_bytes() + amount / 100 * free_bytes()
    raise InvalidInput(
        f"max_memory must be a number of GB > 0, or text such as '6GB', '500MB' or '50%' (of what "
        f"is free), got {max_memory!r}"
    )


@contextmanager
def limit(max_memory: object = None) -> Iterator[None]:
    """Hold all that starts inside to a limit, in the words of :func:`ceiling`."""
    token = _ceiling.set(ceiling(max_memory))
    try:
        yield
    finally:
        _ceiling.reset(token)


@contextmanager
def blocks(size: float) -> Iterator[None]:
    """Let no block of work inside be larger than ``size`` bytes."""
    token = _block.set(size)
    try:
        yield
    finally:
        _block.reset(token)


def block_bytes(most: float) -> float:
    """Return the bytes that one block of work may take, ``most`` where memory is not tight."""
    size = _block.get()
    if size is None:  # nobody has planned: a quarter of what an open limit leaves
        size = math.inf if _ceiling.get() is None else max(LEAST_BLOCK, room() / 4)
    return min(most, size)


def row_blocks(rows: int, row_bytes: float, most: float) -> Iterator[slice]:
    """Cut rows of which each needs ``row_bytes`` into runs that fit a block."""
    size = block_bytes(most)
    step = max(1, rows if size >= rows * row_bytes else int(size / row_bytes))
    return (slice(low, min(low + step, rows)) for low in range(0, rows, step))


def room(max_memory: object = None) -> float:
    """Return the bytes that may still be taken under the limit; at least 0."""
    return max(0.0, ceiling(max_memory) - resident_bytes())


def free_bytes() -> float:
    """Memory that may still be taken: the system's and, in a container, what that was given.

    Infinite where the system does not tell.
    """
    least = math.inf
    for line in _lines("/proc/meminfo"):
        if line.startswith("MemAvailable:"):
            least = 1024.0 * int(line.split()[1])
            break
    for line in _lines("/proc/self/cgroup"):
        _, kinds, path = line.split(":", 2)
        if kinds == "":
            least = _left("/sys/fs/cgroup", path, "memory.max", "memory.current", least)
        elif "memory" in kinds.split(","):
            names = "memory.limit_in_bytes", "memory.usage_in_bytes"
            least = _left("/sys/fs/cgroup/memory", path, *names, least)
    return max(0.0, least)


def resident_bytes() -> float:
    """Memory that this process holds now; 0 where the system does not tell."""
    for line in _lines("/proc/self/statm"):
        return float(int(line.split()[1]) * os.sysconf("SC_PAGE_SIZE"))
    return 0.0


def shown(size: float) -> str:
    """Bytes for people.

    >>> shown(2.345e9), shown(1.2e7), shown(4.5e11)
    ('2.35 GB', '0.012 GB', '450 GB')
    """
    return f"{size / 1e9:.3g} GB"


def rounded(size: float) -> int:
    """A count cut to two digits, since an estimate has no more.

    >>> rounded(21097.4), rounded(7)
    (21000, 7)
    """
    unit = 10 ** max(0, len(str(int(size))) - 2)
    return int(size) // unit * unit


def _left(root: str, path: str, most: str, used: str, least: float) -> float:
    """The lesser of ``least`` and what any control group from this process's up to the root leaves.

    Inside a container the path may be the host's and lead nowhere; the root is then its own.
    """
    parts = [part for part in path.split("/") if part]
    for depth in range(len(parts), -1, -1):
        folder = "/".join([root, *parts[:depth]])
        limit, usage = _lines(f"{folder}/{most}"), _lines(f"{folder}/{used}")
        if not limit or not usage or not limit[0].isdecimal():
            continue
        left = float(int(limit[0]) - int(usage[0]))
        if left < least:
            stat = dict(line.split() for line in _lines(f"{folder}/memory.stat"))
            cached = stat.get("total_inactive_file", stat.get("inactive_file", 0))
            least = min(least, left + int(cached))  # caches give way
    return least


def _lines(path: str) -> list[str]:
    """Lines of one of the system's short files, read in the fewest calls: asked for often."""
    try:
        file = os.open(path, os.O_RDONLY)
    except OSError:
        return []
    try:
        parts = []
        while part := os.read(file, 1 << 16):
            parts.append(part)
        return b"".join(parts).decode("ascii").splitlines()
    except OSError:
        return []
    finally:
        os.close(file)
