"""`train`: check what was given, put the parts together, run the loop."""

from __future__ import annotations

import functools
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from subquad import memory
from subquad.checks import MOST_RIDGE, as_matrix, as_numbers, choice, flag, integer, number
from subquad.errors import InvalidInput, TrainingFailed
from subquad.gram import METHODS as SOLVERS
from subquad.gram.jacobian import SKETCHES
from subquad.lowrank.policies import policy_named
from subquad.network import WideNet
from subquad.training import firingbits, footprint
from subquad.training.direction import (
    Direction,
    GaussNewton,
    GradientDescent,
    RidgedNewton,
    SampleSpaceNewton,
)
from subquad.training.firingbits import FiringBitsState
from subquad.training.fixedinputs import FixedInputs
from subquad.training.leaveout import left_out_of
from subquad.training.loop import State, Stopping, run
from subquad.training.maintained import MaintainedState
from subquad.training.progress import Progress
from subquad.training.result import Iteration, Predictor, TrainCost, TrainResult
from subquad.training.ridged import RidgedState
from subquad.training.samplespace import SampleSpaceState
from subquad.training.slacked import SlackedNewton, SlackedState

SKETCH_RESIDUAL = 0.25
"""What a sketched solve must leave at most: the step then still contracts below a third."""
RIDGE_FALL = 1e-3
"""With ridge: the share of the objective that one of two iterations must win to be worth another.
Neurons that flip to and fro near the optimum make the last digits slow, and change nothing."""
ROUNDED = 10
"""Units of rounding below which a residual that was carried along says nothing."""
SOLVE_RESIDUAL = 1e-12
"""What conjugate gradients go down to, so that every solver takes the same path."""


@dataclass(frozen=True)
class Method:
    """Defaults that make a named method out of the parts."""

    layers: str
    center: bool
    second_order: bool
    search: bool
    patience: int
    gain: float


METHODS: dict[str, Method] = {
    "exact": Method("last", center=True, second_order=True, search=True, patience=6, gain=0.99),
    "paper": Method("last", center=False, second_order=True, search=False, patience=6, gain=0.99),
    "gd": Method("all", center=True, second_order=False, search=False, patience=50, gain=0.9999),
}


