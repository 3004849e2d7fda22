"""From a table to a trained network and its run folder."""

from __future__ import annotations

import datetime
import platform
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from subquad import __version__
from subquad.activations import ShiftedReLU
from subquad.checks import choice
from subquad.kernels import numba_available
from subquad.memory import limit
from subquad.network import WideNet
from subquad.runs.folder import REPORT, Run
from subquad.runs.report import write_report
from subquad.tables.baselines import leave_one_out_mean, leave_one_out_ridge
from subquad.tables.prepare import Preparation
from subquad.tables.table import Numbers, Table
from subquad.tables.target import Target
from subquad.training import Iteration, TrainResult, footprint, train
from subquad.training.api import check_settings
from subquad.weights import KINDS

MAX_PLOTTED = 1000


@dataclass(frozen=True, kw_only=True)
class FitSettings:
    """Everything that decides the outcome of a fit, beside the table."""

    task: str | None = None
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
    def policy(self) -> str | int:
        """The flush policy: a name, or the rank that digits mean."""
        return int(self.flush) if self.flush.isdecimal() else self.flush

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


@dataclass(frozen=True)
class Prepared:
    """A table made ready for training."""

    table: Table
    preparation: Preparation
    target: Target
    rows: Numbers  # n × features, unit length
    labels: npt.NDArray[Any]  # n
    values: Numbers  # n or n × outputs, what is trained on

    @classmethod
    def of(cls, table: Table, target: str, task: str | None = None) -> Prepared:
        """Fit the preparation of features and target."""
        goal = Target.fit(table, target, task)
        features = table.without(target)
        preparation = Preparation.fit(features)
        labels = goal.labels(table)
        return cls(
            features,
            preparation,
            goal,
            preparation.transform(features),
            labels,
            goal.encode(labels),
        )


@dataclass(frozen=True)
class Fitted:
    """A trained network with all that led to it."""

    data: Prepared
    settings: FitSettings
    result: TrainResult
    metrics: list[dict[str, Any]]
    seconds: float


def train_on(
    data: Prepared, settings: FitSettings, watch: Callable[[Iteration], object] | None = None
) -> Fitted:
    """Train a network as ``settings`` say; ``watch`` sees every iteration and may stop it."""
    begin = time.perf_counter()
    metrics: list[dict[str, Any]] = []

    def note(info: Iteration) -> bool:
        metrics.append(_record(info, time.perf_counter() - begin))
        return bool(watch(info)) if watch is not None else False

    activation = ShiftedReLU(shift=settings.shift, relative=True)
    with limit(settings.max_memory):
        net = WideNet(
            data.preparation.width,
            width=settings.width,
            depth=settings.depth,
            outputs=data.target.outputs,
            activation=activation,
            weights=settings.weights,
            seed=settings.seed,
            dtype=torch.float32,
        )
        result = train(
            net,
            torch.from_numpy(data.rows).to(torch.float32),
            torch.from_numpy(data.values).to(torch.float32),
            method=settings.method,
            layers=settings.layers,
            solver=settings.solver,
            flush=settings.policy,
            ridge=settings.ridge,
            center=settings.center,
            tol=settings.tol,
            max_iter=settings.max_iter,
            seed=settings.seed,
            callback=note,
            progress=False,
        )
    return Fitted(data, settings, result, metrics, time.perf_counter() - begin)


def check_memory(data: Prepared, settings: FitSettings) -> None:
    """Refuse a fit that cannot fit, leave-one-out predictions included, before any weight."""
    last = settings.layers == "last" or (settings.layers is None and settings.method != "gd")
    outputs, ridge = data.target.outputs, settings.ridge > 0
    state: footprint.State = "maintained"
    if settings.method == "exact" and last:
        state = "bits" if outputs == 1 and not ridge and numba_available() else "samples"
    job = footprint.Job(
        features=data.preparation.width,
        widths=(settings.width,) * settings.depth,
        outputs=outputs,
        samples=len(data.rows),
        kind=settings.weights,
        item=4,
        activation=ShiftedReLU(shift=settings.shift, relative=True),
        state=state,
        ridge=ridge,
        trained=1 if last else settings.depth,
        written=settings.flush != "never",
        sketched=settings.solver in ("sketch", "preconditioned"),
        max_iter=settings.max_iter,
        left_out=True,
    )
    with limit(settings.max_memory):
        footprint.fitting(job, made=False)


