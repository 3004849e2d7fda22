"""`subquad bench peers` at a tiny size: every rival trains, and does what it says."""

import json
import math

import pytest
import torch

from subquad import InvalidInput, train
from subquad.bench import contest, peers, rivals
from subquad.bench.contest import GRAM, PEERS, compete, drive
from subquad.bench.peers import Setup, run
from subquad.bench.watch import Finished, Watch

SETUP = Setup(samples=16, depth=3, shift=1.0, seed=0, kind="hadamard")
WIDTH = 256
KEYS = {
    *("peer", "kind", "version", "seconds_init", "seconds_to_1e-3", "seconds_to_1e-6"),
    *("seconds_per_iteration", "iterations", "final_residual"),
    *("tuned", "seconds_tuning", "note"),
}


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    """Small arrays, and cores may be shared."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def problem():
    return SETUP.problem(WIDTH)


@pytest.fixture(scope="module")
def result():
    found = run(width=WIDTH, samples=16, limit=0.4, repeats=2, iteration_width=512)
    assert json.loads(json.dumps(found)) == found
    return found


def test_keys(result):
    assert {"machine", "points", "rows", "grids", "limit", "missing", "at_least"} <= set(result)
    assert all(set(row) == KEYS for row in result["rows"])
    names = [row["peer"] for row in result["rows"]]
    assert names[:2] == ["subquad", GRAM.name]
    assert sorted(names[2:] + list(result["missing"])) == sorted(peer.name for peer in PEERS)
    assert {row["kind"] for row in result["rows"]} == {
        "first-order",
        "quasi-newton",
        "gauss-newton",
    }


def test_rows_hold_what_happened(result):
    for row in result["rows"]:
        assert row["seconds_init"] > 0
        assert row["seconds_per_iteration"] > 0
        assert row["final_residual"] < 1
        assert (row["tuned"] is not None) == (row["peer"] in result["grids"])
        if row["peer"] in result["grids"]:
            assert row["tuned"] in result["grids"][row["peer"]]
        if row["seconds_to_1e-6"] is not None:
            assert row["seconds_init"] < row["seconds_to_1e-3"] <= row["seconds_to_1e-6"]
    ours = result["rows"][0]
    assert ours["seconds_to_1e-6"] is not None
    assert result["residual_of_predictions"] < 1e-5


def test_speedups_are_ratios_of_the_rows(result):
    ours, gram = result["rows"][:2]
    assert gram["seconds_to_1e-6"] is not None
    family = [r["seconds_to_1e-6"] for r in result["rows"][1:] if r["kind"] == "gauss-newton"]
    best = min(seconds for seconds in family if seconds is not None)
    assert result["speedup_to_1e-6_gauss_newton"] == best / ours["seconds_to_1e-6"]
    assert result["speedup_to_1e-3_first_order"] > 0
    assert result["iteration_width"] == 512
    seconds = result["iteration_seconds_gauss_newton"]
    assert result["speedup_iteration_gauss_newton"] == seconds / result["iteration_seconds"]


def test_points_fall(result):
    repeats = {p["repeat"] for p in result["points"] if p["peer"] == "subquad"}
    assert repeats == {0, 1}
    first = [p for p in result["points"] if p["peer"] == "adam, last layer"]
    assert [p["residual"] for p in first] == sorted((p["residual"] for p in first), reverse=True)
    assert [p["seconds"] for p in first] == sorted(p["seconds"] for p in first)


def test_who_never_gets_there_counts_with_the_limit():
    nothing = {"kind": "first-order", "seconds_init": 0.1}
    rows = [
        {"seconds_to_1e-3": 0.5, "seconds_to_1e-6": None, "kind": "gauss-newton"},
        {"seconds_to_1e-3": None, "seconds_to_1e-6": None, **nothing},
    ]
    found, at_least = peers._speedups(rows, 10.0)
    assert found["speedup_to_1e-3_first_order"] == 20.0
    assert at_least == ["speedup_to_1e-3_first_order"]
    assert found["speedup_to_1e-6_first_order"] is None
    assert found["speedup_to_1e-3_gauss_newton"] is None


def test_dense_network_is_ours(problem):
    net = SETUP.net(WIDTH)
    expected = net.to_module()(problem.inputs)
    assert torch.allclose(problem.outputs(problem.weights), expected, atol=1e-5)
    # the same gradient, the threshold's part included
    weights = [w.clone().requires_grad_() for w in problem.weights]
    module = net.to_module()
    problem.outputs(weights).sum().backward()
    module(problem.inputs).sum().backward()
    for mine, theirs in zip(weights, module.parameters(), strict=True):
        assert torch.allclose(mine.grad, theirs.grad, atol=1e-4 * float(theirs.grad.abs().max()))


def test_closed_form_gradients_are_autograds(problem):
    last = rivals.LastLayer(problem, problem.weights[-1])
    Z = last.Z.clone().requires_grad_()
    loss = (torch.relu(Z - last.limit) @ last.signed - last.target).square().sum() / 2
    loss.backward()
    _, over, error = last.look()
    assert torch.allclose(last.signal(over, error), Z.grad, atol=1e-6)


@pytest.mark.parametrize("name", ["gram_gauss_newton", "explicit_gauss_newton"])
def test_gauss_newton_rivals_take_our_steps(problem, name):
    X, y = SETUP.data()
    ours = train(SETUP.net(WIDTH), X, y, method="exact", tol=1e-6).residuals[1:]
    watch = Watch(60.0)
    with pytest.raises(Finished):
        getattr(rivals, name)(problem, watch, 0.0)
    theirs = [residual for _, residual in watch.seen]
    assert len(theirs) >= 2
    for a, b in zip(ours, theirs, strict=False):
        assert a == pytest.approx(b, abs=1e-4)


def test_weights_are_left_as_they_were(problem):
    before = [w.clone() for w in problem.weights]
    for peer in (GRAM, *PEERS):
        if peer.version is not None:
            drive(peer, problem, Watch(5.0, most=3), (peer.settings(WIDTH) or [0.0])[0])
    assert all(torch.equal(a, b) for a, b in zip(before, problem.weights, strict=True))


def test_the_package_where_it_is_installed(problem):
    pytest.importorskip("torch_levenberg_marquardt")
    watch = Watch(20.0)
    drive(PEERS[-1], problem, watch)
    assert watch.best < 1e-3


def test_too_little_memory_is_a_note(problem, monkeypatch, result):
    monkeypatch.setattr(contest, "free_bytes", lambda: 1e6)
    outcome = compete(PEERS[-2], problem, 1.0)
    assert outcome.runs == []
    assert "GB of memory" in outcome.note
    row = peers._row("x", "gauss-newton", "1", outcome)
    assert set(row) == KEYS
    assert row["seconds_init"] is None
    assert row["final_residual"] is None
    assert peers._at_width(SETUP, 64, 1.0)["iteration_seconds"] > 0


def test_a_peer_that_fails_says_why(problem):
    def singular(problem, watch, setting):
        watch.start()
        watch.ready()
        watch(0.5)
        torch.linalg.cholesky(torch.zeros(2, 2))

    def gives_up(problem, watch, setting):
        return None

    def diverges(problem, watch, setting):
        watch.start()
        watch(math.nan)

    watch = Watch(1.0)
    assert "cholesky" in drive(contest.Peer("x", "gauss-newton", singular), problem, watch)
    assert watch.best == 0.5
    assert watch.until(0.1) is None
    assert "by itself" in drive(contest.Peer("x", "gauss-newton", gives_up), problem, Watch(1.0))
    watch = Watch(1.0)
    assert drive(contest.Peer("x", "gauss-newton", diverges), problem, watch) is None
    assert (watch.seen, watch.best, watch.per_iteration) == ([], 1.0, None)


def test_our_last_residual_is_that_of_the_weights():
    watch, result = SETUP.train(WIDTH, math.inf)
    assert watch.seen[-1][1] == result.residuals[-1]
    assert 0 < watch.best < 1e-6
    assert result.status == "converged"


def test_watch_ends_runs():
    watch = Watch(60.0, most=2)
    watch.start()
    watch(0.5)
    with pytest.raises(Finished):
        watch(0.4)
    watch = Watch(1e-9)
    watch.start()
    with pytest.raises(Finished):
        watch(0.5)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"width": 1}, "width must be an integer >= 2"),
        ({"samples": 1}, "samples must be an integer >= 2"),
        ({"limit": 0}, "limit must be a finite number > 0"),
        ({"repeats": 0}, "repeats must be an integer >= 1"),
        ({"shift": -1.0}, "shift must be"),
        ({"seed": -1}, "seed must be"),
        ({"weights": "hadamart"}, "did you mean 'hadamard'"),
        ({"iteration_width": 1}, "iteration_width must be an integer >= 2"),
        ({"width": 16, "samples": 4, "shift": 8.0}, "training ended at once"),
    ],
)
def test_bad_input_gets_one_line(given, message):
    with pytest.raises(InvalidInput, match=message) as caught:
        run(**given)
    assert "\n" not in str(caught.value)
