"""Compiled twin of :mod:`subquad.kernels.profiles_plain`.

Loops of one thread that let go of the interpreter: a search runs several of them side by side.
"""

# mypy: disallow-untyped-decorators=False, disallow-untyped-defs=False, disallow-untyped-calls=False

from __future__ import annotations

import math

import numba
import numpy as np

from subquad.kernels.profiles_plain import NEAR, Array


def kernel_of(rho: Array, values: Array, slopes: Array) -> Array:
    """Return F(arccos rho), cubic between the tabulated angles."""
    K = np.empty(rho.shape)
    _values(np.ascontiguousarray(rho), values, slopes, K)
    return K


def kernel_and_slope(rho: Array, values: Array, slopes: Array) -> tuple[Array, Array]:
    """Return `F(arccos rho)` and its slope in rho, for a symmetric rho with 1 on its diagonal."""
    K, D = np.empty(rho.shape), np.empty(rho.shape)
    _symmetric(np.ascontiguousarray(rho), values, slopes, K, D)
    return K, D


@numba.njit(cache=True, inline="always")
def _at(theta, values, slopes, step):
    place = min(int(theta / step), values.shape[0] - 2)
    t = theta / step - place
    low, rise = values[place], values[place + 1] - values[place]
    left, right = step * slopes[place], step * slopes[place + 1]
    square, cube = 3 * rise - 2 * left - right, left + right - 2 * rise
    return (
        low + t * (left + t * (square + t * cube)),
        (left + t * (2 * square + 3 * t * cube)) / step,
    )


@numba.njit(cache=True, nogil=True)
def _values(rho, values, slopes, K):
    step = math.pi / (values.shape[0] - 1)
    for i in range(rho.shape[0]):
        for j in range(rho.shape[1]):
            r = rho[i, j]
            theta = 0.0 if r >= 1 - NEAR else math.acos(max(r, -1.0))
            K[i, j] = _at(theta, values, slopes, step)[0]


@numba.njit(cache=True, nogil=True)
def _symmetric(rho, values, slopes, K, D):
    step = math.pi / (values.shape[0] - 1)
    for i in range(rho.shape[0]):
        for j in range(i + 1):
            r = rho[i, j]
            if r >= 1 - NEAR:
                value, slope = values[0], 0.0
            else:
                r = max(r, -1.0)
                value, turned = _at(math.acos(r), values, slopes, step)
                slope = -turned / math.sqrt(max(1 - r * r, 1e-300))
            K[i, j] = value
            K[j, i] = value
            D[i, j] = slope
            D[j, i] = slope
