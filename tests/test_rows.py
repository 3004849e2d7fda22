import numpy as np
import pytest
import scipy.sparse
import torch

from subquad import InvalidInput
from subquad.rows import SparseRows, as_rows, density, to_dense
from tests.oracles import sparse_matrix


@pytest.fixture
def matrix() -> torch.Tensor:
    matrix = sparse_matrix((7, 11), 0.3, 0)
    matrix[2] = 0
    return matrix


def test_dense_and_sparse_forms_agree(matrix: torch.Tensor) -> None:
    rows = SparseRows.from_dense(matrix)
    assert torch.equal(rows.dense(), matrix)
    assert rows.nnz == int(torch.count_nonzero(matrix))
    assert density(rows) == pytest.approx(rows.nnz / 77)
    assert torch.allclose(rows.sums(), matrix.sum(1))
    assert torch.equal(rows.scale(torch.arange(7.0)).dense(), matrix * torch.arange(7.0)[:, None])


def test_rows_are_taken_and_repeated(matrix: torch.Tensor) -> None:
    rows = SparseRows.from_dense(matrix)
    index = torch.tensor([3, 2, 3, 0])
    assert torch.equal(rows[index].dense(), matrix[index])
    for part in (slice(2, 5), slice(5, 99), slice(3, 3), slice(5, 2), slice(0, 7, 2)):
        assert torch.equal(rows[part].dense(), matrix[part])
    assert torch.equal(rows[2:5].dense(), matrix[2:5])
    assert torch.equal(rows.repeat(2).dense(), matrix.repeat_interleave(2, 0))


def test_transposed_pattern_lists_owners_by_column(matrix: torch.Tensor) -> None:
    rows = SparseRows.from_dense(matrix)
    start, owners, position = rows.transpose_pattern()
    for c in range(11):
        part = slice(int(start[c]), int(start[c + 1]))
        assert torch.equal(owners[part], matrix[:, c].nonzero()[:, 0])
        assert torch.equal(rows.values[position[part]], matrix[owners[part], c])


@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support")
@pytest.mark.parametrize(
    "form", ["torch", "scipy", "scipy-csc", "scipy-bsr", "scipy-unsorted", "numpy", "tensor"]
)
def test_every_form_is_accepted(matrix: torch.Tensor, form: str) -> None:
    given: object = matrix
    if form == "torch":
        given = matrix.to_sparse_csr()
    elif form.startswith("scipy"):
        given = csr = scipy.sparse.csr_matrix(matrix.numpy())
        if form.endswith(("csc", "bsr")):
            given = csr.asformat(form[-3:])
        if form.endswith("unsorted"):
            for low, high in zip(csr.indptr[:-1], csr.indptr[1:], strict=True):
                csr.indices[low:high] = csr.indices[low:high][::-1].copy()
                csr.data[low:high] = csr.data[low:high][::-1].copy()
    elif form == "numpy":
        given = np.asarray(matrix)
    assert torch.equal(to_dense(as_rows(given)), matrix)


@pytest.mark.filterwarnings("ignore:Sparse")
def test_other_forms_are_refused(matrix: torch.Tensor) -> None:
    with pytest.raises(InvalidInput, match="dense or CSR"):
        as_rows(matrix.to_sparse_coo())
    with pytest.raises(InvalidInput, match="give a tensor or a CSR matrix"):
        as_rows("text")


def test_entries_given_twice_are_added() -> None:
    twice = scipy.sparse.csr_matrix(
        (np.array([1.0, 2.0, 4.0]), np.array([1, 1, 0]), np.array([0, 2, 3])), shape=(2, 3)
    )
    assert to_dense(as_rows(twice)).tolist() == [[0.0, 3.0, 0.0], [4.0, 0.0, 0.0]]


def test_indices_out_of_range_are_refused() -> None:
    value = torch.ones(1)
    for start, column in (([0, 1], 10**7), ([0, 1], -1), ([0, 5], 0), ([1, 1], 0), ([0], 0)):
        rows = SparseRows(torch.tensor(start), torch.tensor([column]), value, 600)
        with pytest.raises(InvalidInput, match=r"Y is no valid CSR|Y has column indices outside"):
            as_rows(rows)
