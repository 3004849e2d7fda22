"""The one loop: forward, judge, solve, step, until there is a reason to stop."""

from __future__ import annotations

import logging
import math
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from subquad.cost import Cost
from subquad.gram import Certificate
from subquad.network import WideNet
from subquad.network.widenet import describe_dead
from subquad.training.direction import Direction
from subquad.training.progress import Progress
from subquad.training.result import Iteration, Status, TrainCost

log = logging.getLogger("subquad")

FLOAT64 = "this is where float32 rounds; take dtype=torch.float64"
KNOWN = 8.0
"""Residuals below so many times what the outputs may be off by are computed from the weights."""
SHORTEST = 1e-3
"""Step below which a line search gives up: the model is no use there, or rounding decides."""


class State(Protocol):
    """What the loop needs of a network in training."""

    @property
    def outputs(self) -> Tensor:
        """f of the training rows, n×C in float64; at the start from the weights alone."""
        ...

    @property
    def doubt(self) -> float:
        """Norm of what the outputs may be off by; 0 where they come from the weights."""
        ...

    @property
    def net(self) -> WideNet:
        """The network as it stands."""
        ...

    @property
    def penalty(self) -> float:
        """What ridge adds to the squared error; 0 without it."""
        ...

    @property
    def firing(self) -> list[float]:
        """Share of firing neurons in each layer."""
        ...

    def dead(self) -> list[tuple[int, int]]:
        """(layer, sample) for samples that fire no neuron there."""
        ...

    def jacobian(self) -> Any:
        """The Jacobian of the outputs, row i C + c, in the form that the direction takes."""
        ...

    def aim(self, jacobian: Any, q: Tensor) -> None:
        """Take the direction of the row weights q."""
        ...

    def move_to(self, eta: float) -> None:
        """Stand at ``eta`` along it, and bring the outputs up to date."""
        ...

    def confirm(self) -> None:
        """Compute the outputs from the weights alone, where they were carried along."""
        ...

    def release(self) -> None:
        """Let go of what only further steps need; network and Jacobian can still be had."""
        ...


@dataclass(frozen=True, kw_only=True)
class Stopping:
    """When to stop.

    Attributes:
        tol: relative residual that counts as converged.
        max_iter: iterations at most.
        patience: iterations without the objective falling below ``gain`` times its best.
        fall: with ridge, the relative fall of the objective that counts as converged when two
            iterations stay below it: after one, the next is damped differently. So does running
            out of patience, as neurons that flip to and fro make the last digits slow.
        doubt: residual up to which it is computed from the weights once more, at least ``tol``.
    """

    tol: float
    max_iter: int
    patience: int
    gain: float
    fall: float = 0.0
    doubt: float


@dataclass
class Outcome:
    """What the loop found."""

    status: Status
    remedy: str
    residuals: list[float]
    certificates: list[Certificate]
    notes: list[str]


