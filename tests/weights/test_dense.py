import pytest
import torch

from subquad import Cost, InvalidInput
from subquad.kernels import sparse_numba, sparse_plain
from subquad.rows import SparseRows
from subquad.weights import DenseWeight
from tests.oracles import sparse_matrix

DTYPES = [torch.float64, torch.float32]


def close(a: torch.Tensor, b: torch.Tensor) -> bool:
    return torch.allclose(a, b, atol=1e-12 if a.dtype == torch.float64 else 1e-4)


@pytest.fixture(params=DTYPES, ids=str)
def table(request: pytest.FixtureRequest) -> torch.Tensor:
    return sparse_matrix((23, 37), 1.0, 0).to(request.param)


@pytest.mark.parametrize("density", [0.0, 0.1, 0.6])
def test_compiled_kernels_equal_the_plain_ones(table: torch.Tensor, density: float) -> None:
    kind = table.dtype
    inputs = SparseRows.from_dense(sparse_matrix((9, 23), density, 1).to(kind))
    outputs = SparseRows.from_dense(sparse_matrix((9, 37), density, 2).to(kind))
    for kernels in (sparse_plain, sparse_numba):
        assert close(kernels.matmul(table, inputs), inputs.dense() @ table)
        full = outputs.dense() @ table.T
        assert close(kernels.transpose(table, outputs), full)
        at = kernels.transpose_at(table, outputs, inputs)
        assert close(at, full[inputs.owners, inputs.columns])
        changed = table.clone()
        kernels.add_outer(changed, outputs, inputs)
        assert close(changed, table + inputs.dense().T @ outputs.dense())
        for product in (kernels.gram, kernels.gram_by_rows):
            gram = product(inputs)
            assert gram.dtype == torch.float64
            assert torch.allclose(gram, inputs.dense().double() @ inputs.dense().double().T)


@pytest.mark.parametrize("density", [0.0, 0.1, 1.0])
@pytest.mark.parametrize("kind", DTYPES, ids=str)
def test_rows_are_collected_and_spread_alike(kind: torch.dtype, density: float) -> None:
    matrix = sparse_matrix((9, 300), density, 5).to(kind)
    matrix[4] = 0
    matrix = matrix.abs()
    plain = sparse_plain.above(matrix, matrix.new_zeros(9))
    rows = sparse_numba.above(matrix, matrix.new_zeros(9))
    assert torch.equal(rows.start, plain.start)
    assert torch.equal(rows.columns, plain.columns)
    assert torch.equal(rows.values, plain.values)
    for kernels in (sparse_plain, sparse_numba):
        assert torch.equal(kernels.spread(rows[2:7]), matrix[2:7])
        sums = kernels.square_sums(rows)
        assert sums.dtype == torch.float64
        assert torch.allclose(sums, matrix.double().square().sum(1), rtol=1e-14)


def test_each_row_has_its_own_bound() -> None:
    matrix = sparse_matrix((5, 130), 1.0, 7)
    bound = torch.tensor([0.0, 0.3, -0.2, 9.0, -9.0], dtype=matrix.dtype)
    rows = sparse_numba.above(matrix, bound)
    assert torch.equal(rows.dense(), torch.where(matrix > bound[:, None], matrix, 0))
    assert rows.counts.tolist()[3:] == [0, 130]


@pytest.mark.parametrize("kind", DTYPES, ids=str)
def test_gram_by_rows_in_blocks(kind: torch.dtype) -> None:
    """More samples than a block has, more columns, and the same bits from any threads."""
    n = sparse_numba.SIDE + 37
    rows = SparseRows.from_dense(sparse_matrix((n, 700), 0.2, 8).to(kind))
    exact = rows.dense().double() @ rows.dense().double().T
    threads, found = torch.get_num_threads(), []
    try:
        for count in (1, 2):
            torch.set_num_threads(count)
            found.append(sparse_numba.gram_by_rows(rows))
    finally:
        torch.set_num_threads(threads)
    assert torch.allclose(found[0], exact, rtol=1e-13, atol=1e-13)
    assert torch.equal(found[0], found[0].T)
    assert torch.equal(*found)


def test_wide_tables_are_summed_in_tiles() -> None:
    table = sparse_matrix((12, sparse_numba.TILE + 77), 1.0, 3)
    rows = SparseRows.from_dense(sparse_matrix((5, 12), 0.8, 4))
    assert torch.allclose(sparse_numba.matmul(table, rows), rows.dense() @ table, atol=1e-12)


def test_one_and_two_threads_give_the_same_bits() -> None:
    table = sparse_matrix((300, 500), 1.0, 5)
    rows = SparseRows.from_dense(sparse_matrix((20, 300), 0.2, 6))
    weight, threads = DenseWeight(table), torch.get_num_threads()
    found = []
    try:
        for count in (1, 2):
            torch.set_num_threads(count)
            found.append(weight.matmul(rows))
    finally:
        torch.set_num_threads(threads)
    assert torch.equal(*found)


@pytest.mark.parametrize("density", [0.05, 1.0])
def test_products_equal_dense_ones_for_both_forms(density: float) -> None:
    matrix = sparse_matrix((37, 23), 1.0, 7)
    weight = DenseWeight.from_matrix(matrix)
    Y, T = sparse_matrix((6, 23), density, 8), sparse_matrix((6, 37), density, 9)
    for rows in (Y, SparseRows.from_dense(Y)):
        assert torch.allclose(weight.matmul(rows), Y @ matrix.T, atol=1e-12)
    for rows in (T, SparseRows.from_dense(T)):
        assert torch.allclose(weight.matmul_transpose(rows), T @ matrix, atol=1e-12)
        at = SparseRows.from_dense(sparse_matrix((6, 23), 0.3, 10))
        assert torch.allclose(
            weight.matmul_transpose(rows, at), (T @ matrix)[at.owners, at.columns], atol=1e-12
        )
    assert torch.equal(weight.columns(torch.tensor([4, 0])), matrix.T[[4, 0]])
    assert torch.equal(weight.dense(), matrix)


def test_sparse_work_follows_the_entries() -> None:
    m = 400
    weight = DenseWeight(sparse_matrix((m, m), 1.0, 0))
    rows = SparseRows.from_dense(sparse_matrix((5, m), 0.05, 1))
    with Cost() as forward:
        weight.matmul(rows)
    assert forward.flops == 2 * rows.nnz * m
    with Cost() as block:
        weight.matmul_transpose(rows, at=rows)
    assert block.flops == 2 * int((rows.counts**2).sum())
    assert block.flops < m * m


def test_gaussian_entries_have_variance_two_over_width() -> None:
    weight = DenseWeight.gaussian(600, 400, 0, torch.float64, torch.device("cpu"))
    assert weight.shape == (600, 400)
    assert abs(float(weight.table.mean())) < 4 * (2 / 600) ** 0.5 / (240_000**0.5)
    assert float(weight.table.var()) == pytest.approx(2 / 600, rel=4 * (2 / 240_000) ** 0.5)
    again = DenseWeight.gaussian(600, 400, 0, torch.float64, torch.device("cpu"))
    assert torch.equal(weight.table, again.table)


def test_bad_matrices_get_one_line() -> None:
    for wrong, message in (
        (torch.zeros(3), "must be a matrix"),
        (torch.zeros(0, 3), "without empty sides"),
        (torch.zeros(2, 2, dtype=torch.int64), "float32 or float64"),
        (torch.tensor([[float("nan")]]), "NaN or infinity"),
    ):
        with pytest.raises(InvalidInput, match=message):
            DenseWeight.from_matrix(wrong)
