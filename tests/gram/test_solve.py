import itertools
import math

import pytest
import torch

from subquad import Cost, InvalidInput
from subquad.gram import TensorJacobian, solve_gram
from subquad.gram.exact import factorise, solve_exact
from subquad.gram.preconditioned import solve_preconditioned
from subquad.gram.sketched import CHECKED, estimate_residual, sketched_gram
from subquad.gram.solve import cheapest, sketch_size
from tests.oracles import sparse_matrix

N = 24


def jacobian(width: int = 60, condition: float = 1.0) -> TensorJacobian:
    U, V = sparse_matrix((N, width), 0.5, 0), sparse_matrix((N, width), 0.5, 1)
    return TensorJacobian([(U * torch.logspace(0, -0.5 * math.log10(condition), N)[:, None], V)])


def rhs(seed: int = 0) -> torch.Tensor:
    return torch.randn(N, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.parametrize("method", ["auto", "exact", "preconditioned"])
@pytest.mark.parametrize("sketch", ["srht", "tensorsketch"])
@pytest.mark.parametrize("ridge", [0.0, 0.3])
def test_solution_is_that_of_the_dense_system(method: str, sketch: str, ridge: float) -> None:
    J, c = jacobian(), rhs()
    x, certificate = solve_gram(J, c, method=method, sketch=sketch, ridge=ridge, tol=1e-11)
    A = J.gram() + ridge * 60 * torch.eye(N)
    assert torch.allclose(x, torch.linalg.solve(A, c), rtol=1e-8, atol=1e-10)
    true = float((A @ x - c).norm() / c.norm())
    assert certificate.residual_kind == "exact"
    assert certificate.residual == pytest.approx(true, rel=1e-3, abs=1e-15)
    assert certificate.residual <= 1e-11
    assert certificate.rank == N
    if method != "preconditioned":
        assert certificate.condition == pytest.approx(float(torch.linalg.cond(A)), rel=0.5)


@pytest.mark.parametrize("sketch", ["srht", "tensorsketch"])
def test_sketch_and_solve_reaches_what_its_size_allows(sketch: str) -> None:
    """Median true residual over 20 seeds falls like s^(-1/2)."""
    J, c = jacobian(), rhs()
    middle = []
    for size in (40 * N, 160 * N, 640 * N):
        residuals = [
            solve_gram(J, c, method="sketch", sketch=sketch, size=size, tol=10.0, seed=s)[
                1
            ].residual
            for s in range(20)
        ]
        middle.append(sorted(residuals)[10])
    assert middle[0] < 0.6
    for wide, narrow in itertools.pairwise(middle):
        assert 1.4 < wide / narrow < 2.9


def test_a_sketch_that_misses_falls_back_and_says_so() -> None:
    x, certificate = solve_gram(jacobian(), rhs(), method="sketch", size=2 * N, tol=1e-6)
    assert certificate.path == "sketch (srht) -> exact (cholesky)"
    assert "solved exactly instead" in certificate.note
    assert certificate.residual < 1e-12
    assert torch.allclose(x, torch.linalg.solve(jacobian().gram(), rhs()))


def test_ill_conditioning_costs_the_sketch_but_not_the_preconditioned_solver() -> None:
    """The paper's bound leaves out sqrt(kappa): at kappa ~ 1e4 sketch and solve is far off."""
    J, c = jacobian(condition=1e4), rhs()
    size = 16 * N
    _, alone = solve_gram(J, c, method="sketch", size=size, tol=1e9)
    _, helped = solve_gram(J, c, method="preconditioned", size=size, tol=1e-10)
    assert alone.residual > 0.5
    assert helped.residual < 1e-10
    assert helped.iterations < 60
    assert helped.path == "preconditioned (srht)"


@pytest.mark.parametrize("tilt", [0.0, 0.02])
def test_estimated_residuals_cover_the_true_one(tilt: float) -> None:
    """The 95 % interval holds the true residual in at least 85 of 100 independent sketches."""
    J, c = jacobian(), rhs()
    x = torch.linalg.solve(J.gram(), c) * (1 + tilt) + tilt * rhs(5) * c.norm() / 4000
    true = float((J.gram() @ x - c).norm())
    hits = 0
    for seed in range(100):
        low, middle, high = estimate_residual(J, x, c, 4096, seed, 0.0)
        assert low <= middle <= high
        hits += low <= true <= high
    assert hits >= 85


def test_dear_grams_get_estimated_certificates() -> None:
    """Sums of many terms: G and a product with it cost far more than sketches."""
    n, terms, width = 6, 80, 512
    groups = torch.arange(n).repeat_interleave(terms)
    U, V = sparse_matrix((n * terms, width), 1.0, 0), sparse_matrix((n * terms, width), 1.0, 1)
    J = TensorJacobian([(U, V)], groups)
    c = rhs()[:n]
    x, certificate = solve_gram(J, c, method="sketch", size=16384, tol=0.5)
    assert certificate.residual_kind == "estimated"
    assert J.gram_flops() > 0, "G was never formed"
    low, high = certificate.interval or (math.nan, math.nan)
    true = float((J.gram() @ x - c).norm() / c.norm())
    assert low <= true <= high


def test_auto_takes_the_cheapest_by_count() -> None:
    sparse = TensorJacobian([(sparse_matrix((N, 60), 0.1, 0), sparse_matrix((N, 60), 0.1, 1))])
    assert cheapest(sparse, "srht", None, 1e-8) == "exact"
    groups = torch.arange(8).repeat_interleave(512)
    U = torch.ones(8 * 512, 2048)
    tokens = TensorJacobian([(U, U)], groups)
    assert cheapest(tokens, "srht", None, 0.2) == "sketch"


def test_auto_is_not_dearer_than_exact_where_a_sketch_would_mostly_fail() -> None:
    """The certificate and the fallback are priced: measured, 1.34 times exact without."""
    n, terms, width = 24, 40, 64
    groups = torch.arange(n).repeat_interleave(terms)
    U, V = sparse_matrix((n * terms, width), 1.0, 0), sparse_matrix((n * terms, width), 1.0, 1)
    spent = dict.fromkeys(("auto", "exact"), 0)
    for method in spent:
        for seed in range(10):
            with Cost() as cost:
                J = TensorJacobian([(U, V)], groups)
                solve_gram(J, rhs(seed), method=method, tol=0.3, seed=seed)
            spent[method] += cost.flops
    assert spent["auto"] <= 1.05 * spent["exact"]


def test_an_estimate_never_reads_zero_and_its_interval_holds_at_default_sizes() -> None:
    """Grouped rows at the sizes that the solver takes: no clamped zero, no interval around one."""
    groups = torch.arange(8).repeat_interleave(40)
    J = TensorJacobian([(sparse_matrix((320, 64), 1.0, 0), sparse_matrix((320, 64), 1.0, 1))])
    J = TensorJacobian(J.terms, groups)
    G, c, found = J.gram(), rhs()[:8], []
    for tol in (0.1, 0.3):
        for seed in range(40):
            size = sketch_size(8, tol)
            small = sketched_gram(J, size, "srht", seed, 0.0)
            x = torch.linalg.solve(small, c)
            true = float((G @ x - c).norm())
            low, middle, high = estimate_residual(J, x, c, max(CHECKED, size), seed + 1, 0.0)
            assert 0 < middle < high
            found.append(low <= true <= high)
    assert sum(found) >= 0.9 * len(found)


def test_sketch_size_follows_the_residual_asked_for() -> None:
    assert [sketch_size(10, tol) for tol in (1e300, 0.25, 1e-300)] == [40, 320, 1280]


def test_singular_systems_are_solved_in_the_least_squares_sense_and_noted() -> None:
    U, V = sparse_matrix((4, 9), 1.0, 0), sparse_matrix((4, 9), 1.0, 1)
    U[3], V[3] = U[0], V[0]  # twice the same row
    J = TensorJacobian([(U, V)])
    agree = torch.tensor([1.0, 2.0, 3.0, 1.0], dtype=torch.float64)
    x, certificate = solve_gram(J, agree)
    assert certificate.rank == 3
    assert "rank 3 of 4" in certificate.note
    assert certificate.residual < 1e-10
    assert float((J.gram() @ x - agree).norm()) < 1e-9
    clash = torch.tensor([1.0, 2.0, 3.0, 5.0], dtype=torch.float64)
    x, certificate = solve_gram(J, clash)
    best = torch.linalg.pinv(J.gram(), hermitian=True) @ clash
    assert torch.allclose(x, best, atol=1e-8)
    assert certificate.path == "exact (eigendecomposition)"
    assert certificate.residual == pytest.approx(8**0.5 / float(clash.norm()), rel=1e-6)


@pytest.mark.parametrize("method", ["preconditioned", "sketch"])
def test_no_solver_is_silent_about_a_singular_system(method: str) -> None:
    U, V = sparse_matrix((6, 40), 1.0, 0), sparse_matrix((6, 40), 1.0, 1)
    U[5], V[5] = U[2], V[2]
    agree = torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0, 3.0], dtype=torch.float64)
    _, certificate = solve_gram(TensorJacobian([(U, V)]), agree, method=method, tol=0.5, size=600)
    assert certificate.rank == 5
    assert "rank 5 of 6" in certificate.note


