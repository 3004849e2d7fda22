"""How well a sketch keeps the norms on the row space of a Jacobian."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from subquad.rows import Rows, SparseRows, to_dense
from subquad.sketch.base import ProductSketch


def exact_gram(U: Rows, V: Rows) -> Tensor:
    """``G_ij = <u_i, u_j> <v_i, v_j>`` in float64."""
    left, right = to_dense(U).double(), to_dense(V).double()
    return (left @ left.T) * (right @ right.T)


def distortion(sketched: Tensor, gram: Tensor) -> float:
    """Return the largest ``| |S J^T x|^2 / |J^T x|^2 - 1 |`` over all x.

    Equal to ``‖G^(-1/2) G~ G^(-1/2) - I‖_2`` with ``G~ = (J S^T)(J S^T)^T``: the guarantee of
    lemmas tensorsketch_ose and tensorsrht_ose for the squared norm, which implies theirs
    for the norm.

    Args:
        sketched: J S^T (n×s).
        gram: J J^T (n×n), positive definite.

    >>> rows = torch.eye(2, 3, dtype=torch.float64)
    >>> distortion(rows, rows @ rows.T)
    0.0
    """
    factor = torch.linalg.cholesky(gram.double())
    white = torch.linalg.solve_triangular(factor, sketched.double(), upper=False)
    values = torch.linalg.eigvalsh(white @ white.T)
    return float((values - 1).abs().max())


def failure_rate(
    kind: type[ProductSketch], U: Rows, V: Rows, s: int, *, epsilon: float, seeds: range
) -> float:
    """Return the share of ``seeds`` at which the distortion is above ``epsilon``."""
    gram, failed = exact_gram(U, V), 0
    for seed in seeds:
        sketch = kind(U.shape[1], V.shape[1], s, seed=seed)
        failed += distortion(sketch.sketch(U, V), gram) > epsilon
    return failed / len(seeds)


def smallest_size(
    kind: type[ProductSketch], U: Rows, V: Rows, *, epsilon: float, rate: float, seeds: range
) -> int:
    """Return the least s at which the distortion is at most ``epsilon`` for ``rate`` of seeds.

    Doubling from n up, then bisection; below n a sketch cannot be injective. The same seeds at
    every size: the share that fails is a step function of s, nearly but not quite monotone.
    """

    def holds(s: int) -> bool:
        # 1 - 0.9 is below 0.1 in binary: a share of exactly 0.1 must still pass.
        failed = failure_rate(kind, U, V, s, epsilon=epsilon, seeds=seeds)
        return failed <= 1 - rate + 1e-12

    low, high = U.shape[0] - 1, U.shape[0]
    while not holds(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


def tensorsketch_size(n: int, *, epsilon: float, delta: float) -> int:
    """``ceil(11 n^2 / (epsilon^2 delta))``: lemma tensorsketch_ose, the constant of its proof."""
    return math.ceil(11 * n**2 / (epsilon**2 * delta))


def tensorsrht_size(n: int, m: int, *, epsilon: float, delta: float) -> int:
    """``ceil(n ln^3(n m / (epsilon delta)) / epsilon^2)``: lemma tensorsrht_ose, constant 1."""
    return math.ceil(n * math.log(n * m / (epsilon * delta)) ** 3 / epsilon**2)


def example_jacobian(
    n: int, m: int, *, shift: float = 1.0, seed: int = 0
) -> tuple[SparseRows, SparseRows]:
    """U and V of the last layer of a random network of depth 2 and width m, in float64.

    Rows df_i/dW_2 = u_i ⊗ v_i with v = phi(W_1 x) shifted-ReLU values and u = a ∘ phi'(W_2 v),
    a = ±1: both sparse, a share 1 - Phi(shift) firing, with the absolute threshold.
    """
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    tail = 0.5 * math.erfc(shift / math.sqrt(2))
    density = math.exp(-(shift**2) / 2) / math.sqrt(2 * math.pi)
    root_c = (2 * ((1 + shift**2) * tail - shift * density)) ** -0.5  # so that |phi(Wx)|^2 ~ 1
    threshold = shift * math.sqrt(2 / m)
    x = torch.nn.functional.normalize(normal(n, 16))
    v = root_c * torch.relu(x @ normal(16, m) * math.sqrt(2 / m) - threshold)
    z = v @ normal(m, m) * math.sqrt(2 / m)
    a = 1.0 - 2.0 * torch.randint(0, 2, (m,), generator=generator).double()
    u = root_c * a * (z > threshold)
    return SparseRows.from_dense(u), SparseRows.from_dense(v)
