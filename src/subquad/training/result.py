"""What training returns: the network, how it went, and what it cost."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from subquad.cost import Cost
from subquad.errors import InvalidInput
from subquad.gram import Certificate
from subquad.network import WideNet

Status = Literal["converged", "max_iter", "stalled", "stopped", "failed"]


@dataclass
class TrainCost:
    """Counted cost: of the start, and of every iteration."""

    init: Cost = field(default_factory=Cost)
    iterations: list[Cost] = field(default_factory=list)

    @property
    def total(self) -> Cost:
        """Everything together."""
        total = Cost().merge(self.init)
        for iteration in self.iterations:
            total.merge(iteration)
        return total

    @property
    def flops(self) -> int:
        """Operations of everything."""
        return self.total.flops

    @property
    def bytes(self) -> int:
        """Bytes moved by everything."""
        return self.total.bytes


@dataclass(frozen=True)
class Iteration:
    """What a callback is told after each iteration.

    Attributes:
        iteration: 1 for the first.
        residual: `‖f - y‖ / ‖y‖` after it. Where it counts as converged, is lost in rounding, or
            is the last that ``max_iter`` allows, it was computed from the weights alone.
        certificate: of the Gram regression, where one was solved.
        cost: counted operations and bytes, the confirmation's included.
        firing: share of firing neurons in each layer.
        seconds: wall-clock time, the confirmation's included.
        confirm_seconds: the part of it that computing the residual once more took.
    """

    iteration: int
    residual: float
    certificate: Certificate | None
    cost: Cost
    firing: list[float]
    seconds: float
    confirm_seconds: float = 0.0


class Predictor:
    """A trained network; centred, it answers `f(x) - f_0(x)` with f_0 the starting network."""

    def __init__(self, net: WideNet, start: WideNet | None) -> None:
        self.net = net
        self.start = start

    def predict(self, X: object) -> Tensor:
        """Return predictions for the rows of X: (n,) or (n, outputs)."""
        f = self.net(X)
        return f if self.start is None else f - self.start(X)

    def state(self) -> tuple[dict[str, object], dict[str, Tensor]]:
        """Return (config, tensors): all that :func:`load_result` needs."""
        tensors = {f"net.{k}": v for k, v in self.net.change_state().items()}
        if self.start is not None:
            tensors |= {f"start.{k}": v for k, v in self.start.change_state().items()}
        config = {
            "net": self.net.config(),
            "centred": self.start is not None,
            "tensors": sorted(tensors),
        }
        return config, tensors


def load_result(
    config: Mapping[str, object],
    tensors: Mapping[str, Tensor],
    device: torch.device | str | None = None,
    base: WideNet | None = None,
) -> Predictor:
    """Return the predictor that :meth:`Predictor.state` described.

    Args:
        config, tensors: what it gave.
        device: to put it on.
        base: the network without its change, where it is there already: several predictors may
            share its frozen weights.
    """
    if not isinstance(config.get("net"), Mapping) or not isinstance(config.get("centred"), bool):
        raise InvalidInput("a saved result must hold 'net' (an object) and 'centred' (true/false)")
    if config.get("tensors") != sorted(tensors):
        raise InvalidInput(
            f"a saved result must come with the tensors {config.get('tensors')}, "
            f"got {sorted(tensors)}"
        )
    if base is None:
        base = WideNet.from_config(config["net"], device)  # type: ignore[arg-type]
    layers = base.layers

    def part(prefix: str) -> WideNet:
        net = base.with_layers([layer.fork("never") for layer in layers])
        own = {k.removeprefix(prefix): v for k, v in tensors.items() if k.startswith(prefix)}
        net.load_change_state(own)
        return net

    return Predictor(part("net."), part("start.") if config["centred"] else None)


@dataclass
class TrainResult:
    """How training ended.

    Attributes:
        net: the trained network; the one given is untouched.
        status: "converged", "max_iter", "stalled", "stopped" (by the callback) or "failed".
        remedy: what to do about it; empty where there is nothing to do.
        residuals: `‖f - y‖ / ‖y‖`, the start first.
        certificates: one per iteration.
        cost: counted operations and bytes.
        seconds: wall-clock time.
        notes: what happened on the way that one should know, such as a singular Gram matrix.
    """

    predictor: Predictor
    status: Status
    remedy: str
    residuals: list[float]
    certificates: list[Certificate]
    cost: TrainCost
    seconds: float
    notes: list[str] = field(default_factory=list)
    leave_out: Callable[..., Tensor] | None = field(default=None, repr=False)  # set by train

    @property
    def net(self) -> WideNet:
        """The trained network."""
        return self.predictor.net

    @property
    def iterations(self) -> int:
        """Steps taken."""
        return len(self.residuals) - 1

    def predict(self, X: object) -> Tensor:
        """Return predictions for the rows of X: (n,) or (n, outputs)."""
        return self.predictor.predict(X)

    def loo_predictions(
        self, groups: object = None, *, counts: Tensor | None = None, ordered: bool = False
    ) -> Tensor:
        """Return each training row's prediction without it: (n,) or (n, outputs).

        In closed form for the network linearised at the trained point, see
        :mod:`subquad.training.leaveout`.

        Args:
            groups: one label per row; all rows of a group are left out together.
            counts: how many equal rows each row stands for, with slack; one of them is left out.
            ordered: rows stand in the order of time, and a row is predicted from those before it.
        """
        assert self.leave_out is not None
        labels = None
        if groups is not None:
            names = np.asarray(groups)
            _, numbered = np.unique(names, return_inverse=True)
            labels = torch.from_numpy(numbered.reshape(names.shape))
        found = self.leave_out(groups=labels, counts=counts, ordered=ordered)
        return found[:, 0] if found.shape[1] == 1 else found

    def state(self) -> tuple[dict[str, object], dict[str, Tensor]]:
        """Return (config, tensors): all that :func:`load_result` needs."""
        return self.predictor.state()

    def __repr__(self) -> str:
        return (
            f"TrainResult(status={self.status!r}, iterations={self.iterations}, "
            f"residual={self.residuals[-1]:.2e}, seconds={self.seconds:.2f})"
        )
