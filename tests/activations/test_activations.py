import itertools
import math

import pytest
import torch

from subquad import (
    GELU,
    InvalidInput,
    LeakyReLU,
    ReLU,
    ShiftedReLU,
    Sigmoid,
    SiLU,
    Tanh,
    ThresholdedLinear,
    WideNet,
)
from subquad.activations import ACTIVATIONS, Activation, build
from subquad.gram import TensorJacobian
from subquad.network.passes import backward
from subquad.rows import to_dense
from tests.oracles import unit_rows

EVERY = [
    ShiftedReLU(1.0),
    ShiftedReLU(1.0, relative=False),
    ThresholdedLinear(1.0),
    ThresholdedLinear(1.0, relative=False),
    ReLU(),
    LeakyReLU(),
    GELU(),
    SiLU(),
    Tanh(),
    Sigmoid(),
]


def name(activation: Activation) -> str:
    return str(activation)


def integral(activation: Activation) -> float:
    """E[sigma(g; 1)^2] by a fine trapezoid on each side of the jump."""
    total = 0.0
    b = activation.threshold
    edges = (-14.0, 0.0, 14.0) if b is None else (b, 14.0)
    for low, high in itertools.pairwise(edges):
        g = torch.linspace(low, high, 400_001, dtype=torch.float64)
        rho = torch.ones_like(g)
        y = activation.unit(g, rho) ** 2 * torch.exp(-g * g / 2) / math.sqrt(2 * math.pi)
        total += float(torch.trapezoid(y, g))
    return total


@pytest.mark.parametrize("activation", EVERY, ids=name)
def test_constant_is_that_of_the_definition(activation: Activation) -> None:
    assert activation.second_moment == pytest.approx(integral(activation), rel=1e-8)
    assert activation.normaliser == pytest.approx(1 / (2 * activation.second_moment))


@pytest.mark.parametrize("b", [0.0, 0.5, 1.0, 2.0, 4.0])
def test_exact_constants_of_the_paper_forms(b: float) -> None:
    tail, pdf = 0.5 * math.erfc(b / 2**0.5), math.exp(-b * b / 2) / math.sqrt(2 * math.pi)
    assert ShiftedReLU(b).normaliser == pytest.approx(0.5 / ((1 + b * b) * tail - b * pdf))
    assert ThresholdedLinear(b).normaliser == pytest.approx(0.5 / (tail + b * pdf))


@pytest.mark.parametrize("activation", EVERY, ids=name)
def test_second_moment_after_a_layer_is_one(activation: Activation) -> None:
    """Within four standard errors, for 40 unit inputs and 20,000 independent neurons each."""
    m, generator = 20_000, torch.Generator().manual_seed(0)
    z = torch.randn(40, m, generator=generator, dtype=torch.float64) * math.sqrt(2 / m)
    squares = activation(z, torch.ones(40), m) ** 2 * m
    error = float(squares.std()) / math.sqrt(squares.numel())
    assert abs(float(squares.mean()) - 1) < 4 * error
    assert error < 0.01


@pytest.mark.parametrize("activation", EVERY, ids=name)
def test_squared_norm_after_a_real_layer_is_one(activation: Activation) -> None:
    """Mean over 20 networks of one layer: within four standard errors."""
    means = []
    for seed in range(20):
        net = WideNet(16, 2000, 1, activation=activation, weights="dense", seed=seed)
        values = to_dense(net.trace(unit_rows(10, 16, seed).float())[0].value)
        means.append(values.double().square().sum(1).mean())
    spread = torch.stack(means)
    assert abs(float(spread.mean()) - 1) < 4 * float(spread.std()) / 20**0.5


@pytest.mark.parametrize("activation", EVERY, ids=name)
@pytest.mark.parametrize("depth", [1, 3])
def test_least_eigenvalue_stays_clear_of_zero(activation: Activation, depth: int) -> None:
    """n=64, d=16, m=4096: at least 0.01 in units of G/m; also the norms stay near one."""
    net = WideNet(16, 4096, depth, activation=activation, weights="dense", dtype=torch.float64)
    traces = net.trace(unit_rows(64, 16))
    (u,) = backward(net.layers, traces, net.output_weights, first=depth - 1)
    gram = TensorJacobian([(u, traces[-1].inputs)]).gram() / 4096
    assert float(torch.linalg.eigvalsh(gram)[0]) > 0.01


