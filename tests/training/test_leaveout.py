"""Closed forms of leaving rows out against refitting on a fixed Gram matrix."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from subquad import InvalidInput, WideNet, train
from subquad.training.leaveout import foretold, leave_one_out
from tests.oracles import sparse_matrix, targets, unit_rows


def refitted(
    gram: Tensor, shift: Tensor, target: Tensor, start: Tensor, own: list[int], known: list[int]
) -> Tensor:
    """Predictions for rows ``own`` by kernel ridge regression on the rows ``known``."""
    outputs = target.shape[1]
    rows, kept = ([outputs * i + c for i in part for c in range(outputs)] for part in (own, known))
    each = shift.repeat_interleave(outputs)
    A = gram[kept][:, kept] + each[kept].diag()
    q = torch.linalg.solve(A, (target - start)[known].reshape(-1))
    return start[own] + (gram[rows][:, kept] @ q).reshape(-1, outputs)


def case(seed: int, n: int, outputs: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """A Gram matrix of full rank, shifts, targets and starting outputs."""
    J = sparse_matrix((n * outputs, 2 * n * outputs), 0.7, seed)
    generator = torch.Generator().manual_seed(seed)
    shift = 0.1 + torch.rand(n, generator=generator, dtype=torch.float64)
    return J @ J.T, shift, targets(n, seed, outputs), targets(n, seed + 1, outputs)


SIZES = {"seed": st.integers(0, 10**6), "n": st.integers(2, 9), "outputs": st.integers(1, 3)}
FEW = settings(max_examples=25, deadline=None, derandomize=True)


@FEW
@given(**SIZES)
def test_one_left_out(seed: int, n: int, outputs: int) -> None:
    gram, shift, target, start = case(seed, n, outputs)
    found = leave_one_out(gram, shift, target, start)
    for i in range(n):
        expected = refitted(gram, shift, target, start, [i], [k for k in range(n) if k != i])
        assert torch.allclose(found[i], expected[0], atol=1e-8)
    same = leave_one_out(gram, 0.4, target, start)
    assert torch.equal(
        same, leave_one_out(gram, torch.full((n,), 0.4, dtype=torch.float64), target, start)
    )


@FEW
@given(**SIZES, count=st.integers(2, 4))
def test_a_group_left_out(seed: int, n: int, outputs: int, count: int) -> None:
    gram, shift, target, start = case(seed, n, outputs)
    groups = torch.randint(0, count, (n,), generator=torch.Generator().manual_seed(seed))
    found = leave_one_out(gram, shift, target, start, groups)
    for group in range(count):
        own = [i for i in range(n) if groups[i] == group]
        known = [i for i in range(n) if groups[i] != group]
        expected = refitted(gram, shift, target, start, own, known)
        assert torch.allclose(found[own], expected, atol=1e-8)
    alone = leave_one_out(gram, shift, target, start, torch.arange(n))
    assert torch.allclose(alone, leave_one_out(gram, shift, target, start), atol=1e-8)


@FEW
@given(**SIZES)
def test_all_that_is_later_left_out(seed: int, n: int, outputs: int) -> None:
    gram, shift, target, start = case(seed, n, outputs)
    found = foretold(gram, shift, target, start)
    assert torch.allclose(found[0], start[0], atol=1e-12)
    for i in range(n):
        expected = refitted(gram, shift, target, start, [i], list(range(i)))
        assert torch.allclose(found[i], expected[0], atol=1e-8)


@FEW
@given(**SIZES)
def test_one_of_several_equal_rows_left_out(seed: int, n: int, outputs: int) -> None:
    """A row that stands for w has shift/w; without one of them it has shift/(w - 1)."""
    gram, shift, target, start = case(seed, n, outputs)
    counts = torch.randint(1, 5, (n,), generator=torch.Generator().manual_seed(seed)).double()
    found = leave_one_out(gram, shift / counts, target, start, counts=counts)
    whole = [i for i in range(n) for _ in range(int(counts[i]))]
    flat = [outputs * i + c for i in whole for c in range(outputs)]
    for i in range(n):
        known = [k for k, row in enumerate(whole) if k != whole.index(i)]
        expected = refitted(
            gram[flat][:, flat], shift[whole], target[whole], start[whole], [whole.index(i)], known
        )
        assert torch.allclose(found[i], expected[0], atol=1e-8)


def test_a_row_that_counts_less_than_one_is_left_out_whole() -> None:
    gram, shift, target, start = case(0, 6, 2)
    counts = torch.tensor([0.2, 1, 0.5, 1, 1, 0.9]).double()
    found = leave_one_out(gram, shift / counts, target, start, counts=counts)
    assert torch.allclose(found, leave_one_out(gram, shift / counts, target, start), atol=1e-12)


@pytest.mark.parametrize("outputs", [1, 2])
@pytest.mark.parametrize("how", [{}, {"ridge": 0.1}, {"slack": 0.1}], ids=str)
@pytest.mark.parametrize("layers", ["last", "all"])
def test_names_of_groups_and_order_of_rows_do_not_matter(
    layers: str, how: dict[str, float], outputs: int
) -> None:
    net = WideNet(6, 300, 2, outputs=outputs, weights="dense", dtype=torch.float64)
    X, y = unit_rows(8, 6), targets(8, outputs=None if outputs == 1 else outputs)
    result = train(net, X, y, layers=layers, **how)  # type: ignore[arg-type]
    numbered = result.loo_predictions([3, 3, 7, 7, 7, -1, -1, 3])
    named = result.loo_predictions(["c", "c", "a", "a", "a", "b", "b", "c"])
    assert torch.equal(numbered, named)
    alone = result.loo_predictions(range(8))
    assert torch.allclose(alone, result.loo_predictions(), atol=1e-8)
    order = torch.randperm(8, generator=torch.Generator().manual_seed(0))
    mixed = train(net, X[order], y[order], layers=layers, **how)  # type: ignore[arg-type]
    assert torch.allclose(mixed.loo_predictions(), result.loo_predictions()[order], atol=1e-6)


def test_misuse_gets_one_line() -> None:
    net = WideNet(6, 300, 2, dtype=torch.float64)
    X, y = unit_rows(6, 6), targets(6)
    result = train(net, X, y, slack=0.1)
    exact, ridged = train(net, X, y), train(net, X, y, ridge=0.1)
    cases = [
        (result, {"groups": [0] * 3 + [1] * 3, "ordered": True}, "groups or ordered=True, not"),
        (result, {"groups": [0, 1]}, r"groups must have shape \(6,\), got \(2,\)"),
        (result, {"groups": [[0]] * 6}, r"groups must have shape \(6,\), got \(6, 1\)"),
        (result, {"counts": torch.ones(5)}, r"counts must be 6 numbers > 0, one per row, got"),
        (result, {"counts": torch.zeros(6)}, r"counts must be 6 numbers > 0, one per row, got"),
        (result, {"counts": torch.ones(6), "ordered": True}, "counts go with single rows"),
        (result, {"counts": torch.ones(6), "groups": range(6)}, "counts go with single rows"),
        (ridged, {"counts": torch.ones(6)}, "counts need slack"),
        (exact, {"counts": torch.ones(6)}, "counts need slack"),
    ]
    for given_result, how, message in cases:
        with pytest.raises(InvalidInput, match=message):
            given_result.loo_predictions(**how)  # type: ignore[arg-type]
