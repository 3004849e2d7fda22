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

An update `D <- D + eta (D' - D)` is `P += eta (P' - P)`, and then `Z = Z_0 + P K`. (Carrying Z
along as well costs the same, but the two drift apart: near the end a step is lost in the rounding
of Z, which asks for it again and again, and P grows by it each time.)
Without ridge `D' - D = -B H`; with it `-B H - rho D`, see :mod:`subquad.training.damping`. Neurons
are independent given Q and K, so one pass over Z in chunks does everything; `m^2` appears
nowhere. :mod:`subquad.training.firingbits` does the same from flipped bits alone, where the
activation and the machine allow it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from subquad.cost import record
from subquad.memory import row_blocks
from subquad.network import WideNet
from subquad.training.damping import Damping
from subquad.training.fixedinputs import FixedInputs

CHUNK_BYTES = 1 << 25
"""Pre-activations handled at a time: small enough for a cache, large enough for BLAS."""


@dataclass(frozen=True)
class SampleSpaceJacobian:
    """The Jacobian at one point: its Gram matrix per output, and products with the whole."""

    gram: Tensor  # (n, n) float64: the diagonal block of every output, since A_rc^2 = 1
    change: Tensor  # J D, (n C,) float64; zeros without ridge
    product: Callable[[Tensor], Tensor]  # with the whole (nC)×(nC) Gram matrix
    share: float = 1.0  # rho of :mod:`subquad.training.damping`

    @property
    def rows(self) -> int:
        """n C."""
        return self.change.numel()

    @property
    def outputs(self) -> int:
        """C."""
        return self.rows // self.gram.shape[0]

    def whole(self) -> Tensor:
        """The (nC)×(nC) Gram matrix, column by column where there are several outputs."""
        if self.outputs == 1:
            return self.gram
        eye = torch.eye(self.rows, dtype=torch.float64, device=self.gram.device)
        found = torch.stack([self.product(column) for column in eye])
        return (found + found.T) / 2


class SampleSpaceState:
    """A last layer in training on fixed samples.

    Args:
        fixed: what does not change.
        ridge: in units of G/m; the penalty is `ridge m ‖D‖² / 2`.
    """

    doubt = 0.0  # outputs are computed from the weights at every step

    def __init__(self, fixed: FixedInputs, ridge: float = 0.0) -> None:
        self.fixed, self.ridge = fixed, ridge
        self.activation, self.head, self.rho = fixed.activation, fixed.head, fixed.rho
        self.width, self.samples = fixed.width, fixed.samples
        self.kernel = fixed.kernel
        self._kernel = self.kernel.to(fixed.Z.dtype)
        self.Z_start, self.Z = fixed.Z, fixed.Z.clone()
        self.P = torch.zeros_like(self.Z)
        self.eta, self._damping = 0.0, Damping()
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
        if not self.ridge:
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
        self.dP = self.P[:0].clone()
        self.Z_start = self.dP
        self.fixed.release()
        if self.head.shape[1] == 1:
            self.Z = self.dP

    def jacobian(self) -> SampleSpaceJacobian:
        """The Jacobian at the present point; :meth:`refresh` has formed its Gram already."""
        share = self._damping.share if self.ridge else 1.0
        one = self.head.shape[1] == 1  # the whole is the block then, and needs no Z
        product = self.gram.mv if one else self.gram_product
        return SampleSpaceJacobian(self.gram, self.change, product, share)

    def aim(self, jacobian: SampleSpaceJacobian, q: Tensor) -> None:
        """Take `-J^T q` as the direction (with ridge: `-J^T q - rho D`)."""
        self._damping.aim(jacobian.share)
        Q = q.reshape(self.samples, -1).to(self.Z.dtype)
        self.dP = torch.empty_like(self.P)
        for c in self._chunks():
            self.dP[c] = self._spread(c, Q).neg_()
            if self.ridge:
                self.dP[c] -= jacobian.share * self.P[c]
        self._count("update", 2 * self.head.shape[1] + 2)
        self.eta = 0.0

    def move_to(self, eta: float) -> None:
        """Stand at ``eta`` along the direction, 1 being its end."""
        self._damping.move_to(eta)
        step, self.eta = eta - self.eta, eta
        for c in self._chunks():
            self.P[c].add_(self.dP[c], alpha=step)
            torch.addmm(self.Z_start[c], self.P[c], self._kernel, out=self.Z[c])
        record("move", flops=(2 * self.samples + 2) * self.Z.numel(), bytes=5 * self.Z.nbytes)
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
            if self.ridge:
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
