"""Every kind against i.i.d. normal entries: what agrees within Monte Carlo error, what differs.

What differs, and is asserted as such: Hadamard weights are exactly orthogonal where nothing is
cut; circulant weights repeat one vector, so averages over neurons scatter more from seed to
seed; sparse weights have entries, and with sparse inputs pre-activations, of heavy tails.
"""

import math
import statistics

import pytest
import torch
from torch import Tensor

from subquad import InvalidInput, ShiftedReLU, WideNet, train
from subquad.network.passes import backward, row_norms
from subquad.rows import to_dense
from subquad.weights import KINDS, build
from tests.oracles import targets, unit_rows
from tests.weights.contract import CPU

STRUCTURED = [kind for kind in KINDS if kind != "dense"]
SIDES = [1024, 700]  # 700 is cut out of 1024
SAMPLES = 64

SQUARE = tuple(kind for kind in KINDS if kind != "sobol")
"""Sobol weights are Hadamard where there are as many inputs as neurons: see test_sobol.py."""


def standardised(kind: str, m: int, seed: int = 0) -> Tensor:
    return build(kind, m, m, seed, torch.float64, CPU).dense() * math.sqrt(m / 2)


def network(kind: str, m: int, seed: int, b: float = 1.0) -> WideNet:
    return WideNet(16, m, 3, activation=ShiftedReLU(b), weights=kind, seed=seed)


def least_eigenvalue(net: WideNet, X: Tensor) -> float:
    """lambda_min(G/m) of the last layer."""
    traces = net.trace(net.check_inputs(X))
    u = backward(net.layers, traces, net.output_weights, first=net.depth - 1)[0]
    U, V = (to_dense(rows).double() for rows in (u, traces[-1].inputs))
    return float(torch.linalg.eigvalsh((U @ U.T) * (V @ V.T))[0]) / net.widths[-1]


def test_kinds_by_name() -> None:
    assert KINDS == ("dense", "gaussian", "hadamard", "circulant", "sparse", "sobol")
    for kind in SQUARE:
        weight = build(kind, 5, 7, 0, torch.float32, CPU)
        assert (weight.kind, weight.shape, weight.dtype) == (kind, (5, 7), torch.float32)
        assert weight.device == CPU
    with pytest.raises(InvalidInput, match=r"unknown kind of weights 'gausian'.*'gaussian'"):
        build("gausian", 5, 7, 0, torch.float32, CPU)


@pytest.mark.parametrize("m", SIDES)
@pytest.mark.parametrize("kind", SQUARE)
def test_moments_of_entries(kind: str, m: int) -> None:
    """Mean 0, variance 2/m, no skew, kurtosis 3: at five standard errors of N independent ones."""
    W = standardised(kind, m)
    N = m * m
    # A circulant matrix holds M different normals, whose mean square is its variance.
    spread = 5 * math.sqrt(2 / (1024 if kind == "circulant" else N))
    per_row = build(kind, 2, m, 0, torch.float64, CPU).per_row if kind == "sparse" else m  # type: ignore[attr-defined]
    kurtosis = 3 * m / per_row
    if kind == "sparse":
        spread = 5 * math.sqrt(kurtosis / N)
    assert abs(float(W.mean())) < 5 / math.sqrt(N)
    assert abs(float(W.square().mean()) - 1) < spread
    unit = W / W.square().mean().sqrt()
    six, eight = (15.0, 96.0) if kind != "sparse" else (15 * (m / per_row) ** 2, 0.0)
    assert abs(float((unit**3).mean())) < 5 * math.sqrt(six / N)
    found = float((unit**4).mean())
    if kind == "sparse":  # differs: 3/p, p the share of nonzeros
        assert kurtosis > 30
        assert found == pytest.approx(kurtosis, rel=0.05)
    else:
        assert abs(found - 3) < 5 * math.sqrt(eight / N) + 6 / m


