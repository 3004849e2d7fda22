import math

import pytest
import torch

from subquad import Cost, InvalidInput
from subquad.kernels import weights_numba, weights_plain
from subquad.rows import SparseRows
from subquad.weights import SparseGaussianWeight
from tests.oracles import sparse_matrix
from tests.weights.contract import CPU, SHAPES, check_products, check_threads


def make(
    m_out: int,
    m_in: int,
    seed: int = 0,
    dtype: torch.dtype = torch.float64,
    per_row: int | None = None,
) -> SparseGaussianWeight:
    return SparseGaussianWeight(m_out, m_in, seed, dtype, CPU, per_row=per_row)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_products(shape: tuple[int, int]) -> None:
    check_products(make(*shape))
    check_products(make(*shape, per_row=min(2, shape[1])))


def test_threads() -> None:
    check_threads(make(3000, 700, dtype=torch.float32))


@pytest.mark.parametrize("density", [0.0, 0.1, 1.0])
def test_plain_products_equal_the_compiled_ones(density: float) -> None:
    table = make(90, 70, per_row=9)._table
    inputs = SparseRows.from_dense(sparse_matrix((6, 70), density, 0))
    outputs = SparseRows.from_dense(sparse_matrix((6, 90), density, 1))
    for name, given in (
        ("sparse_matmul", (inputs,)),
        ("sparse_transpose", (outputs,)),
        ("sparse_transpose_at", (outputs, inputs)),
    ):
        plain, compiled = (
            getattr(kernels, name)(table, *given) for kernels in (weights_plain, weights_numba)
        )
        assert torch.allclose(plain, compiled, atol=1e-12), name


@pytest.mark.parametrize(("m_in", "per_row"), [(500, 20), (503, 20), (40, 40), (50, 1), (7, 5)])
def test_every_row_has_its_number_of_nonzeros(m_in: int, per_row: int) -> None:
    m_out = 4000
    W = make(m_out, m_in, per_row=per_row).dense()
    assert torch.equal((W != 0).sum(1), torch.full((m_out,), per_row))
    expected = m_out * per_row / m_in
    counts = (W != 0).sum(0)
    assert float((counts - expected).abs().max()) < expected * (m_in % per_row > 0) + 6 * math.sqrt(
        expected
    )
    # Each column has second moment 2 in all; kurtosis 3/p makes 400 nonzeros err by 7 %.
    square = W.square().sum(0)
    assert torch.allclose(square, torch.full_like(square, 2), atol=2 * 6 * math.sqrt(3 / expected))
    assert float(square.mean()) == pytest.approx(2, rel=6 * math.sqrt(3 / (m_out * per_row)))


def test_default_number_of_nonzeros() -> None:
    assert [make(2, m).per_row for m in (16, 32, 100, 1024, 10_000)] == [16, 32, 32, 64, 200]


def test_first_layers_of_few_features_are_dense() -> None:
    assert bool((make(100, 16).dense() != 0).all())


def test_runs_are_drawn_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("subquad.weights.sparse.DRAWN", 3 * 90)
    weight = make(90, 70, per_row=10)
    assert torch.equal((weight.dense() != 0).sum(1), torch.full((90,), 10))
    check_products(weight)


def test_cost_follows_the_nonzeros_that_are_read() -> None:
    m = 3000
    weight = make(m, m, per_row=50)
    given = SparseRows.from_dense(sparse_matrix((5, m), 0.02, 1))
    reads = int((weight.dense() != 0).sum(0)[given.columns].sum())
    with Cost() as forward:
        weight.matmul(given)
    with Cost() as back:
        weight.matmul_transpose(given, at=given)
    assert forward.flops == back.flops == 2 * reads
    with Cost() as full:
        weight.matmul_transpose(given)
    assert full.flops == 2 * 5 * m * 50
    assert weight.nbytes == 50 * m * (8 + 4) + 8 * (m + 1)


def test_seeds_and_types() -> None:
    a, b = make(60, 80, 1), make(60, 80, 2)
    assert torch.equal(a.dense(), make(60, 80, 1).dense())
    assert not torch.equal(a.dense(), b.dense())
    assert torch.equal(make(60, 80, 1, torch.float32).dense(), a.dense().float())


def test_bad_sizes_get_one_line() -> None:
    with pytest.raises(InvalidInput, match="sides of at least 1"):
        make(0, 3)
    for wrong in (0, 9):
        with pytest.raises(InvalidInput, match=f"per_row must be from 1 to 8.*got {wrong}"):
            make(4, 8, per_row=wrong)
