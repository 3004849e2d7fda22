"""What every kind of frozen weights must do, checked against its own dense matrix."""

import pytest
import torch

from subquad.kernels import numba_available
from subquad.rows import SparseRows
from subquad.weights import FrozenWeight
from tests.oracles import sparse_matrix

SHAPES = [(64, 64), (37, 23), (23, 37), (130, 3), (3, 130), (1, 1), (1, 5), (5, 1)]
CPU = torch.device("cpu")


def check_products(weight: FrozenWeight, tolerance: float = 1e-10) -> None:
    """Products equal dense ones, from dense and sparse rows; the adjoint identity; columns."""
    W = weight.dense()
    m_out, m_in = weight.shape
    assert W.shape == (m_out, m_in)
    assert W.dtype == weight.dtype

    def close(a: torch.Tensor, b: torch.Tensor) -> bool:
        return torch.allclose(a, b, rtol=0, atol=tolerance)

    for density in (0.0, 0.1, 1.0):
        Y = sparse_matrix((7, m_in), density, 1).to(weight.dtype)
        T = sparse_matrix((7, m_out), density, 2).to(weight.dtype)
        at = SparseRows.from_dense(sparse_matrix((7, m_in), 0.3, 3))
        for form in (torch.clone, SparseRows.from_dense):
            forward, back = weight.matmul(form(Y)), weight.matmul_transpose(form(T))
            assert close(forward, Y @ W.T)
            assert close(back, T @ W)
            assert close(weight.matmul_transpose(form(T), at), (T @ W)[at.owners, at.columns])
            assert torch.allclose((forward * T).sum(), (Y * back).sum(), atol=30 * tolerance)
    generator = torch.Generator().manual_seed(4)
    order = torch.randperm(m_in, generator=generator)
    assert close(weight.columns(order), W.T[order])
    assert weight.columns(order[:0]).shape == (0, m_out)
    assert weight.matmul(torch.zeros(0, m_in, dtype=weight.dtype)).shape == (0, m_out)


def check_threads(weight: FrozenWeight, n: int = 5, tolerance: float = 0.0) -> None:
    """One and two threads give the same bits (or what ``tolerance`` says), as does a row alone.

    The plain twins leave sums to PyTorch's matrix products, which round as they like.
    """
    atol = tolerance if numba_available() else 1e-5

    def same(a: torch.Tensor, b: torch.Tensor) -> bool:
        return torch.allclose(a, b, rtol=0, atol=atol)

    m_out, m_in = weight.shape
    Y = SparseRows.from_dense(sparse_matrix((n, m_in), 0.1, 5).to(weight.dtype))
    T = SparseRows.from_dense(sparse_matrix((n, m_out), 0.1, 6).to(weight.dtype))
    threads = torch.get_num_threads()
    found = []
    try:
        for count in (1, 2):
            torch.set_num_threads(count)
            whole = [
                weight.matmul(Y),
                weight.matmul_transpose(T),
                weight.matmul_transpose(T, Y),
                weight.columns(torch.arange(min(3, m_in))),
            ]
            assert same(weight.matmul(Y[2:3]), whole[0][2:3])
            found.append(whole)
    finally:
        torch.set_num_threads(threads)
    for one, two in zip(*found, strict=True):
        assert same(one, two)


def use_plain_kernels(monkeypatch: pytest.MonkeyPatch, *modules: str) -> None:
    """Let modules of `subquad.weights` run the plain twins of their kernels."""
    from subquad import kernels

    for module in modules:
        monkeypatch.setattr(
            f"subquad.weights.{module}.pick", lambda topic, device: kernels._load(f"{topic}_plain")
        )
