import json
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule
from safetensors import safe_open
from safetensors.torch import save_file

from subquad import InvalidInput
from subquad.lowrank import LowRankMaintenance
from subquad.lowrank.policies import AtRank
from subquad.rows import SparseRows
from tests.oracles import sparse_matrix

FLUSHES = ["never", "sparse", "paper", "lazy-columns", 7]
M_OUT, M_IN = 24, 17
STEPS = 500
WIDE = torch.ones(4, 4, dtype=torch.float64)


def gap(a: torch.Tensor, b: torch.Tensor) -> float:
    return float((a - b).abs().max()) if a.numel() else 0.0


class Replay(RuleBasedStateMachine):
    """Any sequence of operations leaves the structure equal to dense recomputation."""

    flush: str | int

    @initialize(seed=st.integers(0, 1000))
    def start(self, seed: int) -> None:
        self.frozen = sparse_matrix((M_OUT, M_IN), 1.0, seed)
        self.before = self.frozen.clone()
        self.dense = self.frozen.clone()
        self.structure = LowRankMaintenance(self.frozen, flush=self.flush)
        self.last: tuple[torch.Tensor, torch.Tensor] | None = None

    def check(self, found: torch.Tensor, expected: torch.Tensor) -> None:
        assert gap(found, expected) <= 1e-10

    @rule(seed=st.integers(0, 10**6), r=st.integers(1, 5), density=st.sampled_from([0.1, 0.5, 1.0]))
    def update(self, seed: int, r: int, density: float) -> None:
        U = 0.3 * sparse_matrix((M_OUT, r), density, seed)
        V = 0.3 * sparse_matrix((M_IN, r), density, seed + 1)
        self.last = U, V
        self.structure.update(U, V)
        self.dense += U @ V.T

    @precondition(lambda self: self.last is not None)
    @rule(seed=st.integers(0, 10**6))
    def update_with_the_same_right_factor(self, seed: int) -> None:
        assert self.last is not None
        V = self.last[1].clone()
        U = 0.3 * sparse_matrix((M_OUT, V.shape[1]), 0.4, seed)
        left, right = SparseRows.from_dense(U.T), V.T
        self.structure.update_rows(left, right)
        self.dense += U @ V.T
        left.values.mul_(3)  # what was given may be used again by the caller
        right.mul_(0.5)
        self.last = U, V

    @rule(
        seed=st.integers(0, 10**6), density=st.sampled_from([0.0, 0.1, 1.0]), sparse=st.booleans()
    )
    def query(self, seed: int, density: float, sparse: bool) -> None:
        Y = sparse_matrix((3, M_IN), density, seed)
        found = self.structure.query(SparseRows.from_dense(Y) if sparse else Y)
        self.check(found, Y @ self.dense.T)

    @rule(
        seed=st.integers(0, 10**6), density=st.sampled_from([0.0, 0.1, 1.0]), sparse=st.booleans()
    )
    def query_transpose(self, seed: int, density: float, sparse: bool) -> None:
        Y = sparse_matrix((3, M_OUT), density, seed)
        rows = SparseRows.from_dense(Y) if sparse else Y
        self.check(self.structure.query_transpose(rows), Y @ self.dense)
        at = SparseRows.from_dense(sparse_matrix((3, M_IN), 0.3, seed + 1))
        found = self.structure.query_transpose(rows, at=at)
        self.check(found, (Y @ self.dense)[at.owners, at.columns])

    @rule()
    def flush_now(self) -> None:
        self.structure.flush()
        assert self.structure.rank == 0

    @rule(other=st.sampled_from(FLUSHES), onward=st.booleans())
    def fork(self, other: str | int, onward: bool) -> None:
        """Neither of the two writes to the other; either may be the one that goes on."""
        one, two = self.structure, self.structure.fork(other)
        moved, still = (two, one) if onward else (one, two)
        U, V = torch.ones(M_OUT, 1).double(), torch.full((M_IN, 1), 0.1, dtype=torch.float64)
        moved.update(U, V)
        moved.query(torch.ones(1, M_IN))
        self.check(still.dense(), self.dense)
        self.check(moved.dense(), self.dense + 0.1)
        self.structure = still.fork(self.flush)

    @rule()
    def save_and_load(self) -> None:
        again = LowRankMaintenance(self.frozen, flush=self.flush)
        again.load_state(self.structure.state())
        self.structure.update(torch.ones(M_OUT, 1), torch.ones(M_IN, 1))
        self.structure = again

    @rule()
    def scribble_on_what_was_returned(self) -> None:
        self.structure.dense().zero_()
        for factor in self.structure.delta():
            factor.zero_()

    @rule()
    def change(self) -> None:
        U, V = self.structure.delta()
        self.check(U @ V.T, self.dense - self.frozen)

    def teardown(self) -> None:
        if hasattr(self, "structure"):
            self.check(self.structure.dense(), self.dense)
            assert torch.equal(self.frozen, self.before), "the given matrix was written to"
            if self.flush == "never":
                assert self.structure.rank <= min(M_OUT, M_IN)


