"""The last layer in sample space: exact Gauss-Newton without ever touching W again.

With fixed training rows the last layer's inputs never change, so all there is to know of its
weights are its pre-activations.

| symbol | shape | meaning |
|---|---|---|
| `H`, `K = H H^T` | n×m_in, n×n | inputs of the last layer and their inner products |
| `Z = W H^T` | m×n | pre-activations, a row per neuron |
| `S = phi'(Z)` | m×n | slopes; recomputed from Z where they are needed |
| `P` | m×n | the change of W is `D = P H`: rank n at most, however many iterations |
| `B = S ∘ (A Q^T)` | m×n | what weights Q (n×C) of the rows mean in P: `J^T q = B H` |

An update `D <- D + eta (D' - D)` is `P += eta (P' - P)` and `Z += eta (P' K - (Z - Z_0))`.
Without ridge `D' - D = -B H`. Neurons are independent given Q and K, so one pass over Z in
chunks does everything; `m^2` appears nowhere. :mod:`subquad.training.firingbits` does the same
from flipped bits alone, where the activation and the machine allow it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from subquad.cost import record
from subquad.memory import row_blocks
from subquad.network import WideNet
from subquad.training.fixedinputs import FixedInputs

CHUNK_BYTES = 1 << 25
"""Pre-activations handled at a time: small enough for a cache, large enough for BLAS."""


@dataclass(frozen=True)
class SampleSpaceJacobian:
    """The Jacobian at one point: its Gram matrix per output, and products with the whole."""

    gram: Tensor  # (n, n) float64: the diagonal block of every output, since A_rc^2 = 1
    change: Tensor  # J D, (n C,) float64; zeros without ridge
    product: Callable[[Tensor], Tensor]  # with the whole (nC)×(nC) Gram matrix

    @property
    def rows(self) -> int:
        """n C."""
        return self.change.numel()

    @property
    def outputs(self) -> int:
        """C."""
        return self.rows // self.gram.shape[0]


class SampleSpaceState:
    """A last layer in training on fixed samples.

    Args:
        fixed: what does not change.
        ridge: in units of G/m; the penalty is `ridge m ‖D‖² / 2`.
    """

    def __init__(self, fixed: FixedInputs, ridge: float = 0.0) -> None:
        self.fixed, self.ridge = fixed, ridge
        self.activation, self.head, self.rho = fixed.activation, fixed.head, fixed.rho
        self.width, self.samples = fixed.width, fixed.samples
        self.kernel = fixed.kernel
        self._kernel = self.kernel.to(fixed.Z.dtype)
        self.Z = fixed.Z.clone() if ridge else fixed.Z
        self.Z_start = fixed.Z if ridge else None
        self.P = torch.zeros_like(self.Z)
        self.eta = 0.0
        self.refresh()

    @property
    def net(self) -> WideNet:
        """The network as it stands, its last layer's change as n factors."""
        return self.fixed.net(self.P.T)

    @property
    def firing(self) -> list[float]:
        """Share of firing neurons in each layer."""
        return [*self.fixed.firing, self.last_firing]

    @property
    def penalty(self) -> float:
        """`ridge m ‖D‖²`, with `‖D‖² = <P, Z - Z_0>`."""
        if self.Z_start is None:
            return 0.0
        total = sum(
            float((self.P[c].double() * (self.Z[c] - self.Z_start[c]).double()).sum())
            for c in self._chunks()
        )
        record("penalty", flops=3 * self.Z.numel(), bytes=3 * self.Z.nbytes)
        return self.ridge * self.width * total

    def dead(self) -> list[tuple[int, int]]:
        """(layer, sample) for samples that fire no neuron there."""
        return self.fixed.dead_samples(self.gram)

    def confirm(self) -> None:
        """Outputs are computed from the weights at every step; there is nothing to add."""

    def release(self) -> None:
        """Let go of what only further steps need."""
        self.dP = self.dZ = self.P[:0].clone()
        self.fixed.release()
        if self.head.shape[1] == 1:
            self.Z, self.Z_start = self.dZ, None

    def jacobian(self) -> SampleSpaceJacobian:
        """The Jacobian at the present point; :meth:`refresh` has formed its Gram already."""
        one = self.head.shape[1] == 1  # the whole is the block then, and needs no Z
        return SampleSpaceJacobian(
            self.gram, self.change, self.gram.mv if one else self.gram_product
        )

    def aim(self, jacobian: SampleSpaceJacobian, q: Tensor) -> None:
        """Take `-J^T q` as the direction (with ridge: `D' - D` with `D' = -J^T q`)."""
        Q = q.reshape(self.samples, -1).to(self.Z.dtype)
        self.dP = torch.empty_like(self.P)
        self.dZ = torch.empty_like(self.Z)
        for c in self._chunks():
            self.dP[c] = self._spread(c, Q).neg_()
            self.dZ[c] = self.dP[c] @ self._kernel
            if self.Z_start is not None:
                self.dZ[c] -= self.Z[c] - self.Z_start[c]
                self.dP[c] -= self.P[c]
        self._count("update", 2 * self.samples + 2)
        self.eta = 0.0

    def move_to(self, eta: float) -> None:
        """Stand at ``eta`` along the direction, 1 being its end."""
        step, self.eta = eta - self.eta, eta
        self.Z.add_(self.dZ, alpha=step)
        self.P.add_(self.dP, alpha=step)
        record("move", flops=4 * self.Z.numel(), bytes=6 * self.Z.nbytes)
        self.refresh()

    def refresh(self) -> None:
        """One pass over Z: outputs, Gram matrix, and `J D` where there is ridge."""
        n, outputs = self.samples, self.head.shape[1]
        f = torch.zeros(n, outputs, dtype=torch.float64, device=self.Z.device)
        counts = torch.zeros(n, n, dtype=torch.float64, device=self.Z.device)
        change = torch.zeros_like(f)
        fired = 0
        for c in self._chunks():
            z, head = self.Z[c], self.head[c].double()
            slope, value = self._slope(z), self.activation(z.T, self.rho, self.width).T
            f += value.double().T @ head
            # Slopes without their constant are 0 or 1 for the thresholded forms: counts of
            # common firing neurons, exact in float32 below 2^24.
            plain = slope / self._constant
            counts += (plain.T @ plain).double()
            fired += int(torch.count_nonzero(slope))
            if self.Z_start is not None:
                change += (slope * (z - self.Z_start[c])).double().T @ head
        self.outputs, self.change = f, change.reshape(-1)
        self.gram = counts * self._constant**2 * self.kernel
        self.last_firing = fired / self.Z.numel()
        self._count("pass", 2 * n + 2 * outputs + 4)

    def gram_product(self, q: Tensor) -> Tensor:
        """Return the whole (nC)×(nC) Gram matrix times q: `(S ∘ (K B)) A`."""
        Q = q.reshape(self.samples, -1).to(self.Z.dtype)
        out = torch.zeros(self.samples, self.head.shape[1], dtype=torch.float64)
        out = out.to(self.Z.device)
        for c in self._chunks():
            moved = self._spread(c, Q) @ self._kernel
            out += (moved * self._slope(self.Z[c])).double().T @ self.head[c].double()
        self._count("gram_matvec", 2 * self.samples + 4 * self.head.shape[1])
        return out.reshape(-1)

    @property
    def _constant(self) -> float:
        return self.activation.normaliser**0.5

    def _slope(self, z: Tensor) -> Tensor:
        """Return `phi'(z)` of a chunk (neurons×n), zeros included."""
        rho = self.rho[None, :]
        slope = self.activation.slope(z, rho, self.width)
        mask = self.activation.fires(z, rho, self.width)
        return slope if mask is None else slope * mask

    def _spread(self, chunk: slice, Q: Tensor) -> Tensor:
        """Return `B = S ∘ (A Q^T)` of a chunk."""
        return self._slope(self.Z[chunk]) * (self.head[chunk] @ Q.T)

    def _chunks(self) -> Iterator[slice]:
        return row_blocks(self.width, self.samples * self.Z.element_size(), CHUNK_BYTES)

    def _count(self, name: str, per_entry: int) -> None:
        record(name, flops=per_entry * self.Z.numel(), bytes=2 * self.Z.nbytes)
