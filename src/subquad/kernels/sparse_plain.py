"""Products with sparse rows in plain PyTorch; the twin of ``sparse_numba``.

A weight matrix W (m_out×m_in) comes as its ``table``, W transposed (m_in×m_out), so that
what a firing neuron sends on is one contiguous row.
"""

import torch
from torch import Tensor

from subquad.rows import SparseRows


def matmul(table: Tensor, rows: SparseRows) -> Tensor:
    """Return `rows W^T` (n×m_out): reads only the table rows in the rows' support."""
    if rows.nnz == 0:
        return table.new_zeros(rows.shape[0], table.shape[1])
    return torch.nn.functional.embedding_bag(
        rows.columns, table, rows.start[:-1], mode="sum", per_sample_weights=rows.values
    )


def transpose(table: Tensor, rows: SparseRows) -> Tensor:
    """Return `rows W` (n×m_in) for rows over m_out: reads only columns of their support."""
    out = table.new_zeros(rows.shape[0], table.shape[0])
    for i in range(rows.shape[0]):
        part = slice(int(rows.start[i]), int(rows.start[i + 1]))
        out[i] = table[:, rows.columns[part]] @ rows.values[part]
    return out


def transpose_at(table: Tensor, rows: SparseRows, pattern: SparseRows) -> Tensor:
    """Return the entries of `rows W` on ``pattern``: sample i reads its own S×S block."""
    out = torch.empty(pattern.nnz, dtype=table.dtype, device=table.device)
    for i in range(rows.shape[0]):
        part = slice(int(rows.start[i]), int(rows.start[i + 1]))
        kept = slice(int(pattern.start[i]), int(pattern.start[i + 1]))
        block = table[pattern.columns[kept]][:, rows.columns[part]]
        out[kept] = block @ rows.values[part]
    return out


def add_outer(table: Tensor, left: SparseRows, right: SparseRows) -> None:
    """Add `sum_i left_i right_i^T` to W in place, on its S×S entries only."""
    for i in range(left.shape[0]):
        a = slice(int(left.start[i]), int(left.start[i + 1]))
        b = slice(int(right.start[i]), int(right.start[i + 1]))
        at = right.columns[b][:, None], left.columns[a][None, :]
        table.index_put_(at, right.values[b][:, None] * left.values[a][None, :], accumulate=True)


def above(matrix: Tensor, bound: Tensor) -> SparseRows:
    """Keep the entries of ``matrix`` (n×m) that exceed their row's ``bound`` (n)."""
    return SparseRows.from_mask(matrix > bound[:, None], matrix)


def spread(rows: SparseRows) -> Tensor:
    """Return the dense n×width matrix."""
    return rows.dense()


def square_sums(rows: SparseRows) -> Tensor:
    """Return each row's sum of squares in float64."""
    return rows.with_values(rows.values.double() ** 2).sums()


def gram(rows: SparseRows) -> Tensor:
    """Return `rows rows^T` (n×n) in float64."""
    n, width = rows.shape
    out = torch.zeros(n, n, dtype=torch.float64, device=rows.device)
    step = max(1, (1 << 24) // max(n, 1))
    owners, values = rows.owners, rows.values.double()
    for low in range(0, width, step):
        high = min(low + step, width)
        kept = (rows.columns >= low) & (rows.columns < high)
        block = torch.zeros(n, high - low, dtype=torch.float64, device=rows.device)
        block[owners[kept], rows.columns[kept] - low] = values[kept]
        out += block @ block.T
    return out


gram_by_rows = gram
