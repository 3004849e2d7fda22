"""An ensemble as JSON values and tensors, and back; frozen weights come again from their seed.

Reading trusts nothing: every key, type, shape and number is checked, and what is wrong is named.
Weights of predictors are kept as their change alone, and networks that start from the same frozen
weights share them again.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from subquad.activations import build
from subquad.checks import choice, integer
from subquad.errors import InvalidInput
from subquad.estimators.calibration import Calibration
from subquad.estimators.encoding import KINDS, Encoding
from subquad.estimators.ensemble import Ensemble, LeftOut
from subquad.estimators.evidence import Settings
from subquad.estimators.member import Member
from subquad.estimators.recipe import Recipe
from subquad.estimators.scaling import Scaling
from subquad.estimators.stored import Stored, within
from subquad.network import WideNet
from subquad.tables.fields import field, known_only
from subquad.theory.duals import Array, Integers
from subquad.training import load_result
from subquad.training.result import Predictor

Config = dict[str, Any]

_KEYS = {"samples", "left_out", "inputs", "kept", "outputs", "calibration", "members"}
_MEMBER_KEYS = {
    "encoding",
    "activation",
    "depth",
    "layers",
    "spread",
    "noise",
    "weight",
    "sizes",
    "predictors",
}
_CHANGE = re.compile(r"(net|start)\.layers\.(\d{1,6})\.(left|right|table)")
_LOUDEST = 100.0
"""Size of a logarithm of a noise or a scale beyond which its exponential means nothing."""


def state_of(
    ensemble: Ensemble, calibration: Calibration | None = None
) -> tuple[Config, dict[str, Tensor]]:
    """Return (config, tensors): all that :func:`ensemble_from` needs.

    Args:
        ensemble: what was fitted.
        calibration: from its scores to probabilities, for classes.
    """
    scaling, left_out = ensemble.scaling, ensemble.left_out
    arrays: dict[str, Array | Integers] = {
        "scaling.mean": scaling.mean,
        "scaling.scale": scaling.scale,
        "offset": ensemble.offset,
        "left_out.rows": left_out.rows,
        "left_out.predictions": left_out.predictions,
        "left_out.targets": left_out.targets,
        "left_out.counts": left_out.counts,
        "X": ensemble.X,
        "Y": ensemble.Y,
        "counts": ensemble.counts,
    }
    if left_out.inputs is not None:
        arrays["left_out.inputs"] = left_out.inputs
    tensors = {name: _tensor(a) for name, a in arrays.items()}
    members = []
    for k, (member, weight) in enumerate(zip(ensemble.members, ensemble.weights, strict=True)):
        tensors[f"members.{k}.scales"] = _tensor(member.settings.scales)
        if member.encoding.kind != "plain":
            for name in ("owner", "low", "high"):
                tensors[f"members.{k}.{name}"] = _tensor(getattr(member.encoding, name))
        predictors: list[object] = []
        for c, predictor in enumerate(member.predictors):
            if predictor is None:
                predictors.append(None)
                continue
            described, own = predictor.state()
            predictors.append(described)
            tensors |= {f"members.{k}.{c}.{name}": tensor for name, tensor in own.items()}
        recipe = member.recipe
        members.append(
            {
                "encoding": member.encoding.kind,
                "activation": recipe.activation.config(),
                "depth": recipe.depth,
                "layers": recipe.layers,
                "spread": recipe.spread,
                "noise": member.settings.noise,
                "weight": float(weight),
                "sizes": list(member.sizes),
                "predictors": predictors,
            }
        )
    config = {
        "samples": len(ensemble.X),
        "left_out": len(left_out.rows),
        "inputs": len(scaling.scale),
        "kept": ensemble.X.shape[1],
        "outputs": ensemble.Y.shape[1],
        "calibration": None
        if calibration is None
        else {"sharpness": calibration.sharpness, "offsets": list(calibration.offsets)},
        "members": members,
    }
    return config, tensors


def ensemble_from(
    config: Mapping[str, Any], tensors: Mapping[str, Tensor]
) -> tuple[Ensemble, Calibration | None]:
    """Return what :func:`state_of` described, or say which field is wrong."""
    where = "model"
    known_only(config, _KEYS, where)
    n, d, kept, outputs = (
        integer(f"{where}.{key}", field(config, key, int, where), least=1)
        for key in ("samples", "inputs", "kept", "outputs")
    )
    stored = Stored(tensors)
    scaling = Scaling(
        stored.take("scaling.mean", (d,)), stored.take("scaling.scale", (d,), least=0.0)
    )
    if int(scaling.kept.sum()) != kept:  # the first alone where none varies
        raise InvalidInput(f"tensor 'scaling.scale' must be above 0 for {kept} inputs")
    X, Y = stored.take("X", (n, kept)), stored.take("Y", (n, outputs))
    counts = stored.take("counts", (n,), least=0.0)
    if not (counts > 0).all():
        raise InvalidInput("tensor 'counts' must be above 0")
    offset = stored.take("offset", (outputs,))
    left_out = _left_out(config, stored, n, kept, outputs)
    entries = field(config, "members", list, where)
    nets: dict[str, WideNet] = {}
    members = [_member(entry, k, stored, kept, outputs, nets) for k, entry in enumerate(entries)]
    shares = np.array([share for _, share in members])
    if not members or abs(shares.sum() - 1) > 1e-9:
        raise InvalidInput(f"{where}.members must have weights of sum 1: the file is damaged")
    stored.finish()
    ensemble = Ensemble(
        scaling,
        tuple(member for member, _ in members),
        shares,
        X,
        Y,
        counts,
        offset,
        left_out,
        trainings=[],
        candidates=[],
        seconds=(0.0, 0.0),
    )
    return ensemble, _calibration(config, outputs)


def _left_out(
    config: Mapping[str, Any], stored: Stored, n: int, kept: int, outputs: int
) -> LeftOut:
    count = integer("model.left_out", field(config, "left_out", int, "model"), least=0)
    rows = stored.tensor("left_out.rows", torch.int64)
    inputs = None
    if "left_out.inputs" in stored:
        inputs, n = stored.take("left_out.inputs", (count, kept)), 2**62
    if rows.shape != (count,) or (count and not 0 <= int(rows.min()) <= int(rows.max()) < n):
        raise InvalidInput(f"tensor 'left_out.rows' must number {count} rows")
    return LeftOut(
        rows.numpy(),
        stored.take("left_out.predictions", (count, outputs)),
        stored.take("left_out.targets", (count, outputs)),
        stored.take("left_out.counts", (count,), least=0.0),
        inputs,
    )


def _tensor(values: Array | Integers) -> Tensor:
    """Return a tensor of its own memory: members may share theirs, which no file can hold."""
    return torch.from_numpy(values.copy())


def _member(
    entry: Any, k: int, stored: Stored, kept: int, outputs: int, nets: dict[str, WideNet]
) -> tuple[Member, float]:
    """Return a member and its weight; ``nets`` holds the starting networks made so far."""
    where = f"model.members[{k}]"
    if not isinstance(entry, Mapping):
        raise InvalidInput(f"{where} must be an object: the file is damaged")
    known_only(entry, _MEMBER_KEYS, where)
    recipe = Recipe(
        activation=build(field(entry, "activation", dict, where)),
        depth=integer(f"{where}.depth", field(entry, "depth", int, where), least=1),
        layers=choice("layers", field(entry, "layers", str, where), ("last", "all")),
        spread=within(entry, "spread", where, 0, _LOUDEST),
        encoding=choice("encoding", field(entry, "encoding", str, where), KINDS),
    )
    encoding = _encoding(recipe.encoding, k, stored, kept)
    scales = stored.take(f"members.{k}.scales", (kept,))
    if np.abs(scales).max() > _LOUDEST:
        raise InvalidInput(f"tensor 'members.{k}.scales' must be logarithms below {_LOUDEST:g}")
    sizes, predictors = (field(entry, key, list, where) for key in ("sizes", "predictors"))
    if len(sizes) != outputs or len(predictors) != outputs:
        raise InvalidInput(f"{where} must hold {outputs} sizes and predictors, one per output")
    coordinates = len(encoding.owner)
    member = Member(
        recipe,
        Settings(scales, within(entry, "noise", where, -_LOUDEST, _LOUDEST)),
        encoding,
        tuple(
            within({"size": size}, "size", f"{where}.sizes[{c}]", 0, 1e300)
            for c, size in enumerate(sizes)
        ),
        tuple(
            None
            if p is None
            else _predictor(p, recipe, stored, f"members.{k}.{c}", coordinates, nets)
            for c, p in enumerate(predictors)
        ),
    )
    return member, within(entry, "weight", where, 0, 1 + 1e-9)


def _encoding(kind: str, k: int, stored: Stored, kept: int) -> Encoding:
    if kind == "plain":
        return Encoding(kind, np.arange(kept), np.empty(0), np.empty(0))
    owner = stored.tensor(f"members.{k}.owner", torch.int64)
    shape = (owner.numel(),)
    low, high = (stored.take(f"members.{k}.{name}", shape) for name in ("low", "high"))
    if owner.dim() != 1 or not shape[0] or int(owner.min()) < 0 or int(owner.max()) >= kept:
        raise InvalidInput(f"tensor 'members.{k}.owner' must number inputs below {kept}")
    if not (low < high).all():
        raise InvalidInput(f"tensor 'members.{k}.high' must be above 'low'")
    return Encoding(kind, owner.numpy(), low, high)


def _predictor(
    described: Any,
    recipe: Recipe,
    stored: Stored,
    name: str,
    coordinates: int,
    nets: dict[str, WideNet],
) -> Predictor:
    """Return one output's networks; their shape must be the recipe's."""
    where = f"model.{name}"
    if not isinstance(described, Mapping):
        raise InvalidInput(f"{where} must be an object or null: the file is damaged")
    known_only(described, {"net", "centred", "tensors"}, where)
    config, names = field(described, "net", dict, where), field(described, "tensors", list, where)
    expected = {
        "features": coordinates + 1,
        "outputs": 1,
        "depth": recipe.depth,
        "activation": recipe.activation.config(),
        "dtype": "float64",
    }
    for key, value in expected.items():
        if config.get(key) != value:
            raise InvalidInput(f"{where}.net.{key} must be {value}, got {config.get(key)!r:.60}")
    for own in names:
        found = _CHANGE.fullmatch(own) if isinstance(own, str) else None
        if found is None or int(found[2]) >= recipe.depth:
            raise InvalidInput(f"{where}.tensors names {own!r:.60}, which is no layer's change")
    key = json.dumps(config, sort_keys=True)
    if key not in nets:
        nets[key] = WideNet.from_config(config)
    changes = {own: stored.tensor(f"{name}.{own}") for own in names}
    return load_result(described, changes, base=nets[key])


def _calibration(config: Mapping[str, Any], outputs: int) -> Calibration | None:
    if config.get("calibration", 0) is None:
        return None
    where = "model.calibration"
    entry = field(config, "calibration", dict, "model")
    known_only(entry, {"sharpness", "offsets"}, where)
    offsets = field(entry, "offsets", list, where)
    count = max(outputs, 2)
    if len(offsets) != count:
        raise InvalidInput(f"{where}.offsets must hold {count} numbers, one per class")
    return Calibration(
        within(entry, "sharpness", where, 0, 1e300),
        tuple(
            within({"offset": v}, "offset", f"{where}.offsets[{c}]", -1e300, 1e300)
            for c, v in enumerate(offsets)
        ),
    )