@pytest.mark.parametrize("flush", FLUSHES, ids=str)
def test_any_500_operations_equal_dense_recomputation(flush: str | int) -> None:
    # The class name seeds hypothesis: every policy gets sequences of its own.
    machine = type(f"Replay_{flush}".replace("-", "_"), (Replay,), {"flush": flush}).TestCase
    machine.settings = settings(
        max_examples=4,
        stateful_step_count=STEPS,
        deadline=None,
        derandomize=True,
        suppress_health_check=list(HealthCheck),
    )
    machine("runTest").runTest()


@pytest.mark.parametrize("flush", FLUSHES, ids=str)
@pytest.mark.parametrize("seed", range(3))
def test_exactly_500_random_operations(flush: str | int, seed: int) -> None:
    """The same without hypothesis, which may choose shorter sequences."""
    generator = torch.Generator().manual_seed(FLUSHES.index(flush) + 10 * seed)
    replay = type("Fixed", (Replay,), {"flush": flush})()
    replay.start(seed=seed)
    for k in range(STEPS):
        pick = int(torch.randint(0, 9, (1,), generator=generator))
        if pick in (0, 1):
            replay.update(seed=k, r=1 + k % 5, density=(0.1, 0.5, 1.0)[k % 3])
        elif pick == 2 and replay.last is not None:
            replay.update_with_the_same_right_factor(seed=k)
        elif pick == 3 and k % 20 == 0:
            replay.flush_now()
        elif pick == 7:
            replay.fork(other=FLUSHES[k % 5], onward=bool(k % 2))
        elif pick == 8 and k % 10 == 0:
            replay.save_and_load()
            replay.scribble_on_what_was_returned()
        elif pick in (4, 5):
            replay.query(seed=k, density=(0.0, 0.1, 1.0)[k % 3], sparse=bool(k % 2))
        else:
            replay.query_transpose(seed=k, density=(0.0, 0.1, 1.0)[k % 3], sparse=bool(k % 2))
    replay.change()
    replay.teardown()


def test_never_keeps_the_true_rank() -> None:
    structure = LowRankMaintenance(sparse_matrix((60, 50), 1.0, 0), flush="never")
    basis = sparse_matrix((50, 4), 1.0, 1)
    for k in range(100):
        mixed = basis @ sparse_matrix((4, 4), 1.0, 100 + k)  # other vectors, same space
        structure.update(sparse_matrix((60, 4), 1.0, 500 + k), mixed)
        assert structure.rank <= 8
    structure.pending.recompress()
    assert structure.rank == 4
    assert not structure.written


def test_updates_on_the_same_inputs_never_raise_the_rank() -> None:
    structure = LowRankMaintenance(sparse_matrix((60, 50), 1.0, 0))
    V = sparse_matrix((50, 6), 0.3, 1)
    for k in range(30):
        structure.update(sparse_matrix((60, 6), 0.3, k), V.clone())
    assert structure.rank == 6
    assert "recompress" not in structure.cost.procedures


def test_rank_limit_of_the_paper() -> None:
    structure = LowRankMaintenance(torch.zeros(4096, 4), flush="paper")
    assert isinstance(structure.policy, AtRank)
    assert structure.policy.limit(structure.shape) == 15  # ceil(4096^0.3213)
    for r in (7, 14):
        structure.update(torch.ones(4096, 7), torch.ones(4, 7))
        assert structure.rank == r
    structure.update(torch.ones(4096, 1), torch.ones(4, 1))
    assert structure.rank == 0