def test_exact_path_survives_every_condition() -> None:
    for digits in (0, 4, 8, 12, 15, 18):
        basis = torch.linalg.qr(sparse_matrix((N, N), 1.0, 0))[0]
        A = basis @ torch.diag(torch.logspace(0, -digits, N, dtype=torch.float64)) @ basis.T
        A = (A + A.T) / 2
        x, certificate = solve_exact(A, A @ torch.ones(N, dtype=torch.float64))
        assert bool(torch.isfinite(x).all())
        assert certificate.residual < 1e-10
        if digits <= 12:
            assert factorise(A).condition == pytest.approx(10.0**digits, rel=0.5)


def test_largest_ridge_and_loosest_tolerance() -> None:
    x, certificate = solve_gram(jacobian(), rhs(), ridge=1e30, tol=1e300)
    assert torch.allclose(x, rhs() / 60e30)
    assert certificate.residual < 1e-12


def test_conjugate_gradients_reach_their_tolerance_on_float32_factors() -> None:
    """Where G is never formed: its products must be float64."""
    U, V = sparse_matrix((600, 30), 1.0, 0).float(), sparse_matrix((600, 25), 1.0, 1).float()
    J = TensorJacobian([(U, V)])
    c = torch.randn(600, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    _, certificate = solve_preconditioned(
        J, c, size=2400, kind="srht", seed=0, shift=0.0, tol=1e-11
    )
    assert J.gram_flops() > 0, "G was not formed"
    assert certificate.residual <= 1e-11


def test_zero_and_one_row_systems() -> None:
    x, certificate = solve_gram(jacobian(), torch.zeros(N))
    assert torch.equal(x, torch.zeros(N, dtype=torch.float64))
    assert certificate.residual == 0
    one = TensorJacobian([(torch.full((1, 2), 2.0), torch.ones(1, 2))])
    assert solve_gram(one, [32.0])[0].tolist() == [2.0]
    zero = TensorJacobian([(torch.zeros(2, 2), torch.ones(2, 2))])
    x, certificate = solve_gram(zero, [1.0, 1.0])
    assert certificate.rank == 0
    assert certificate.condition == math.inf
    assert certificate.residual == 1.0


def test_bad_input_gets_one_line() -> None:
    J = jacobian()
    cases: list[tuple[dict[str, object], str]] = [
        ({"method": "exakt"}, "did you mean 'exact'"),
        ({"sketch": "srhd"}, "did you mean 'srht'"),
        ({"size": 0}, "size must be an integer >= 1"),
        ({"ridge": -1.0}, "ridge must be a finite number >= 0"),
        ({"ridge": math.nan}, "ridge must be a finite number >= 0"),
        ({"tol": 0.0}, "tol must be a finite number > 0"),
        ({"tol": "a"}, "tol must be a finite number > 0"),
        ({"ridge": "a"}, "ridge must be"),
        ({"ridge": 1e308}, r"ridge must be a finite number >= 0 and <= 1e\+30"),
        ({"method": ["exact"]}, "unknown solver"),
        ({"seed": -1}, "seed must be an integer >= 0"),
    ]
    for settings, message in cases:
        with pytest.raises(InvalidInput, match=message):
            solve_gram(J, rhs(), **settings)  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match=r"rhs must have shape \(24,\)"):
        solve_gram(J, torch.ones(3))
    with pytest.raises(InvalidInput, match="rhs is not a numeric array"):
        solve_gram(J, "abc")
    with pytest.raises(InvalidInput, match="must be a TensorJacobian"):
        solve_gram(torch.eye(N), rhs())  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="rhs holds NaN"):
        solve_gram(J, torch.full((N,), math.nan))
