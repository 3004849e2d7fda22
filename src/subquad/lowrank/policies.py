"""When and how the pending change is written into the weights: one class a policy.

A policy meets the structure twice: when an update comes in (`absorb`), and before a query
reads columns (`before_query`). All write through three primitives of the structure:
`pending`, `writable()` (its own copy of the weights) and nothing else, so `W + U V^T` is
true after each step whatever the policy.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from subquad.checks import integer
from subquad.cost import record
from subquad.errors import unknown_name
from subquad.kernels import pick
from subquad.rows import Rows, SparseRows

if TYPE_CHECKING:
    from subquad.lowrank.structure import LowRankMaintenance

DUAL_EXPONENT = 0.321334
"""Dual exponent of matrix multiplication (Williams, Xu, Xu, Zhou 2024)."""


class FlushPolicy(ABC):
    """What happens to an update, and what a query must settle before it reads."""

    name: str | int

    @abstractmethod
    def absorb(self, structure: LowRankMaintenance, left: Rows, right: Rows) -> None:
        """Take in `sum_j left_j right_j^T`."""

    @abstractmethod
    def before_query(self, structure: LowRankMaintenance, rows: Rows) -> None:
        """Settle whatever the query of these rows must not find pending."""


@dataclass(frozen=True)
class Never(FlushPolicy):
    """Keep factors for ever, recompressed to their true rank when they have doubled.

    Recompressing drops what is below rounding (of the weights' type) of the largest singular
    value. Updates that small are lost each by itself, though their sum might not be: in float32
    one of 1e4 hides ones of 1e-3. Take float64, or "sparse" or "lazy-columns", for such.
    """

    name: str = "never"

    def absorb(self, structure: LowRankMaintenance, left: Rows, right: Rows) -> None:
        """Merge where the right factor is known, perhaps recompress and append otherwise."""
        structure.pending.append_or_merge(left, right)

    def before_query(self, structure: LowRankMaintenance, rows: Rows) -> None:
        """Nothing: queries read the factors."""


@dataclass(frozen=True)
class AtRank(FlushPolicy):
    """Write the dense product once the rank reaches a limit: the paper's flush.

    Algorithm 4 ("Update") with rank m^a, a = min(alpha, 1/3), where ``rank`` is None. With
    ordinary multiplication a flush costs 2 m_out m_in r.
    """

    name: str | int
    rank: int | None

    def limit(self, shape: tuple[int, int]) -> int:
        """Rank at which the factors are written out."""
        if self.rank is not None:
            return self.rank
        return max(1, math.ceil(max(shape) ** min(DUAL_EXPONENT, 1 / 3)))

    def absorb(self, structure: LowRankMaintenance, left: Rows, right: Rows) -> None:
        """Append; flush at the limit."""
        structure.pending.append(left, right)
        if structure.pending.rank >= self.limit(structure.shape):
            write_dense(structure)

    def before_query(self, structure: LowRankMaintenance, rows: Rows) -> None:
        """Nothing: queries read the factors."""


@dataclass(frozen=True)
class Sparse(FlushPolicy):
    """Write every update at once, on its S×S entries only: sum_j k_j k'_j work."""

    name: str = "sparse"

    def absorb(self, structure: LowRankMaintenance, left: Rows, right: Rows) -> None:
        """Scatter each rank-one term into the table."""
        left, right = (
            part if isinstance(part, SparseRows) else SparseRows.from_dense(part)
            for part in (left, right)
        )
        table = structure.writable()
        entries = int((left.counts * right.counts).sum())
        record("flush", flops=2 * entries, bytes=3 * table.element_size() * entries)
        kernels = pick("sparse", table.device)
        kernels.add_outer(table, left.to(table.dtype), right.to(table.dtype))

    def before_query(self, structure: LowRankMaintenance, rows: Rows) -> None:
        """Nothing is ever pending."""


@dataclass(frozen=True)
class LazyColumns(FlushPolicy):
    """Write a column's pending change when a query first reads that column.

    A row of V that is zero is the column's time stamp: nothing is pending for it. So the
    columns outside all supports are never paid for.
    """

    name: str = "lazy-columns"

    def absorb(self, structure: LowRankMaintenance, left: Rows, right: Rows) -> None:
        """Append only."""
        structure.pending.append(left, right)

    def before_query(self, structure: LowRankMaintenance, rows: Rows) -> None:
        """Bring the columns in the rows' support up to date."""
        if structure.pending.rank == 0:
            return
        if isinstance(rows, SparseRows):
            columns = torch.unique(rows.columns)
        else:
            columns = (rows != 0).any(0).nonzero()[:, 0]
        write_columns(structure, columns)


def write_dense(structure: LowRankMaintenance) -> None:
    """Add the whole pending product to the weights (Algorithm 4, line "W <- W + ΔW")."""
    factors = structure.pending
    if factors.rank == 0:
        return
    m_out, m_in = structure.shape
    table = structure.writable()
    table.addmm_(factors.right, factors.left)
    record("flush", flops=2 * m_out * m_in * factors.rank, bytes=2 * table.nbytes)
    factors.clear()


def write_columns(structure: LowRankMaintenance, columns: Tensor) -> None:
    """Add what is pending for some columns, and drop the factors that nobody waits for."""
    factors = structure.pending
    waiting = factors.right[columns]  # (columns, r)
    stale = (waiting != 0).any(1)
    columns, waiting = columns[stale], waiting[stale]
    if columns.numel() == 0:
        return
    used = (waiting != 0).any(0)
    table = structure.writable()
    table[columns] += waiting[:, used] @ factors.left[used]
    record(
        "flush",
        flops=2 * columns.numel() * int(used.sum()) * table.shape[1],
        bytes=table.element_size() * table.shape[1] * (2 * columns.numel() + int(used.sum())),
    )
    factors.right[columns] = 0
    alive = (factors.right != 0).any(0)
    factors.replace(factors.left[alive], factors.right[:, alive].contiguous())


POLICIES: dict[str, FlushPolicy] = {
    "never": Never(),
    "sparse": Sparse(),
    "paper": AtRank("paper", None),
    "lazy-columns": LazyColumns(),
}


def policy_named(flush: str | int) -> FlushPolicy:
    """Return the policy of a name, or the flush at a given rank."""
    if not isinstance(flush, str):
        rank = integer(
            f"flush must be one of {', '.join(sorted(POLICIES))}; a rank", flush, least=1
        )
        return AtRank(rank, rank)
    if flush not in POLICIES:
        raise unknown_name("flush policy", flush, POLICIES)
    return POLICIES[flush]


__all__ = ["POLICIES", "FlushPolicy", "policy_named", "write_dense"]
