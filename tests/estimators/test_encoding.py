import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from subquad.estimators.encoding import LEAST_STEPS, MOST_STEPS, TAIL, Encoding

FEW = settings(max_examples=40, deadline=None, derandomize=True)
STEPS = ["values", "ranks"]


def columns(seed: int, n: int, d: int) -> np.ndarray:
    """Columns that differ: normal, with ties, with a long tail."""
    draw = np.random.default_rng(seed)
    X = draw.standard_normal((n, d))
    X[:, 1::3] = np.round(2 * X[:, 1::3])
    X[:, 2::3] = np.exp(3 * X[:, 2::3])
    return X


def test_plain_inputs_stay() -> None:
    X = columns(0, 20, 3)
    encoding = Encoding.fit("plain", X, np.ones(20))
    assert encoding(X) is X
    assert encoding.owner.tolist() == [0, 1, 2]


@pytest.mark.parametrize("kind", STEPS)
@FEW
@given(seed=st.integers(0, 10**6), n=st.integers(2, 90), d=st.integers(1, 5))
def test_ladders_rise_from_one_end_to_the_other(kind: str, seed: int, n: int, d: int) -> None:
    """Each from -1 to 1 in all its steps, in order; far outside they stay at their ends."""
    X = columns(seed, n, d)
    encoding = Encoding.fit(kind, X, np.ones(n))
    assert (encoding.high > encoding.low).all()
    counts = np.bincount(encoding.owner, minlength=d)
    assert counts.min() >= 1
    assert counts.max() <= MOST_STEPS
    coordinates = encoding(X)
    for k in range(d):
        own = np.flatnonzero(encoding.owner == k)
        assert np.allclose(encoding.high[own[:-1]], encoding.low[own[1:]])
        ladder = coordinates[:, own] * np.sqrt(counts[k])
        assert np.abs(ladder).max() <= 1 + 1e-12
        assert (np.diff(ladder, axis=1) <= 1e-12).all()  # a step rises after those before it
        order = np.argsort(X[:, k])
        assert (np.diff(ladder[order], axis=0) >= -1e-12).all()
    far = encoding(np.array([[-1e300] * d, [1e300] * d]))
    assert np.allclose(np.abs(far) * np.sqrt(counts[encoding.owner]), 1)


@pytest.mark.parametrize("kind", STEPS)
def test_distances_are_absolute_differences(kind: str) -> None:
    """Squared distances of two values whole steps apart grow with the steps between them."""
    X = np.linspace(0, 1, 1000)[:, None]
    encoding = Encoding.fit(kind, X, np.ones(1000))
    ends = np.append(encoding.low, encoding.high[-1])[:, None]
    coordinates = encoding(ends)
    for i in range(len(ends)):
        for j in range(len(ends)):
            squared = ((coordinates[i] - coordinates[j]) ** 2).sum()
            assert squared == pytest.approx(4 * abs(i - j) / (len(ends) - 1))


def test_pieces_hold_equal_lengths_or_equal_rows() -> None:
    X = columns(3, 4000, 3)[:, [2]]
    by_values, by_ranks = (Encoding.fit(kind, X, np.ones(4000)) for kind in STEPS)
    assert np.allclose(np.diff(by_values.low), (by_values.high - by_values.low)[:-1])
    beyond = (by_values.low[0] > X).mean(), (by_values.high[-1] < X).mean()
    assert np.allclose(beyond, TAIL, atol=1e-3)
    rows = [((a <= X) & (b > X)).sum() for a, b in zip(by_ranks.low, by_ranks.high, strict=True)]
    assert np.ptp(rows) <= 2


@pytest.mark.parametrize("kind", STEPS)
def test_few_values_get_a_step_between_neighbours(kind: str) -> None:
    X = np.array([[3.0, 5.0], [7.0, 5.0], [3.0, 5.0], [20.0, 5.0]])
    encoding = Encoding.fit(kind, X, np.ones(4))
    assert encoding.owner.tolist() == [0, 0, 1]
    assert encoding.low.tolist() == [3.0, 7.0, 5.0]
    assert encoding.high[:2].tolist() == [7.0, 20.0]
    assert np.ptp(encoding(X)[:, 2]) == 0


@pytest.mark.parametrize("kind", STEPS)
def test_many_inputs_get_few_steps_each(kind: str) -> None:
    X = np.random.default_rng(0).standard_normal((60, 400))
    encoding = Encoding.fit(kind, X, np.ones(60))
    assert set(np.bincount(encoding.owner)) == {LEAST_STEPS}


@pytest.mark.parametrize("kind", STEPS)
@FEW
@given(seed=st.integers(0, 10**6), n=st.integers(2, 80))
def test_a_row_of_weight_w_counts_like_w_rows(kind: str, seed: int, n: int) -> None:
    X = columns(seed, n, 3)
    weights = np.random.default_rng(seed).integers(1, 5, n)
    whole = np.repeat(np.arange(n), weights)
    one = Encoding.fit(kind, X, weights.astype(float))
    two = Encoding.fit(kind, X[whole], np.ones(len(whole)))
    assert np.array_equal(one.owner, two.owner)
    assert np.allclose(one.low, two.low, rtol=1e-12)
    assert np.allclose(one.high, two.high, rtol=1e-12)


@pytest.mark.parametrize("kind", STEPS)
@pytest.mark.parametrize("size", [1e-9, 0.3, 1e9])
def test_any_weights_leave_steps_to_climb(kind: str, size: float) -> None:
    X = columns(1, 70, 3)
    encoding = Encoding.fit(kind, X, size * np.random.default_rng(0).uniform(0.1, 2, 70))
    assert (encoding.high > encoding.low).all()
    assert np.isfinite(encoding(X)).all()
    assert set(encoding.owner) == {0, 1, 2}


def test_quantiles_are_numpys_where_weights_are_equal() -> None:
    X = columns(5, 500, 3)
    encoding = Encoding.fit("ranks", X, np.ones(500))
    own = encoding.owner == 0
    expected = np.quantile(X[:, 0], np.linspace(0, 1, MOST_STEPS + 1))
    assert np.allclose(np.append(encoding.low[own], encoding.high[own][-1]), expected)