def train(
    net: WideNet,
    X: object,
    y: object,
    *,
    method: str = "exact",
    layers: str | None = None,
    solver: str = "auto",
    sketch: str = "srht",
    sketch_size: int | None = None,
    flush: str | int = "never",
    ridge: float = 0.0,
    slack: object = 0.0,
    center: bool | None = None,
    step: float | str = "auto",
    tol: float = 1e-6,
    max_iter: int = 50,
    seed: int = 0,
    callback: Callable[[Iteration], object] | None = None,
    throw: bool = False,
    progress: bool | None = None,
    max_memory: float | str | None = None,
) -> TrainResult:
    """Train a copy of ``net`` on rows X and targets y by the squared loss.

    Args:
        net: the network to start from; it is left as it was.
        X: n×features. Inputs are taken as given; unit length suits the theory.
        y: n targets, or n×outputs.
        method: "exact" (Gauss-Newton in sample space), "paper" (Algorithm 2: Gauss-Newton on
            the last layer through the maintenance structure) or "gd" (gradient descent on all
            layers through the same).
        layers: "last" or "all"; by default the last, and all for "gd".
        solver: of the Gram regression: "auto", "exact", "sketch" or "preconditioned".
        sketch: "srht" or "tensorsketch".
        sketch_size: rows of the sketch; by default 4 n to precondition, 32 n to solve.
        flush: "never", "sparse", "paper", "lazy-columns", or a rank.
        ridge: in units of G/m; "exact" only.
        slack: in units of G/m, a number or one per row; "exact" only. Every row may then keep a
            distance from its target, at a price: ridge regression about the starting network, by
            the steps that fit exactly (:mod:`subquad.training.slacked`). Residuals are those of
            f + slack.
        center: train and predict f - f_0, with f_0 the starting output; by default for every
            method but "paper".
        step: "auto" is 1 for Gauss-Newton and `1 / lambda_max(G)` for gradient descent.
        tol: relative residual `‖f - y‖ / ‖y‖` to reach. With ridge the residual has no business
            at 0: converged is what hardly lowers the objective, by less than a thousandth twice
            running or a fiftieth in six iterations.
        max_iter: iterations at most.
        seed: of the sketches.
        callback: called with an :class:`Iteration` after each; a true answer stops.
        throw: raise :class:`TrainingFailed` unless the status is "converged" or "stopped".
        progress: show progress on stderr; by default on a terminal only.
        max_memory: what this process may hold, in GB or as text: "6GB", "500MB", or "50%" of what
            is free. A job that cannot fit is refused before it starts, with the width that would;
            by default 80 % of what is free may be taken.

    Returns:
        A :class:`TrainResult`; a numerical failure is a status with a remedy.

    >>> import subquad
    >>> X = torch.nn.functional.normalize(torch.randn(8, 4, generator=torch.manual_seed(0)))
    >>> net = WideNet(4, width=512, depth=2, weights="dense")
    >>> train(net, X, X[:, 0]).status
    'converged'
    """
    chosen, layers = check_settings(
        method=method,
        layers=layers,
        solver=solver,
        sketch=sketch,
        sketch_size=sketch_size,
        flush=flush,
        ridge=ridge,
        step=step,
        tol=tol,
        max_iter=max_iter,
        seed=seed,
    )
    if callback is not None and not callable(callback):
        raise InvalidInput(f"callback must be callable, got {callback!r}")
    flag("center", center, unset=True)
    flag("throw", throw)
    flag("progress", progress, unset=True)
    if not isinstance(net, WideNet):
        raise InvalidInput(f"net must be a WideNet, got {type(net).__name__}")
    inputs = net.check_inputs(X)
    target = check_targets(y, inputs.shape[0], net.outputs, net.dtype).to(net.device)
    center = chosen.center if center is None else center
    spare = check_slack(slack, inputs.shape[0], method, ridge, solver, flush)
    in_samples = method == "exact" and layers == "last"

    bits = in_samples and firingbits.applies(net, ridge)
    job = footprint.Job.on(
        net,
        inputs.shape[0],
        state="bits" if bits else "samples" if in_samples else "maintained",
        ridge=ridge > 0,
        trained=1 if layers == "last" else net.depth,
        written=flush != "never",
        sketched=solver in ("sketch", "preconditioned"),
        max_iter=max_iter,
    )
    room = footprint.fitting(job, max_memory) if net.device.type == "cpu" else math.inf

    started = time.perf_counter()
    cost = TrainCost()
    shown = Progress(progress, max_iter, tol)
    state: State
    with memory.blocks(room), cost.init:
        if in_samples:
            fixed = FixedInputs(net, inputs)
            state = FiringBitsState(fixed) if bits else SampleSpaceState(fixed, ridge)
        elif ridge:
            state = RidgedState(net, inputs, ridge)
        else:
            state = MaintainedState(net, inputs, layers, flush)
        initial = state.outputs
        if spare is not None:
            spare = (spare * net.widths[-1]).to(net.device)
            state = SlackedState(state, spare)
        # With slack the network hardly moves, and leaving rows out is closest to training anew
        # where it started; several outputs in sample space keep no Jacobian of that point.
        at_start = None if spare is None or (in_samples and net.outputs > 1) else state.jacobian()
    size = float(target.norm())
    wanted = target
    if center:
        target, initial = target + initial, initial * 0
    direction: Direction
    shift = ridge * net.widths[-1] if spare is None else spare
    if in_samples:
        direction = SampleSpaceNewton(shift, SOLVE_RESIDUAL)
    elif spare is not None:
        direction = SlackedNewton(spare)
    elif chosen.second_order:
        accuracy = SKETCH_RESIDUAL if solver == "sketch" else SOLVE_RESIDUAL
        newton = GaussNewton(solver, sketch, sketch_size, accuracy, seed)
        direction = RidgedNewton(newton, ridge) if ridge else newton
    else:
        direction = GradientDescent(None if step == "auto" else float(step))
    # A gradient's length is in its row weights; Gauss-Newton's natural step is 1.
    length = float(step) if chosen.second_order and step != "auto" else 1.0
    stopping = Stopping(
        tol=tol,
        max_iter=max_iter,
        patience=chosen.patience,
        gain=chosen.gain,
        fall=max(tol, RIDGE_FALL) if ridge else 0.0,
        doubt=max(tol, ROUNDED * torch.finfo(net.dtype).eps),
    )
    try:
        with memory.blocks(room):
            found = run(
                state, target, size, direction, stopping, cost, callback, shown, length,
                chosen.search,
            )  # fmt: skip
    finally:
        shown.close()
    remedy = found.remedy
    if spare is None and found.status in ("stalled", "max_iter", "failed"):
        remedy = conflicting_rows(inputs, target) or remedy
    state.release()
    # A sample-space Jacobian is formed already and holds little; a maintained one takes a pass.
    where: Any = at_start
    if where is None and in_samples:
        where = state.jacobian()
    jacobian = state.jacobian if where is None else functools.partial(_same, where)
    outputs = state.outputs
    result = TrainResult(
        Predictor(state.net, net if center else None),
        found.status,
        remedy,
        found.residuals,
        found.certificates,
        cost,
        time.perf_counter() - started,
        found.notes,
        lambda **how: left_out_of(jacobian(), outputs, target, shift, wanted, initial, **how),
    )
    if throw and result.status not in ("converged", "stopped"):
        raise TrainingFailed(f"training {result.status}: {result.remedy}")
    return result


def _same(given: Any) -> Any:
    return given