def summarise(fitted: Fitted) -> dict[str, Any]:
    """Scores, baselines and settings in the words of ``subquad fit --json``, but for ``out``."""
    data, result, settings = fitted.data, fitted.result, fitted.settings
    target = data.target

    def score(scores: Numbers) -> float:
        return target.score(data.labels, target.decode(scores))

    if target.task == "regression":
        mean = leave_one_out_mean(data.values)
    else:  # the commonest class; without the row itself, it would be wrong wherever there are ties
        mean = np.broadcast_to(data.values.mean(axis=0), data.values.shape)
    with limit(settings.max_memory):
        train_score = score(_numpy(result.predict(_rows(data))))
        loo_score = score(_numpy(result.loo_predictions()))
    plain_features = data.preparation.features(data.table)
    return {
        "task": target.task,
        "train_score": train_score,
        "loo_score": loo_score,
        "baselines": {
            "mean": score(mean),
            "ridge": score(leave_one_out_ridge(plain_features, data.values)),
        },
        "iterations": len(result.residuals) - 1,
        "seconds": fitted.seconds,
        "status": result.status,
        "remedy": result.remedy,
        "chosen": {
            "depth": settings.depth,
            "shift": settings.shift,
            "ridge": settings.ridge,
            "layers": settings.layers or ("all" if settings.method == "gd" else "last"),
            "weights": settings.weights,
            "width": settings.width,
        },
    }


def write_run(folder: Path, fitted: Fitted, summary: dict[str, Any], shown: dict[str, Any]) -> Run:
    """Write a finished run and its report; ``shown`` are the predictions that it draws."""
    data, result = fitted.data, fitted.result
    config, tensors = result.state()
    start = {
        "kind": "start",
        "residual": float(result.residuals[0]),
        "flops": result.cost.init.flops,
        "bytes": result.cost.init.bytes,
        "samples": len(data.rows),
        "features": data.preparation.width,
    }
    run = Run(
        folder=folder,
        created=datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        versions=versions(),
        settings=asdict(fitted.settings),
        summary=summary,
        preparation=data.preparation,
        target=data.target,
        model=config,
    ).save(tensors, [start, *fitted.metrics, shown])
    write_report(run, folder / REPORT)
    return run


def predictions_record(rows: str, target: Target, labels: Any, predictions: Any) -> dict[str, Any]:
    """What the report draws: a sample of points, or the whole confusion matrix."""
    record: dict[str, Any] = {"kind": "predictions", "rows": rows}
    if target.task == "classification":
        index = {name: i for i, name in enumerate(target.classes)}
        counts = np.zeros((len(index), len(index)), dtype=int)
        for label, prediction in zip(labels, predictions, strict=True):
            counts[index[label], index[prediction]] += 1
        return {**record, "classes": list(target.classes), "confusion": counts.tolist()}
    step = -(-len(labels) // MAX_PLOTTED)
    return {
        **record,
        "targets": labels[::step].tolist(),
        "predictions": predictions[::step].tolist(),
    }


def left_out(fitted: Fitted) -> dict[str, Any]:
    """Leave-one-out predictions of a fit, for its report."""
    data = fitted.data
    predictions = data.target.decode(_numpy(fitted.result.loo_predictions()))
    return predictions_record("left out one at a time", data.target, data.labels, predictions)


def versions() -> dict[str, str]:
    """Versions of what takes part in a run."""
    return {
        "subquad": __version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": np.__version__,
    }


def _rows(data: Prepared) -> torch.Tensor:
    return torch.from_numpy(data.rows).to(torch.float32)


def _numpy(values: torch.Tensor) -> Numbers:
    return np.asarray(values.double().numpy(), dtype=np.float64)


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
