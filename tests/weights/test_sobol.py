"""Weights that are spread evenly: one normal distribution, and a kernel that is closer to it."""

import math

import pytest
import torch

from subquad import Cost, ReLU, WideNet, train
from subquad.theory import profile
from subquad.weights import DenseWeight, FrozenWeight, HadamardWeight, build, stored_bytes
from subquad.weights.sobol import MOST_INPUTS
from tests.oracles import targets, unit_rows
from tests.weights.contract import CPU, SHAPES, check_products, check_threads


def make(m_out: int, m_in: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> FrozenWeight:
    return build("sobol", m_out, m_in, seed, dtype, CPU)


@pytest.mark.parametrize("shape", [*SHAPES, (20, MOST_INPUTS), (20, MOST_INPUTS + 1)], ids=str)
def test_products(shape: tuple[int, int]) -> None:
    check_products(make(*shape))


def test_threads() -> None:
    check_threads(make(3000, 200, dtype=torch.float32), tolerance=1e-6)


@pytest.mark.parametrize("m", [1000, 4096, 5000])
def test_entries_are_standard_normal_and_columns_do_not_know_each_other(m: int) -> None:
    """Moments closer to the normal's than draws would bring them; no width is special."""
    g = make(m, 6).dense() * math.sqrt(m / 2)
    assert torch.isfinite(g).all()
    assert float(g.mean(0).abs().max()) < 1 / math.sqrt(m)
    assert float((g.square().mean(0) - 1).abs().max()) < math.sqrt(2 / m)
    assert float(((g**4).mean(0) - 3).abs().max()) < math.sqrt(96 / m)
    C = g.T @ g / m - torch.diag(g.square().mean(0))
    assert float(C.abs().max()) < 1 / math.sqrt(m)
    for quantile in (0.1, 0.5, 0.9):
        below = (torch.special.ndtr(g) < quantile).double().mean(0)
        assert float((below - quantile).abs().max()) < 3 / m + 3e-3


def kernel_error(kind: str, width: int, inputs: int, seeds: int) -> float:
    """Root mean square relative distance of G/m from its limit, ReLU, one layer."""
    X = unit_rows(30, inputs)
    theta = torch.arccos((X @ X.T).clamp(-1, 1)).fill_diagonal_(0)
    K = torch.from_numpy(profile(ReLU(), 1)(theta.numpy()))
    squares = 0.0
    for seed in range(seeds):
        fire = (build(kind, width, inputs, seed, torch.float64, CPU).matmul(X) > 0).double()
        G = fire @ fire.T / width * (X @ X.T)
        squares += float((G - K).square().sum() / K.square().sum()) / seeds
    return math.sqrt(squares)


@pytest.mark.parametrize(("inputs", "gain"), [(3, 2.0), (11, 1.4)])
def test_the_kernel_is_closer_than_draws_bring_it(inputs: int, gain: float) -> None:
    even, drawn = (kernel_error(kind, 4096, inputs, 8) for kind in ("sobol", "dense"))
    assert gain * even < drawn


def test_widths_that_are_no_power_of_two_are_even_too() -> None:
    even, drawn = (kernel_error(kind, 3000, 3, 8) for kind in ("sobol", "dense"))
    assert 1.5 * even < drawn


def test_wide_inputs_give_hadamard_weights() -> None:
    wide = make(64, MOST_INPUTS + 1, 3)
    assert isinstance(wide, HadamardWeight)
    same = HadamardWeight(64, MOST_INPUTS + 1, 3, torch.float64, CPU)
    assert torch.equal(wide.dense(), same.dense())
    assert isinstance(make(64, MOST_INPUTS), DenseWeight)


def test_seeds_decide() -> None:
    assert torch.equal(make(90, 9, 1).dense(), make(90, 9, 1).dense())
    assert not torch.equal(make(90, 9, 1).dense(), make(90, 9, 2).dense())
    state = torch.get_rng_state()
    make(90, 9, 5)
    assert torch.equal(state, torch.get_rng_state()), "the global generator was drawn from"


@pytest.mark.parametrize("shape", [(100, 50), (1000, 3), (64, MOST_INPUTS + 1), (3, 300)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_stored_bytes_are_what_is_kept(shape: tuple[int, int], dtype: torch.dtype) -> None:
    assert stored_bytes("sobol", *shape, dtype.itemsize) == make(*shape, dtype=dtype).nbytes


def test_float32_is_float64_rounded() -> None:
    narrow, wide = make(500, 7, dtype=torch.float32), make(500, 7)
    assert torch.allclose(narrow.dense().double(), wide.dense(), atol=1e-6)


def test_work_is_counted() -> None:
    with Cost() as cost:
        make(500, 7)
    assert cost.procedures["init"].flops >= 500 * 7


@pytest.mark.parametrize("widths", [[300, 500], [1000], [130, 70, 90]], ids=str)
def test_networks_come_back_from_their_config(widths: list[int]) -> None:
    net = WideNet(5, widths, len(widths), weights="sobol", seed=4, dtype=torch.float64)
    assert net.config()["weights"] == "sobol"
    again = WideNet.from_config(net.config())
    X = unit_rows(6, 5)
    assert torch.equal(again(X), net(X))
    for layer, other in zip(net.layers, again.layers, strict=True):
        assert torch.equal(layer.dense(), other.dense())
    kinds = [type(layer.frozen) for layer in net.layers]
    assert kinds[0] is DenseWeight
    assert all(
        kind is (DenseWeight if m <= MOST_INPUTS else HadamardWeight)
        for kind, m in zip(kinds[1:], widths[:-1], strict=True)
    )
    assert train(net, X, targets(6), tol=1e-8).status == "converged"