def check_targets(y: object, n: int, outputs: int, dtype: torch.dtype) -> Tensor:
    """Return y as a finite (n, outputs) float64 tensor that one can learn, or say why not."""
    given = as_numbers(y, "y")
    target = given[:, None] if given.dim() == 1 else given
    if tuple(target.shape) != (n, outputs):
        want = f"({n},)" if outputs == 1 else f"({n}, {outputs})"
        raise InvalidInput(f"y must have shape {want}, got {tuple(given.shape)}")
    target = as_matrix(target, "y").double()
    if n < 2:
        raise InvalidInput("training needs at least 2 rows, got 1: a single row fixes nothing")
    size, room = float(target.abs().max()), torch.finfo(dtype).max ** 0.4
    if size > room or 0 < size < 1 / room:
        raise InvalidInput(
            f"y reaches {size:.1e}, which {dtype} cannot square and sum: scale it to about 1"
        )
    flat = (target == target[0]).all(0).nonzero()[:, 0]
    if flat.numel() == outputs:
        raise InvalidInput(
            f"y is constant ({float(target[0, 0]):g} in all {n} rows): there is nothing to learn"
        )
    return target


def check_slack(
    slack: object, n: int, method: str, ridge: float, solver: str, flush: str | int
) -> Tensor | None:
    """Return the slack of every row (n,) in float64, or None where there is none."""
    if isinstance(slack, int | float):
        each = torch.tensor(number("slack", slack, most=MOST_RIDGE), dtype=torch.float64).expand(n)
    else:
        each = as_numbers(slack, "slack").double()
        if each.shape != (n,) or not bool(((each > 0) & (each <= MOST_RIDGE)).all()):
            raise InvalidInput(
                f"slack must be a number >= 0 or {n} numbers > 0, one per row, "
                f"got shape {tuple(each.shape)}"
            )
    if not bool(each.any()):
        return None
    if method != "exact" or ridge or solver not in ("auto", "exact") or flush != "never":
        raise InvalidInput(
            "slack needs method='exact', no ridge, and solver and flush at their defaults"
        )
    return each


def conflicting_rows(inputs: Tensor, target: Tensor) -> str:
    """Return a remedy if equal rows have different targets, which no function can fit."""
    _, group = torch.unique(inputs, dim=0, return_inverse=True)
    count = int(group.max()) + 1
    if count == inputs.shape[0]:
        return ""
    low, high = (
        torch.full(
            (count, target.shape[1]), fill, dtype=target.dtype, device=target.device
        ).scatter_reduce_(0, group[:, None].expand_as(target), target, reduce)
        for fill, reduce in ((math.inf, "amin"), (-math.inf, "amax"))
    )
    spread = (high - low).amax(1)
    worst = int(spread.argmax())
    if float(spread[worst]) <= 1e-12 * float(target.abs().max()):
        return ""
    rows = (group == worst).nonzero()[:2, 0].tolist()
    return (
        f"rows {rows[0]} and {rows[1]} of X are equal but their targets differ: no function "
        f"fits both; average or drop such rows"
    )


def check_settings(
    *,
    method: str = "exact",
    layers: str | None = None,
    solver: str = "auto",
    sketch: str = "srht",
    sketch_size: int | None = None,
    flush: str | int = "never",
    ridge: float = 0.0,
    step: float | str = "auto",
    tol: float = 1e-6,
    max_iter: int = 50,
    seed: int = 0,
) -> tuple[Method, str]:
    """Return the method and which layers learn; refuse what :func:`train` would not use."""
    chosen = METHODS[choice("method", method, METHODS)]
    layers = choice("layers", chosen.layers if layers is None else layers, ("last", "all"))
    choice("solver", solver, SOLVERS)
    choice("sketch", sketch, SKETCHES)
    if sketch_size is not None:
        integer("sketch_size", sketch_size, least=1)
    policy_named(flush)
    number("ridge", ridge, most=MOST_RIDGE)
    number("tol", tol)
    integer("max_iter", max_iter, least=0)
    integer("seed", seed, least=0)
    if step != "auto" and isinstance(step, str):
        raise InvalidInput(f"step must be 'auto' or a finite number > 0, got {step!r}")
    if step != "auto":
        number("step", step, above=True)
    in_samples = method == "exact" and layers == "last"
    sketched = sketch != "srht" or sketch_size is not None
    if in_samples and (solver not in ("auto", "exact") or flush != "never" or sketched):
        raise InvalidInput(
            "method='exact' with layers='last' keeps no weights to flush and solves exactly: "
            "leave flush, solver, sketch and sketch_size at their defaults, or take method='paper'"
        )
    if not chosen.second_order and (solver != "auto" or sketched):
        raise InvalidInput(
            f"method={method!r} solves no Gram regression: leave solver, sketch and sketch_size "
            f"at their defaults, or take method='paper'"
        )
    if solver == "exact" and sketched:
        raise InvalidInput(
            "solver='exact' sketches nothing: leave sketch and sketch_size at their defaults, or "
            "take solver='sketch' or 'preconditioned'"
        )
    if ridge and method != "exact":
        raise InvalidInput(
            f"ridge needs method='exact', got method={method!r}: leave ridge at 0, "
            f"or change the method"
        )
    if ridge and (flush != "never" or solver == "sketch"):
        raise InvalidInput(
            f"ridge needs flush='never', since it must know the change from the start, and a "
            f"solver that goes down to rounding, got flush={flush!r}, solver={solver!r}: leave "
            f"both at their defaults, or leave ridge at 0"
        )
    return chosen, layers