@pytest.mark.parametrize("m", SIDES)
@pytest.mark.parametrize("kind", SQUARE)
def test_correlations_of_rows_and_columns(kind: str, m: int) -> None:
    """Root mean square 1/sqrt(m) between i.i.d. rows, no pair beyond what m² pairs allow."""
    W = standardised(kind, m)
    for side in (W, W.T):
        unit = torch.nn.functional.normalize(side)
        C = (unit @ unit.T).fill_diagonal_(0)
        rms = float(C.square().mean().sqrt()) * math.sqrt(m)
        if kind == "hadamard" and m == 1024:  # differs: orthogonal
            assert rms < 1e-10
        elif kind == "hadamard":  # differs: 1024 rows of an orthogonal matrix, cut
            assert rms == pytest.approx(math.sqrt(1 - 700 / 1024), abs=0.03)
        else:
            assert rms == pytest.approx(1, abs=0.1)
        # Differs for sparse weights: two rows have some four places in common, or many more.
        assert float(C.abs().max()) < (12 if kind == "sparse" else 6.5) / math.sqrt(m)


@pytest.mark.parametrize("kind", SQUARE)
def test_pre_activations_are_normal_but_for_sparse_weights(kind: str) -> None:
    """Moments of W h for sparse h (16 % firing), over neurons, samples and seeds."""
    m, seeds, found = 1000, 8, []
    for seed in range(seeds):
        net = network("dense", m, seed)
        h = net.trace(net.check_inputs(unit_rows(20, 16, seed)))[0].value
        weight = build(kind, m, m, 100 + seed, torch.float32, CPU)
        found.append(weight.matmul(h) / row_norms(h)[:, None] * math.sqrt(m / 2))
    z = torch.stack(found).double()
    assert abs(float(z.mean())) < 0.03
    # One standard error of a seed: sqrt(2/m), three times that for circulant weights.
    assert abs(float(z.square().mean()) - 1) < 4 * 3 * math.sqrt(2 / (m * seeds))
    kurtosis = float((z**4).mean() / z.square().mean() ** 2)
    if kind == "sparse":  # differs: each neuron sees some ten firing inputs
        assert 3.5 < kurtosis < 8
    else:
        assert kurtosis == pytest.approx(3, abs=0.15)


@pytest.mark.parametrize("b", [0.0, 1.0, 2.0])
@pytest.mark.parametrize("kind", SQUARE)
def test_firing_rate(kind: str, b: float) -> None:
    """1 - Phi(b) in every layer, whatever the kind; not so where weights and inputs are sparse."""
    m = 3000
    q = math.erfc(b / math.sqrt(2)) / 2
    # Samples share neurons, so the scatter is that of m neurons: sqrt(q (1 - q)/m) or less.
    scatter = math.sqrt(q * (1 - q) / m)
    net = network(kind, m, 1, b)
    for l, trace in enumerate(net.trace(net.check_inputs(unit_rows(SAMPLES, 16)))):
        if kind == "sparse" and l and b:  # differs: tails are heavy and shoulders thin
            low, high = (0.8, 1.0) if b == 1 else (1.05, 1.6)
            assert low < trace.firing / q < high
        else:
            assert abs(trace.firing - q) < 4 * scatter


@pytest.mark.parametrize("m", [2048, 3000])
def test_least_eigenvalue_and_convergence_are_those_of_dense_weights(m: int) -> None:
    """n = 64, d = 16, L = 3, b = 1, float32, means over four seeds; standard errors 0.02."""
    found: dict[str, list[float]] = {}
    for kind in KINDS:
        found[kind] = []
        for seed in range(4):
            X, y = unit_rows(SAMPLES, 16, seed), targets(SAMPLES, seed)
            net = network(kind, m, seed)
            found[kind].append(least_eigenvalue(net, X))
            result = train(net, X, y, method="paper", tol=1e-5, seed=seed)
            assert result.status == "converged", (kind, seed, result.residuals)
            assert result.iterations <= 4, (kind, seed, result.residuals)
    mean = {kind: statistics.mean(values) for kind, values in found.items()}
    for kind in STRUCTURED:
        assert abs(mean[kind] - mean["dense"]) < 0.1, mean
