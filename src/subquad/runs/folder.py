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
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import safetensors.torch
import torch
from safetensors import SafetensorError
from torch import Tensor

from subquad.errors import InvalidInput
from subquad.runs.atomic import plain, replacing, write_json, write_text
from subquad.tables.fields import field, known_only
from subquad.tables.prepare import Preparation
from subquad.tables.table import Numbers, Table
from subquad.tables.target import Target
from subquad.training import load_result

FORMAT = "subquad-run"
VERSION = 1
CONFIG, MODEL, METRICS, REPORT = "config.json", "model.safetensors", "metrics.jsonl", "report.html"

_KEYS = {
    "format",
    "version",
    "created",
    "versions",
    "settings",
    "summary",
    "preparation",
    "target",
    "model",
    "model_sha256",
    "tensors",
}


@dataclass(frozen=True)
class Prediction:
    """Predictions for the rows of a table, and class probabilities (n, classes) if any."""

    values: npt.NDArray[Any]
    probabilities: Numbers | None
    classes: tuple[str, ...]


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

    def scores(self, table: Table) -> Numbers:
        """What the network says for each row, in training units."""
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
            fitted = load_result(dict(self.model), tensors)
        except (SafetensorError, KeyError, TypeError, RuntimeError) as error:
            raise InvalidInput(f"{path} does not fit {CONFIG} ({error}): fit again") from error
        rows = torch.from_numpy(self.preparation.transform(table))
        out = fitted.predict(rows)
        return np.asarray(torch.as_tensor(out).double().numpy(), dtype=np.float64)

    def predict(self, table: Table) -> Prediction:
        """Predictions for new rows; the target column need not be there."""
        scores = self.scores(table)
        classes = self.target.classes
        probabilities = self.target.probabilities(scores) if classes else None
        return Prediction(self.target.decode(scores), probabilities, classes)


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