def test_lazy_columns_pay_for_read_columns_only() -> None:
    m = 200
    structure = LowRankMaintenance(torch.zeros(m, m, dtype=torch.float64), flush="lazy-columns")
    U, V = sparse_matrix((m, 3), 1.0, 0), sparse_matrix((m, 3), 1.0, 1)
    structure.update(U, V)
    reader = SparseRows.from_dense(torch.nn.functional.one_hot(torch.tensor([5]), m).double())
    structure.query(reader)
    assert structure.cost.procedures["flush"].flops == 2 * 1 * 3 * m
    structure.query(reader)
    assert structure.cost.procedures["flush"].flops == 2 * 1 * 3 * m, "a column is written once"
    assert structure.rank == 3
    structure.query(torch.ones(1, m))
    assert structure.rank == 0, "nobody waits any more"


def test_sparse_flush_costs_the_block() -> None:
    m, k = 300, 10
    u, v = torch.zeros(m, 1), torch.zeros(m, 1)
    u[:k], v[-k:] = 1, 2
    structure = LowRankMaintenance(torch.zeros(m, m), flush="sparse")
    structure.update(u, v)
    assert structure.cost.procedures["flush"].flops == 2 * k * k
    assert structure.rank == 0


@pytest.mark.parametrize("flush", FLUSHES, ids=str)
def test_every_procedure_is_counted(flush: str | int) -> None:
    structure = LowRankMaintenance(sparse_matrix((40, 30), 1.0, 0), flush=flush)
    structure.update(sparse_matrix((40, 9), 0.5, 1), sparse_matrix((30, 9), 0.5, 2))
    updated = structure.cost.bytes
    assert updated > 0
    structure.query(sparse_matrix((2, 30), 0.1, 3))
    queried = structure.cost.flops
    assert structure.cost.procedures["matmul"].flops > 0
    structure.query_transpose(sparse_matrix((2, 40), 0.1, 4))
    assert structure.cost.flops > queried
    assert structure.cost.procedures["matmul_transpose"].bytes > 0


def test_copying_the_table_is_counted() -> None:
    structure = LowRankMaintenance(torch.zeros(300, 200), flush="sparse")
    for _ in range(2):
        structure.update(torch.eye(300, 1), torch.eye(200, 1))
    assert structure.cost.procedures["copy"].bytes == 2 * 4 * 300 * 200, "once"


@pytest.mark.parametrize("flush", FLUSHES, ids=str)
def test_no_gradient_goes_through(flush: str | int) -> None:
    structure = LowRankMaintenance(torch.ones(4, 3, requires_grad=True), flush=flush)
    structure.update(torch.ones(4, 2, requires_grad=True), torch.ones(3, 2, requires_grad=True))
    rows = SparseRows.from_dense(torch.ones(1, 3, requires_grad=True))
    for found in (structure.query(torch.ones(1, 3, requires_grad=True)), structure.query(rows)):
        assert found.tolist() == [[9.0] * 4]
        assert not found.requires_grad
    assert not structure.dense().requires_grad


@pytest.mark.parametrize("flush", FLUSHES, ids=str)
def test_saved_structures_load(flush: str | int, tmp_path: Path) -> None:
    structure = LowRankMaintenance(sparse_matrix((12, 9), 1.0, 0), flush=flush)
    for k in range(5):
        structure.update(sparse_matrix((12, 2), 0.5, k), sparse_matrix((9, 2), 0.5, 50 + k))
    path = tmp_path / "structure.safetensors"
    structure.save(path)
    again = LowRankMaintenance.load(path)
    assert again.policy == structure.policy
    assert again.rank == structure.rank
    assert gap(again.dense(), structure.dense()) < 1e-12
    assert gap(*(U @ V.T for U, V in (again.delta(), structure.delta()))) < 1e-12
    for other in (again, structure):
        other.update(torch.ones(12, 1), torch.ones(9, 1))
    assert gap(again.dense(), structure.dense()) < 1e-12


def test_the_change_is_that_since_the_frozen_weights() -> None:
    """Also where a policy has written it and another structure goes on from there."""
    frozen = sparse_matrix((12, 9), 1.0, 0)
    first = LowRankMaintenance(frozen, flush="sparse")
    first.update(torch.ones(12, 1), torch.ones(9, 1))
    second = first.fork("never")
    second.update(sparse_matrix((12, 2), 1.0, 1), sparse_matrix((9, 2), 1.0, 2))
    U, V = second.delta()
    assert gap(U @ V.T, second.dense() - frozen) < 1e-12
    again = LowRankMaintenance(frozen)
    again.load_state(second.state())
    assert gap(again.dense(), second.dense()) < 1e-12


