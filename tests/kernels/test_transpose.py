"""Laying rows down as columns, compiled and plain."""

import pytest
import torch

pytest.importorskip("numba")

from subquad.kernels import transpose_numba, transpose_plain


@pytest.mark.parametrize("kind", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("shape", [(1, 1), (16, 16), (5, 40), (40, 5), (70, 257), (256, 1024)])
def test_columns_of_a_wider_matrix(shape: tuple[int, int], kind: torch.dtype) -> None:
    n, m = shape
    matrix = torch.randn(n, m, generator=torch.Generator().manual_seed(0), dtype=kind)
    for kernels in (transpose_plain, transpose_numba):
        for left, right in ((0, 0), (3, 2)):
            wide = torch.zeros(m, left + n + right, dtype=kind)
            kernels.transpose(matrix, wide[:, left : left + n])
            assert torch.equal(wide[:, left : left + n], matrix.T)
            assert not wide[:, :left].any()
            assert not wide[:, left + n :].any()
