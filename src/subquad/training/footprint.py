"""How much memory a training takes at most, before it starts.

Bytes per stage of the job; the peak is the largest stage plus what is there throughout. With
`i` bytes a number, p the share of neurons that fire, and N = n·m of the last layer:

| what | bytes | there in |
|---|---|---|
| `rows`: inputs of the last layer | n m_in p (i + 8) | all stages, twice in `end` |
| `forward`: a block of samples in the layers | at most `passes.HIDDEN_BYTES` | forward |
| `sort`: entries of the rows by column | at most 2 `jacobian.INNER_BYTES` | kernel |
| `Z` and a block of it, not yet transposed | N i + `fixedinputs.query_bytes` | start |
| bits: `Z`, distances, weights of flipped rows, again as they grow | 4 N i + 3 N / 8 | steps |
| samples: `Z`, `P` and their directions, `Z_0` with ridge | 4 or 5 N i | steps |
| maintained: traces, the new and the old; z and what the factors add | see `_maintained` | steps |
| factors of the change, and what they are made from | 4 N i (bits), 3 N i (samples) | end |
| `squares`: n×n matrices in float64 | 8 n² each | throughout |
| `heap`: freed pieces that the allocator keeps | up to 64 MB | throughout |

That neurons flip in every row, or that factors of all layers come to rank 6 n, is the most that
was seen, not the most that could be. `tests/training/test_footprint.py` measures real jobs.
"""

from __future__ import annotations

import dataclasses
import math
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from subquad import memory
from subquad.activations import Activation
from subquad.errors import InvalidInput
from subquad.gram.jacobian import INNER_BYTES, SORT_BYTES
from subquad.kernels import numba_available
from subquad.network import WideNet
from subquad.network.passes import FORWARD_BYTES, HIDDEN_BYTES, neuron_bytes, trace_bytes
from subquad.training.fixedinputs import query_bytes
from subquad.training.samplespace import CHUNK_BYTES
from subquad.weights import stored_bytes

State = Literal["bits", "samples", "maintained"]
SQUARES: dict[State, int] = {"bits": 12, "samples": 8, "maintained": 8}
"""Matrices of side n that are alive together: Gram, kernel, counts, and what solving takes."""
CHUNKS = 10
"""Copies of a chunk of Z that :class:`~subquad.training.samplespace.SampleSpaceState` works on."""
RANK = 6
"""Rank of all layers' factors in units of n; they are recompressed when they reach half of it."""
HEAP = 64e6
COMPILED = 0.25e9
"""What numba takes where it is not loaded yet."""
BLOCKS = (math.inf, *(float(1 << k) for k in range(28, 20, -1)), memory.LEAST_BLOCK)
"""Limits on blocks, tried from the first on."""


