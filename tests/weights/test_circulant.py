import math

import numpy as np
import pytest
import torch
from scipy.linalg import circulant, hadamard

from subquad import Cost
from subquad.weights import CirculantWeight
from tests.weights.contract import CPU, SHAPES, check_products, check_threads, use_plain_kernels


def make(
    m_out: int, m_in: int, seed: int = 0, dtype: torch.dtype = torch.float64
) -> CirculantWeight:
    return CirculantWeight(m_out, m_in, seed, dtype, CPU)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_products(shape: tuple[int, int]) -> None:
    check_products(make(*shape))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_threads(dtype: torch.dtype) -> None:
    """To rounding: the FFT splits its work by the number of threads and of rows."""
    check_threads(make(20_000, 30_000, dtype=dtype), tolerance=20 * torch.finfo(dtype).eps)


def test_it_is_a_circulant_times_a_signed_hadamard_matrix_cut_to_size() -> None:
    m_out, m_in, M = 12, 10, 16
    generator = torch.Generator().manual_seed(7)
    g = torch.randn(M, generator=generator, dtype=torch.float64).numpy()
    signs = torch.randint(0, 2, (2, M), generator=generator, dtype=torch.int8).numpy() * 2.0 - 1
    whole = (circulant(g) * signs[1]) @ (hadamard(M) / math.sqrt(M)) * signs[0]
    expected = math.sqrt(2 / m_out) * whole[:m_out, :m_in]
    assert np.allclose(make(m_out, m_in, 7).dense().numpy(), expected, atol=1e-12)


def test_plain_kernels_give_the_same_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    weight = make(300, 200, dtype=torch.float32)
    Y = torch.randn(5, 200, generator=torch.Generator().manual_seed(0))
    expected = weight.matmul(Y)
    use_plain_kernels(monkeypatch, "circulant")
    assert torch.equal(weight.matmul(Y), expected)


def test_blocks_do_not_change_the_result(monkeypatch: pytest.MonkeyPatch) -> None:
    weight = make(64, 50)
    Y = torch.randn(9, 50, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    whole = weight.matmul(Y), weight.matmul_transpose(weight.matmul(Y))
    monkeypatch.setattr("subquad.weights.circulant.BLOCK_BYTES", 2 * 64 * 8)
    assert torch.allclose(weight.matmul(Y), whole[0], rtol=0, atol=1e-14)
    assert torch.allclose(weight.matmul_transpose(whole[0]), whole[1], rtol=0, atol=1e-14)


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
        flops.append(cost.flops)
        held.append(weight.nbytes)
    assert math.log2(flops[1] / flops[0]) / 3 < 1.15
    assert held[1] < 13 * 2**16


def test_seeds_decide() -> None:
    assert torch.equal(make(9, 9, 1).dense(), make(9, 9, 1).dense())
    assert not torch.equal(make(9, 9, 1).dense(), make(9, 9, 2).dense())
