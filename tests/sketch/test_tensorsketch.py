"""TensorSketch: its definition, its CountSketch stage, what it counts."""

import pytest
import torch

from subquad.cost import Cost
from subquad.rows import SparseRows
from subquad.sketch import TensorSketch
from tests.sketch.cases import random


def test_dense_follows_the_definition() -> None:
    sketch = TensorSketch(5, 4, 7, seed=3)
    S, columns = sketch.dense(), torch.arange(5)
    h1, g1 = sketch.left.bucket.buckets(columns, 7), sketch.left.sign.signs(columns)
    h2, g2 = sketch.right.bucket.buckets(columns[:4], 7), sketch.right.sign.signs(columns[:4])
    for i in range(5):
        for j in range(4):
            column = torch.zeros(7, dtype=torch.float64)
            column[int(h1[i] + h2[j]) % 7] = g1[i] * g2[j]
            assert torch.equal(S[:, i * 4 + j], column)


@pytest.mark.parametrize("share", [1.0, 0.05])
def test_count_sketch_stage(share: float) -> None:
    U, V, s = random(9, 60, share=share), random(9, 45, seed=1, share=share), 500
    sketch = TensorSketch(60, 45, s)
    pair = sketch.checked(SparseRows.from_dense(U), SparseRows.from_dense(V))
    for left, right in ((U, V), pair):
        for first, a, b in sketch.count_sketches(left, right):
            for found, rows, hashes in ((a, U, sketch.left), (b, V, sketch.right)):
                columns = torch.arange(rows.shape[1])
                matrix = torch.zeros(rows.shape[1], s, dtype=torch.float64)
                matrix[columns, hashes.bucket.buckets(columns, s)] = hashes.sign.signs(columns)
                wanted = rows[first : first + found.shape[0]] @ matrix
                torch.testing.assert_close(found, wanted, rtol=0, atol=1e-13)


def test_sparse_rows_cost_their_entries() -> None:
    n, m, s = 16, 400, 32
    U = random(n, m, share=0.05)
    rows = SparseRows.from_dense(U)
    counted = []
    for matrix in (U, rows):
        with Cost() as cost:
            TensorSketch(m, m, s).sketch(matrix, matrix)
        counted.append(cost.procedures["countsketch"].flops)
    assert counted == [2 * (2 * n * m + 10 * m), 2 * (2 * rows.nnz + 10 * min(m, rows.nnz))]


def test_counts_each_stage() -> None:
    n, m, s, groups = 6, 20, 16, torch.tensor([0, 0, 1, 1, 2, 2])
    U = random(n, m)
    for ids, inverse, product in ((None, n, 6), (groups, 3, 8)):
        with Cost() as cost:
            TensorSketch(m, m, s).sketch(U, U, ids)
        assert cost.procedures["fft"].flops == (2 * n + inverse) * 160  # 2.5 s log2 s
        assert cost.procedures["sketch_combine"].flops == n * 9 * product
        assert set(cost.procedures) == {"countsketch", "fft", "sketch_combine"}
        # U is V: the rows are read once, both buffers of n×s are written.
        assert cost.procedures["countsketch"].bytes == 8 * (n * m + 2 * n * s)
