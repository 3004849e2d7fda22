"""One network, trained as it is asked for: the paper's method, gradient descent, the demo."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from subquad.activations import ShiftedReLU
from subquad.checks import choice
from subquad.kernels import numba_available
from subquad.memory import limit
from subquad.network import WideNet
from subquad.runs.model import Fitted, Model, Prepared
from subquad.tables.prepare import unit_rows
from subquad.tables.table import Numbers
from subquad.tables.target import Target
from subquad.training import Iteration, TrainResult, footprint, load_result, train
from subquad.training.api import check_settings
from subquad.training.result import Predictor
from subquad.weights import KINDS

if TYPE_CHECKING:
    from typing_extensions import Self


@dataclass(frozen=True, kw_only=True)
class NetworkSettings:
    """Everything that decides the outcome of a fit of one network, beside the table."""

    width: int = 4096
    depth: int = 3
    shift: float = 1.0
    weights: str = "hadamard"
    layers: str | None = None
    method: str = "exact"
    solver: str = "auto"
    flush: str = "never"
    ridge: float = 0.0
    center: bool = True
    tol: float = 1e-6
    max_iter: int = 50
    seed: int = 0
    max_memory: str | None = None

    @property
    def ordered(self) -> bool:
        """Rows are left out one at a time."""
        return False

    @property
    def policy(self) -> str | int:
        """The flush policy: a name, or the rank that digits mean."""
        return int(self.flush) if self.flush.isdecimal() else self.flush

    @property
    def last(self) -> bool:
        """Whether the last layer alone learns."""
        return self.layers == "last" or (self.layers is None and self.method != "gd")

    @property
    def activation(self) -> ShiftedReLU:
        """Of every layer."""
        return ShiftedReLU(shift=self.shift, relative=True)

    def check(self) -> None:
        """Refuse, before any work, settings that a training would refuse."""
        ShiftedReLU(shift=self.shift, relative=True)
        choice("kind of weights", self.weights, KINDS)
        check_settings(
            method=self.method,
            layers=self.layers,
            solver=self.solver,
            flush=self.policy,
            ridge=self.ridge,
            tol=self.tol,
            max_iter=self.max_iter,
            seed=self.seed,
        )

    def check_job(self, data: Prepared) -> None:
        """Refuse a fit that cannot fit, leave-one-out predictions included, before any weight."""
        outputs, ridge = data.target.outputs, self.ridge > 0
        state: footprint.State = "maintained"
        if self.method == "exact" and self.last:
            state = "bits" if outputs == 1 and not ridge and numba_available() else "samples"
        job = footprint.Job(
            features=data.width + 1,
            widths=(self.width,) * self.depth,
            outputs=outputs,
            samples=len(data.features),
            kind=self.weights,
            item=4,
            activation=self.activation,
            state=state,
            ridge=ridge,
            trained=1 if self.last else self.depth,
            written=self.flush != "never",
            sketched=self.solver in ("sketch", "preconditioned"),
            max_iter=self.max_iter,
            left_out=True,
        )
        with limit(self.max_memory):
            footprint.fitting(job, made=False)

    def train(self, data: Prepared, watch: Callable[[Iteration], object] | None = None) -> Fitted:
        """Train; ``watch`` sees every iteration and may stop it."""
        begin = time.perf_counter()
        steps: list[dict[str, Any]] = []

        def note(info: Iteration) -> bool:
            steps.append(_record(info, time.perf_counter() - begin))
            return bool(watch(info)) if watch is not None else False

        with limit(self.max_memory):
            net = WideNet(
                data.width + 1,
                width=self.width,
                depth=self.depth,
                outputs=data.target.outputs,
                activation=self.activation,
                weights=self.weights,
                seed=self.seed,
                dtype=torch.float32,
            )
            result = train(
                net,
                _rows(data.features),
                torch.from_numpy(data.values).to(torch.float32),
                method=self.method,
                layers=self.layers,
                solver=self.solver,
                flush=self.policy,
                ridge=self.ridge,
                center=self.center,
                tol=self.tol,
                max_iter=self.max_iter,
                seed=self.seed,
                callback=note,
                progress=False,
            )
            seconds = time.perf_counter() - begin
            left_out = (
                np.full(data.values.shape, np.nan)
                if result.status == "failed"
                else _numpy(result.loo_predictions())
            )
        return Fitted(
            data=data,
            settings=self,
            model=NetworkModel(result.predictor, data.target),
            left_out=left_out,
            kept_apart="left out one at a time",
            status=result.status,
            remedy=result.remedy,
            residuals=[float(r) for r in result.residuals],
            iterations=result.iterations,
            chosen={
                "depth": self.depth,
                "shift": self.shift,
                "ridge": self.ridge,
                "layers": "last" if self.last else "all",
                "weights": self.weights,
                "width": self.width,
            },
            members=[],
            shares=None,
            metrics=[_start(result, data), *steps],
            seconds=seconds,
        )


class NetworkModel(Model):
    """A single network on unit rows; scores of classes become the nearest probabilities."""

    kind = "network"

    def __init__(self, predictor: Predictor, target: Target) -> None:
        self._predictor, self._target = predictor, target

    def scores(self, features: Numbers) -> Numbers:
        """Return the network's outputs."""
        return _numpy(self._predictor.predict(_rows(features)))

    def probabilities(self, scores: Numbers) -> Numbers:
        """Return the distribution next to `(1 + score) / 2`."""
        return self._target.probabilities(scores)

    def state(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        """Return (config, tensors)."""
        return self._predictor.state()

    @classmethod
    def load(cls, config: Mapping[str, Any], tensors: Mapping[str, Tensor], target: Target) -> Self:
        """Return the model that :meth:`state` described."""
        return cls(load_result(config, tensors), target)


def _start(result: TrainResult, data: Prepared) -> dict[str, Any]:
    return {
        "kind": "start",
        "residual": float(result.residuals[0]),
        "flops": result.cost.init.flops,
        "bytes": result.cost.init.bytes,
        "samples": len(data.features),
        "features": data.width + 1,
    }


def _record(info: Iteration, seconds: float) -> dict[str, Any]:
    certificate = info.certificate
    return {
        "kind": "iteration",
        "iteration": int(info.iteration),
        "residual": float(info.residual),
        "firing": [float(rate) for rate in info.firing],
        "flops": info.cost.flops,
        "bytes": info.cost.bytes,
        "seconds": seconds,
        "certificate": None
        if certificate is None
        else {
            key: getattr(certificate, key)
            for key in ("residual", "residual_kind", "condition", "rank", "path")
        },
    }


def _rows(features: Numbers) -> Tensor:
    return torch.from_numpy(unit_rows(features)).to(torch.float32)


def _numpy(values: Tensor) -> Numbers:
    return np.asarray(values.double().numpy(), dtype=np.float64)
