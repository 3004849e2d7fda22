import io
import itertools
import json
import math
import sys

import pytest
import torch

from subquad import InvalidInput, ShiftedReLU, ThresholdedLinear, TrainingFailed, WideNet, train
from subquad.training import Iteration, load_result
from subquad.training.leaveout import leave_one_out
from subquad.training.progress import Progress
from tests.oracles import sparse_matrix, targets, unit_rows


def start(width: int = 512, **settings: object) -> tuple[WideNet, torch.Tensor, torch.Tensor]:
    options = {"weights": "dense", "dtype": torch.float64, **settings}
    net = WideNet(8, width, 2, **options)  # type: ignore[arg-type]
    return net, unit_rows(16, 8), targets(16)


@pytest.mark.parametrize(
    ("method", "flush"),
    [("exact", "never")]
    + [(m, f) for m in ("paper", "gd") for f in ("never", "sparse", "lazy-columns")],
)
def test_the_given_network_is_left_alone(method: str, flush: str) -> None:
    net, X, y = start()
    before = [layer.dense().clone() for layer in net.layers]
    result = train(net, X, y, method=method, flush=flush, max_iter=5)
    assert result.net is not net
    for layer, old in zip(net.layers, before, strict=True):
        assert torch.equal(layer.dense(), old)
    U, V = result.net.layers[-1].delta()
    change = result.net.layers[-1].dense() - before[-1]
    assert torch.allclose(U @ V.T, change, atol=1e-9)
    assert U.shape[1] <= 16 * (5 if method == "gd" else 1)


def test_prediction_of_the_training_rows_has_the_last_residual() -> None:
    net, X, y = start()
    for center in (False, True):
        result = train(net, X, y, center=center, tol=1e-9)
        assert result.status == "converged"
        assert result.remedy == ""
        error = float((result.predict(X) - y).norm() / y.norm())
        assert error == pytest.approx(result.residuals[-1], abs=1e-12)
    plain = train(net, X, y, method="paper")
    assert torch.equal(plain.predict(X), plain.net(X)), "the paper trains f itself"


def test_training_goes_on_from_a_trained_network() -> None:
    net, X, y = start()
    first = train(net, X, y, tol=1e-8)
    second = train(first.net, X, 2 * y, tol=1e-8, center=True)
    assert second.status == "converged"
    assert float((second.predict(X) - 2 * y).norm() / y.norm()) < 1e-7
    assert float((first.predict(X) - y).norm() / y.norm()) < 1e-7


@pytest.mark.parametrize("flush", ["sparse", "paper", "lazy-columns", "never"])
def test_chains_of_policies_are_saved_and_loaded(flush: str) -> None:
    net, X, y = start()
    first = train(net, X, y, method="paper", flush=flush)
    second = train(first.net, X, 2 * y, method="paper", flush="never", tol=1e-8)
    assert second.status == "converged"
    again = load_result(*second.state())
    assert float((again.predict(X) - second.predict(X)).abs().max()) < 1e-9
    U, V = second.net.layers[-1].delta()
    change = second.net.layers[-1].dense() - net.layers[-1].dense()
    assert float((U @ V.T - change).abs().max()) < 1e-9


def test_result_is_saved_and_loaded_without_pickle() -> None:
    net, X, y = start()
    for center in (False, True):
        result = train(net, X, y, center=center)
        config, tensors = result.state()
        again = load_result(json.loads(json.dumps(config)), tensors)
        assert torch.equal(again.predict(X), result.predict(X))
        stored = sum(t.nbytes for t in tensors.values())
        assert stored < 0.2 * sum(layer.weight.nbytes for layer in net.layers)
    with pytest.raises(InvalidInput, match="must hold 'net'"):
        load_result({"net": 3, "centred": True}, {})


def test_cost_is_counted_per_iteration() -> None:
    net, X, y = start()
    result = train(net, X, y, method="paper")
    assert len(result.cost.iterations) == result.iterations
    assert result.cost.flops == result.cost.init.flops + sum(
        c.flops for c in result.cost.iterations
    )
    assert result.cost.bytes > 0
    assert {"matmul", "activation", "gram", "cholesky"} <= set(result.cost.iterations[0].procedures)
    assert len(result.certificates) == result.iterations