def test_a_given_view_is_not_shared() -> None:
    given = sparse_matrix((5, 5), 1.0, 0)
    structure = LowRankMaintenance(given.T)
    before = given.T.clone()
    given.zero_()
    assert torch.equal(structure.dense(), before)


def test_bytes_of_an_append_are_those_of_both_factors() -> None:
    structure = LowRankMaintenance(torch.zeros(400, 300), flush=10**6)
    for _ in range(3):
        before = structure.cost.bytes
        structure.update(torch.ones(400, 5), torch.ones(300, 5))
        assert structure.cost.bytes - before == 2 * 4 * structure.rank * 700


def test_float32_stays_close() -> None:
    structure = LowRankMaintenance(sparse_matrix((30, 20), 1.0, 0).float())
    dense = structure.dense().double().clone()
    for k in range(60):
        U, V = sparse_matrix((30, 2), 0.5, k), sparse_matrix((20, 2), 0.5, 90 + k)
        structure.update(U, V)
        dense += U @ V.T
    assert gap(structure.dense().double(), dense) < 1e-4


def test_bad_input_gets_one_line(tmp_path: Path) -> None:
    structure = LowRankMaintenance(torch.zeros(4, 3))
    nan = torch.full((4, 1), float("nan"))
    cases = [
        (lambda: LowRankMaintenance("W"), "weight must be a tensor"),
        (lambda: LowRankMaintenance(torch.zeros(3)), "must be a matrix"),
        (lambda: LowRankMaintenance(torch.zeros(2, 2), flush="spars"), "did you mean 'sparse'"),
        (
            lambda: LowRankMaintenance(torch.zeros(2, 2), flush=0),
            "rank must be an integer >= 1",
        ),
        (lambda: LowRankMaintenance(torch.zeros(2, 2), flush=1.5), "flush must be one of"),
        (lambda: structure.update(torch.ones(3, 1), torch.ones(3, 1)), r"U must have shape \(4, r"),
        (lambda: structure.update(torch.ones(4, 1), torch.ones(3, 2)), "as many columns"),
        (lambda: structure.update(nan, torch.ones(3, 1)), "U holds NaN"),
        (
            lambda: structure.update(1e300 * WIDE[:, :1], torch.ones(3, 1)),
            "U overflows torch.float",
        ),
        (lambda: structure.update(WIDE[:, :1].cfloat(), torch.ones(3, 1)), "U must be real"),
        (lambda: structure.query(nan[:3].T), "Y holds NaN"),
        (lambda: structure.query(SparseRows.from_dense(nan[:3].T)), "Y holds NaN"),
        (lambda: structure.query(1e300 * WIDE[:, :3]), "Y overflows torch.float32"),
        (lambda: structure.query_transpose(nan.T), "Y holds NaN"),
        (lambda: structure.query_transpose(WIDE.cfloat()), "Y must be real"),
        (lambda: structure.query(torch.ones(3)), "add an axis"),
        (lambda: structure.query(torch.ones(1, 4)), "rows of length 3"),
        (lambda: structure.query_transpose(torch.ones(1, 3)), "rows of length 4"),
        (lambda: LowRankMaintenance.load(tmp_path / "none"), "is no saved low-rank structure"),
        (lambda: structure.save(tmp_path / "no" / "such"), "cannot be written"),
    ]
    for call, message in cases:
        with pytest.raises(InvalidInput, match=message):
            call()
    (tmp_path / "junk").write_bytes(b"not a safetensors file")
    with pytest.raises(InvalidInput, match="is no saved low-rank structure"):
        LowRankMaintenance.load(tmp_path / "junk")
    structure.save(tmp_path / "good")
    with safe_open(tmp_path / "good", framework="pt") as file:
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    for rank in ("x", -1, 1.5):
        header = {"subquad": json.dumps({"flush": "never", "rank": rank})}
        save_file(tensors, tmp_path / "bad", metadata=header)
        with pytest.raises(InvalidInput, match="rank in its header must be an integer >= 0"):
            LowRankMaintenance.load(tmp_path / "bad")
    for state, message in (
        ({}, "must hold 'left' and 'right'"),
        ({"left": torch.zeros(1, 3), "right": torch.zeros(3, 1)}, "saved factors must have"),
        (
            {
                "left": torch.zeros(0, 4),
                "right": torch.zeros(3, 0),
                "table": torch.zeros(4, 3),
            },
            "saved table must have shape",
        ),
    ):
        with pytest.raises(InvalidInput, match=message):
            structure.load_state(state)
