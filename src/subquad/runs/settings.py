"""Which options go with which way of fitting."""

from __future__ import annotations

from typing import Any

from subquad.checks import choice
from subquad.errors import InvalidInput
from subquad.runs.ensemble import EnsembleSettings
from subquad.runs.network import NetworkSettings

METHODS = ("exact", "paper", "gd")
ENSEMBLE_ONLY = ("encoding", "metric", "members", "validation", "groups", "class_weight")
NETWORK_ONLY = ("solver", "flush", "tol")


def settings_of(method: str, **options: Any) -> EnsembleSettings | NetworkSettings:
    """Return the settings of a fit.

    Args:
        method: "exact" fits an ensemble; "paper" and "gd" train one network as it is asked for.
        options: fields of :class:`EnsembleSettings` and :class:`NetworkSettings`; None, and
            "auto" for a network, take the default.
    """
    choice("method", method, METHODS)
    given = {name: value for name, value in options.items() if value is not None}
    if method == "exact":
        _refuse(NETWORK_ONLY, given, "with --method paper or gd: exact chooses for itself")
        return EnsembleSettings(**given)
    _refuse(ENSEMBLE_ONLY, given, f"with --method exact: {method} trains one network as asked")
    return NetworkSettings(
        method=method, **{name: value for name, value in given.items() if value != "auto"}
    )


def _refuse(names: tuple[str, ...], given: dict[str, Any], why: str) -> None:
    for name in names:
        if name in given:
            raise InvalidInput(f"--{name.replace('_', '-')} goes {why}")
