"""What a solver says about its own solution."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Certificate:
    """How good `x` is in `(G + ridge m I) x = c`, and how it was found.

    Attributes:
        residual: `‖(G + ridge m I) x - c‖ / ‖c‖`.
        residual_kind: "exact", or "estimated" from a second, independent sketch.
        condition: estimate of the condition number of the matrix that was factorised.
        rank: its effective rank.
        path: the methods that ran, in order, such as "sketch -> exact".
        interval: 95 % interval of an estimated residual.
        iterations: of conjugate gradients.
        size: rows of the sketch.
        note: a word about a fallback, empty if there was none.
    """

    residual: float
    residual_kind: Literal["exact", "estimated"]
    condition: float
    rank: int
    path: str
    interval: tuple[float, float] | None = None
    iterations: int = 0
    size: int | None = None
    note: str = ""

    def __str__(self) -> str:
        kind = "" if self.residual_kind == "exact" else "estimated "
        return (
            f"solved by {self.path}: {kind}residual {self.residual:.1e}, "
            f"condition {self.condition:.1e}, rank {self.rank}"
        )

    def as_dict(self) -> dict[str, object]:
        """Plain values, for JSON."""
        return dataclasses.asdict(self)

    def telling_rank(self, n: int) -> Certificate:
        """Return the certificate with a note where the system was singular."""
        if self.rank >= n:
            return self
        note = f"the Gram matrix has rank {self.rank} of {n}: solved in the least-squares sense"
        return dataclasses.replace(self, note="; ".join(t for t in (self.note, note) if t))

    def after(self, path: str, note: str) -> Certificate:
        """Return this certificate as the outcome of a fallback from ``path``."""
        notes = "; ".join(part for part in (note, self.note) if part)
        return dataclasses.replace(self, path=f"{path} -> {self.path}", note=notes)
