"""Dual functions of activations against closed forms, quadrature and random draws."""

import math

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import ndtr, owens_t

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
)
from subquad.activations import Activation
from subquad.activations.smooth import Everywhere
from subquad.theory import Dual, dual
from subquad.theory.duals import angles, hermite

SMOOTH = [GELU(), SiLU(), Tanh(), Sigmoid(), Sigmoid(centred=False)]
EVERY = [
    ReLU(),
    ShiftedReLU(0.5),
    ShiftedReLU(1.0),
    ShiftedReLU(2.0, relative=False),
    LeakyReLU(),
    LeakyReLU(0.3),
    *SMOOTH,
]
AT = np.sort(
    np.concatenate([angles()[[0, 1, 2, 100, 1024, 2000, -2, -1]], [1e-5, 0.3, 1.0, 2.2, 3.0, 3.14]])
)
"""Tabulated angles, the ends among them, and others."""


@pytest.mark.parametrize("activation", [ReLU(), ShiftedReLU(0.0), LeakyReLU(0.0)], ids=str)
def test_relu_has_the_arc_cosine_kernels(activation: Activation) -> None:
    """Cho and Saul: `(pi - theta) / 2 pi` and `(sin theta + (pi - theta) cos theta) / pi`."""
    found = dual(activation)
    theta = np.linspace(0, math.pi, 7001)  # few of them tabulated
    for t in (theta, angles()):
        assert np.allclose(found.pull(t), (math.pi - t) / (2 * math.pi), rtol=0, atol=1e-12)
        expected = (np.sin(t) + (math.pi - t) * np.cos(t)) / math.pi
        assert np.allclose(found.kappa(t), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("b", [0.0, 0.3, 1.0, 2.0, 4.0])
def test_thresholds_are_bivariate_normal_probabilities(b: float) -> None:
    """`P[g_1 > b, g_2 > b] = Phi(-b) - 2 T(b, tan(theta / 2))`, T being Owen's function."""
    activation = ShiftedReLU(b)
    c, found = activation.normaliser, dual(activation)

    def both(t: float) -> float:
        return float(ndtr(-b) - 2 * owens_t(b, math.tan(t / 2)))

    for theta in AT[:-1]:
        here = np.array([theta])
        assert float(found.pull(here)[0]) == pytest.approx(c * both(theta), abs=1e-9)
        # d E[(g_1 - b)_+ (g_2 - b)_+] / d theta = -sin theta P
        integral = quad(lambda t: math.sin(t) * both(t), theta, math.pi, epsabs=1e-13)[0]
        assert float(found.kappa(here)[0]) == pytest.approx(2 * c * integral, abs=1e-9)


@pytest.mark.parametrize("b", [0.5, 1.0, 2.0])
def test_random_pairs_agree(b: float) -> None:
    """Twelve angles, a million draws each, within four standard errors."""
    activation, draw = ShiftedReLU(b), np.random.default_rng(int(10 * b))
    c, found, n = activation.normaliser, dual(activation), 10**6
    for theta in draw.uniform(0, math.pi, 12):
        g, z = draw.standard_normal((2, n), dtype=np.float32)
        other = math.cos(theta) * g + math.sin(theta) * z
        fire = (g > b) & (other > b)
        ramps = np.where(fire, (g - b) * (other - b), 0).astype(np.float64)
        for curve, sample, factor in ((found.pull, fire, c), (found.kappa, ramps, 2 * c)):
            mean, error = sample.mean(), sample.std() / math.sqrt(n)
            expected = float(curve(np.array([theta]))[0]) / factor
            assert abs(mean - expected) < 4 * error + 5 / n  # where next to nothing fires


def on_a_grid(activation: Everywhere, theta: float) -> tuple[float, float]:
    """`E[s s]` and `E[s' s']` by the trapezoid rule, exact to rounding for analytic functions."""
    import torch

    g = np.arange(-12.0, 12.0001, 0.08)
    weight = 0.08 * np.exp(-g * g / 2) / math.sqrt(2 * math.pi)
    other = math.cos(theta) * g[:, None] + math.sin(theta) * g
    values = []
    for curve in (activation.curve, activation.curve_slope):
        one, two = curve(torch.from_numpy(g)).numpy(), curve(torch.from_numpy(other)).numpy()
        values.append(float((weight * one) @ (two @ weight)))
    return values[0], values[1]


@pytest.mark.parametrize("activation", SMOOTH, ids=str)
def test_smooth_functions_equal_quadrature(activation: Everywhere) -> None:
    found, c = dual(activation), activation.normaliser
    for theta in AT:
        here = np.array([theta])
        value, slope = on_a_grid(activation, theta)
        assert float(found.kappa(here)[0]) == pytest.approx(2 * c * value, abs=1e-10)
        assert float(found.pull(here)[0]) == pytest.approx(c * slope, abs=1e-10)


@pytest.mark.parametrize("activation", SMOOTH, ids=str)
def test_hermite_coefficients_leave_nothing(activation: Everywhere) -> None:
    values, slopes = hermite(activation)
    assert (values**2).sum() == pytest.approx(activation.second_moment, rel=1e-11)
    # sigma' = sum a_k sqrt(k) He_(k-1)
    assert np.allclose(slopes[:-1], values[1:] * np.sqrt(np.arange(1, len(values))), atol=1e-11)


@pytest.mark.parametrize("below", [0.01, 0.3, 1.0])
def test_leaky_relu_equals_an_integral_over_directions(below: float) -> None:
    """For functions that scale with their argument the radius comes out: `E[r²] = 2`."""
    activation = LeakyReLU(below)
    found, c = dual(activation), activation.normaliser

    def ramp(x: float) -> float:
        return x if x > 0 else below * x

    for theta in (0.0, 0.2, 1.0, 2.5, math.pi):
        kinks = [-math.pi / 2, math.pi / 2, theta - math.pi / 2, theta + math.pi / 2]
        inside = [k for k in kinks if -math.pi < k < math.pi] + [theta - 3 * math.pi / 2]
        points = [k for k in inside if -math.pi < k < math.pi]
        values = quad(
            lambda t, theta=theta: ramp(math.cos(t)) * ramp(math.cos(t - theta)),
            -math.pi,
            math.pi,
            points=points,
            epsabs=1e-12,
        )[0]
        assert float(found.kappa(np.array([theta]))[0]) == pytest.approx(
            2 * c * values / math.pi, abs=1e-10
        )
        fire = (math.pi - theta) / (2 * math.pi)
        slopes = (1 + below**2) * fire + 2 * below * theta / (2 * math.pi)
        assert float(found.pull(np.array([theta]))[0]) == pytest.approx(c * slopes, abs=1e-12)


@pytest.mark.parametrize("activation", EVERY, ids=str)
class TestEvery:
    def test_slopes_are_finite_differences(self, activation: Activation) -> None:
        found, h = dual(activation), angles()[1]
        for curve in (found.kappa, found.pull):
            v = curve.values
            stencil = (v[:-4] - 8 * v[1:-3] + 8 * v[3:-1] - v[4:]) / (12 * h)
            assert np.allclose(curve.slopes[2:-2], stencil, rtol=0, atol=1e-8)

    def test_curves_pass_through_their_tables(self, activation: Activation) -> None:
        found = dual(activation)
        for curve in (found.kappa, found.pull):
            values, slopes = curve.both(angles())
            assert np.allclose(values, curve.values, rtol=0, atol=1e-14)
            assert np.allclose(slopes, curve.slopes, rtol=0, atol=1e-10)
            grid = angles().reshape(3, -1)
            assert curve(grid).shape == grid.shape
            between = angles()[:-1] + angles()[1] / 2
            ahead, behind = curve(between + 1e-5), curve(between - 1e-5)
            assert np.allclose(curve.both(between)[1], (ahead - behind) / 2e-5, atol=1e-8)

    def test_ends(self, activation: Activation) -> None:
        """Equal rows keep their length; opposite ones share no neuron above a threshold."""
        found = dual(activation)
        assert found.kappa.values[0] == pytest.approx(1, abs=1e-11)
        assert found.kappa.slopes[0] == 0
        assert (np.abs(found.kappa.values) <= 1 + 1e-11).all()
        assert found.pull.values[0] >= np.abs(found.pull.values).max() - 1e-12
        if activation.threshold is not None:
            assert found.pull.values[0] == pytest.approx(activation.normaliser * activation.rate)
            assert found.pull.values[-1] == found.kappa.values[-1] == 0
            assert (found.pull.slopes <= 0).all()
        if activation in (Tanh(), Sigmoid()):  # odd
            assert found.kappa.values[-1] == pytest.approx(-1, abs=1e-11)
            assert found.pull.values[-1] == pytest.approx(found.pull.values[0])

    def test_it_is_computed_once(self, activation: Activation) -> None:
        assert isinstance(dual(activation), Dual)
        assert dual(activation) is dual(activation)


def test_a_relative_threshold_changes_nothing_on_unit_rows() -> None:
    one, two = (dual(ShiftedReLU(1.0, relative=flag)) for flag in (True, False))
    assert np.array_equal(one.kappa.values, two.kappa.values)
    assert np.array_equal(one.pull.values, two.pull.values)


def test_jumps_have_no_closed_form() -> None:
    with pytest.raises(InvalidInput, match="no closed form for ThresholdedLinear: take ShiftedRe"):
        dual(ThresholdedLinear(1.0))
