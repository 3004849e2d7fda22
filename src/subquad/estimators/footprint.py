"""How much memory an ensemble takes at most, before it starts.

The search holds about :data:`SQUARES` n×n matrices in float64; a training, beside its own job
(:mod:`subquad.training.footprint`), the member's kernel and its factor. Trained networks keep
their change: at most n factors, and no more than their last layer has inputs. Many rows are
searched on a share of them, and learned through anchors: what all networks' anchors hold stays, and
a block of rows passes by.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from subquad import memory
from subquad.errors import InvalidInput
from subquad.estimators.anchored import BLOCK_BYTES
from subquad.estimators.base import EXACT_ROWS
from subquad.estimators.choices import Choices
from subquad.estimators.member import default_width
from subquad.estimators.recipe import Recipe, families
from subquad.estimators.stream import ANCHORS, MEMBERS, MOST_WIDTH, SEARCHED
from subquad.kernels import numba_available
from subquad.training.footprint import BLOCKS, Job

SQUARES, ANCHORED_SQUARES = 10, 5
BESIDE = 3
"""Of these, what stays while networks are trained."""


def check_ensemble(choices: Choices, samples: int, features: int, outputs: int) -> None:
    """Refuse an ensemble that cannot fit into ``choices.max_memory``, and say what would."""
    ceiling, held = memory.ceiling(choices.max_memory), memory.resident_bytes()

    def fits(rows: int, chosen: Choices = choices) -> bool:
        return held + peak(chosen, rows, features, outputs) <= ceiling

    if fits(samples):
        return
    needed = memory.shown(held + peak(choices, samples, features, outputs))
    ways = []
    if not isinstance(choices.width, str):
        width = _largest(choices.width, lambda m: fits(samples, replace(choices, width=m)))
        ways += [f"width {width} would fit"] if width else []
    rows = _largest(samples, fits)
    ways += [f"{rows} rows would fit"] if rows > 1 else []
    raise InvalidInput(
        f"fitting {samples} rows would take this process to about {needed}, max_memory is "
        f"{memory.shown(ceiling)}: {'; '.join(ways)}{'; or ' * bool(ways)}raise max_memory; "
        f"{memory.shown(held)} is taken before any work"
    )


def _largest(below: int, fits: Callable[[int], bool]) -> int:
    """Return the largest number below that fits, to two digits; 0 if none does."""
    low, high = 0, below
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return memory.rounded(low)


def peak(choices: Choices, samples: int, features: int, outputs: int) -> float:
    """Return the bytes that an ensemble takes at most, beside what the process holds.

    The simplest network of each family counts: deeper ones are asked for room when they are
    chosen.
    """
    tables = 6 * 8.0 * samples * (features + 1 + outputs)
    if samples > EXACT_ROWS:
        width = MOST_WIDTH if isinstance(choices.width, str) else choices.width
        held = 8.0 * (ANCHORED_SQUARES * ANCHORS**2 + 3 * ANCHORS * width)
        search = SQUARES * 8.0 * SEARCHED**2
        return tables + max(search, 2 * BLOCK_BYTES + min(choices.members, MEMBERS) * held)
    square = 8.0 * samples**2
    search = SQUARES * square + tables
    jobs, kept = [], 0.0
    for family in families(
        choices.chosen_activation,
        None if isinstance(choices.shift, str) else choices.shift,
        None if isinstance(choices.depth, str) else choices.depth,
        None if choices.layers == "auto" else choices.layers,
        None if choices.encoding == "auto" else choices.encoding,
    ):
        job = _job(choices, family[0], samples, features, outputs)
        jobs.append(job.peak(BLOCKS[-1]) + BESIDE * square)
        rank = min(samples, job.shapes[-1][1])
        kept = max(kept, 8.0 * rank * sum(job.shapes[-1]) * outputs * choices.members)
    return max(search, max(jobs) + kept)


def _job(choices: Choices, recipe: Recipe, samples: int, features: int, outputs: int) -> Job:
    width = default_width(recipe, outputs) if isinstance(choices.width, str) else choices.width
    last, bits = recipe.layers == "last", recipe.rough and recipe.activation.linear
    return Job(
        features=features + 1,
        widths=(width,) * recipe.depth,
        outputs=1,
        samples=samples,
        kind=choices.weights,
        item=8,
        activation=recipe.activation,
        state="maintained" if not last else "bits" if bits and numba_available() else "samples",
        trained=1 if last else recipe.depth,
        max_iter=choices.max_iter,
        left_out=True,
    )
