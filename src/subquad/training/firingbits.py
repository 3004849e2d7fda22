"""The last layer in sample space, from flipped bits alone: compiled, for one output.

What :mod:`subquad.training.samplespace` computes in one pass over all entries, this keeps up to
date from the few that cross their threshold. As long as no bit flips, outputs and Gram matrix
are known: a step of length eta along q takes f to `f - eta G q`, and G stays. So

    f = f - eta G q + (what flipped entries are worth now, or would have been worth),

and the counts of common firing neurons in G change by the flipped bits. A run flips a few in a
thousand. Sums are float64; outputs are computed from the weights once more before a run counts as
converged (:meth:`FiringBitsState.confirm`).
"""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from subquad.activations import Activation
from subquad.cost import record
from subquad.kernels import numba_available
from subquad.network import WideNet
from subquad.training.fixedinputs import FixedInputs
from subquad.training.samplespace import SampleSpaceJacobian


def applies(net: WideNet, ridge: float) -> bool:
    """Whether the compiled form can train this network: linear where it fires, one output."""
    activation = net.activation
    return (
        ridge == 0
        and net.outputs == 1
        and net.device.type == "cpu"
        and activation.threshold is not None
        and activation.linear
        and numba_available()
    )


class FiringBitsState:
    """A last layer in training on fixed samples.

    Args:
        fixed: what does not change.
    """

    penalty = 0.0

    def __init__(self, fixed: FixedInputs) -> None:
        from subquad.kernels import lastlayer_numba

        self._kernels = lastlayer_numba
        self.fixed = fixed
        (m, n), kind = fixed.Z.shape, fixed.Z.numpy().dtype
        words, groups = -(-n // 64), -(-m // 64)
        root = fixed.activation.normaliser**0.5
        level, offset = levels(fixed.activation, fixed.rho, fixed.width)
        # An entry moves by at most `|c sum w| + ‖K_i - c‖ ‖w‖`. Distances are kept in units of
        # `‖K_i - c‖`, so that one bound serves all samples.
        common = (fixed.kernel.sum() - fixed.kernel.trace()) / max(1, n * (n - 1))
        spread = (fixed.kernel - common).norm(dim=1) * root
        spread.clamp_min_(max(1e-6 * float(spread.max()), 1e-30))  # any larger one is a bound, too
        self._tilt = abs(float(common)) * root / float(spread.min())
        self._entries = (
            fixed.Z.numpy(),
            level.numpy(),
            (1 / spread).to(fixed.Z.dtype).numpy(),
            offset.numpy(),
            (fixed.head[:, 0] * root).numpy(),
            fixed.kernel.to(fixed.Z.dtype).numpy(),
        )
        self._bits, self._fresh = (np.zeros((m, words), np.uint64) for _ in range(2))
        self._columns = np.zeros((n, groups), np.uint64)
        self._slot = np.full(m, -1, np.int64)
        self._store, self._stored = np.empty((0, n), kind), 0
        self._epoch, self._seen = (np.zeros(m, np.int64) for _ in range(2))
        self._expiry, self._alarm = np.empty((m, n), kind), np.empty(m, kind)
        self._reach = np.zeros(m)
        self._common = torch.zeros(n, n, dtype=torch.float64)  # neurons that fire for both
        self._worth = fixed.kernel * fixed.activation.normaliser  # of one such neuron, in G
        self._moments = torch.zeros(1, n, dtype=torch.float64)  # sum of all steps, at each moment
        self._stand, self._moved = self._moments[0], False  # where the present step began
        self._f = self._look()
        self.outputs = self._f[:, None]
        self._bits[:] = self._fresh
        self._kernels.transpose_bits(self._bits, self._columns)
        self._recount()

    @property
    def net(self) -> WideNet:
        """The network as it stands, its last layer's change as n factors."""
        self._begin()
        left = np.empty((self.fixed.samples, self.fixed.width), self._expiry.dtype)
        slot, store, epoch = self._slot, self._store, self._epoch
        sign = self._entries[4]
        self._kernels.weights_of_rows(self._bits, slot, store, epoch, self._since()[0], -sign, left)
        return self.fixed.net(torch.from_numpy(left))

    @property
    def firing(self) -> list[float]:
        """Share of firing neurons in each layer."""
        fired = float(self._common.trace()) / (self.fixed.samples * self.fixed.width)
        return [*self.fixed.firing, fired]

    @property
    def doubt(self) -> float:
        """Norm of what the carried outputs may be off by.

        Weights are rounded to the network's type, those of a sample alike in all rows that never
        flipped: an error of eps/2 in the sum of all steps q moves f by `G (eps q / 2)`. Where G is
        ill-conditioned, q is large, and this far more than rounding of f.
        """
        total = self._moments[-1]
        size = float(self.gram.square().mv(total.square()).sum()) ** 0.5
        return torch.finfo(self.fixed.Z.dtype).eps / 2 * size

    def dead(self) -> list[tuple[int, int]]:
        """(layer, sample) for samples that fire no neuron there."""
        return self.fixed.dead_samples(self.gram)

    def release(self) -> None:
        """Let go of what only further steps need, so that the network finds room."""
        self._begin()
        self._entries = (self._entries[0][:0].copy(), *self._entries[1:])
        self._expiry = self._expiry[:0].copy()
        self.fixed.release()

    def jacobian(self) -> SampleSpaceJacobian:
        """The Jacobian at the present point."""
        self._begin()
        zeros = torch.zeros(self.fixed.samples, dtype=torch.float64)
        return SampleSpaceJacobian(self.gram, zeros, self.gram.mv)

    def aim(self, jacobian: SampleSpaceJacobian, q: Tensor) -> None:
        """Take `-J^T q` as the direction."""
        self._q, self._slope = q, self.gram @ q
        record("update", flops=2 * q.numel() ** 2, bytes=self.gram.nbytes)

    def move_to(self, eta: float) -> None:
        """Stand at ``eta`` along the direction: look at what may have flipped."""
        self._moved = True
        self._moments = torch.cat([self._moments, (self._stand + eta * self._q)[None]])
        since, coarse = self._since()
        change = np.zeros((self._kernels.TASKS, self.fixed.samples))
        work = np.zeros((self._kernels.TASKS, 3), np.int64)
        self._threads()
        self._kernels.move_rows(
            *self._entries, self._tilt, since, coarse,
            self._bits, self._slot, self._store, self._epoch, self._seen,
            len(since) - 1, self._fresh, self._expiry, self._alarm, self._reach,
            change, work,
        )  # fmt: skip
        moved = torch.from_numpy(change.sum(0))
        self.outputs = (self._f - eta * self._slope + moved)[:, None]
        m, n = self.fixed.Z.shape
        asked, entries, terms = (int(k) for k in work.sum(0))
        item = self._expiry.itemsize
        record(
            "move",
            flops=m + asked * 5 * n + 2 * n * (min(entries, asked * n) + terms),
            bytes=24 * m + item * (2 * asked * n + entries),
        )

    def confirm(self) -> None:
        """Compute the outputs from the weights once more, so that no error can hide."""
        self._begin()
        self.outputs = self._look()[:, None]
        self._moved = True  # in float32 a bit may come out otherwise when all is summed anew
        self._begin()

    def _look(self) -> Tensor:
        """Compute every entry; return the outputs."""
        total = np.zeros((self._kernels.TASKS, self.fixed.samples))
        work = np.zeros((self._kernels.TASKS, 3), np.int64)
        now = len(self._moments) - 1
        self._threads()
        self._kernels.look_at_rows(
            *self._entries, self._since()[0],
            self._bits, self._slot, self._store, self._epoch, self._seen, now,
            self._fresh, self._expiry, self._alarm, self._reach, total, work,
        )  # fmt: skip
        terms, entries = int(work[:, 0].sum()), self._expiry.size
        flops = 2 * self.fixed.samples * terms + 6 * entries
        record("look", flops=flops, bytes=3 * self._expiry.nbytes)
        return torch.from_numpy(total.sum(0))

    def _begin(self) -> None:
        """Make the point where the last step ended the one where the next begins."""
        if not self._moved:
            return
        self._moved = False
        flips = np.zeros((self._kernels.TASKS, 2), np.int64)
        self._threads()
        self._kernels.count_flips(self._bits, self._fresh, self._slot, flips)
        record("flips", bytes=2 * self._bits.nbytes)
        flipped, rows = (int(k) for k in flips.sum(0))
        if flipped:
            first = self._stored + np.cumsum(flips[:, 1]) - flips[:, 1]
            self._make_room(rows)
            n, now = self.fixed.samples, len(self._moments) - 1
            # A flip is n additions in vectors of 16, a pair of samples is 8 words at a time.
            by_flips = flipped < n * self._columns.shape[1]
            shares = np.zeros(
                (torch.get_num_threads(), *((n, n) if by_flips else (1, 1))), np.int32
            )
            self._kernels.accept_rows(
                self._bits, self._fresh, self._columns, self._slot, self._store, first,
                self._epoch, self._since()[0], now, shares, by_flips,
            )  # fmt: skip
            record(
                "accept",
                flops=n * flipped if by_flips else 0,
                bytes=2 * self._store.itemsize * n * flipped,
            )
            if by_flips:
                turned = torch.from_numpy(shares).sum(0).double()
                self._common += turned
                self._common += turned.T
                self._common.diagonal().sub_(turned.diagonal())
                self.gram = self._common * self._worth
            else:
                self._recount()
        self._f, self._stand = self.outputs[:, 0], self._moments[-1]

    def _make_room(self, rows: int) -> None:
        """Let so many more rows store their weights."""
        needed = self._stored + rows
        if needed > len(self._store):
            larger = np.empty((needed + needed // 4, self.fixed.samples), self._store.dtype)
            larger[: self._stored] = self._store[: self._stored]
            self._store = larger
        self._stored = needed

    def _since(self) -> tuple[np.ndarray, np.ndarray]:
        """What the steps since each moment add up to, and what that can move at most."""
        since = self._moments[-1] - self._moments
        coarse = self._tilt * since.abs().sum(1) + since.norm(dim=1)
        return since.to(self.fixed.Z.dtype).numpy(), coarse.numpy()

    def _recount(self) -> None:
        """Count common firing neurons by popcount over all neurons."""
        self._threads()
        n, groups = self._columns.shape
        counts = np.zeros((n, n), np.int64)
        self._kernels.count_common(self._columns, counts)
        record("count", flops=n * (n + 1) * groups, bytes=self._columns.nbytes)
        lower = torch.from_numpy(counts).double()
        self._common = lower + lower.tril(-1).T
        self.gram = self._common * self._worth

    def _threads(self) -> None:
        from subquad.kernels.threads import use_threads

        use_threads(self.fixed.samples * self.fixed.width)


def levels(activation: Activation, rho: Tensor, width: int) -> tuple[Tensor, Tensor]:
    """For each sample: what z must exceed to fire, and what is then taken off it.

    >>> from subquad import ShiftedReLU, ThresholdedLinear
    >>> levels(ShiftedReLU(1.0), torch.ones(1), 8)
    (tensor([0.5000]), tensor([0.5000]))
    >>> levels(ThresholdedLinear(1.0), torch.ones(1), 8)
    (tensor([0.5000]), tensor([0.]))
    """
    assert activation.threshold is not None
    unit = math.sqrt(2 / width)
    return (activation.threshold * unit) * rho, 0 - unit * activation.unit(
        torch.zeros_like(rho), rho
    )
