"""Training on more rows than an n×n matrix could hold, in blocks that come and go.

| symbol | shape | meaning |
|---|---|---|
| `J_A` | M×p | gradients of f at M anchors, rows drawn from the data |
| `G_BA = J_B J_A^T` | B×M | Gram matrix of a block of rows and the anchors |
| `theta` | M×C | the change of the network is `J_A^T theta`: rank M, whatever n is |

A Gauss-Newton step whose change lies in the span of the anchors' gradients minimises
`sum_i w_i (f_i - y_i)² + shift ‖J_A^T theta‖²`, so `(sum_B G_BA^T w G_BA + shift G_AA) theta =
sum_B G_BA^T w y`: two sums that blocks of rows are added to and that no longer grow, in any order
and at any time. If every row is an anchor this is a member's exact step.
Targets are scaled as there, so that the network's own outputs are those of its linearisation.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from subquad.estimators.encoding import Encoding
from subquad.estimators.evidence import Settings, unit_rows
from subquad.estimators.member import TRAVEL, Member
from subquad.estimators.recipe import Recipe
from subquad.memory import row_blocks
from subquad.network import WideNet
from subquad.network.passes import forward
from subquad.rows import Rows, SparseRows
from subquad.theory.duals import Array
from subquad.training.result import Predictor

BLOCK_BYTES = 1 << 28
"""What a block of rows takes on its way through the last layer."""
JITTER = 1e-10
"""Relative to the mean diagonal: anchors that repeat each other make the sums singular."""


class Anchored:
    """One network with all outputs' sums.

    Args:
        recipe, settings, encoding: as found on a share of the rows; the last layer learns.
        anchors: standardised inputs of the anchors, M×d.
        outputs: C.
        width, weights, seed: of the network.
    """

    def __init__(
        self,
        recipe: Recipe,
        settings: Settings,
        encoding: Encoding,
        anchors: Array,
        outputs: int,
        *,
        width: int,
        weights: str,
        seed: int,
    ) -> None:
        self._recipe, self._settings, self._encoding = recipe, settings, encoding
        self._net = WideNet(
            len(encoding.owner) + 1,
            width=width,
            depth=recipe.depth,
            activation=recipe.activation,
            weights=weights,
            seed=seed,
            dtype=torch.float64,
        )
        self._slopes, self._inputs = self._gradients(anchors)
        M = len(anchors)
        self._own = self._gram(self._slopes, self._inputs)
        self._left = torch.zeros(M, M, dtype=torch.float64)
        self._right = torch.zeros(M, outputs, dtype=torch.float64)
        self._squares, self._weight = torch.zeros(outputs, dtype=torch.float64), 0.0

    def absorb(self, X: Array, Y: Array, weights: Array) -> None:
        """Add rows: standardised inputs, targets without their mean, sample weights."""
        each = 8 * (3 * self._net.widths[-1] + 3 * len(self._own))
        for block in row_blocks(len(X), each, BLOCK_BYTES):
            G = self._gram(*self._gradients(X[block]))
            w, y = torch.from_numpy(weights[block])[:, None], torch.from_numpy(Y[block])
            self._left.addmm_(G.T, w * G)
            self._right.addmm_(G.T, w * y)
            self._squares += (w * y * y).sum(0)
            self._weight += float(w.sum())

    def member(self) -> Member:
        """Return the network trained on all rows so far."""
        m = self._net.widths[-1]
        diagonal = float(self._recipe.profile.values[0])
        shift = self._settings.relative_noise * diagonal
        A = self._left + shift * self._own
        A.diagonal().add_(JITTER * float(A.diagonal().mean()))
        theta = torch.linalg.solve(A, self._right)
        # ‖J_A^T theta‖² / m is what y^T A^-1 y is where every row is an anchor.
        norms = (theta * (self._own @ theta)).sum(0).clamp_min(0).sqrt() / math.sqrt(2 * m)
        spread = (self._squares / max(self._weight, 1e-300)).sqrt()
        sizes: list[float] = []
        predictors: list[Predictor | None] = []
        for column, norm, own in zip(theta.T, norms, spread, strict=True):
            size = max(float(norm) / TRAVEL, float(own) * 1e-3)
            sizes.append(size)
            if size == 0:
                predictors.append(None)
                continue
            layers = [layer.fork("never") for layer in self._net.layers]
            # G is in units of m here, so J_A^T theta / m is the change.
            layers[-1].update_rows(self._slopes * (column / (size * m))[:, None], self._inputs)
            predictors.append(Predictor(self._net.with_layers(layers), self._net))
        return Member(self._recipe, self._settings, self._encoding, tuple(sizes), tuple(predictors))

    def _gradients(self, X: Array) -> tuple[Tensor, Rows]:
        """Return u (n×m) and v (n×m_in) of the last layer."""
        rows = unit_rows(self._encoding(X), self._settings.scales[self._encoding.owner])
        last = forward(self._net.layers, self._net.activation, torch.from_numpy(rows))[-1]
        return _dense(last.slope) * self._net.output_weights[:, 0], last.inputs

    def _gram(self, slopes: Tensor, inputs: Rows) -> Tensor:
        """Return `G_BA / m`."""
        found = slopes @ self._slopes.T
        found *= _dense(inputs) @ _dense(self._inputs).T
        return found.div_(self._net.widths[-1])


def _dense(rows: Rows) -> Tensor:
    return rows.dense() if isinstance(rows, SparseRows) else rows
