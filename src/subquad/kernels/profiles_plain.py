"""A kernel that is a function of the angle, at every pair of rows: to read, and where numba is not.

Arrays are NumPy's; ``values`` and ``slopes`` tabulate the function at equal steps from 0 to pi.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]

NEAR = 1e-14
"""Rows whose cosine is this close to 1 are one row: the angle between them has no direction."""


def kernel_of(rho: Array, values: Array, slopes: Array) -> Array:
    """Return F(arccos rho), cubic between the tabulated angles."""
    return _both(rho, values, slopes)[0]


def kernel_and_slope(rho: Array, values: Array, slopes: Array) -> tuple[Array, Array]:
    """Return `F(arccos rho)` and its slope in rho, for a symmetric rho with 1 on its diagonal.

    The slope is 0 where rows are the same.
    """
    K, turned = _both(rho, values, slopes)
    same = rho >= 1 - NEAR
    sine = np.sqrt(np.maximum(1 - rho * rho, 1e-300))
    return K, np.where(same, 0.0, -turned / np.where(same, 1.0, sine))


def _both(rho: Array, values: Array, slopes: Array) -> tuple[Any, Any]:
    step = math.pi / (len(values) - 1)
    theta = np.arccos(np.clip(rho, -1.0, 1.0))
    theta = np.where(rho >= 1 - NEAR, 0.0, theta)
    place = np.minimum((theta / step).astype(np.int64), len(values) - 2)
    t = theta / step - place
    low, rise = values[place], values[place + 1] - values[place]
    left, right = step * slopes[place], step * slopes[place + 1]
    square, cube = 3 * rise - 2 * left - right, left + right - 2 * rise
    return (
        low + t * (left + t * (square + t * cube)),
        (left + t * (2 * square + 3 * t * cube)) / step,
    )
