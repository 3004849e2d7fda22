"""What TensorSketch and TensorSRHT promise alike."""

from collections.abc import Callable

import pytest
import torch
from scipy.sparse import csr_array
from torch import Tensor

from subquad.cost import Cost
from subquad.errors import InvalidInput
from subquad.rows import SparseRows
from subquad.sketch import TensorSketch, TensorSRHT
from subquad.sketch import base as base_module
from subquad.sketch.base import ProductSketch
from tests.oracles import tensor_rows
from tests.sketch.cases import BAD_ROWS, BAD_SIZES, F64, forms, random

KINDS = pytest.mark.parametrize("kind", [TensorSketch, TensorSRHT])
Kind = type[ProductSketch]


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of three rows, so that buffers are used again and the last block is short."""
    for module in ("tensorsketch", "srht"):
        monkeypatch.setattr(f"subquad.sketch.{module}.block_rows", lambda *_: 3)


def expected(sketch: ProductSketch, U: Tensor, V: Tensor) -> Tensor:
    return tensor_rows(U, V) @ sketch.dense().T


@KINDS
@pytest.mark.parametrize(
    ("m1", "m2", "s"), [(1, 1, 1), (6, 6, 8), (13, 7, 11), (3, 20, 64), (9, 5, 1), (16, 32, 30)]
)
def test_equals_the_explicit_matrix(kind: Kind, m1: int, m2: int, s: int) -> None:
    U, V = random(5, m1), random(5, m2, seed=1)
    sketch = kind(m1, m2, s, seed=7)
    assert sketch.dense().shape == (s, m1 * m2)
    torch.testing.assert_close(sketch.sketch(U, V), expected(sketch, U, V), rtol=0, atol=1e-10)


@KINDS
@pytest.mark.parametrize("share", [0.0, 0.1, 0.6])
@pytest.mark.usefixtures("small_blocks")
def test_every_form_of_rows(kind: Kind, share: float) -> None:
    U, V = random(11, 40, share=share), random(11, 25, seed=1, share=share)
    sketch = kind(40, 25, 96, seed=3)
    wanted = expected(sketch, U, V)
    others = forms(V)
    for name, left in forms(U).items():
        for right in (others[name], V, others["rows"]):
            torch.testing.assert_close(sketch.sketch(left, right), wanted, rtol=0, atol=1e-10)


@KINDS
@pytest.mark.usefixtures("small_blocks")
def test_same_object_twice_equals_two_copies(kind: Kind) -> None:
    U = random(10, 30, share=0.2)
    sketch = kind(30, 30, 64, seed=2)
    wanted = expected(sketch, U, U)
    for one in forms(U).values():
        torch.testing.assert_close(sketch.sketch(one, one), wanted, rtol=0, atol=1e-10)
    assert torch.equal(sketch.sketch(U, U), sketch.sketch(U, U.clone()))


@KINDS
@pytest.mark.usefixtures("small_blocks")
def test_groups_sum_their_rows(kind: Kind) -> None:
    U, V = random(8, 6), random(8, 9, seed=1)
    groups = torch.tensor([3, 0, 3, 1, 0, 0, 5, 1])
    sketch = kind(6, 9, 10)
    wanted = torch.zeros(6, 10, dtype=F64).index_add_(0, groups, expected(sketch, U, V))
    for ids in (groups, groups.int(), groups.tolist(), groups.numpy()):
        torch.testing.assert_close(sketch.sketch(U, V, ids), wanted, rtol=0, atol=1e-10)
    single = sketch.sketch(U, V, groups=torch.arange(8))
    torch.testing.assert_close(single, sketch.sketch(U, V), rtol=0, atol=1e-10)


@KINDS
def test_float32(kind: Kind) -> None:
    U, V = random(6, 20, dtype=torch.float32), random(6, 15, seed=1, dtype=torch.float32)
    sketch = kind(20, 15, 33)
    found = sketch.sketch(U, V)
    assert found.dtype == torch.float32
    wanted = expected(sketch, U.double(), V.double())
    torch.testing.assert_close(found.double(), wanted, rtol=0, atol=1e-4)
    sparse = sketch.sketch(SparseRows.from_dense(U), V)
    torch.testing.assert_close(sparse, found, rtol=0, atol=1e-5)


@KINDS
@pytest.mark.usefixtures("small_blocks")
def test_compiled_equals_plain(kind: Kind, use_plain: Callable[[], None]) -> None:
    U, V = random(7, 30, share=0.3), random(7, 12, seed=1)
    A, groups = SparseRows.from_dense(U), torch.arange(7) // 2
    sketch = kind(30, 12, 17), kind(30, 30, 17)

    def results() -> list[Tensor]:
        mixed = [sketch[0].sketch(left, V, ids) for left in (U, A) for ids in (None, groups)]
        return [*mixed, *(sketch[1].sketch(rows, rows) for rows in (U, A))]

    compiled = results()
    use_plain()
    for one, other in zip(compiled, results(), strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-12)


@KINDS
def test_same_seed_same_result_with_one_thread(
    kind: Kind, set_threads: Callable[[int], None]
) -> None:
    U, V = random(64, 200, share=0.5), random(64, 120, seed=1)
    A = SparseRows.from_dense(U)
    set_threads(2)
    first = [kind(200, 120, 256, seed=5).sketch(rows, V) for rows in (U, A)]
    set_threads(1)
    second = [kind(200, 120, 256, seed=5).sketch(rows, V) for rows in (U, A)]
    for one, other in zip(first, second, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-12)


@KINDS
def test_seeds_differ(kind: Kind) -> None:
    U, V = random(2, 6), random(2, 5, seed=1)
    results = [kind(6, 5, 16, seed=seed).sketch(U, V) for seed in (0, 0, 1)]
    assert torch.equal(results[0], results[1])
    assert not torch.allclose(results[0], results[2])


@KINDS
def test_no_rows(kind: Kind) -> None:
    empty = torch.zeros(0, 4, dtype=F64), torch.zeros(0, 3, dtype=F64)
    assert kind(4, 3, 5).sketch(*empty).shape == (0, 5)
    assert kind(4, 3, 5).sketch(*empty, groups=[]).shape == (0, 5)


@KINDS
def test_leaves_inputs_alone_and_tracks_no_gradient(kind: Kind) -> None:
    U, V = random(3, 4).requires_grad_(), random(3, 3, seed=1)
    before = U.detach().clone(), V.clone()
    assert not kind(4, 3, 5).sketch(U, V).requires_grad
    assert torch.equal(U, before[0])
    assert torch.equal(V, before[1])


@KINDS
def test_repeated_and_unsorted_entries_add_up(kind: Kind) -> None:
    V = random(2, 3)
    raw = csr_array(([1.0, 2.0, 4.0, 8.0], [3, 0, 3, 1], [0, 3, 4]), shape=(2, 4))
    U = torch.tensor([[2.0, 0, 0, 5], [0, 8, 0, 0]], dtype=F64)
    sketch = kind(4, 3, 6)
    torch.testing.assert_close(sketch.sketch(raw, V), sketch.sketch(U, V))


@KINDS
@pytest.mark.parametrize("groups", [None, 3])
@pytest.mark.parametrize("share", [None, 0.01, 0.3])
def test_flops_are_known_before(kind: Kind, groups: int | None, share: float | None) -> None:
    U, V = random(9, 50, share=share or 1.0), random(9, 30, seed=1)
    left = U if share is None else SparseRows.from_dense(U)
    nnz = left.numel() if isinstance(left, Tensor) else left.nnz
    sketch = kind(50, 30, 40)
    ids = None if groups is None else torch.arange(9) % groups
    with Cost() as cost:
        sketch.sketch(left, V, ids)
    assert cost.flops == sketch.flops(9, nnz, V.numel(), groups)
    assert all(tally.bytes > 0 for tally in cost.procedures.values())


@KINDS
@pytest.mark.parametrize(("U", "V", "groups", "message"), BAD_ROWS)
def test_bad_rows(kind: Kind, U: object, V: object, groups: object, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        kind(4, 3, 5).sketch(U, V, groups)


@KINDS
@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_entries_that_are_not_finite_are_refused(kind: Kind, value: float) -> None:
    U, V = random(3, 4), random(3, 3, seed=1)
    bad = U.clone()
    bad[1, 2] = value
    for left in (bad, SparseRows.from_dense(bad)):
        with pytest.raises(InvalidInput, match="U holds NaN or infinity"):
            kind(4, 3, 5).sketch(left, V, groups=[0, 0, 1])
        with pytest.raises(InvalidInput, match="V holds NaN or infinity"):
            kind(3, 4, 5).sketch(V, left)


@KINDS
@pytest.mark.parametrize(("options", "message"), BAD_SIZES)
def test_bad_sizes(kind: Kind, options: dict[str, int], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        kind(**{"m1": 4, "m2": 3, "s": 5, **options})


@KINDS
def test_dense_refuses_what_is_too_large(kind: Kind) -> None:
    with pytest.raises(InvalidInput, match=r"at most 2\^28 entries, and s·m1·m2 is 268451840"):
        kind(1 << 14, 1, 16385).dense()


def test_name_and_attributes() -> None:
    sketch = TensorSketch(4, 3, 5, seed=2)
    assert (sketch.m1, sketch.m2, sketch.s, sketch.seed) == (4, 3, 5, 2)
    assert repr(sketch) == "TensorSketch(m1=4, m2=3, s=5, seed=2)"


def test_blocks_fit_the_cache_and_give_every_thread_a_row() -> None:
    cpu, threads = torch.device("cpu"), torch.get_num_threads()
    assert base_module.block_rows(1 << 17, 1000, cpu) == 64
    assert base_module.block_rows(1 << 17, 10, cpu) == 10
    assert base_module.block_rows(1 << 24, 1000, cpu) == min(threads, 16)
    assert base_module.block_rows(1 << 29, 1000, cpu) == 1
    assert base_module.block_rows(1 << 17, 10**6, torch.device("cuda")) == 2048