def test_uncentred_sigmoid_loses_it() -> None:
    """Why the sigmoid is centred: the constant drives all correlations to 1."""
    net = WideNet(16, 4096, 3, activation=Sigmoid(centred=False), dtype=torch.float64)
    traces = net.trace(unit_rows(64, 16))
    (u,) = backward(net.layers, traces, net.output_weights, first=2)
    gram = TensorJacobian([(u, traces[-1].inputs)]).gram() / 4096
    assert float(torch.linalg.eigvalsh(gram)[0]) < 1e-3


@pytest.mark.parametrize("activation", EVERY, ids=name)
def test_slopes_are_derivatives(activation: Activation) -> None:
    m = 50
    b = activation.threshold
    g = torch.linspace(-3, 3, 41, dtype=torch.float64)
    rho = torch.full_like(g, 1.1)
    if b is not None:
        g = g[g > 1.2 * b + 0.1]
        rho = rho[: g.numel()]
    z, step = (g / math.sqrt(m / 2)).requires_grad_(), 1e-6
    rho = rho.clone().requires_grad_()
    value = activation.value(z, rho, m).sum()
    dz, drho = torch.autograd.grad(value, (z, rho), allow_unused=True)
    kink = (z.abs() < step) if isinstance(activation, LeakyReLU) else torch.zeros_like(z).bool()
    assert torch.allclose(dz[~kink], activation.slope(z, rho, m)[~kink], atol=1e-12)
    own = activation.norm_slope(z.detach(), rho.detach(), m)
    if not activation.follows_norm:  # rho is the constant 1 then
        assert own is None
    elif own is None:
        assert drho is None or float(drho.abs().max()) == 0
    else:
        assert torch.allclose(drho, own, atol=1e-12)


@pytest.mark.parametrize("kind", [ShiftedReLU, ThresholdedLinear])
def test_relative_threshold_is_homogeneous(kind: type[Activation]) -> None:
    activation = kind(1.5)  # type: ignore[call-arg]
    z = torch.randn(5, 30, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    norms = torch.rand(5, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    assert torch.allclose(activation(3 * z, 3 * norms, 30), 3 * activation(z, norms, 30))


def test_at_shift_zero_all_are_relu() -> None:
    z, norms = torch.linspace(-1, 1, 21)[None], torch.ones(1)
    for activation in (ShiftedReLU(0.0), ThresholdedLinear(0.0), ReLU(), LeakyReLU(0.0)):
        assert torch.allclose(activation(z, norms, 2), z.clamp_min(0), atol=1e-7)


@pytest.mark.parametrize("activation", EVERY, ids=name)
def test_config_round_trip(activation: Activation) -> None:
    assert build(activation.config()) == activation


def test_bad_settings_get_one_line() -> None:
    for wrong in (-1.0, math.nan, math.inf, "1", True, None):
        with pytest.raises(InvalidInput, match="shift must be a finite number >= 0, got"):
            ShiftedReLU(wrong)  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="ThresholdedLinear: shift"):
        ThresholdedLinear(-0.1)
    with pytest.raises(InvalidInput, match="shift must be <= 30, got 40"):
        ShiftedReLU(40.0)
    assert ShiftedReLU(30.0).normaliser > 0
    for kind in (ShiftedReLU, ThresholdedLinear):
        with pytest.raises(InvalidInput, match="relative must be True or False, got 'no'"):
            kind(1.0, relative="no")  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="Sigmoid: centred must be True or False"):
        Sigmoid(centred=1)  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="slope_below"):
        LeakyReLU(-0.1)
    with pytest.raises(InvalidInput, match=r"did you mean 'ShiftedReLU'\?"):
        build({"name": "ShiftedRelu"})
    with pytest.raises(InvalidInput, match="activation GELU"):
        build({"name": "GELU", "shift": 1.0})
    assert set(ACTIVATIONS) == {type(a).__name__ for a in EVERY}
