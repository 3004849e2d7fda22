import pytest
import torch

from subquad import Cost, InvalidInput
from subquad.gram import TensorJacobian
from subquad.gram import jacobian as module
from subquad.rows import SparseRows, to_dense
from tests.oracles import sparse_matrix, tensor_rows

N, SHAPES = 12, [(7, 5), (9, 7)]
GROUPS = torch.tensor([0, 0, 1, 2, 2, 2, 3, 0, 1, 1, 3, 2])


def pairs(density: float = 1.0, sparse: bool = False) -> list[tuple[object, object]]:
    found: list[tuple[object, object]] = []
    for l, (a, b) in enumerate(SHAPES):
        U, V = sparse_matrix((N, a), density, l), sparse_matrix((N, b), density, 10 + l)
        found.append((SparseRows.from_dense(U), SparseRows.from_dense(V)) if sparse else (U, V))
    return found


def explicit(terms: list[tuple[object, object]], groups: torch.Tensor | None) -> torch.Tensor:
    rows = torch.cat([tensor_rows(to_dense(u), to_dense(v)) for u, v in terms], 1)  # type: ignore[arg-type]
    if groups is None:
        return rows
    return torch.zeros(int(groups.max()) + 1, rows.shape[1], dtype=rows.dtype).index_add_(
        0, groups, rows
    )


CASES = [(1.0, False, None), (0.2, True, None), (1.0, False, GROUPS), (0.2, True, GROUPS)]


@pytest.mark.parametrize(("density", "sparse", "groups"), CASES)
def test_every_product_equals_the_explicit_one(
    density: float, sparse: bool, groups: torch.Tensor | None
) -> None:
    terms = pairs(density, sparse)
    J, found = explicit(terms, groups), TensorJacobian(terms, groups)
    assert found.shape == tuple(J.shape)
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(J.shape[1], generator=generator, dtype=torch.float64)
    q = torch.randn(J.shape[0], generator=generator, dtype=torch.float64)
    assert torch.allclose(found.gram_matvec(q), J @ (J.T @ q), atol=1e-10)  # without G
    assert torch.allclose(found.gram(), J @ J.T, atol=1e-10)
    assert torch.allclose(found.gram_matvec(q), J @ (J.T @ q), atol=1e-10)  # through G
    assert torch.allclose(found.matvec(x), J @ x, atol=1e-10)
    assert torch.allclose(found.rmatvec(q), J.T @ q, atol=1e-10)
    assert float(found.matvec(x) @ q) == pytest.approx(float(x @ found.rmatvec(q)))
    factors = [to_dense(u).T @ to_dense(v) for u, v in found.pullback(q)]
    assert torch.allclose(torch.cat([f.reshape(-1) for f in factors]), J.T @ q, atol=1e-10)
    matrices = [p.reshape(s) for p, s in zip(x.split([35, 63]), SHAPES, strict=True)]
    assert torch.allclose(found.matvec(matrices), J @ x, atol=1e-10)


