"""Several transforms of a row in a row, compiled and plain; single ones are in tests/sketch."""

import pytest
import torch

pytest.importorskip("numba")

from subquad.kernels import fwht_numba, fwht_plain
from subquad.rows import SparseRows
from tests.oracles import sparse_matrix

# (rows, numbers given, numbers kept, side): short and long, cut and padded, few rows and many
SHAPES = [
    (7, 1, 1, 1),
    (7, 5, 8, 8),
    (9, 3, 64, 64),
    (9, 64, 40, 64),
    (40, 16, 2048, 2048),
    (40, 1500, 1100, 2048),
    (3, 1 << 15, 1 << 16, 1 << 16),
    (1, 1 << 16, 1 << 16, 1 << 16),
]


@pytest.mark.parametrize("kind", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_products_equal_the_plain_ones_bit_for_bit(
    shape: tuple[int, int, int, int], kind: torch.dtype
) -> None:
    n, given, kept, side = shape
    matrix = sparse_matrix((n, given), 0.3, 1).to(kind)
    draw = torch.Generator().manual_seed(2)
    first, last = (torch.randn(m, generator=draw).to(kind) for m in (given, kept))
    inner = tuple(torch.randn(side, generator=draw).to(kind) for _ in range(2))
    for ends in ((first, last), (first, None), (None, last)):
        expected = matrix.new_empty(n, kept)
        fwht_plain.products(matrix, ends[0], inner, ends[1], expected, side)
        for rows in (matrix, SparseRows.from_dense(matrix)):
            out = matrix.new_empty(n, kept)
            fwht_numba.products(rows, ends[0], inner, ends[1], out, side)
            assert torch.equal(out, expected)


def test_one_thread_gives_the_same_bits() -> None:
    rows = torch.randn(2, 1 << 16, generator=torch.Generator().manual_seed(0))
    inner = (torch.ones(1 << 16),)
    threads, found = torch.get_num_threads(), []
    try:
        for count in (1, 2, 3):
            torch.set_num_threads(count)
            found.append(torch.empty(2, 1 << 16))
            fwht_numba.products(rows, None, inner, None, found[-1], 1 << 16)
    finally:
        torch.set_num_threads(threads)
    assert torch.equal(found[0], found[1])
    assert torch.equal(found[0], found[2])
