"""The compiled last layer on firing bits against the plain passes over all entries."""

import pytest
import torch
from torch import Tensor

from subquad import ReLU, ShiftedReLU, ThresholdedLinear, WideNet
from subquad.activations import Activation
from subquad.training.firingbits import FiringBitsState, applies
from subquad.training.fixedinputs import FixedInputs
from subquad.training.samplespace import SampleSpaceState
from tests.oracles import unit_rows

pytest.importorskip("numba")


def pair(
    n: int, activation: Activation, width: int = 700, dtype: torch.dtype = torch.float64
) -> tuple[FiringBitsState, SampleSpaceState]:
    net = WideNet(6, width, 2, activation=activation, weights="dense", seed=2, dtype=dtype)
    assert applies(net, 0.0)
    rows = unit_rows(n, 6).to(dtype)  # each its own: plain passes move Z itself
    return FiringBitsState(FixedInputs(net, rows)), SampleSpaceState(FixedInputs(net, rows))


def same(fast: FiringBitsState, slow: SampleSpaceState, tol: float) -> None:
    assert float((fast.outputs - slow.outputs).abs().max()) < tol
    assert float((fast.jacobian().gram - slow.jacobian().gram).abs().max()) < tol * slow.width
    assert fast.firing == pytest.approx(slow.firing, abs=1e-12)


@pytest.mark.parametrize(
    "activation",
    [ReLU(), ShiftedReLU(0.8), ShiftedReLU(0.3, relative=False), ThresholdedLinear(0.5)],
    ids=str,
)
@pytest.mark.parametrize("n", [2, 63, 64, 70, 130])
def test_any_steps_equal_whole_passes(n: int, activation: Activation) -> None:
    """Steps large and small, halved, and turned back, in float64."""
    fast, slow = pair(n, activation)
    generator = torch.Generator().manual_seed(n)
    for size, lengths in [
        (1e-5, [1.0]),
        (3e-3, [1.0, 0.5, 0.25]),  # many bits flip; some flip back
        (1e-4, [1.0, 0.5]),
        (3e-2, [1.0]),  # nearly every bit is looked at
        (1e-9, [1.0]),
        (1e-3, [0.5, 1e-3]),
    ]:
        q = size * torch.randn(n, generator=generator, dtype=torch.float64)
        fast.aim(fast.jacobian(), q)
        slow.aim(slow.jacobian(), q)
        for eta in lengths:
            fast.move_to(eta)
            slow.move_to(eta)
            assert float((fast.outputs - slow.outputs).abs().max()) < 1e-11
        same(fast, slow, 1e-11)
    fast.confirm()
    same(fast, slow, 1e-11)
    (left, right), (other, _) = fast.net.layers[-1].delta(), slow.net.layers[-1].delta()
    assert torch.equal(right, slow.net.layers[-1].delta()[1])
    assert float((left - other).abs().max()) < 1e-12


def test_float32_stays_within_its_rounding() -> None:
    fast, slow = pair(70, ShiftedReLU(1.0), 2000, torch.float32)
    generator = torch.Generator().manual_seed(0)
    for _ in range(6):
        q = 1e-4 * torch.randn(70, generator=generator, dtype=torch.float64)
        for state in (fast, slow):
            state.aim(state.jacobian(), q)  # type: ignore[attr-defined]
            state.move_to(1.0)
    assert float((fast.outputs - slow.outputs).abs().max()) < 1e-4
    before = fast.outputs
    fast.confirm()
    assert float((fast.outputs - before).abs().max()) < 1e-5


def test_a_small_step_looks_at_few_entries() -> None:
    """What is counted as computed falls with the step, down to nearly nothing."""
    from subquad.cost import Cost

    counted = []
    for size in (1e-3, 1e-5, 1e-7):
        fast, _ = pair(64, ShiftedReLU(1.0), 4000)
        q = torch.full((64,), size, dtype=torch.float64)
        fast.aim(fast.jacobian(), q)
        with Cost() as cost:
            fast.move_to(1.0)
        counted.append(cost.flops)
    assert counted[0] > 3 * counted[1] > 3 * counted[2]


def test_a_gram_in_doubt_is_counted_anew() -> None:
    """Counts carried along through flips equal counts from the bits."""
    fast, _ = pair(70, ShiftedReLU(0.8))
    generator = torch.Generator().manual_seed(1)
    for _ in range(5):
        q: Tensor = 1e-4 * torch.randn(70, generator=generator, dtype=torch.float64)
        fast.aim(fast.jacobian(), q)
        fast.move_to(1.0)
    carried = fast.jacobian().gram.clone()
    fast._recount()
    assert torch.equal(carried, fast.gram)