@pytest.mark.parametrize("block", [3, 5, 100])
def test_both_grouped_grams_agree_in_any_block_size(
    block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    terms = pairs()
    J = explicit(terms, GROUPS)
    monkeypatch.setattr(module, "BLOCK", block)
    monkeypatch.setattr(module, "MATRIX_BYTES", block * 2 * 8 * 40)
    for l, (u, v) in enumerate(TensorJacobian(terms).terms):
        found = TensorJacobian(terms, GROUPS)
        own = explicit([terms[l]], GROUPS)
        expected = own @ own.T
        assert torch.allclose(found._gram_by_blocks(u, v, GROUPS), expected, atol=1e-10)
        assert torch.allclose(found._gram_by_matrices(u, v, GROUPS), expected, atol=1e-10)
    assert torch.allclose(TensorJacobian(terms, GROUPS).gram(), J @ J.T, atol=1e-10)


def test_cheaper_grouped_gram_is_chosen() -> None:
    n, T = 3, 200  # many terms a row, few neurons: per-row matrices win
    groups = torch.arange(n).repeat_interleave(T)
    U, V = sparse_matrix((n * T, 6), 1.0, 0), sparse_matrix((n * T, 6), 1.0, 1)
    many = TensorJacobian([(U, V)], groups)
    with Cost() as cost:
        many.gram()
    assert cost.procedures["gram"].flops < (n * T) ** 2
    few = TensorJacobian([(U[:6], V[:6])], torch.tensor([0, 0, 1, 1, 2, 2]))
    assert few.gram_flops() == 6 * 6 * 12


def test_sparse_gram_counts_pairs_of_firing_neurons() -> None:
    U, V = SparseRows.from_dense(sparse_matrix((20, 400), 0.05, 0)), sparse_matrix((20, 30), 1.0, 1)
    J = TensorJacobian([(U, V)])
    predicted = J.gram_flops()
    with Cost() as cost:
        J.gram()
    assert cost.flops == predicted
    assert cost.flops < 2 * 20 * 20 * 430 / 4
    assert J.gram_flops() == 0, "it is kept"


@pytest.mark.parametrize("kind", ["srht", "tensorsketch"])
@pytest.mark.parametrize("groups", [None, GROUPS], ids=["rows", "groups"])
def test_sketches_are_unbiased_for_the_gram(kind: str, groups: torch.Tensor | None) -> None:
    J = TensorJacobian(pairs(), groups)
    G = J.gram()
    found = []
    for seed in range(60):
        small = J.sketch(64, kind, seed)
        found.append(small @ small.T)
    stack = torch.stack(found)
    error = stack.std(0) / len(found) ** 0.5
    assert float(((stack.mean(0) - G).abs() / error).max()) < 4.5
    assert J.sketch(64, kind, 3).shape == (J.rows, 64)


def test_float32_factors_give_a_float64_gram() -> None:
    U, V = sparse_matrix((6, 50), 1.0, 0), sparse_matrix((6, 50), 1.0, 1)
    G = TensorJacobian([(U.float(), V.float())]).gram()
    expected = (U.float().double() @ U.float().double().T) * (
        V.float().double() @ V.float().double().T
    )
    assert G.dtype == torch.float64
    assert torch.allclose(G, expected, rtol=1e-13)


def test_products_with_float32_factors_are_float64() -> None:
    U, V = sparse_matrix((600, 30), 1.0, 0).float(), sparse_matrix((600, 25), 1.0, 1).float()
    J = TensorJacobian([(U, V)])
    q = torch.randn(600, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    product = J.gram_matvec(q)
    expected = J.gram() @ q
    assert float((product - expected).norm() / expected.norm()) < 1e-13


def test_the_kept_gram_is_the_jacobians_own() -> None:
    J = TensorJacobian(pairs())
    expected = J.gram().clone()
    J.gram().zero_()
    assert torch.equal(J.gram(), expected)


def test_no_gradient_goes_through() -> None:
    U, V = (t.requires_grad_() for t in (torch.ones(3, 2), torch.ones(3, 2)))
    J = TensorJacobian([(U, V)])
    assert not J.gram().requires_grad
    assert not J.sketch(4).requires_grad
    assert not J.pullback([1.0, 2.0, 3.0])[0][0].requires_grad


def test_bad_input_gets_one_line() -> None:
    U, V = torch.ones(3, 2), torch.ones(3, 2)
    J = TensorJacobian([(U, V)])
    cases = [
        (lambda: TensorJacobian([]), "terms is empty"),
        (lambda: TensorJacobian([(U, torch.ones(4, 2))]), "as many rows"),
        (lambda: TensorJacobian([(U[0], V)]), "U of layer 0 must be a matrix"),
        (lambda: TensorJacobian([(U, V[:, :0])]), "V of layer 0 must be a matrix"),
        (lambda: TensorJacobian([(U.long(), V)]), "must be floating"),
        (lambda: TensorJacobian([(U, V)], [0, 1]), "one integer per term"),
        (lambda: TensorJacobian([(U, V)], [0.0, 1.0, 2.0]), "one integer per term"),
        (lambda: TensorJacobian([(U, V)], [0, -1, 2]), "groups must be >= 0"),
        (lambda: TensorJacobian([(U, V)], [0, 1, 10**6]), "below 3 for 3 terms"),
        (lambda: TensorJacobian((U, V)), r"terms\[0\] must be a pair"),
        (lambda: TensorJacobian(U), "terms must list pairs"),
        (lambda: TensorJacobian([(U, V.double())]), "must have one type"),
        (lambda: TensorJacobian([(U * float("nan"), V)]), "U of layer 0 holds NaN"),
        (lambda: J.matvec(torch.ones(3)), "for G q use gram_matvec"),
        (lambda: J.matvec([torch.ones(3, 3)]), "matrices of shapes"),
        (lambda: J.rmatvec(torch.ones(4)), r"q must have shape \(3,\)"),
        (lambda: J.rmatvec("abc"), "q is not a numeric array"),
        (lambda: J.gram_matvec([1.0, 2.0]), r"q must have shape \(3,\), got \(2,\)"),
        (lambda: J.matvec("abc"), "x is not a numeric array"),
        (lambda: J.sketch(4, "srth"), "did you mean 'srht'"),
        (lambda: J.sketch(2.5), "s must be an integer >= 1"),
        (lambda: J.sketch(4, seed=-1), "seed must be an integer >= 0"),
        (lambda: TensorJacobian([(U, V)], ["a", "b", "c"]), "groups must hold one integer"),
        (lambda: TensorJacobian([(1e200 * U.double(), V.double())]).gram(), "overflows float64"),
    ]
    for call, message in cases:
        with pytest.raises(InvalidInput, match=message):
            call()
