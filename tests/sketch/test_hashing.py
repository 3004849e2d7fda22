"""Hashes: exact arithmetic, independence, stability."""

import math

import pytest
import torch
from torch import Tensor

from subquad import kernels
from subquad.errors import InvalidInput
from subquad.kernels import sketching_plain
from subquad.kernels.sketching_plain import PRIME
from subquad.sketch.hashing import CountHash, PolynomialHash, hash_words, seeded_coefficients

CPU = torch.device("cpu")
EDGES = [0, 1, 2, 2**30 - 1, 2**30, 2**31 - 2, 2**31 - 1]


def slow_polynomial(coefficients: list[int], x: int) -> int:
    value = 0
    for c in coefficients:
        value = (value * x + c) % PRIME
    return value


def indices(seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.cat((torch.tensor(EDGES), torch.randint(2**31, (300,), generator=generator)))


@pytest.mark.parametrize("k", [1, 2, 3, 4, 6])
def test_polynomial_is_exact(k: int) -> None:
    x = indices(k)
    for coefficients in (seeded_coefficients(k, 5, (k,)), torch.full((k,), PRIME - 1)):
        expected = [slow_polynomial(coefficients.tolist(), i) for i in x.tolist()]
        assert PolynomialHash(coefficients).values(x).tolist() == expected


@pytest.mark.parametrize("size", [1, 3, 4096, 2**31 - 1])
def test_buckets_are_the_exact_floor(size: int) -> None:
    x, h = indices(), PolynomialHash.seeded(3, seed=1)
    expected = [slow_polynomial(h.coefficients.tolist(), i) * size >> 61 for i in x.tolist()]
    buckets = h.buckets(x, size)
    assert buckets.tolist() == expected
    assert 0 <= int(buckets.min()) <= int(buckets.max()) < size


@pytest.mark.parametrize("size", [1, 1000, 2**31 - 1])
def test_words_hold_what_the_hashes_say_compiled_and_plain(size: int) -> None:
    x, hashes = indices(), [CountHash.seeded(3, (1,)), CountHash.seeded(3, (2,))]
    for some in (hashes[:1], hashes):
        words = hash_words(some, x, size)
        coefficients = torch.stack([h.coefficients for h in some])
        assert torch.equal(words, sketching_plain.hash_words(x, coefficients, size))
        for k, h in enumerate(some):
            buckets, signs = sketching_plain.unpack(words, k)
            assert torch.equal(buckets, h.bucket.buckets(x, size))
            assert torch.equal(signs.double(), h.sign.signs(x))


def test_words_of_many_indices_and_of_none() -> None:
    coefficients = CountHash.seeded(0, (0,)).coefficients[None]
    for n in (0, 2047, 2048, 5000):
        x = torch.arange(n)
        compiled = kernels.pick("sketching", CPU).hash_words(x, coefficients, 77)
        assert torch.equal(compiled, sketching_plain.hash_words(x, coefficients, 77))


def test_same_seed_same_integers_in_every_version() -> None:
    # Recorded once with numpy 2.4: a change here changes every sketch that anyone has stored.
    assert seeded_coefficients(3, 0, (1, 1, 0)).tolist() == GOLDEN
    assert seeded_coefficients(3, 0, (1, 1, 1)).tolist() != GOLDEN
    assert seeded_coefficients(3, 1, (1, 1, 0)).tolist() != GOLDEN


GOLDEN = [1118830914317241229, 360214209531649051, 775119064450304518]


def test_pairs_collide_as_often_as_uniform_values() -> None:
    size, x, rates = 64, torch.arange(100) * 7919, []
    for seed in range(200):
        counts = torch.bincount(PolynomialHash.seeded(3, seed).buckets(x, size))
        rates.append(float((counts * (counts - 1)).sum()) / (100 * 99))
    found = torch.tensor(rates)
    error = float(found.std()) / math.sqrt(len(rates))
    assert abs(float(found.mean()) - 1 / size) < 4 * error


@pytest.mark.parametrize("order", [1, 2, 3, 4])
def test_products_of_up_to_four_signs_average_to_zero(order: int) -> None:
    x, seeds = torch.tensor([3, 17, 1000, 2**31 - 1])[:order], 2000
    products = [float(PolynomialHash.seeded(4, seed).signs(x).prod()) for seed in range(seeds)]
    assert abs(sum(products) / seeds) < 4 / math.sqrt(seeds)


@pytest.mark.parametrize("bad", [[-1], [2**31]])
def test_index_out_of_range(bad: list[int]) -> None:
    with pytest.raises(InvalidInput, match=r"index must lie in 0\.\.2\^31-1"):
        PolynomialHash.seeded(3, 0).values(torch.tensor(bad))


def test_index_of_another_type() -> None:
    with pytest.raises(InvalidInput, match="index must be int64"):
        PolynomialHash.seeded(3, 0).values(torch.tensor([1], dtype=torch.int32))


@pytest.mark.parametrize("size", [0, 2**31])
def test_size_out_of_range(size: int) -> None:
    with pytest.raises(InvalidInput, match="size must lie in"):
        PolynomialHash.seeded(3, 0).buckets(torch.tensor([1]), size)
