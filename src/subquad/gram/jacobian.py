"""The Jacobian as rows of tensor products, never formed.

| symbol | shape | meaning |
|---|---|---|
| `U_l`, `V_l` | N×m_l, N×m_{l-1} | factors of layer l's part; dense or sparse |
| `g` | N | group of each term; None where every term is a row of its own |
| `J` | n×P | row i is the sum over terms t of group i of `u_t ⊗ v_t`, all layers side by side |
| `G = J J^T` | n×n | `G_ij = sum_l sum_{s in i, t in j} <u_s,u_t><v_s,v_t>` |
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from subquad.checks import as_numbers, integer
from subquad.cost import record
from subquad.errors import InvalidInput, unknown_name
from subquad.kernels import pick
from subquad.memory import block_bytes
from subquad.rows import Rows, SparseRows, as_rows, density, to_dense
from subquad.sketch import TensorSketch, TensorSRHT
from subquad.sketch.base import ProductSketch

SKETCHES: dict[str, type[ProductSketch]] = {"srht": TensorSRHT, "tensorsketch": TensorSketch}
BLOCK = 2048
"""Terms of one block of a grouped Gram: two 32 MB blocks in float64."""
MATRIX_BYTES = 1 << 30
"""Room for per-group gradient matrices."""
INNER_BYTES = 1 << 27
"""What a piece of :func:`inner` takes where nothing asks for less."""
PAIRS = 1 / 16
"""Density of sparse rows from which looking up pairs takes longer than multiplying zeros too."""
SORT_BYTES = 64
"""What an entry of sparse rows takes while their columns are sorted."""


class TensorJacobian:
    """Rows `u_i ⊗ v_i`, or sums of such terms within groups.

    Args:
        terms: one pair (U, V) per layer, N×m_out and N×m_in.
        groups: for each of the N terms the row it belongs to, 0 … n-1.

    >>> U, V = torch.eye(2), torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    >>> TensorJacobian([(U, V)]).gram().tolist()
    [[5.0, 0.0], [0.0, 25.0]]
    """

    def __init__(
        self,
        terms: Sequence[tuple[object, object]],
        groups: object | None = None,
    ) -> None:
        if not isinstance(terms, list | tuple):
            raise InvalidInput(f"terms must list pairs (U, V), got a {type(terms).__name__}")
        if len(terms) == 0:
            raise InvalidInput("terms is empty: give one pair (U, V) per layer")
        self.terms: list[tuple[Rows, Rows]] = [_pair(l, term) for l, term in enumerate(terms)]
        counts = {rows.shape[0] for pair in self.terms for rows in pair}
        if len(counts) != 1:
            raise InvalidInput(f"all U and V must have as many rows, got {sorted(counts)}")
        self.length = counts.pop()
        self.groups = None if groups is None else _groups(groups, self.length)
        self.rows = self.length if self.groups is None else int(self.groups.max()) + 1
        self._gram: Tensor | None = None

    @property
    def shape(self) -> tuple[int, int]:
        """(n, P): rows and parameters."""
        return self.rows, sum(u.shape[1] * v.shape[1] for u, v in self.terms)

    @property
    def scale(self) -> int:
        """m, the width of the last layer: ridge is stated in units of G/m."""
        return self.terms[-1][0].shape[1]

    @property
    def device(self) -> torch.device:
        """Where the factors lie."""
        return self.terms[0][0].device

    def gram(self) -> Tensor:
        """Return a copy of G (n×n) in float64; formed once and kept.

        Equal to `J @ J.T`. Without groups by Hadamard product; with groups in blocks of terms
        or through per-group matrices, whichever takes fewer operations.
        """
        if self._gram is None:
            total = torch.zeros(self.rows, self.rows, dtype=torch.float64, device=self.device)
            for u, v in self.terms:
                if self.groups is None:
                    total += inner(u) * inner(v)
                elif _block_flops(u, v) <= self._matrix_flops(u, v):
                    total += self._gram_by_blocks(u, v, self.groups)
                else:
                    total += self._gram_by_matrices(u, v, self.groups)
            if not bool(torch.isfinite(total.sum())):
                raise InvalidInput("the Gram matrix overflows float64: scale the terms to about 1")
            self._gram = total
        return self._gram.clone()  # what the caller does to it must not come back

    def gram_flops(self) -> int:
        """Operations that :meth:`gram` takes; 0 where it is there already."""
        if self._gram is not None:
            return 0
        if self.groups is None:
            return sum(inner_flops(u) + inner_flops(v) for u, v in self.terms)
        return sum(min(_block_flops(u, v), self._matrix_flops(u, v)) for u, v in self.terms)

    def product_flops(self) -> int:
        """Operations that :meth:`gram_matvec` takes."""
        if self._gram is not None:
            return 2 * self.rows**2
        return sum(4 * self.length * u.shape[1] * v.shape[1] for u, v in self.terms)

    def gram_matvec(self, q: object) -> Tensor:
        """Return `G q` in float64: from G where it is formed, else through `J (J^T q)`."""
        weights = self._weights(q)
        if self._gram is not None:
            record("gram_matvec", flops=2 * self.rows**2, bytes=self._gram.nbytes)
            return self._gram @ weights
        spread = self._spread(weights)
        total = torch.zeros(self.length, dtype=torch.float64, device=self.device)
        for u, v in self.terms:
            left, right = to_dense(u), to_dense(v).double()
            # Rows of J^T q held at a time.
            step = max(1, int(block_bytes(1 << 28)) // (8 * right.shape[1]))
            for low in range(0, left.shape[1], step):
                some = left[:, low : low + step].double()
                part = (some * spread[:, None]).T @ right
                total += ((right @ part.T) * some).sum(1)
            flops = 4 * self.length * left.shape[1] * right.shape[1]
            record("gram_matvec", flops=flops, bytes=2 * (left.nbytes + right.nbytes))
        return self._collect(total)

    def matvec(self, x: object) -> Tensor:
        """Return `J x` (n) for parameters x: a flat P-vector or one matrix per layer."""
        total = torch.zeros(self.length, dtype=torch.float64, device=self.device)
        for (u, v), matrix in zip(self.terms, self._matrices(x), strict=True):
            left, right = to_dense(u).double(), to_dense(v).double()
            total += ((left @ matrix.double()) * right).sum(1)
            flops = 2 * self.length * matrix.numel()
            record("matvec", flops=flops, bytes=8 * matrix.numel())
        return self._collect(total)

    def rmatvec(self, q: object) -> Tensor:
        """Return `J^T q` as a flat P-vector: P numbers, so for small sizes.

        :meth:`pullback` gives the same as factors, at any size.
        """
        parts = [
            (to_dense(u).double().T @ to_dense(v).double()).reshape(-1) for u, v in self.pullback(q)
        ]
        record("rmatvec", flops=2 * self.length * self.shape[1], bytes=8 * self.shape[1])
        return torch.cat(parts)

    def pullback(self, q: object) -> list[tuple[Rows, Rows]]:
        """Return `J^T q` as one pair of row factors per layer: `sum_t q_t u_t v_t^T`."""
        spread = self._spread(self._weights(q))
        return [(scale_rows(u, spread), v) for u, v in self.terms]

    def sketch(self, s: int, kind: str = "srht", seed: int = 0) -> Tensor:
        """Return `J S^T` (n×s) in float64, an independent sketch for each layer."""
        s = integer("s", s, least=1)
        total = torch.zeros(self.rows, s, dtype=torch.float64, device=self.device)
        for tool, (u, v) in zip(self.sketches(s, kind, seed), self.terms, strict=True):
            total += tool.sketch(u, v, self.groups).double()
        return total

    def sketches(self, s: int, kind: str, seed: int) -> list[ProductSketch]:
        """Return the sketch of each layer."""
        if kind not in SKETCHES:
            raise unknown_name("sketch", kind, SKETCHES)
        seeds = np.random.SeedSequence(integer("seed", seed, least=0)).generate_state(
            len(self.terms)
        )
        return [
            SKETCHES[kind](u.shape[1], v.shape[1], s, seed=int(own))
            for (u, v), own in zip(self.terms, seeds, strict=True)
        ]

    def sketch_flops(self, s: int, kind: str) -> int:
        """Operations that :meth:`sketch` takes, by the sketches' own estimate."""
        return sum(
            tool.flops(self.length, _entries(u), _entries(v))
            for tool, (u, v) in zip(self.sketches(s, kind, 0), self.terms, strict=True)
        )

    def _weights(self, q: object) -> Tensor:
        weights = as_numbers(q, "q").to(self.device, torch.float64)
        if weights.shape != (self.rows,):
            raise InvalidInput(f"q must have shape ({self.rows},), got {tuple(weights.shape)}")
        return weights

    def _spread(self, q: Tensor) -> Tensor:
        return q if self.groups is None else q[self.groups]

    def _collect(self, per_term: Tensor) -> Tensor:
        if self.groups is None:
            return per_term
        return per_term.new_zeros(self.rows).index_add_(0, self.groups, per_term)

    def _matrices(self, x: object) -> list[Tensor]:
        shapes = [(u.shape[1], v.shape[1]) for u, v in self.terms]
        if isinstance(x, list | tuple):
            matrices = [as_numbers(part, "x").to(self.device) for part in x]
            if [tuple(part.shape) for part in matrices] != shapes:
                raise InvalidInput(f"x must list matrices of shapes {shapes}")
            return matrices
        flat = as_numbers(x, "x").to(self.device)
        if flat.shape != (self.shape[1],):
            raise InvalidInput(
                f"x must have shape ({self.shape[1]},) or be one matrix per layer, "
                f"got {tuple(flat.shape)}; for G q use gram_matvec, for J^T q rmatvec"
            )
        parts = flat.split([a * b for a, b in shapes])
        return [part.reshape(shape) for part, shape in zip(parts, shapes, strict=True)]

    def _gram_by_blocks(self, u: Rows, v: Rows, groups: Tensor) -> Tensor:
        """Sum (U U^T) ∘ (V V^T) over blocks of terms."""
        total = torch.zeros(self.rows, self.rows, dtype=torch.float64, device=self.device)
        edges = range(0, self.length, BLOCK)
        for low in edges:
            a = slice(low, low + BLOCK)
            ua, va = to_dense(u[a]).double(), to_dense(v[a]).double()
            for other in edges:
                if other < low:
                    continue
                b = slice(other, other + BLOCK)
                product = (ua @ to_dense(u[b]).double().T) * (va @ to_dense(v[b]).double().T)
                rows = product.new_zeros(self.rows, product.shape[1])
                rows.index_add_(0, groups[a], product)
                both = product.new_zeros(self.rows, self.rows)
                both.index_add_(1, groups[b], rows)
                total += both if other == low else both + both.T
        record("gram", flops=_block_flops(u, v), bytes=8 * self.length**2)
        return total

    def _gram_by_matrices(self, u: Rows, v: Rows, groups: Tensor) -> Tensor:
        """Form each row's gradient matrix, as many at a time as there is room for."""
        order = torch.argsort(groups, stable=True)
        ends = torch.bincount(groups, minlength=self.rows).cumsum(0).tolist()
        starts = [0, *ends[:-1]]
        numbers = u.shape[1] * v.shape[1]
        room = max(1, int(block_bytes(MATRIX_BYTES)) // (2 * 8 * numbers))

        def matrices(rows: range) -> Tensor:
            out = torch.empty(len(rows), numbers, dtype=torch.float64, device=self.device)
            for k, i in enumerate(rows):
                at = order[starts[i] : ends[i]]
                left, right = to_dense(u[at]).double(), to_dense(v[at]).double()
                out[k] = (left.T @ right).reshape(-1)
            return out

        total = torch.zeros(self.rows, self.rows, dtype=torch.float64, device=self.device)
        for low in range(0, self.rows, room):
            a = range(low, min(low + room, self.rows))
            here = matrices(a)
            total[low : a.stop, low : a.stop] = here @ here.T
            for other in range(a.stop, self.rows, room):
                b = range(other, min(other + room, self.rows))
                block = here @ matrices(b).T
                total[low : a.stop, other : b.stop] = block
                total[other : b.stop, low : a.stop] = block.T
        record("gram", flops=self._matrix_flops(u, v), bytes=8 * self.rows * numbers)
        return total

    def _matrix_flops(self, u: Rows, v: Rows) -> int:
        numbers = u.shape[1] * v.shape[1]
        blocks = -(-self.rows // max(1, int(block_bytes(MATRIX_BYTES)) // (2 * 8 * numbers)))
        formed = (blocks + 1) // 2 if blocks > 1 else 1  # later blocks are formed again
        return 2 * self.length * numbers * formed + self.rows**2 * numbers


def inner(rows: Rows) -> Tensor:
    """Return `rows rows^T` in float64."""
    record("gram", flops=inner_flops(rows), bytes=rows.nbytes)
    if isinstance(rows, SparseRows):
        if density(rows) < PAIRS:
            return _inner_by_pairs(rows)
        return torch.as_tensor(pick("sparse", rows.device).gram_by_rows(rows))
    n, width = rows.shape
    total = torch.zeros(n, n, dtype=torch.float64, device=rows.device)
    step = max(1, int(block_bytes(INNER_BYTES)) // (8 * n))
    for low in range(0, width, step):  # float64 in pieces: n·m doubles may not fit
        piece = rows[:, low : low + step].double()
        total += piece @ piece.T
    return total


def _inner_by_pairs(rows: SparseRows) -> Tensor:
    """Pairs of firing neurons: some columns at a time, since sorting takes memory."""
    kernels = pick("sparse", rows.device)
    pieces = -(-rows.nnz * SORT_BYTES // int(block_bytes(INNER_BYTES)))
    if pieces <= 1:
        return torch.as_tensor(kernels.gram(rows))
    step = -(-rows.width // pieces)
    total = torch.zeros(rows.shape[0], rows.shape[0], dtype=torch.float64, device=rows.device)
    for low in range(0, rows.width, step):
        total += kernels.gram(rows.between(low, min(low + step, rows.width)))
    return total


def inner_flops(rows: Rows) -> int:
    """Operations of :func:`inner`: pairs of firing neurons, pairs with one, or 2 n² m."""
    n, m = rows.shape
    if not isinstance(rows, SparseRows):
        return 2 * n * n * m
    if density(rows) >= PAIRS:
        return rows.nnz * (n + 1)
    counts = torch.bincount(rows.columns, minlength=m)
    return int((counts * (counts + 1)).sum())


def scale_rows(rows: Rows, factors: Tensor) -> Rows:
    """Return row t times ``factors[t]``."""
    if isinstance(rows, SparseRows):
        record("scale", flops=rows.nnz, bytes=2 * rows.values.nbytes)
        return rows.scale(factors)
    record("scale", flops=rows.numel(), bytes=2 * rows.nbytes)
    return rows * factors.to(rows.dtype)[:, None]


def _entries(rows: Rows) -> int:
    return rows.nnz if isinstance(rows, SparseRows) else rows.numel()


def _block_flops(u: Rows, v: Rows) -> int:
    return u.shape[0] ** 2 * (u.shape[1] + v.shape[1])


def _pair(l: int, term: object) -> tuple[Rows, Rows]:
    if not isinstance(term, list | tuple) or len(term) != 2:
        raise InvalidInput(f"terms[{l}] must be a pair (U, V), got a {type(term).__name__}")
    pair = as_rows(term[0], name=f"terms[{l}][0]"), as_rows(term[1], name=f"terms[{l}][1]")
    for part, rows in zip("UV", pair, strict=True):
        if len(rows.shape) != 2 or 0 in rows.shape:
            raise InvalidInput(
                f"{part} of layer {l} must be a matrix (terms, neurons) without empty sides, "
                f"got shape {tuple(rows.shape)}"
            )
        values = rows.values if isinstance(rows, SparseRows) else rows
        if not values.is_floating_point():
            raise InvalidInput(f"{part} of layer {l} must be floating, got {values.dtype}")
        if not bool(torch.isfinite(values).all()):
            raise InvalidInput(f"{part} of layer {l} holds NaN or infinity")
    if pair[0].dtype != pair[1].dtype:
        raise InvalidInput(
            f"U and V of layer {l} must have one type, got {pair[0].dtype} and {pair[1].dtype}"
        )
    return pair


def _groups(groups: object, length: int) -> Tensor:
    try:
        given = torch.as_tensor(groups)
    except (TypeError, ValueError, RuntimeError) as error:
        raise InvalidInput(f"groups must hold one integer per term: {error}") from None
    if given.shape != (length,) or given.is_floating_point() or given.dtype == torch.bool:
        raise InvalidInput(
            f"groups must hold one integer per term, shape ({length},), "
            f"got shape {tuple(given.shape)} of {given.dtype}"
        )
    if int(given.min()) < 0:
        raise InvalidInput(f"groups must be >= 0, got {int(given.min())}")
    if int(given.max()) >= length:
        raise InvalidInput(
            f"groups must number the rows from 0, below {length} for {length} terms, "
            f"got {int(given.max())}"
        )
    return given.long()
