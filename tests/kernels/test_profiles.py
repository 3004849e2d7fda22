"""The compiled kernel of angles against the plain one and against the table itself."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from subquad import GELU, ReLU, ShiftedReLU
from subquad.theory import Profile, profile
from tests.oracles import unit_rows

pytest.importorskip("numba")
from subquad.kernels import profiles_numba as compiled
from subquad.kernels import profiles_plain as plain

FEW = settings(max_examples=25, deadline=None, derandomize=True)
CURVES = {
    "relu": profile(ReLU(), 1),
    "shifted": profile(ShiftedReLU(1.0), 2, "all"),
    "gelu": profile(GELU(), 3),
}


def inner(n: int, d: int, seed: int) -> np.ndarray:
    rows = unit_rows(n, d, seed).numpy()
    rho = rows @ rows.T
    np.fill_diagonal(rho, 1)
    return np.ascontiguousarray((rho + rho.T) / 2)


@pytest.mark.parametrize("name", list(CURVES))
@FEW
@given(n=st.integers(1, 40), d=st.integers(1, 8), seed=st.integers(0, 10**6))
def test_compiled_equals_plain(name: str, n: int, d: int, seed: int) -> None:
    """To 1e-13; in one dimension all rows are equal or opposite."""
    curve, rho = CURVES[name], inner(n, d, seed)
    table = curve.values, curve.slopes
    assert np.allclose(
        compiled.kernel_of(rho, *table), plain.kernel_of(rho, *table), rtol=0, atol=1e-13
    )
    (K, D), (K2, D2) = (kind.kernel_and_slope(rho, *table) for kind in (compiled, plain))
    assert np.allclose(K, K2, rtol=0, atol=1e-13)
    opposite = rho < -1 + 1e-12  # the slope in rho is infinite there, or 0 / 0
    assert np.allclose(D[~opposite], D2[~opposite], rtol=1e-12, atol=1e-13)
    assert np.isfinite(D).all()
    assert np.isfinite(D2).all()
    assert np.array_equal(K, K.T)
    assert np.array_equal(D, D.T)


@pytest.mark.parametrize("kernels", [plain, compiled])
@pytest.mark.parametrize("name", list(CURVES))
def test_values_and_slopes_are_the_curves(kernels: object, name: str) -> None:
    curve: Profile = CURVES[name]
    rho = inner(30, 4, 5)
    table = curve.values, curve.slopes
    K, D = kernels.kernel_and_slope(rho, *table)  # type: ignore[attr-defined]
    theta = np.arccos(rho)
    assert np.allclose(K, curve(theta), rtol=0, atol=1e-13)
    assert np.array_equal(K, kernels.kernel_of(rho, *table))  # type: ignore[attr-defined]
    h = 1e-6
    away = ~np.eye(30, dtype=bool)
    ahead, behind = (
        kernels.kernel_of(rho + sign * h * away, *table)  # type: ignore[attr-defined]
        for sign in (1, -1)
    )
    assert np.allclose(D[away], ((ahead - behind) / (2 * h))[away], rtol=1e-6, atol=1e-7)
    assert (D[~away] == 0).all()


@pytest.mark.parametrize("kernels", [plain, compiled])
def test_equal_rows_are_one_row_however_they_round(kernels: object) -> None:
    """A cosine a rounding above or below 1, or far above, is 1; one below -1 is -1."""
    curve = CURVES["relu"]
    near = [1.0, 1 + 2e-16, 1 - 1e-16, 1 + 1e-12, 1 - 9e-15]
    rho = np.array([[a] * len(near) for a in near])
    rho = np.minimum(rho, rho.T)
    K, D = kernels.kernel_and_slope(rho, curve.values, curve.slopes)  # type: ignore[attr-defined]
    assert set(K.flat) == {curve.values[0]}
    assert (D == 0).all()
    under = np.array([[1.0, -1 - 1e-15], [-1 - 1e-15, 1.0]])
    K, D = kernels.kernel_and_slope(under, curve.values, curve.slopes)  # type: ignore[attr-defined]
    assert K[0, 1] == pytest.approx(curve.values[-1], abs=1e-15)
    assert np.isfinite(D).all()
    just = kernels.kernel_of(np.array([[1 - 1e-12]]), curve.values, curve.slopes)  # type: ignore[attr-defined]
    assert just[0, 0] == pytest.approx(curve(np.array([math.acos(1 - 1e-12)]))[0], abs=1e-13)


@pytest.mark.parametrize("kernels", [plain, compiled])
@pytest.mark.parametrize("shape", [(3, 11), (1, 1), (11, 3), (0, 4), (4, 0)])
def test_blocks_of_new_rows(kernels: object, shape: tuple[int, int]) -> None:
    """Any shape, any strides, and the argument stays as it was."""
    curve = CURVES["gelu"]
    a, b = unit_rows(max(shape[0], 1), 4, 1), unit_rows(max(shape[1], 1), 4, 2)
    rho = (a @ b.T).numpy()[: shape[0], : shape[1]]
    before = rho.copy()
    found = kernels.kernel_of(rho, curve.values, curve.slopes)  # type: ignore[attr-defined]
    assert found.shape == shape
    assert np.array_equal(rho, before)
    assert np.allclose(found, curve(np.arccos(rho)), rtol=0, atol=1e-13)
    turned = kernels.kernel_of(np.asfortranarray(rho), curve.values, curve.slopes)  # type: ignore[attr-defined]
    assert np.allclose(turned, found, rtol=0, atol=1e-15)


@pytest.mark.parametrize("n", [200, 255])
def test_one_and_two_threads_give_the_same_bits(n: int) -> None:
    curve, rho = CURVES["shifted"], inner(n, 5, 1)
    threads, found = torch.get_num_threads(), []
    try:
        for count in (1, 2):
            torch.set_num_threads(count)
            found.append(
                (
                    compiled.kernel_of(rho, curve.values, curve.slopes),
                    *compiled.kernel_and_slope(rho, curve.values, curve.slopes),
                )
            )
    finally:
        torch.set_num_threads(threads)
    for one, two in zip(*found, strict=True):
        assert np.array_equal(one, two)
