"""Counters of arithmetic and memory traffic.

Clocks are noisy; counts are not. Every procedure whose cost matters says what it did with
:func:`record`, and every :class:`Cost` that is open at that moment adds it up:

>>> with Cost() as cost:
...     record("query", flops=20, bytes=160)
>>> cost.flops, cost.procedures["query"].calls
(20, 1)
"""

from __future__ import annotations

from contextvars import ContextVar, Token
from dataclasses import dataclass

_open: ContextVar[tuple[Cost, ...]] = ContextVar("subquad_open_costs", default=())


@dataclass
class Tally:
    """Calls, floating-point operations and bytes moved of one procedure."""

    calls: int = 0
    flops: int = 0
    bytes: int = 0


class Cost:
    """A ledger: procedure name to :class:`Tally`. Open it with ``with`` to let it collect.

    The same ledger may be opened again later and goes on counting; opening one inside itself
    counts once.
    """

    def __init__(self) -> None:
        self.procedures: dict[str, Tally] = {}
        self._tokens: list[Token[tuple[Cost, ...]]] = []

    @property
    def flops(self) -> int:
        """Floating-point operations of all procedures."""
        return sum(t.flops for t in self.procedures.values())

    @property
    def bytes(self) -> int:
        """Bytes moved by all procedures."""
        return sum(t.bytes for t in self.procedures.values())

    def add(self, procedure: str, flops: int, bytes: int, calls: int = 1) -> None:
        """Enter one call of ``procedure``."""
        tally = self.procedures.setdefault(procedure, Tally())
        tally.calls += calls
        tally.flops += int(flops)
        tally.bytes += int(bytes)

    def merge(self, other: Cost) -> Cost:
        """Add everything that ``other`` holds, and return self."""
        for name, tally in other.procedures.items():
            self.add(name, tally.flops, tally.bytes, tally.calls)
        return self

    def as_dict(self) -> dict[str, dict[str, int]]:
        """Plain numbers, for JSON."""
        return {
            name: {"calls": t.calls, "flops": t.flops, "bytes": t.bytes}
            for name, t in sorted(self.procedures.items())
        }

    def __enter__(self) -> Cost:
        ledgers = _open.get()
        self._tokens.append(_open.set(ledgers if self in ledgers else (*ledgers, self)))
        return self

    def __exit__(self, *exc: object) -> None:
        _open.reset(self._tokens.pop())

    def __repr__(self) -> str:
        return f"Cost(flops={self.flops:.3g}, bytes={self.bytes:.3g})"


def record(procedure: str, *, flops: int = 0, bytes: int = 0) -> None:
    """Enter one call of ``procedure`` into every open ledger."""
    for ledger in _open.get():
        ledger.add(procedure, flops, bytes)
