"""What lies in a run folder, how it is written, and how it is read back and checked.

``config.json`` is written last and holds the digest of ``model.safetensors``, so that a folder
whose writing was cut short is seen as such.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from dataclasses import field as field_of
from pathlib import Path
from typing import Any

import numpy.typing as npt
import safetensors.torch
from safetensors import SafetensorError
from torch import Tensor

from subquad.checks import choice
from subquad.errors import InvalidInput
from subquad.runs.atomic import plain, replacing, write_json, write_text
from subquad.runs.ensemble import EnsembleModel
from subquad.runs.model import Model
from subquad.runs.network import NetworkModel
from subquad.tables.fields import field, known_only
from subquad.tables.prepare import Preparation
from subquad.tables.table import Numbers, Table
from subquad.tables.target import Target

FORMAT = "subquad-run"
VERSION = 2
CONFIG, MODEL, METRICS, REPORT = "config.json", "model.safetensors", "metrics.jsonl", "report.html"

MODELS: dict[str, type[Model]] = {kind.kind: kind for kind in (EnsembleModel, NetworkModel)}

_KEYS = {
    "format",
    "version",
    "created",
    "versions",
    "settings",
    "summary",
    "preparation",
    "target",
    "kind",
    "model",
    "model_sha256",
    "tensors",
}


@dataclass(frozen=True)
class Prediction:
    """Predictions for the rows of a table.

    Attributes:
        values: n numbers, or names of classes.
        probabilities: n×classes, where there are classes.
        classes: their names.
        more: further columns by name: "std", "lower" and "upper" where they were asked for.
    """

    values: npt.NDArray[Any]
    probabilities: Numbers | None
    classes: tuple[str, ...]
    more: Mapping[str, Numbers] = field_of(default_factory=dict)


@dataclass(frozen=True)
class Run:
    """A finished run, as its folder describes it."""

    folder: Path
    created: str
    versions: Mapping[str, Any]
    settings: Mapping[str, Any]
    summary: Mapping[str, Any]
    preparation: Preparation
    target: Target
    kind: str
    model: Mapping[str, Any]
    model_sha256: str = ""
    tensors: tuple[str, ...] = ()

    @classmethod
    def load(cls, folder: str | os.PathLike[str]) -> Run:
        """Read and check ``config.json`` of a run folder."""
        folder = Path(folder)
        if not folder.is_dir():
            raise InvalidInput(f"there is no run folder {folder}: subquad fit writes one")
        stored = _read_config(folder)
        where = CONFIG
        known_only(stored, _KEYS, where)
        version = field(stored, "version", int, where)
        if version != VERSION:
            raise InvalidInput(
                f"{where}: version is {version}, this subquad reads {VERSION}: "
                "install the subquad that wrote it, or fit again"
            )
        return cls(
            folder=folder,
            created=field(stored, "created", str, where),
            versions=field(stored, "versions", dict, where),
            settings=field(stored, "settings", dict, where),
            summary=field(stored, "summary", dict, where),
            preparation=Preparation.from_dict(field(stored, "preparation", dict, where)),
            target=Target.from_dict(field(stored, "target", dict, where)),
            kind=choice("kind of model", field(stored, "kind", str, where), MODELS),
            model=field(stored, "model", dict, where),
            model_sha256=field(stored, "model_sha256", str, where),
            tensors=tuple(map(str, field(stored, "tensors", list, where))),
        )

    def save(self, tensors: Mapping[str, Tensor], metrics: list[dict[str, Any]]) -> Run:
        """Write model, metrics and, last, the configuration; return the run with its digest."""
        with replacing(self.folder / MODEL) as temporary:
            contiguous = {name: tensor.contiguous() for name, tensor in tensors.items()}
            safetensors.torch.save_file(contiguous, str(temporary))
            # safetensors makes a private file; a model is as readable as its folder.
            temporary.chmod(self.folder.stat().st_mode & 0o666)
            digest = _digest(temporary)
        lines = [json.dumps(plain(record), allow_nan=False) for record in metrics]
        write_text(self.folder / METRICS, "".join(line + "\n" for line in lines))
        stored = {
            "format": FORMAT,
            "version": VERSION,
            "created": self.created,
            "versions": dict(self.versions),
            "settings": dict(self.settings),
            "summary": dict(self.summary),
            "preparation": self.preparation.to_dict(),
            "target": self.target.to_dict(),
            "kind": self.kind,
            "model": dict(self.model),
            "model_sha256": digest,
            "tensors": sorted(tensors),
        }
        write_json(self.folder / CONFIG, stored)
        return Run.load(self.folder)

    def metrics(self) -> list[dict[str, Any]]:
        """The records of ``metrics.jsonl``."""
        path = self.folder / METRICS
        records = []
        for number, line in enumerate(_read_text(path).splitlines(), start=1):
            record = _parse(line, f"{path}, line {number}")
            records.append(record)
        return records

    def load_model(self) -> Model:
        """Read and check what predicts."""
        path = self.folder / MODEL
        if not path.is_file():
            raise InvalidInput(f"{path} is missing: the folder is incomplete; fit again")
        if _digest(path) != self.model_sha256:
            raise InvalidInput(
                f"{path} is not the model that {CONFIG} describes: the folder was changed or "
                "its writing was cut short; fit again"
            )
        try:
            tensors = safetensors.torch.load_file(str(path))
            if set(tensors) != set(self.tensors):
                raise KeyError(*(set(tensors) ^ set(self.tensors)))
            return MODELS[self.kind].load(dict(self.model), tensors, self.target)
        except (
            SafetensorError,
            KeyError,
            TypeError,
            ValueError,
            RuntimeError,
            AttributeError,
            OverflowError,
        ) as error:
            words = str(error) if isinstance(error, InvalidInput) else repr(error)
            raise InvalidInput(f"{path} does not fit {CONFIG}: {words}; fit again") from error

    def predict(
        self, table: Table, *, std: bool = False, interval: float | None = None
    ) -> Prediction:
        """Predict new rows; the target column need not be there.

        Args:
            table: the rows.
            std: add the deviation of every prediction.
            interval: add the ends of intervals that hold this share of new targets.
        """
        classes = self.target.classes
        if (std or interval is not None) and classes:
            raise InvalidInput(
                "--std and --interval go with regression; classes have probabilities"
            )
        model, features = self.load_model(), self.preparation.features(table)
        scores = model.scores(features)
        values, more = self.target.decode(scores), {}
        if std:
            more["std"] = model.deviation(features) * self.target.scale
        if interval is not None:
            reach = model.reach(features, interval) * self.target.scale
            more |= {"lower": values - reach, "upper": values + reach}
        probabilities = model.probabilities(scores) if classes else None
        return Prediction(values, probabilities, classes, more)


def claim_folder(path: str | os.PathLike[str]) -> Path:
    """Make sure that a run may be written to ``path``: new, empty, or a run folder."""
    folder = Path(path)
    if folder.exists() and not folder.is_dir():
        raise InvalidInput(f"{folder} is a file: give a folder to write the run to")
    if folder.is_dir() and any(folder.iterdir()) and not is_run_folder(folder):
        raise InvalidInput(
            f"{folder} is not empty and not a run folder: give a new folder, so that nothing "
            "of yours is overwritten"
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with replacing(folder / ".writable") as temporary:
            temporary.touch()
        (folder / ".writable").unlink()
    except OSError as error:
        raise InvalidInput(
            f"{folder} cannot be written to ({error.strerror}): give another folder"
        ) from error
    return folder


def is_run_folder(folder: Path) -> bool:
    """Whether a folder says that it holds a run."""
    try:
        _read_config(folder)
    except InvalidInput:
        return False
    return True


def _read_config(folder: Path) -> dict[str, Any]:
    path = folder / CONFIG
    stored = _parse(_read_text(path), str(path))
    if stored.get("format") != FORMAT:
        raise InvalidInput(f"{path} does not describe a run: its format must be {FORMAT!r}")
    return stored


def _read_text(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8")
    except FileNotFoundError as error:
        raise InvalidInput(f"{path} is missing: {path.parent} is not a whole run") from error
    except OSError as error:
        raise InvalidInput(f"{path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise InvalidInput(f"{path} is not UTF-8 text: the file is damaged") from error


def _parse(content: str, where: str) -> dict[str, Any]:
    try:
        value = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"{where} is not JSON: the file is damaged") from error
    if not isinstance(value, dict):
        raise InvalidInput(f"{where} must hold an object: the file is damaged")
    return value


def _digest(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()