def run(
    state: State,
    target: Tensor,
    size: float,
    direction: Direction,
    stopping: Stopping,
    cost: TrainCost,
    callback: Callable[[Iteration], object] | None,
    progress: Progress,
    length: float = 1.0,
    search: bool = False,
) -> Outcome:
    """Drive the state's outputs (n×C) to the target until converged, stuck or stopped.

    Residuals are stated relative to ``size``. A step goes ``length`` of the direction's way; with
    ``search`` a step that does not lessen the squared error plus penalty is halved until it does.
    """
    error, sure = state.outputs - target, True
    residuals = [float(error.norm()) / size]
    certificates: list[Certificate] = []
    notes: list[str] = []
    said: set[str] = set()

    def confirm() -> None:
        """Take the error from the weights as they are, whatever was carried along on the way."""
        nonlocal error, sure
        if not sure:
            state.confirm()
            error, sure = state.outputs - target, True

    def settle() -> float:
        """Let the last residual be that of the weights, so that what is said of it is true."""
        if not sure:
            with cost.iterations[-1]:
                confirm()
            residuals[-1] = float(error.norm()) / size
        return residuals[-1]

    def end(status: Status, remedy: str = "") -> Outcome:
        settle()
        return Outcome(status, remedy, residuals, certificates, notes)

    goal = error.square().sum().item() + state.penalty
    best, best_at, slow = goal, 0, 0
    for iteration in range(stopping.max_iter + 1):
        now = residuals[-1]
        if slow == 2 or (sure and now <= stopping.tol):
            return end("converged")
        dead = state.dead()
        if dead:
            return end("failed", describe_dead(dead, state.net.activation))
        if not math.isfinite(now) or now > 1e6 * max(1.0, residuals[0]):
            return end(
                "failed",
                f"the residual grew to {settle():.1e}: take a smaller step, or a wider network",
            )
        if goal < stopping.gain**2 * best:
            best, best_at = goal, iteration
        if iteration - best_at >= stopping.patience:
            now = settle()
            rounding = now * size <= KNOWN * state.doubt
            if now >= residuals[0]:
                way = FLOAT64 if rounding else "widen the network, or take a smaller step"
                return end(
                    "failed", f"the residual went from {residuals[0]:.1e} to {now:.1e}: {way}"
                )
            if stopping.fall:
                return end("converged")
            return end("stalled", _stalled(now, notes, state.net, rounding))
        if iteration == stopping.max_iter:
            return end(
                "max_iter",
                f"the residual is {now:.1e} after {iteration} iterations, above tol = "
                f"{stopping.tol:.1e}: raise max_iter, or widen the network",
            )
        started = time.perf_counter()
        worse = iteration > 0 and residuals[-1] > residuals[-2]
        with Cost() as spent:
            jacobian = state.jacobian()
            q, certificate = direction(jacobian, error.reshape(-1), iteration, worse)
            if not bool(torch.isfinite(q).all()):
                return end("failed", "the Gram regression gave NaN: add ridge or drop bad rows")
            state.aim(jacobian, q)
            eta = length
            while True:
                state.move_to(eta)
                error, sure = state.outputs - target, False
                reached = error.square().sum().item() + state.penalty
                if not search or reached <= goal or eta < SHORTEST:
                    break
                eta /= 2
            moved = time.perf_counter()
            known = max(stopping.doubt * size, KNOWN * state.doubt)
            if float(error.norm()) <= known or iteration + 1 == stopping.max_iter:
                confirm()
                reached = error.square().sum().item() + state.penalty
            ended = time.perf_counter()
            fell, goal = 1 - reached / max(goal, 1e-300), reached
            slow = slow + 1 if abs(fell) < stopping.fall else 0
        cost.iterations.append(spent)
        residuals.append(float(error.norm()) / size)
        if certificate is not None:
            certificates.append(certificate)
            if certificate.note:
                news = re.sub(r"\d[\d.e+-]*", "", certificate.note)  # other numbers are no news
                if news not in said:
                    log.warning("iteration %d: %s", iteration + 1, certificate.note)
                    said.add(news)
                notes.append(f"iteration {iteration + 1}: {certificate.note}")
        info = Iteration(
            iteration + 1,
            residuals[-1],
            certificate,
            spent,
            state.firing,
            ended - started,
            ended - moved,
        )
        progress.show(info)
        if callback is not None and callback(info):
            return end("stopped", "the callback asked to stop")
    raise AssertionError("the loop ends by one of its reasons")


def _stalled(now: float, notes: list[str], net: WideNet, rounding: bool) -> str:
    """Say why the residual may have stopped falling."""
    text = f"the residual stopped falling at {now:.1e}: "
    if any("rank" in note for note in notes):
        return text + (
            "the Gram matrix is singular, so rows repeat or nearly do; drop or merge them, "
            "or widen the network"
        )
    if net.dtype == torch.float32 and (rounding or now < 1e-4):
        return text + FLOAT64
    return text + "widen the network, lower the shift, or use ShiftedReLU with relative=True"
