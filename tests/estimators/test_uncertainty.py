"""Deviations against a dense Gaussian process, and intervals against what they promise."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from subquad import GELU, ReLU, ShiftedReLU
from subquad.estimators.encoding import Encoding
from subquad.estimators.evidence import Settings, Task
from subquad.estimators.member import Member
from subquad.estimators.recipe import Recipe
from subquad.estimators.uncertainty import Spread, conformal_factor, mixed_deviation

FEW = settings(max_examples=40, deadline=None, derandomize=True)


def process(
    recipe: Recipe, n: int = 15, outputs: int = 2
) -> tuple[Member, np.ndarray, np.ndarray, np.ndarray]:
    """A member as far as deviations know it, inputs, targets, weights."""
    draw = np.random.default_rng(4)
    X, Y = draw.standard_normal((n, 3)), draw.standard_normal((n, outputs)) * [1.0, 30.0][:outputs]
    weights = draw.uniform(0.5, 3, n)
    encoding = Encoding.fit(recipe.encoding, X, weights)
    member = Member(recipe, Settings(np.array([-0.5, -1.0, 0.1]), -1.5), encoding, (), ())
    return member, X, Y, weights


def dense_kernel(member: Member, X: np.ndarray, Z: np.ndarray) -> np.ndarray:
    """The network's kernel between rows, by its profile and the angle alone."""
    one, two = (
        Task(
            member.encoding(rows), np.zeros((len(rows), 1)), np.ones(len(rows)),
            member.encoding.owner,
        ).rows(member.settings.scales)
        for rows in (X, Z)
    )  # fmt: skip
    curve = member.recipe.profile
    theta = np.arccos(np.clip(one @ two.T, -1, 1))
    if X is Z:
        np.fill_diagonal(theta, 0)
    return np.asarray(curve(theta) / curve.values[0])


@pytest.mark.parametrize(
    "recipe",
    [
        Recipe(activation=ReLU()),
        Recipe(activation=GELU(), depth=2, layers="all"),
        Recipe(activation=ShiftedReLU(1.0), encoding="ranks"),
    ],
    ids=str,
)
class TestSpread:
    def test_variances_are_those_of_a_dense_process(self, recipe: Recipe) -> None:
        member, X, Y, weights = process(recipe)
        Z, noise = np.random.default_rng(9).standard_normal((6, 3)), math.exp(-1.5)
        A = dense_kernel(member, X, X) + np.diag(noise / weights)
        k = dense_kernel(member, Z, X)
        sizes = [float(y @ np.linalg.solve(A, y)) / weights.sum() for y in Y.T]
        unknown = 1 - np.einsum("ij,ji->i", k, np.linalg.solve(A, k.T)) + noise
        found = Spread(member, X, Y, weights).variances(Z)
        assert np.allclose(found, np.outer(unknown, sizes), rtol=1e-7)

    def test_left_out_variances_are_those_without_the_row(self, recipe: Recipe) -> None:
        """Noise of the row's own weight included; the size stays that of all rows."""
        member, X, Y, weights = process(recipe)
        noise, K = math.exp(-1.5), dense_kernel(member, X, X)
        found = Spread(member, X, Y, weights).left_out_variances()
        A = K + np.diag(noise / weights)
        for i in range(len(X)):
            rest = np.arange(len(X)) != i
            k = K[i, rest]
            unknown = 1 - k @ np.linalg.solve(A[np.ix_(rest, rest)], k) + noise / weights[i]
            sizes = [float(y @ np.linalg.solve(A, y)) / weights.sum() for y in Y.T]
            assert np.allclose(found[i], unknown * np.array(sizes), rtol=1e-7)

    def test_more_noise_where_nothing_is_known(self, recipe: Recipe) -> None:
        member, X, Y, weights = process(recipe)
        spread = Spread(member, X, Y, weights)
        far = spread.variances(np.array([[-1e3, 1e3, -1e3]]))
        assert (far[0] > spread.variances(X).min(axis=0)).all()
        assert np.isfinite(far).all()


def test_a_mixture_has_the_variance_of_its_draws() -> None:
    draw = np.random.default_rng(0)
    means, variances = draw.standard_normal((3, 4, 2)), draw.uniform(0.1, 2, (3, 4, 2))
    weights = np.array([0.5, 0.3, 0.2])
    found = mixed_deviation(list(variances), list(means), weights)
    which = draw.choice(3, 200_000, p=weights)
    sample = means[which] + np.sqrt(variances[which]) * draw.standard_normal((200_000, 4, 2))
    assert np.allclose(found, sample.std(axis=0), rtol=0.02)
    alone = mixed_deviation([variances[0]], [means[0]], np.ones(1))
    assert np.allclose(alone, np.sqrt(variances[0]))
    order = [2, 0, 1]
    mixed = mixed_deviation(list(variances[order]), list(means[order]), weights[order])
    assert np.allclose(mixed, found)


@FEW
@given(seed=st.integers(0, 10**6), n=st.integers(1, 60), coverage=st.floats(0.01, 1.0))
def test_the_factor_is_a_rank(seed: int, n: int, coverage: float) -> None:
    """The smallest that holds enough residuals; units do not matter, order neither."""
    draw = np.random.default_rng(seed)
    residuals, deviations = draw.standard_normal(n), draw.uniform(0.5, 2, n)
    found = conformal_factor(residuals, deviations, coverage)
    held = int((np.abs(residuals) <= found * deviations * (1 + 1e-12)).sum())
    assert held == min(math.ceil(coverage * (n + 1)), n)
    order = draw.permutation(n)
    assert conformal_factor(-residuals[order], deviations[order], coverage) == found
    assert conformal_factor(1e5 * residuals, 1e5 * deviations, coverage) == pytest.approx(found)


@pytest.mark.parametrize("coverage", [0.5, 0.8, 0.95])
def test_the_share_that_is_covered(coverage: float) -> None:
    """Of new residuals like the old ones, over many sets: what was asked, rounded up to a rank."""
    draw = np.random.default_rng(1)
    sets, n = 4000, 39
    shares = np.empty(sets)
    for k in range(sets):
        residuals = draw.standard_cauchy(n)  # no assumption but that rows are alike
        factor = conformal_factor(residuals, np.ones(n), coverage)
        shares[k] = 1 - 2 * (0.5 - math.atan(factor) / math.pi)
    error = shares.std() / math.sqrt(sets)
    exact = math.ceil(coverage * (n + 1)) / (n + 1)
    assert shares.mean() == pytest.approx(exact, abs=4 * error)


def test_no_residuals_vouch_for_nearly_all_rows() -> None:
    """19 rows know the 19 of 20, and nothing of the 20th."""
    assert conformal_factor(np.arange(1.0, 20.0), np.ones(19), 0.95) == 19.0
    assert conformal_factor(np.arange(1.0, 20.0), np.ones(19), 0.96) == math.inf
