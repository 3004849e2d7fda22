"""The kernel of an infinitely wide network against networks, and against a recursion by hand."""

import math

import numpy as np
import pytest
import torch

from subquad import (
    GELU,
    InvalidInput,
    LeakyReLU,
    ReLU,
    ShiftedReLU,
    Tanh,
    ThresholdedLinear,
    WideNet,
)
from subquad.activations import Activation
from subquad.theory import dual, profile
from subquad.theory.duals import angles
from subquad.training.fixedinputs import FixedInputs
from subquad.training.maintained import MaintainedState
from subquad.training.samplespace import SampleSpaceState
from tests.oracles import autograd_jacobian, unit_rows

KINDS = [
    ReLU(),
    ShiftedReLU(1.0),
    ShiftedReLU(0.7, relative=False),
    LeakyReLU(0.2),
    GELU(),
    Tanh(),
]


def rows() -> torch.Tensor:
    """Unit rows, two of them close together and two nearly opposite."""
    X = unit_rows(7, 5, 3)
    X[1] = X[0] + 0.05 * X[2]
    X[4] = 0.1 * X[2] - X[3]
    return torch.nn.functional.normalize(X)


def limit(activation: Activation, depth: int, layers: str) -> torch.Tensor:
    X = rows()
    theta = np.arccos(np.clip((X @ X.T).numpy(), -1, 1))
    np.fill_diagonal(theta, 0)
    return torch.from_numpy(profile(activation, depth, layers)(theta))


def network_gram(
    activation: Activation, depth: int, layers: str, width: int, seed: int
) -> torch.Tensor:
    net = WideNet(
        5, width, depth, activation=activation, weights="hadamard", seed=seed, dtype=torch.float64
    )
    if layers == "last":
        state = SampleSpaceState(FixedInputs(net, rows()))
        return state.jacobian().whole() / width
    return MaintainedState(net, rows(), "all", "never").jacobian().gram() / width


@pytest.mark.parametrize("layers", ["last", "all"])
@pytest.mark.parametrize("depth", [1, 2, 3])
@pytest.mark.parametrize("activation", KINDS, ids=str)
def test_networks_tend_to_it_as_one_over_the_root_of_the_width(
    activation: Activation, depth: int, layers: str
) -> None:
    widths, errors = [512, 1024, 2048, 4096, 8192], []
    K = limit(activation, depth, layers)
    for width in widths:
        gaps = [
            float((network_gram(activation, depth, layers, width, seed) - K).norm() / K.norm())
            for seed in range(6)
        ]
        errors.append(math.sqrt(np.mean(np.square(gaps))))
    slope = np.polyfit(np.log(widths), np.log(errors), 1)[0]
    assert slope == pytest.approx(-0.5, abs=0.15)
    assert errors[-1] < 0.1


@pytest.mark.parametrize("layers", ["last", "all"])
def test_the_gram_matrix_is_that_of_autograd(layers: str) -> None:
    """So that what the limit is compared with is the network's own."""
    net = WideNet(5, 30, 2, weights="hadamard", dtype=torch.float64)
    J = autograd_jacobian(net.to_module(), rows(), [1] if layers == "last" else [0, 1])
    assert torch.allclose(network_gram(ShiftedReLU(1.0), 2, layers, 30, 0), J @ J.T / 30)


def recursion(activation: Activation, depth: int, layers: str, theta: np.ndarray) -> np.ndarray:
    """At any angles: up through the layers, and down again."""
    both, angle, rhos, pulls = dual(activation), theta, [np.cos(theta)], []
    for _ in range(depth):
        pulls.append(both.pull(angle))
        rhos.append(np.where(angle == 0, 1, np.clip(both.kappa(angle), -1, 1)))
        angle = np.arccos(rhos[-1])
    total, back = np.zeros_like(theta), np.ones_like(theta)
    for l in reversed(range(depth)):
        back = back * pulls[l] * (1 if l == depth - 1 else 2)
        if layers == "all" or l == depth - 1:
            total = total + back * rhos[l]
    return total


@pytest.mark.parametrize("depth", [1, 2, 3, 5])
@pytest.mark.parametrize("layers", ["last", "all"])
@pytest.mark.parametrize("activation", [*KINDS, ShiftedReLU(2.0)], ids=str)
class TestTable:
    def test_values_follow_the_recursion(
        self, activation: Activation, depth: int, layers: str
    ) -> None:
        """At the table's angles, and between them."""
        found, step = profile(activation, depth, layers), angles()[1]
        assert np.allclose(
            found.values, recursion(activation, depth, layers, angles()), rtol=1e-9, atol=1e-9
        )
        between = angles()[5:-1] + step / 2
        assert np.allclose(
            found(between), recursion(activation, depth, layers, between), rtol=1e-7, atol=1e-8
        )

    def test_slopes_are_finite_differences(
        self, activation: Activation, depth: int, layers: str
    ) -> None:
        found, h = profile(activation, depth, layers), 2e-4
        assert np.isfinite(found.slopes).all()
        inner = angles()[1:-1]
        two, one, minus_one, minus_two = (
            recursion(activation, depth, layers, inner + k * h) for k in (2, 1, -1, -2)
        )
        stencil = (minus_two - 8 * minus_one + 8 * one - two) / (12 * h)
        assert np.allclose(found.slopes[1:-1], stencil, rtol=1e-5, atol=1e-6)
        ahead = [recursion(activation, depth, layers, np.array([k * 1e-3]))[0] for k in range(5)]
        first = np.dot([-25, 48, -36, 16, -3], ahead) / 12e-3
        assert found.slopes[0] == pytest.approx(first, rel=1e-3, abs=1e-5)

    def test_it_is_positive_definite(self, activation: Activation, depth: int, layers: str) -> None:
        found = limit(activation, depth, layers)
        assert torch.allclose(found, found.T)
        assert float(torch.linalg.eigvalsh(found)[0]) > -1e-12


def test_one_layer_is_last_and_all() -> None:
    for activation in KINDS:
        last, whole = (profile(activation, 1, layers) for layers in ("last", "all"))
        assert np.array_equal(last.values, whole.values)
        assert np.array_equal(last.slopes, whole.slopes)


def test_misuse_gets_one_line() -> None:
    with pytest.raises(InvalidInput, match="no closed form for ThresholdedLinear: take ShiftedRe"):
        profile(ThresholdedLinear(1.0), 2)
    with pytest.raises(InvalidInput, match="depth must be an integer >= 1, got 0"):
        profile(ReLU(), 0)
    with pytest.raises(InvalidInput, match="did you mean 'last'"):
        profile(ReLU(), 1, "lost")
