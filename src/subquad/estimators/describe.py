"""What was chosen, in plain values."""

from __future__ import annotations

from typing import Any

import numpy as np

from subquad.estimators.base import mean_ridge
from subquad.estimators.ensemble import Ensemble
from subquad.estimators.member import Member


def described(member: Member) -> dict[str, Any]:
    """Return what a member is."""
    recipe = member.recipe
    return {
        "encoding": recipe.encoding,
        "activation": type(recipe.activation).__name__,
        "depth": recipe.depth,
        "shift": recipe.activation.threshold,
        "layers": recipe.layers,
        "spread": recipe.spread,
        "width": member.width,
        "ridge": member.settings.relative_noise * float(recipe.profile.values[0]),
    }


def chosen_settings(ensemble: Ensemble, weights: str) -> dict[str, Any]:
    """Return the settings of the weightiest member; ridge is the members' mean by weight."""
    first = described(ensemble.members[int(np.argmax(ensemble.weights))])
    return {
        **{k: v for k, v in first.items() if k != "spread"},
        "ridge": mean_ridge(ensemble),
        "weights": weights,
    }
