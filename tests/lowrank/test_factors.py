"""The pending change as factors: multiplied out it stays the same."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from subquad import Cost
from subquad.lowrank.factors import Factors
from subquad.rows import SparseRows
from tests.oracles import sparse_matrix

FEW = settings(max_examples=40, deadline=None, derandomize=True)


def filled(m_out: int, m_in: int, rank: int, seed: int = 0) -> Factors:
    factors = Factors(m_out, m_in, torch.float64, torch.device("cpu"))
    factors.append(
        sparse_matrix((rank, m_out), 0.8, seed), sparse_matrix((rank, m_in), 0.8, seed + 1)
    )
    return factors


@FEW
@given(
    m_out=st.integers(1, 30),
    m_in=st.integers(1, 30),
    rank=st.integers(0, 50),
    seed=st.integers(0, 10**6),
)
def test_folding_keeps_the_product(m_out: int, m_in: int, rank: int, seed: int) -> None:
    """Tall, wide and square; of a rank below, at and beyond the shorter side."""
    factors = filled(m_out, m_in, rank, seed)
    before = factors.dense()
    factors.fold()
    assert torch.allclose(factors.dense(), before, atol=1e-12)
    assert factors.rank == factors.settled == min(m_out, m_in)
    assert factors.left.shape == (factors.rank, m_out)
    assert factors.right.shape == (m_in, factors.rank)
    Y = SparseRows.from_dense(sparse_matrix((3, m_in), 0.5, seed + 2))
    assert torch.allclose(factors.apply(Y), Y.dense() @ before.T, atol=1e-11)
    again = factors.copy()
    again.fold()
    assert torch.allclose(again.dense(), before, atol=1e-12)


@pytest.mark.parametrize(("m_out", "m_in"), [(40, 6), (6, 40)])
def test_many_blocks_fold_instead_of_growing(m_out: int, m_in: int) -> None:
    """Blocks whose right factors differ: rank and memory stay at the shorter side's."""
    factors = Factors(m_out, m_in, torch.float64, torch.device("cpu"))
    dense = torch.zeros(m_out, m_in, dtype=torch.float64)
    with Cost() as cost:
        for k in range(12):
            left, right = sparse_matrix((5, m_out), 1.0, k), sparse_matrix((5, m_in), 1.0, 50 + k)
            factors.append_or_merge(left, right)
            dense += left.T @ right
            assert factors.rank <= min(m_out, m_in) + 5
            assert torch.allclose(factors.dense(), dense, atol=1e-10)
    assert cost.procedures["fold"].flops > 0
    assert factors.rank <= min(m_out, m_in)


def test_a_folded_change_goes_on() -> None:
    """The right factor of the last block is no longer one to merge with."""
    factors = filled(9, 4, 10)
    right = sparse_matrix((2, 4), 1.0, 7)
    before = factors.dense()
    factors.fold()
    for k in range(3):
        left = sparse_matrix((2, 9), 1.0, 20 + k)
        factors.append_or_merge(left, right)
        before += left.T @ right
    assert torch.allclose(factors.dense(), before, atol=1e-12)
    factors.scale(0.5)
    assert torch.allclose(factors.dense(), before / 2, atol=1e-12)