def test_callback_sees_every_iteration_and_may_stop() -> None:
    net, X, y = start()
    seen: list[Iteration] = []
    result = train(net, X, y, tol=1e-14, callback=lambda info: seen.append(info) or len(seen) == 2)
    assert result.status == "stopped"
    assert [info.iteration for info in seen] == [1, 2]
    assert [info.residual for info in seen] == pytest.approx(result.residuals[1:], rel=1e-6)
    assert all(0 < rate < 0.3 for rate in seen[0].firing)
    assert seen[0].cost.flops > 0
    assert seen[0].certificate is not None


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize(("tol", "max_iter"), [(1e-6, 50), (0.0, 4), (1e-2, 50), (1e-12, 50)])
def test_callback_is_told_the_residual_of_the_weights(
    compiled: bool, tol: float, max_iter: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What carrying outputs along makes of it, at last 0, is never the last word."""
    if not compiled:
        monkeypatch.setattr("subquad.training.firingbits.numba_available", lambda: False)
    net = WideNet(8, [1024, 256], 2, weights="dense")
    X, y = unit_rows(60, 8).float(), targets(60)
    seen: list[Iteration] = []
    result = train(net, X, y, tol=tol, max_iter=max_iter, callback=seen.append)
    assert seen[-1].residual == pytest.approx(result.residuals[-1], rel=0.5)
    if result.status != "stalled":
        assert seen[-1].residual == result.residuals[-1]
    assert min(info.residual for info in seen) > 1e-9, "float32 cannot know that"
    assert [info.residual for info in seen[:-1]] == result.residuals[1:-1]
    assert 0 <= seen[-1].confirm_seconds <= seen[-1].seconds
    if compiled:
        assert "look" in seen[-1].cost.procedures, "and it is charged"


def test_statuses_and_remedies() -> None:
    net, X, y = start()
    short = train(net, X, y, max_iter=1, tol=1e-13)
    assert (short.status, short.iterations) == ("max_iter", 1)
    assert "raise max_iter" in short.remedy
    floor = train(start(dtype=torch.float32)[0], X, y, tol=1e-12)
    assert floor.status == "stalled"
    assert "float64" in floor.remedy
    with pytest.raises(TrainingFailed, match="training max_iter: the residual is"):
        train(net, X, y, max_iter=1, tol=1e-13, throw=True)
    assert train(net, X, y, max_iter=0).residuals[0] > 0


def test_thresholded_form_does_not_contract_at_small_width() -> None:
    """It jumps, so the paper's third does not hold where the shifted ReLU's does."""
    worst = []
    for kind in (ThresholdedLinear, ShiftedReLU):
        net = WideNet(16, 2048, 3, activation=kind(1.0), weights="dense", dtype=torch.float64)
        X, y = unit_rows(64, 16), targets(64)
        found = train(net, X, y, method="paper", max_iter=6, tol=1e-9).residuals
        worst.append(max(b / a for a, b in itertools.pairwise(found)))
    assert worst[0] > 1 / 3 > worst[1]


def test_conflicting_rows_are_named() -> None:
    net, X, y = start()
    X[9] = X[4]
    result = train(net, X, y)
    assert result.status == "stalled"
    assert result.remedy.startswith("rows 4 and 9 of X are equal but their targets differ")
    assert any("rank 15 of 16" in note for note in result.notes)
    y[9] = y[4]
    agreeing = train(net, X, y)
    assert agreeing.status == "converged"
    assert any("rank 15 of 16" in note for note in agreeing.notes), "not in silence"


def test_dead_samples_end_training_with_their_index() -> None:
    net, X, y = start()
    X[5] = 0
    for method in ("exact", "paper", "gd"):
        result = train(net, X, y, method=method)
        assert result.status == "failed"
        assert "sample 5 fires no neuron in layer 1" in result.remedy
    assert "lower the shift" in result.remedy
    high = WideNet(8, 64, 3, activation=ShiftedReLU(2.5, relative=False), weights="dense")
    result = train(high, unit_rows(16, 8), y)
    assert result.status == "failed"
    assert "fire" in result.remedy


def test_leave_one_out_equals_solving_without_each_row() -> None:
    factor = sparse_matrix((9, 30), 1.0, 0)
    gram, start_at = factor @ factor.T, targets(3, 1, 3)
    y = targets(3, 2, 3)
    found = leave_one_out(gram, 0.0, y, start_at)
    for i in range(3):
        kept = [r for r in range(9) if r // 3 != i]
        out = [3 * i, 3 * i + 1, 3 * i + 2]
        weights = torch.linalg.solve(gram[kept][:, kept], (y - start_at).reshape(-1)[kept])
        assert torch.allclose(found[i], start_at[i] + gram[out][:, kept] @ weights, atol=1e-8)


def test_loo_predictions_come_near_to_training_without_a_row() -> None:
    net, X, y = start(width=8192)
    result = train(net, X, y, center=True, tol=1e-10)
    closed = result.loo_predictions()
    for i in (0, 7):
        kept = [k for k in range(16) if k != i]
        other = train(net, X[kept], y[kept], center=True, tol=1e-10)
        assert float(closed[i]) == pytest.approx(float(other.predict(X[i : i + 1])), abs=0.05)


def test_permuting_rows_changes_nothing() -> None:
    net, X, y = start()
    order = torch.randperm(16, generator=torch.Generator().manual_seed(0))
    a, b = train(net, X, y), train(net, X[order], y[order])
    assert max(abs(p - q) for p, q in zip(a.residuals, b.residuals, strict=True)) < 1e-9


def test_same_seed_same_result_for_one_and_two_threads() -> None:
    net, X, y = start()
    threads, found = torch.get_num_threads(), []
    try:
        for count in (1, 2):
            torch.set_num_threads(count)
            found.append(
                train(net, X, y, method="paper", solver="preconditioned", seed=3).predict(X)
            )
    finally:
        torch.set_num_threads(threads)
    assert torch.allclose(*found, atol=1e-9)


def test_progress_shows_on_a_terminal_and_nowhere_else(monkeypatch: pytest.MonkeyPatch) -> None:
    net, X, y = start()
    monkeypatch.setattr("subquad.training.progress.PATIENCE", 0.0)
    shown = io.StringIO()
    monkeypatch.setattr(sys, "stderr", shown)
    train(net, X, y)
    assert shown.getvalue() == ""
    monkeypatch.setattr(shown, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    train(net, X, y)
    assert "residual" in shown.getvalue()
    quiet = Progress(False, 5, 1e-6)
    quiet.close()


def test_bad_input_gets_one_line() -> None:
    net, X, y = start()
    nan = y.clone()
    nan[3] = math.nan
    cases: list[tuple[dict[str, object], str]] = [
        ({"y": nan}, "y holds nan at row 3, column 0"),
        ({"y": y * math.inf}, "y holds"),
        ({"y": y[:-1]}, r"y must have shape \(16,\), got \(15,\)"),
        ({"y": torch.stack([y, y], 1)}, r"y must have shape \(16,\), got \(16, 2\)"),
        ({"y": torch.ones(16)}, r"y is constant \(1 in all 16 rows\)"),
        ({"y": torch.zeros(16)}, r"y is constant \(0 in all 16 rows\)"),
        ({"y": ["a"] * 16}, "y is not a numeric array"),
        ({"X": X[:0], "y": y[:0]}, "X is empty"),
        ({"X": X[:1], "y": y[:1]}, "at least 2 rows, got 1"),
        ({"X": X[:, :3]}, "must have 8 columns"),
        ({"X": X * math.nan}, "X holds nan at row 0, column 0"),
        ({"net": "net"}, "net must be a WideNet"),
        ({"method": "papper"}, "did you mean 'paper'"),
        ({"layers": "lats"}, "did you mean 'last'"),
        ({"solver": "exat"}, "did you mean 'exact'"),
        ({"sketch": "fft"}, "unknown sketch 'fft'"),
        ({"flush": "spares"}, "did you mean 'sparse'"),
        ({"flush": -1}, "a rank must be an integer >= 1, got -1"),
        ({"tol": -1.0}, "tol must be"),
        ({"tol": math.nan}, "tol must be"),
        ({"max_iter": -1}, "max_iter must be"),
        ({"max_iter": 1.5}, "max_iter must be"),
        ({"ridge": 0.1, "method": "paper"}, "ridge needs method='exact'"),
        ({"ridge": -0.1}, "ridge must be"),
        ({"ridge": 0.1, "layers": "all", "flush": "sparse"}, "ridge needs flush='never'"),
        ({"ridge": 0.1, "layers": "all", "solver": "sketch"}, "goes down to rounding"),
        ({"step": "long"}, "step must be 'auto' or"),
        ({"step": 0.0}, "step must be a finite number > 0"),
        ({"seed": -1}, "seed must be"),
        ({"center": "no"}, "center must be True, False or None"),
        ({"callback": 3}, "callback must be callable"),
        ({"y": y * 1e-300}, "scale it to about 1"),
        ({"y": y * 1e200}, "scale it to about 1"),
        ({"sketch_size": 0, "solver": "preconditioned", "method": "paper"}, "size must be"),
        ({"solver": "preconditioned"}, "solves exactly"),
        ({"method": ["paper"]}, "unknown method"),
        ({"layers": ["last"]}, "unknown layers"),
        ({"center": torch.ones(2)}, "center must be True, False or None"),
        ({"throw": torch.ones(2)}, "throw must be True or False"),
        ({"progress": torch.ones(2)}, "progress must be True, False or None"),
        ({"ridge": 1e308}, "ridge must be a finite number"),
        ({"sketch": "tensorsketch"}, "solves exactly"),
        ({"method": "gd", "solver": "sketch"}, "solves no Gram regression"),
        ({"method": "gd", "sketch_size": 100}, "solves no Gram regression"),
        ({"method": "gd", "sketch": "tensorsketch"}, "solves no Gram regression"),
        ({"method": "paper", "solver": "exact", "sketch_size": 9}, "sketches nothing"),
        ({"flush": "sparse"}, "keeps no weights to flush"),
    ]
    for changes, message in cases:
        arguments = {"net": net, "X": X, "y": y, **changes}
        with pytest.raises(InvalidInput, match=message) as caught:
            train(**arguments)  # type: ignore[arg-type]
        assert "\n" not in str(caught.value)
