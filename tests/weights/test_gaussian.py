"""Generated weights: known answers, the same bits in any order, and normal in every cut."""

import math

import numpy as np
import pytest
import torch
from scipy.special import ndtri
from scipy.stats import kstest

from subquad import Cost, InvalidInput, ShiftedReLU, WideNet
from subquad.kernels import weights_numba, weights_plain
from subquad.rows import SparseRows
from subquad.weights import GaussianWeight
from subquad.weights.gaussian import ENTRY_OPS, NUMBER_OPS
from tests.oracles import sparse_matrix, unit_rows
from tests.weights.contract import CPU, SHAPES, check_products, check_threads

# Random123, tests/kat_vectors, "philox4x32 10": counter, key, answer.
KNOWN = [
    (["00000000"] * 4, ["00000000"] * 2, "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
    (["ffffffff"] * 4, ["ffffffff"] * 2, "408f276d 41c83b0e a20bc7c6 6d5451fd"),
    (
        ["243f6a88", "85a308d3", "13198a2e", "03707344"],
        ["a4093822", "299f31d0"],
        "d16cfe09 94fdcceb 5001e420 24126ea1",
    ),
]
KEY = 0x12345678, 0x9ABCDEF0


def make(
    m_out: int, m_in: int, seed: int = 0, dtype: torch.dtype = torch.float64
) -> GaussianWeight:
    return GaussianWeight(m_out, m_in, seed, dtype, CPU)


def rows(shape: tuple[int, int], density: float, seed: int) -> SparseRows:
    return SparseRows.from_dense(sparse_matrix(shape, density, seed))


@pytest.mark.parametrize(("counter", "key", "answer"), KNOWN)
def test_philox_known_answers(counter: list[str], key: list[str], answer: str) -> None:
    c, k, expected = ([int(word, 16) for word in w] for w in (counter, key, answer.split()))
    plain = weights_plain.philox(tuple(torch.tensor([w]) for w in c), (k[0], k[1]))
    assert [int(w) for w in plain] == expected
    compiled = weights_numba.philox(*(np.uint64(w) for w in (*c, *k)))
    assert [int(w) for w in compiled] == expected


@pytest.mark.parametrize("m_out", [1, 64, 1000, 5000])
def test_twins_generate_the_same_integers_and_normals(m_out: int) -> None:
    index = torch.tensor([3, 0, 2**31 + 5, 3])
    words = weights_plain.gaussian_words(index, m_out, KEY)
    for place, column in enumerate(index.tolist()):
        compiled = np.empty(-(-m_out // 64) * 64, np.uint32)
        weights_numba._words(0, column, np.uint64(KEY[0]), np.uint64(KEY[1]), compiled)
        assert np.array_equal(compiled[:m_out], words[place].numpy())
    for dtype in (torch.float32, torch.float64):
        plain, compiled = (
            kernels.gaussian_columns(index, m_out, KEY, 0.3, dtype)
            for kernels in (weights_plain, weights_numba)
        )
        assert torch.equal(plain, compiled)


def test_normals_are_the_quantiles_of_their_words() -> None:
    """Out to the last word of either tail, within about a unit in the last place of float32."""
    x = np.concatenate(
        [
            np.arange(70_000),
            2**31 - 1 - np.arange(1000),
            np.random.default_rng(0).integers(0, 2**31, 200_000),
            *(2**k + np.arange(-2, 3) for k in range(2, 31)),
        ]
    )
    exact = -ndtri((2 * x + 1) / 2**33)
    upper, lower = (weights_plain.normals(torch.from_numpy(w)) for w in (x, x + 2**31))
    error = np.abs(upper.numpy() - exact)
    assert error[exact < 4].max() < 3e-7
    assert error.max() < 5e-7
    assert torch.equal(lower, -upper)
    assert 6.33 < float(upper.max()) < 6.34


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_products(shape: tuple[int, int]) -> None:
    check_products(make(*shape))


def test_threads() -> None:
    check_threads(make(3000, 700, dtype=torch.float32))


@pytest.mark.parametrize("density", [0.0, 0.02, 0.5])
def test_plain_products_equal_the_compiled_ones(density: float) -> None:
    """At 0.02 a column is generated entry by entry, at 0.5 whole."""
    inputs, outputs = rows((6, 300), density, 0), rows((6, 200), density, 1)
    for name, given in (
        ("gaussian_matmul", (inputs, 200)),
        ("gaussian_transpose", (outputs, 300)),
        ("gaussian_transpose_at", (outputs, inputs)),
    ):
        plain, compiled = (
            getattr(kernels, name)(*given, KEY, 0.1) for kernels in (weights_plain, weights_numba)
        )
        assert torch.allclose(plain, compiled, atol=1e-12), name


def test_bits_do_not_depend_on_order_subset_or_tiles() -> None:
    m = 1000
    whole = make(m, m, 5, torch.float32).dense()
    weight = make(m, m, 5, torch.float32)
    order = torch.randperm(m, generator=torch.Generator().manual_seed(0))
    assert torch.equal(weight.columns(order).T, whole[:, order])
    assert torch.equal(weight.columns(order[:7]).T, whole[:, order[:7]])
    given = rows((9, m), 0.1, 2).to(torch.float32)
    scale, key = weight._scale, weight._key
    expected = weights_numba.gaussian_matmul(given, m, key, scale)
    for tile, batch in ((64, 1), (192, 5), (4096, 1000)):
        found = weights_numba.gaussian_matmul(given, m, key, scale, tile, batch)
        assert torch.equal(found, expected)
    one = SparseRows.from_dense(torch.eye(m)[[17]])
    assert torch.equal(weight.matmul(one)[0], whole[:, 17])
    assert torch.equal(weight.matmul_transpose(one)[0], whole[17])
    at = rows((1, m), 0.3, 3)
    assert torch.equal(weight.matmul_transpose(one, at), whole[17, at.columns])


def test_float64_weights_are_those_of_float32() -> None:
    wide, narrow = make(50, 40), make(50, 40, dtype=torch.float32)
    assert torch.allclose(wide.dense().float(), narrow.dense(), rtol=2e-7, atol=0)


def test_seeds_and_layers_differ() -> None:
    a, b, c = (make(300, 300, s).dense().flatten() for s in (1, 2, 2**32 + 1))
    for one, other in ((a, b), (a, c), (b, c)):
        assert abs(float(torch.corrcoef(torch.stack([one, other]))[0, 1])) < 5 / 300
    assert torch.equal(a, make(300, 300, 1).dense().flatten())


def test_kolmogorov_smirnov_in_every_row_column_and_block() -> None:
    """1,280 exact tests; a true generator fails one of them with probability 1e-3 (Bonferroni)."""
    m = 512
    W = (make(m, m, 11).dense() * math.sqrt(m / 2)).numpy()
    blocks = W.reshape(16, 32, 16, 32).swapaxes(1, 2).reshape(256, 1024)
    cuts = [*W, *W.T, *blocks]
    worst = min(kstest(cut, "norm").pvalue for cut in cuts)
    assert worst > 1e-3 / len(cuts)
    assert kstest(W.ravel(), "norm").pvalue > 1e-3


def test_only_what_is_read_is_generated() -> None:
    m = 2000
    weight, given = make(m, m), rows((5, m), 0.01, 0)
    union = int(torch.unique(given.columns).numel())
    with Cost() as forward:
        weight.matmul(given)
    assert forward.procedures["generate"].flops == NUMBER_OPS * m * union
    assert forward.procedures["matmul"].flops == 2 * m * given.nnz
    few = rows((5, m), 0.002, 1)
    with Cost() as block:
        weight.matmul_transpose(few, at=few)
    entries = int((few.counts**2).sum())
    assert block.procedures["generate"].flops == ENTRY_OPS * entries
    assert block.procedures["matmul_transpose"].flops == 2 * entries
    with Cost() as full:
        weight.matmul_transpose(rows((5, m), 0.5, 2), at=given)
    assert full.procedures["generate"].flops == NUMBER_OPS * m * union
    assert weight.nbytes == 8


def test_initialisation_is_subquadratic_with_the_papers_sparsity() -> None:
    """n = 64 and b = sqrt(2 alpha ln m), alpha = 1/3: a forward pass, counted."""
    X, flops = unit_rows(64, 16), []
    for m in (2**12, 2**15):
        shift = math.sqrt(2 / 3 * math.log(m))
        net = WideNet(16, m, 3, activation=ShiftedReLU(shift), weights="gaussian")
        with Cost() as cost:
            net.trace(net.check_inputs(X))
        flops.append(cost.flops)
    assert math.log2(flops[1] / flops[0]) / 3 < 1.75


def test_empty_sides_are_refused() -> None:
    with pytest.raises(InvalidInput, match="sides of at least 1"):
        make(3, 0)


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_entries_that_nothing_reads_may_hold_anything(kind):
    """A column's memory is not cleared, and only what the support reads is filled."""
    columns, values = np.array([2, 5]), np.array([1.0, 2.0], kind)
    dense = np.full(8, np.nan, kind)
    dense[[2, 5]] = 3, 4
    assert weights_numba._dot(0, 0, columns, values, dense) == 0
    assert weights_numba._dot(0, 2, columns, values, dense) == 11