@dataclass(frozen=True, kw_only=True)
class Job:
    """All that decides how much memory a training takes.

    Attributes:
        features, widths, outputs, samples: sizes.
        kind: of the frozen weights.
        item: bytes of a number.
        activation: its threshold decides how many neurons fire.
        state: "bits" or "samples" (the last layer in sample space) or "maintained".
        ridge: whether there is any.
        trained: how many layers learn.
        written: whether the flush policy writes into the weights.
        sketched: whether a sketch solves, or preconditions.
        max_iter: iterations at most.
        given: bytes of weights that the user gave, where kind is "given".
        left_out: whether leave-one-out predictions follow.
    """

    features: int
    widths: tuple[int, ...]
    outputs: int
    samples: int
    kind: str
    item: int
    activation: Activation
    state: State
    ridge: bool = False
    trained: int = 1
    written: bool = False
    sketched: bool = False
    max_iter: int = 50
    given: int = 0
    left_out: bool = False

    @classmethod
    def on(cls, net: WideNet, samples: int, **settings: object) -> Job:
        """The job of training a network that is there."""
        return cls(
            features=net.features,
            widths=net.widths,
            outputs=net.outputs,
            samples=samples,
            kind=net.kind,
            item=net.dtype.itemsize,
            activation=net.activation,
            given=sum(layer.frozen.nbytes for layer in net.layers) if net.kind == "given" else 0,
            **settings,  # type: ignore[arg-type]
        )

    @property
    def shapes(self) -> list[tuple[int, int]]:
        """(m_out, m_in) of every layer."""
        return list(zip(self.widths, (self.features, *self.widths[:-1]), strict=True))

    @property
    def stored(self) -> float:
        """Bytes of the frozen weights."""
        if self.kind == "given":
            return self.given
        return sum(stored_bytes(self.kind, *shape, self.item) for shape in self.shapes)

    def stages(self, limit: float = math.inf) -> dict[str, float]:
        """Bytes of each stage beside the frozen weights, blocks of work being limited."""
        n, i, act = self.samples, self.item, self.activation
        m_out, m_in = self.shapes[-1]
        per_layer = [m * trace_bytes(act, i) for m in self.widths]
        working = [m * neuron_bytes(act, i) for m in self.widths]
        common = 8 * SQUARES[self.state] * n**2 + 4 * n * self.features * i
        if self.left_out:
            common = max(common, 8 * 7 * (n * self.outputs) ** 2)
        if self.state == "maintained":
            stages = self._maintained(per_layer, working, limit)
        else:
            below = list(zip(per_layer, working, strict=True))[:-1]
            forward = n * (sum(t for t, _ in below) + max((w for _, w in below), default=0))
            rows = n * self._row_bytes(len(self.widths) - 1)
            sort = SORT_BYTES * n * m_in * act.rate
            N, fresh = n * m_out * i, min(query_bytes(m_out * i), limit)
            chunk = CHUNKS * min(N, CHUNK_BYTES, limit)
            factors = n * (m_out + m_in) * i
            kept = 3 * n * m_out / 8 + N if self.state == "bits" else N
            if self.state == "samples" and self.outputs > 1:
                kept += N * (2 if self.ridge else 1)
            stages = {
                "forward": rows + min(forward, HIDDEN_BYTES, limit),
                "kernel": rows + 2 * min(sort, INNER_BYTES, limit),
                "start": rows + N + min(N, fresh),
                "steps": rows + 4 * N + 3 * n * m_out / 8
                if self.state == "bits"
                else rows + (5 if self.ridge else 4) * N + chunk,
                "end": 2 * rows + kept + factors + (N if self.state == "bits" else 0),
            }
        # What maintenance structures allocate does not come in blocks.
        heap = HEAP if self.state == "maintained" else min(HEAP, 4 * limit)
        return {name: common + heap + size for name, size in stages.items()}

    def peak(self, limit: float = math.inf) -> float:
        """Bytes of the largest stage, frozen weights included."""
        return self.stored + max(self.stages(limit).values())

    def _row_bytes(self, layer: int) -> float:
        """Bytes that a sample's input of a layer takes."""
        m_in, act = self.shapes[layer][1], self.activation
        if layer == 0 or act.threshold is None:
            return m_in * self.item
        return m_in * act.rate * (self.item + 8)

    def _maintained(
        self, per_layer: list[float], working: list[float], limit: float
    ) -> dict[str, float]:
        """Traces of all layers, those of trained ones twice; factors; vectors u and v."""
        n, i, C = self.samples, self.item, self.outputs
        first = len(self.widths) - self.trained
        traces = n * (sum(per_layer) + sum(per_layer[first:]))
        blocked = min(n * max(working), FORWARD_BYTES, limit) + n * max(self.widths) * i
        vectors = n * C * sum(m * self.activation.rate * i for m in self.widths[first:])
        # Owners and places of entries while one layer's u is made.
        if self.activation.threshold is not None:
            vectors += 32 * n * C * max(self.widths[first:]) * self.activation.rate
        if C > 1:
            both = (self._row_bytes(l) for l in range(first, len(self.widths)))
            vectors += n * C * (sum(both) + sum(per_layer[first:]))
        sides = [a + b for a, b in self.shapes[first:]]
        caps = [min(*shape, n * C * self.max_iter) for shape in self.shapes[first:]]
        if self.trained == 1:
            # Merged into one block; while they are laid, the new and the old lie side by side.
            factors = i * sides[0] * min(n * C, caps[0]) + n * self._row_bytes(first)
            recompressed = 0.0
        else:
            ranks = [min(RANK * n * C, cap) for cap in caps]
            factors = i * sum(side * rank for side, rank in zip(sides, ranks, strict=True))
            # QR of both sides in float64: two matrices, the copy at work, and one result more.
            recompressed = max(
                16 * side * min(rank, RANK // 2 * n * C)
                for side, rank in zip(sides, ranks, strict=True)
            )
        if self.ridge:
            factors *= 3  # the change before a step and after it, each apart from the layers'
        if self.written:
            factors += i * sum(a * b for a, b in self.shapes[first:])
        sketch = 0.0
        if self.sketched:
            padded = 2 * max(self.widths)
            sketch = min(32 * 8 * n * n * C, 1e12) + 3 * n * C * padded * i
        return {"steps": traces + blocked + vectors + factors + max(recompressed, sketch)}


def fitting(job: Job, max_memory: object = None, *, made: bool = True) -> float:
    """Return the limit on blocks with which the job fits, or say what would fit.

    Args:
        job: what is to be trained.
        max_memory: in the words of :func:`subquad.memory.ceiling`.
        made: whether the frozen weights are in memory already.
    """
    ceiling = memory.ceiling(max_memory)
    held = memory.resident_bytes() - (job.stored if made else 0)
    if numba_available() and "numba" not in sys.modules:
        held += COMPILED
    for limit in BLOCKS:
        if held + job.peak(limit) <= ceiling:
            return limit
    raise InvalidInput(_refusal(job, held, ceiling))


def _refusal(job: Job, held: float, ceiling: float) -> str:
    def fits(other: Job) -> bool:
        return held + other.peak(BLOCKS[-1]) <= ceiling

    shown = memory.shown
    text = (
        f"training {job.samples} rows at width {max(job.widths)} would take this process to about "
        f"{shown(held + job.peak(BLOCKS[-1]))}, max_memory is {shown(ceiling)}: "
    )
    ways = []
    width = _largest(max(job.widths), lambda w: fits(_at_width(job, w)))
    samples = _largest(job.samples, lambda n: fits(dataclasses.replace(job, samples=n)))
    if width:
        ways.append(f"width {width} would fit")
    elif samples > 1:
        ways.append(f"the n by n matrices alone are too large, {samples} rows would fit")
    other = dataclasses.replace(job, kind="hadamard")
    if job.kind == "dense" and not job.written and fits(other):
        ways.append("weights='hadamard' would, since they are not stored")
    if not ways:
        return text + f"raise max_memory; {shown(held)} is taken before any training"
    return text + "; ".join([*ways, "or raise max_memory"])


def _at_width(job: Job, width: int) -> Job:
    """The same job, its widths in the same proportions."""
    top = max(job.widths)
    widths = tuple(max(1, w * width // top) for w in job.widths)
    return dataclasses.replace(job, widths=widths, given=int(job.given * (width / top) ** 2))


def _largest(below: int, fits: Callable[[int], bool]) -> int:
    """Return the largest number below that fits, to two digits; 0 if none does."""
    low, high = 0, below
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return memory.rounded(low)
