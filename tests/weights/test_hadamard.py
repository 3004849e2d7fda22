import math

import numpy as np
import pytest
import torch
from scipy.linalg import hadamard

from subquad import Cost, InvalidInput
from subquad.weights import HadamardWeight
from tests.weights.contract import CPU, SHAPES, check_products, check_threads, use_plain_kernels


def make(
    m_out: int, m_in: int, seed: int = 0, dtype: torch.dtype = torch.float64
) -> HadamardWeight:
    return HadamardWeight(m_out, m_in, seed, dtype, CPU)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_products(shape: tuple[int, int]) -> None:
    check_products(make(*shape))


def test_threads() -> None:
    check_threads(make(3000, 700, dtype=torch.float32))


def test_it_is_three_signed_transforms_cut_to_size() -> None:
    m_out, m_in, M = 12, 10, 16
    generator = torch.Generator().manual_seed(7)
    signs = torch.randint(0, 2, (3, M), generator=generator, dtype=torch.int8).numpy() * 2.0 - 1
    H = hadamard(M) / math.sqrt(M)
    whole = np.linalg.multi_dot([H * signs[0], H * signs[1], H * signs[2]])
    expected = math.sqrt(2 * M / m_out) * whole[:m_out, :m_in]
    assert np.allclose(make(m_out, m_in, 7).dense().numpy(), expected, atol=1e-12)


def test_columns_are_orthogonal_where_all_rows_are_kept() -> None:
    """Not so for i.i.d. entries; cut rows leave dependence of order 1/sqrt(m)."""
    W = make(64, 40).dense()
    assert torch.allclose(W.T @ W, 2 * torch.eye(40, dtype=W.dtype), atol=1e-12)
    W = make(40, 64).dense()
    assert torch.allclose(W @ W.T, 64 / 20 * torch.eye(40, dtype=W.dtype), atol=1e-12)


def test_plain_kernels_give_the_same_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    weight = make(300, 200, dtype=torch.float32)
    Y = torch.randn(5, 200, generator=torch.Generator().manual_seed(0))
    expected = weight.matmul(Y)
    use_plain_kernels(monkeypatch, "hadamard")
    assert torch.equal(weight.matmul(Y), expected)


def test_float32_follows_float64() -> None:
    narrow, wide = make(5000, 8192, dtype=torch.float32), make(5000, 8192)
    Y = torch.randn(4, 8192, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    exact = wide.matmul(Y)
    error = narrow.matmul(Y.float()).double() - exact
    assert float(error.norm() / exact.norm()) < 1e-6


def test_cost_and_memory_are_nearly_linear_in_the_width() -> None:
    flops, held = [], []
    for m in (2**13, 2**16):
        weight = make(m, m, dtype=torch.float32)
        with Cost() as cost:
            weight.matmul(torch.zeros(2, m))
        assert cost.procedures["matmul"].flops == 2 * (3 * m * int(math.log2(m)) + 3 * m)
        flops.append(cost.flops)
        held.append(weight.nbytes)
    assert math.log2(flops[1] / flops[0]) / 3 < 1.15
    assert held[1] == 8 * held[0] == 12 * 2**16


def test_few_inputs_cost_few_stages() -> None:
    """Of the first transform only the stages that numbers enter."""
    m, log = 2**10, 10
    with Cost() as cost:
        make(m, 12).matmul(torch.zeros(3, 12))
    assert cost.procedures["matmul"].flops == 3 * (16 * 4 + 2 * m * log + 2 * m + 12)
    assert cost.procedures["matmul"].bytes == 3 * 8 * (12 + m)


def test_seeds_decide() -> None:
    assert torch.equal(make(9, 9, 1).dense(), make(9, 9, 1).dense())
    assert not torch.equal(make(9, 9, 1).dense(), make(9, 9, 2).dense())


def test_empty_sides_are_refused() -> None:
    with pytest.raises(InvalidInput, match="sides of at least 1"):
        make(0, 3)
