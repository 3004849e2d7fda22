"""What the sketches of u ⊗ v have in common: their face and the checks behind it."""

from __future__ import annotations

import operator
from abc import ABC, abstractmethod
from typing import Any

import torch
from torch import Tensor

from subquad.errors import InvalidInput
from subquad.rows import Rows, SparseRows, as_rows
from subquad.sketch.hashing import INDEX_LIMIT

DENSE_LIMIT = 1 << 28  # entries: 2 GB of float64


class ProductSketch(ABC):
    """A random linear map S from vectors u ⊗ v of length m1·m2 to length s.

    Args:
        m1: length of u, below 2^31.
        m2: length of v, below 2^31.
        s: length of the sketch, below 2^31.
        seed: non-negative; the same seed gives the same S on any device and number of threads.
    """

    def __init__(self, m1: int, m2: int, s: int, seed: int = 0) -> None:
        self.m1 = _integer("m1", m1, 1, INDEX_LIMIT - 1)
        self.m2 = _integer("m2", m2, 1, INDEX_LIMIT - 1)
        self.s = _integer("s", s, 1, INDEX_LIMIT - 1)
        self.seed = _integer("seed", seed, 0)

    def sketch(self, U: object, V: object, groups: object = None) -> Tensor:
        """``S (u_i ⊗ v_i)`` for every row i, or the sum of these over each group of rows.

        Equal to ``(S.dense() @ torch.einsum("ni,nj->nij", U, V).flatten(1).T).T``, without ever
        forming a product u ⊗ v. No gradient is tracked.

        Args:
            U: n×m1, float32 or float64: tensor, SparseRows, torch CSR or SciPy CSR.
            V: n×m2, of the same type. Where it is U itself, it is read only once.
            groups: n integers; row i is added to row ``groups[i]`` of the result.

        Returns:
            n×s, or (largest group + 1)×s; a group without rows is zero.
        """
        left, right = self.checked(U, V)
        n = left.shape[0]
        if groups is None:
            out = self._sketch(left, right, None, n)
        else:
            ids = _group_ids(groups, n).to(left.device)
            out = self._sketch(left, right, ids, int(ids.max()) + 1 if n else 0)
        if not bool(torch.isfinite(out.sum())):  # the result is smaller to look through
            _check_finite(U=left, V=right)
        return out

    def dense(self) -> Tensor:
        """S itself, s×(m1·m2) in float64, from its definition; column i·m2 + j is for (i, j)."""
        entries = self.s * self.m1 * self.m2
        if entries > DENSE_LIMIT:
            raise InvalidInput(
                f"dense() writes out at most 2^28 entries, and s·m1·m2 is {entries}: "
                "use sketch(), which never forms this matrix, or smaller sizes"
            )
        return self._dense()

    def checked(self, U: object, V: object) -> tuple[Rows, Rows]:
        """Both batches as rows of one type and length, or :class:`InvalidInput`."""
        left = _rows("U", U, "m1", self.m1)
        right = left if V is U and self.m1 == self.m2 else _rows("V", V, "m2", self.m2)
        for what, a, b in (
            ("number of rows", left.shape[0], right.shape[0]),
            ("dtype", left.dtype, right.dtype),
            ("device", left.device, right.device),
        ):
            if a != b:
                raise InvalidInput(f"U and V must have the same {what}: got {a} and {b}")
        return left, right

    @abstractmethod
    def flops(self, n: int, nnz_u: int, nnz_v: int, groups: int | None = None) -> int:
        """Operations that ``sketch`` counts, before running it.

        Args:
            n: rows.
            nnz_u: stored entries of U: n·m1 for a dense tensor.
            nnz_v: stored entries of V.
            groups: rows of the result, if rows are summed in groups.
        """

    @abstractmethod
    def _sketch(self, left: Rows, right: Rows, groups: Tensor | None, count: int) -> Tensor: ...

    @abstractmethod
    def _dense(self) -> Tensor: ...

    def __repr__(self) -> str:
        return f"{type(self).__name__}(m1={self.m1}, m2={self.m2}, s={self.s}, seed={self.seed})"


def stored(rows: Rows) -> int:
    """Entries that a sketch has to read: those stored if sparse, all if dense."""
    return rows.nnz if isinstance(rows, SparseRows) else rows.numel()


def block_rows(bytes_per_row: int, n: int, device: torch.device) -> int:
    """Rows of one block whose buffers are reused.

    On a CPU they stay in its caches (8 MB): writing fresh memory for all rows at once costs more,
    in page faults, than the transforms. A GPU wants large launches, within 256 MB. Each thread
    gets a row where the whole stays within 256 MB.
    """
    ceiling = (256 << 20) // bytes_per_row
    wanted = ceiling
    if device.type == "cpu":
        wanted = max((8 << 20) // bytes_per_row, min(torch.get_num_threads(), ceiling))
    return max(1, min(n, wanted))


def _integer(name: str, value: Any, least: int, most: int | None = None) -> int:
    span = f"{least} or more" if most is None else f"in {least}..{most}"
    try:
        if isinstance(value, bool):
            raise TypeError
        number = operator.index(value)
    except TypeError as error:
        raise InvalidInput(f"{name} must be an integer {span}, got {value!r}") from error
    if number < least or (most is not None and number > most):
        raise InvalidInput(f"{name} must be an integer {span}, got {number}")
    return number


def _rows(name: str, matrix: object, length: str, m: int) -> Rows:
    rows = as_rows(matrix, name=name)
    shape = tuple(rows.shape)
    if len(shape) != 2 or shape[1] != m:
        raise InvalidInput(f"{name} must have rows of length {length} = {m}, got shape {shape}")
    if rows.dtype not in (torch.float32, torch.float64):
        raise InvalidInput(
            f"{name} must be float32 or float64, got {rows.dtype}: convert it with .double()"
        )
    if isinstance(rows, Tensor):
        return rows.detach()
    # The compiled loops trust these arrays; a wrong one would write outside the buffers.
    start, columns = rows.start, rows.columns
    ends = int(start[0]) == 0 and int(start[-1]) == columns.numel() == rows.values.numel()
    if not ends or bool((start.diff() < 0).any()):
        raise InvalidInput(f"{name}.start must rise from 0 to the number of stored entries")
    if columns.numel() and (int(columns.min()) < 0 or int(columns.max()) >= m):
        got = f"{int(columns.min())}..{int(columns.max())}"
        raise InvalidInput(f"{name} must have its columns in 0..{m - 1}, got {got}")
    values = rows.values.detach().contiguous()
    return SparseRows(start.contiguous(), columns.contiguous(), values, m)


def _check_finite(**given: Rows) -> None:
    for name, rows in given.items():
        values = rows.values if isinstance(rows, SparseRows) else rows
        if not bool(torch.isfinite(values).all()):
            raise InvalidInput(f"{name} holds NaN or infinity: every entry must be finite")


def _group_ids(groups: object, n: int) -> Tensor:
    try:
        ids = torch.as_tensor(groups)
    except (TypeError, ValueError, RuntimeError) as error:
        raise InvalidInput(
            f"groups must be a tensor of integers, got {type(groups).__name__}"
        ) from error
    if tuple(ids.shape) != (n,):
        raise InvalidInput(f"groups must name one group a row, {n} in all, got {tuple(ids.shape)}")
    if n and (ids.dtype == torch.bool or ids.is_floating_point() or ids.is_complex()):
        raise InvalidInput(f"groups must be integers, got {ids.dtype}: number the groups from 0")
    if n and int(ids.min()) < 0:
        raise InvalidInput(f"groups must not be negative, got {int(ids.min())}: count from 0")
    return ids.long()
