"""The Walsh-Hadamard transform, compiled and plain."""

import math
from collections.abc import Callable

import pytest
import torch
from scipy.linalg import hadamard
from torch import Tensor

from subquad.cost import Cost
from subquad.errors import InvalidInput
from subquad.sketch import fwht
from subquad.sketch.hadamard import fwht_flops, padded_length

SHAPES: list[tuple[tuple[int, ...], int]] = [
    ((1,), 0),
    ((3, 1), 1),
    ((5,), 0),
    ((4, 13), 1),
    ((3, 16), -1),
    ((3, 100), -1),
    ((7, 3), 0),  # few trailing elements: transposed
    ((2, 33, 9), 1),  # many: in tiles
    ((2, 6, 5, 3), -3),
    ((40, 70), 0),
    ((0, 8), 1),
]


def random(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


@pytest.mark.parametrize(("shape", "dim"), SHAPES)
def test_equals_the_matrix(shape: tuple[int, ...], dim: int) -> None:
    x = random(*shape)
    m = shape[dim]
    H = torch.from_numpy(hadamard(padded_length(m))).double()[:, :m]
    expected = torch.tensordot(x, H, dims=([dim], [1])).movedim(-1, dim)
    found = fwht(x, dim)
    assert found.shape == expected.shape
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize(
    ("shape", "dim"), [*SHAPES, ((2, 70000), 1), ((5000, 9), 0), ((2, 5000, 3), 1)]
)
def test_equals_the_plain_twin_bit_for_bit(
    shape: tuple[int, ...], dim: int, dtype: torch.dtype, use_plain: Callable[[], None]
) -> None:
    x = random(*shape, dtype=dtype)
    signs = torch.sign(random(shape[dim], seed=1, dtype=dtype))
    compiled = fwht(x, dim), fwht(x, dim, signs=signs)
    use_plain()
    assert torch.equal(compiled[0], fwht(x, dim))
    assert torch.equal(compiled[1], fwht(x, dim, signs=signs))


@pytest.mark.parametrize("m", [1, 8, 4096, 1 << 15, 1 << 16, 1 << 20])
def test_twice_is_m_times_the_input(m: int) -> None:
    x = random(m)
    torch.testing.assert_close(fwht(fwht(x)) / m, x, rtol=0, atol=1e-12)


def test_one_huge_row_knows_its_entries() -> None:
    m, p = 1 << 20, 0b1010_0000_1111_0000_0011
    x = torch.zeros(m, dtype=torch.float32)
    x[p] = 1.0
    found = fwht(x)
    for q in (0, 1, 12345, m - 1):
        assert float(found[q]) == (-1) ** (p & q).bit_count()


def test_signs_multiply_first() -> None:
    x, signs = random(3, 11), torch.sign(random(11, seed=1))
    assert torch.equal(fwht(x, signs=signs), fwht(x * signs))
    assert torch.equal(fwht(x.T, 0, signs=signs), fwht((x * signs).T, 0))


def test_leaves_its_input_alone_and_takes_views() -> None:
    x = random(9, 24)
    before, view = x.clone(), x.T[::2]
    assert torch.equal(fwht(view), fwht(view.clone()))
    assert torch.equal(x, before)


def test_same_result_with_one_thread(set_threads: Callable[[int], None]) -> None:
    set_threads(2)
    x = random(5, 1 << 16)
    first = fwht(x), fwht(x, 0)
    set_threads(1)
    assert torch.equal(first[0], fwht(x))
    assert torch.equal(first[1], fwht(x, 0))


def test_counts_its_cost() -> None:
    with Cost() as cost:
        fwht(torch.zeros(3, 5, 7), 1)
    tally = cost.procedures["fwht"]
    assert tally.flops == fwht_flops(21, 5) == 21 * 8 * 3
    assert tally.bytes == 21 * (5 + 8) * 4
    assert fwht_flops(2, 5, signed=True) == 2 * (8 * 3 + 5)


def test_padded_length() -> None:
    for m in range(1, 70):
        assert padded_length(m) == 2 ** math.ceil(math.log2(m))


@pytest.mark.parametrize(
    ("x", "options", "message"),
    [
        (torch.zeros(3, dtype=torch.int64), {}, "x must be a float32 or float64"),
        ([1.0], {}, "x must be a float32 or float64 tensor, not list"),
        (torch.zeros(2, 3), {"dim": 2}, "dim must name one of the 2 axes"),
        (torch.zeros(()), {}, "dim must name one of the 0 axes"),
        (torch.zeros(2, 0), {}, "length 0 along dim 1"),
        (torch.zeros(2, 3), {"signs": torch.ones(2)}, "signs must be"),
        (torch.zeros(2, 3), {"signs": torch.ones(3).double()}, "signs must be"),
    ],
)
def test_bad_input(x: Tensor, options: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        fwht(x, **options)  # type: ignore[arg-type]
