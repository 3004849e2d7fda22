"""Low-rank maintenance: a frozen matrix and its pending change (paper, Algorithms 3 and 4).

`W + U V^T` with W behind the operator protocol. A query reads only the columns in its
support, O(m (nnz(y) + r)); an update appends, O(1) arithmetic; a flush policy decides when
the product is written out (Lemma "low_rank_maintain"; docs/paper.md says why the policy
matters with ordinary multiplication).
"""

from __future__ import annotations

import json
import os

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from subquad.checks import integer
from subquad.cost import Cost
from subquad.errors import InvalidInput
from subquad.lowrank.factors import Factors
from subquad.lowrank.policies import policy_named, write_dense
from subquad.rows import Rows, SparseRows, as_rows
from subquad.weights import DenseWeight, FrozenWeight


class LowRankMaintenance:
    """Holds `W + U V^T`; one per matrix.

    Args:
        weight: W (m_out×m_in), a tensor or any frozen weight. It is never written to: the
            policies that write make their own copy first.
        flush: "never" (factors recompressed to their true rank), "sparse" (each update
            written at once on its S×S entries), "paper" (rank m^a, dense), a rank, or
            "lazy-columns" (a column is written when a query reads it).

    >>> structure = LowRankMaintenance(torch.eye(3))
    >>> structure.update(torch.ones(3, 1), torch.tensor([[2.0], [0.0], [0.0]]))
    >>> structure.query(torch.tensor([[1.0, 0.0, 0.0]])).tolist()
    [[3.0, 2.0, 2.0]]
    >>> structure.rank
    1
    """

    def __init__(self, weight: Tensor | FrozenWeight, *, flush: str | int = "never") -> None:
        self.policy = policy_named(flush)
        if isinstance(weight, Tensor):
            weight = DenseWeight.from_matrix(weight)
        if not isinstance(weight, FrozenWeight):
            kind = type(weight).__name__
            raise InvalidInput(f"weight must be a tensor or a frozen weight, got {kind}")
        self.frozen = weight
        self._own: DenseWeight | None = None
        self._shared = False  # whether another structure reads the same written matrix
        self.pending = Factors(*weight.shape, weight.dtype, weight.device)
        self.cost = Cost()

    @property
    def weight(self) -> FrozenWeight:
        """W: the frozen one, or this structure's own copy once something was written to it."""
        return self.frozen if self._own is None else self._own

    @property
    def shape(self) -> tuple[int, int]:
        """(m_out, m_in)."""
        return self.frozen.shape

    @property
    def rank(self) -> int:
        """Rank of the pending factors."""
        return self.pending.rank

    @property
    def written(self) -> bool:
        """Whether the weights differ from the frozen ones."""
        return self._own is not None

    def writable(self) -> Tensor:
        """Return the table (m_in×m_out) that policies write to; copied at the first call."""
        if self._own is None or self._shared:
            weight = self.weight
            if not isinstance(weight, DenseWeight):
                raise InvalidInput(
                    f"flush={self.policy.name!r} writes into the weights, but "
                    f"{weight.kind} weights are not stored: use flush='never' or dense ones"
                )
            self._own, self._shared = weight.copy(), False
        return self._own.table

    def update(self, U: object, V: object) -> None:
        """Add `U V^T` for U (m_out×r) and V (m_in×r)."""
        left, right = (self._factor(*given) for given in ((U, "U", 0), (V, "V", 1)))
        if left.shape[1] != right.shape[1]:
            raise InvalidInput(
                f"U and V must have as many columns, got {left.shape[1]} and {right.shape[1]}"
            )
        self.update_rows(left.T, right.T)

    def update_rows(self, left: Rows, right: Rows) -> None:
        """Add `sum_j left_j right_j^T` for r rows over m_out and r rows over m_in."""
        with self.cost:
            self.policy.absorb(self, left, right)

    def query(self, Y: object) -> Tensor:
        """Return `Y (W + U V^T)^T` (n×m_out) for rows Y (n×m_in), dense or sparse."""
        return self.query_rows(self._rows(Y, 1))

    def query_rows(self, rows: Rows) -> Tensor:
        """The same for rows of the right type and length, as a network's layers give them."""
        with self.cost:
            self.policy.before_query(self, rows)
            out = self.weight.matmul(rows)
            return out.add_(self.pending.apply(rows)) if self.rank else out

    def query_transpose(self, Y: object, at: SparseRows | None = None) -> Tensor:
        """Return `Y (W + U V^T)` (n×m_in) for rows Y (n×m_out), or its entries on ``at``."""
        return self.query_transpose_rows(self._rows(Y, 0), at)

    def query_transpose_rows(self, rows: Rows, at: SparseRows | None = None) -> Tensor:
        """The same for rows of the right type and length, as a network's layers give them."""
        with self.cost:
            out = self.weight.matmul_transpose(rows, at)
            return out.add_(self.pending.apply_transpose(rows, at)) if self.rank else out

    def flush(self) -> None:
        """Write all that is pending into the weights."""
        with self.cost:
            write_dense(self)

    def dense(self) -> Tensor:
        """Return `W + U V^T` (m_out×m_in), for small sizes."""
        with self.cost:
            matrix = self.weight.dense()
            return matrix.add_(self.pending.dense()) if self.rank else matrix

    def delta(self) -> tuple[Tensor, Tensor]:
        """Return factors (U, V) of the whole change since the frozen weights.

        Where a policy has written the change out, they come from the singular values of the
        difference, which takes the dense matrix: for small sizes.
        """
        if self._own is None:
            return self.pending.left.T.clone(), self.pending.right.clone()
        difference = (self.dense() - self.frozen.dense()).double()
        a, sigma, b = torch.linalg.svd(difference, full_matrices=False)
        # What writing rounded off is no change: it is below eps times the weights themselves.
        top = float(sigma[0]) + float(self.frozen.dense().double().norm())
        kept = int((sigma > torch.finfo(self.frozen.dtype).eps * top).sum())
        root = sigma[:kept].sqrt()
        dtype = self.frozen.dtype
        return (a[:, :kept] * root).to(dtype), (b[:kept].T * root).to(dtype)

    def fork(self, flush: str | int) -> LowRankMaintenance:
        """Return a structure that starts from this one's state; neither writes to the other's."""
        new = LowRankMaintenance(self.frozen, flush=flush)
        new._own = self._own
        new._shared = self._shared = self._own is not None
        new.pending = self.pending.copy()
        return new

    def state(self) -> dict[str, Tensor]:
        """What cannot be had from the frozen weight again: factors, and the written matrix."""
        tensors = {"left": self.pending.left, "right": self.pending.right}
        if self._own is not None:
            tensors["table"] = self._own.table
        return {
            name: tensor.clone(memory_format=torch.contiguous_format)
            for name, tensor in tensors.items()
        }

    def load_state(self, tensors: dict[str, Tensor]) -> None:
        """Take over what :meth:`state` gave."""
        m_out, m_in = self.shape
        left, right, table = (tensors.get(name) for name in ("left", "right", "table"))
        if left is None or right is None:
            raise InvalidInput("a saved structure must hold 'left' and 'right'")
        r = left.shape[0] if left.dim() == 2 else -1
        if left.shape != (r, m_out) or right.shape != (m_in, r):
            raise InvalidInput(
                f"saved factors must have shapes (r, {m_out}) and ({m_in}, r), "
                f"got {tuple(left.shape)} and {tuple(right.shape)}"
            )
        if table is not None and table.shape != (m_in, m_out):
            raise InvalidInput(
                f"a saved table must have shape ({m_in}, {m_out}), got {tuple(table.shape)}"
            )
        where, dtype = self.frozen.device, self.frozen.dtype
        left, right = left.to(where, dtype).clone(), right.to(where, dtype).clone()
        self.pending.replace(left, right)
        self.pending.settled, self._shared = r, False
        self._own = None if table is None else DenseWeight(table.to(where, dtype).clone())

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write weights, factors and policy to one safetensors file."""
        tensors = {"frozen": self.frozen.dense().T.contiguous(), **self.state()}
        header = {"subquad": json.dumps({"flush": self.policy.name, "rank": self.pending.settled})}
        try:
            save_file(tensors, os.fspath(path), metadata=header)
        except (SafetensorError, OSError) as error:
            raise InvalidInput(f"{path} cannot be written: {error}") from None

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> LowRankMaintenance:
        """Read what :meth:`save` wrote."""
        try:
            with safe_open(os.fspath(path), framework="pt") as file:
                header = json.loads((file.metadata() or {}).get("subquad", "null"))
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        except (SafetensorError, OSError, ValueError) as error:
            raise InvalidInput(f"{path} is no saved low-rank structure: {error}") from None
        if not isinstance(header, dict) or "frozen" not in tensors:
            raise InvalidInput(f"{path} is no saved low-rank structure: its header is missing")
        structure = cls(tensors.pop("frozen").T, flush=header.get("flush", "never"))
        structure.load_state(tensors)
        structure.pending.settled = integer("rank in its header", header.get("rank", 0), least=0)
        return structure

    def _rows(self, Y: object, side: int) -> Rows:
        rows = as_rows(Y)
        name = "query" if side else "query_transpose"
        if len(rows.shape) == 1:
            raise InvalidInput(f"{name} takes rows (n, {self.shape[side]}): add an axis, Y[None]")
        if len(rows.shape) != 2 or rows.shape[1] != self.shape[side]:
            raise InvalidInput(
                f"{name} takes rows of length {self.shape[side]}, got shape {tuple(rows.shape)}"
            )
        return self._converted(rows, "Y")

    def _factor(self, given: object, name: str, side: int) -> Tensor:
        rows = as_rows(given, name=name)
        matrix = rows.dense() if isinstance(rows, SparseRows) else rows
        if matrix.dim() != 2 or matrix.shape[0] != self.shape[side]:
            raise InvalidInput(
                f"{name} must have shape ({self.shape[side]}, r), got {tuple(matrix.shape)}"
            )
        converted = self._converted(matrix, name)
        return converted if isinstance(converted, Tensor) else converted.dense()

    def _converted(self, rows: Rows, name: str) -> Rows:
        """The rows in the weights' type, all finite there."""
        values = rows.values if isinstance(rows, SparseRows) else rows
        if values.is_complex():
            raise InvalidInput(f"{name} must be real, got {values.dtype}")
        if not bool(torch.isfinite(values).all()):
            raise InvalidInput(f"{name} holds NaN or infinity: every entry must be finite")
        dtype = self.frozen.dtype
        converted = values.to(dtype)
        if not bool(torch.isfinite(converted).all()):
            raise InvalidInput(f"{name} overflows {dtype}: scale its entries to about 1")
        return rows.with_values(converted) if isinstance(rows, SparseRows) else converted
