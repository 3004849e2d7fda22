"""Vector steps of the compiled kernels against NumPy."""

import numpy as np
import pytest
from scipy.linalg import hadamard

pytest.importorskip("numba")
import numba

from subquad.kernels import lanes_numba as lanes


def words(bits: np.ndarray) -> np.ndarray:
    """A word for every 64 truth values, the first in the lowest bit."""
    padded = np.zeros(-(-bits.size // 64) * 64, bool)
    padded[: bits.size] = bits
    return np.packbits(padded, bitorder="little").view(np.uint64)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n", [1, 63, 64, 65, 128, 200])
def test_every_step(n: int, dtype: type) -> None:
    rng = np.random.default_rng(n)
    a, b = (rng.standard_normal(n).astype(dtype) for _ in range(2))
    b[::3] = a[::3]  # equal numbers: not above, but below
    bits = np.zeros(-(-n // 64), np.uint64)
    lanes.above(a, b, bits)
    assert (bits == words(a > b)).all()
    lanes.below(a, a[0], bits)
    assert (bits == words(a <= a[0])).all()
    lanes.over(a, a[0], bits)
    assert (bits == words(a > a[0])).all()
    assert lanes.count(bits) == (a > a[0]).sum()
    lanes.below(a, a[0], bits)
    kept = np.full(n, 7, dtype)
    lanes.keep(bits, a, kept)
    assert (kept == np.where(a <= a[0], a, 0)).all()
    eps = float(np.finfo(dtype).eps)
    exact = a.astype(np.float64) @ b.astype(np.float64)
    assert abs(lanes.dot(a, b) - exact) <= n * eps * np.abs(a * b).sum()
    s, v = lanes.sum_and_norm(a)
    assert s == pytest.approx(abs(a.astype(np.float64).sum()), abs=n * eps)
    assert v == pytest.approx(np.linalg.norm(a.astype(np.float64)), rel=n * eps)


def test_not_a_number_is_neither_above_nor_below() -> None:
    a = np.full(64, np.nan, np.float32)
    bits = np.ones(1, np.uint64)
    lanes.above(a, np.zeros(64, np.float32), bits)
    assert bits[0] == 0
    for compare in (lanes.below, lanes.over):
        compare(a, np.float32(0), bits)
        assert bits[0] == 0


@numba.njit
def transformed(a: np.ndarray, at: int, apart: int) -> None:
    if apart:
        lanes.butterflies_across(a, at, apart)
    else:
        lanes.butterflies(a, at)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sixteen_numbers_are_transformed(dtype: type) -> None:
    H = hadamard(16)
    a = np.random.default_rng(0).integers(-9, 9, 1000).astype(dtype)
    expected = a.copy()
    expected[5:21] = H @ a[5:21]
    one = a.copy()
    transformed(one, 5, 0)
    assert (one == expected).all()
    columns = 3 + 40 * np.arange(16)[:, None] + np.arange(16)
    expected = a.copy()
    expected[columns] = H @ a[columns]
    transformed(a, 3, 40)
    assert (a == expected).all()
