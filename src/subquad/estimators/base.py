"""What regressor and classifier share: scale the inputs, search, train, blend, predict."""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import math
import time
from collections.abc import Callable, Iterator

import numpy as np
import torch

from subquad.checks import choice
from subquad.errors import InvalidInput
from subquad.estimators.blend import best_few, blend, error_products
from subquad.estimators.choices import Choices, given
from subquad.estimators.ensemble import Ensemble, LeftOut
from subquad.estimators.evidence import Task
from subquad.estimators.member import default_width, train_member
from subquad.estimators.recipe import families
from subquad.estimators.repeats import FAINTEST, distinct
from subquad.estimators.scaling import Scaling
from subquad.estimators.search import Candidate, Validation, candidates
from subquad.estimators.stream import ANCHORS, JUDGED, SEARCHED, Stream
from subquad.theory.duals import Array, Integers

log = logging.getLogger("subquad")

SINGLE_ROWS = 3000
"""Rows up to which every product takes one thread: at 1,500 rows that is 3 times faster still."""
EXACT_ROWS = 3000
"""Rows up to which matrices of rows by rows are formed."""


@contextlib.contextmanager
def few_threads(rows: int) -> Iterator[int]:
    """Let every product take one thread where there are few rows; yield how many there are.

    A search is thousands of small products that three libraries take turns at, each with threads
    of its own that spin while they wait: on a busy machine two threads took 74 s for 442 rows,
    one took 1.5 s. So threads are for whole families there, side by side.
    """
    if rows > SINGLE_ROWS:
        yield 1
        return
    from threadpoolctl import threadpool_limits

    before = torch.get_num_threads()
    with threadpool_limits(1):
        torch.set_num_threads(1)
        try:
            yield before
        finally:
            torch.set_num_threads(before)


def fit_ensemble(
    X: Array,
    Y: Array,
    weights: Array,
    choices: Choices,
    validation: Validation,
    tell: Callable[[str], None] = log.debug,
) -> Ensemble:
    """Search, train and blend.

    Args:
        X: n×d, finite.
        Y: n×C.
        weights: of the samples, at least 0; only their ratios count.
        choices: what is given.
        validation: what is left out together.
        tell: is told what is done.
    """
    kept = np.flatnonzero(weights > FAINTEST * weights.max())
    if len(kept) < len(X):
        X, Y, weights, validation = X[kept], Y[kept], weights[kept], validation.of(kept)
    with few_threads(len(X)) as side:
        return _fit(X, Y, weights, choices, validation, side, tell)


def _fit(
    X: Array,
    Y: Array,
    weights: Array,
    choices: Choices,
    validation: Validation,
    side: int,
    tell: Callable[[str], None],
) -> Ensemble:
    began = time.perf_counter()
    kept, place = distinct(X, Y, validation)
    total = np.asarray(np.bincount(place, weights), dtype=np.float64)
    X, Y, weights, validation = X[kept], Y[kept], total / total.mean(), validation.of(kept)
    scaling = Scaling.fit(X, weights)
    offset = (weights @ Y) / weights.sum()
    scaled, Y = scaling(X), Y - offset
    if len(X) > EXACT_ROWS:
        whole = _in_blocks(scaling, offset, scaled, Y, weights, choices, validation, tell, began)
        return dataclasses.replace(whole, place=place)
    found = _searched(scaled, Y, weights, choices, validation, side, tell)
    picked = [found[i] for i in _few(found, Y, weights, choices)]
    middle = time.perf_counter()
    trained = []
    for candidate in picked:
        width = (
            default_width(candidate.recipe, Y.shape[1])
            if choices.width == "auto"
            else int(choices.width)
        )
        tell(f"training {type(candidate.recipe.activation).__name__}, {width} wide")
        trained.append(
            train_member(
                candidate.recipe,
                candidate.settings,
                candidate.encoding,
                Task(candidate.encoding(scaled), Y, weights, candidate.encoding.owner),
                width=width,
                weights=choices.weights,
                seed=choices.seed,
                max_memory=choices.max_memory,
                iterations=choices.max_iter,
                groups=validation.groups,
                ordered=validation.ordered,
            )
        )
    seen = np.flatnonzero(np.isfinite(picked[0].left_out).all(axis=1))
    left_out = np.stack([t.left_out for t in trained])[:, seen]
    final = blend(left_out, Y[seen], weights[seen], choices.prudence.towards_equal)
    return Ensemble(
        scaling,
        tuple(t.member for t in trained),
        final,
        scaled,
        Y,
        weights,
        offset,
        LeftOut(
            seen,
            offset + np.tensordot(final, left_out, 1),
            offset + Y[seen],
            weights[seen],
        ),
        [training for t in trained for training in t.trainings],
        found,
        (middle - began, time.perf_counter() - middle),
        place,
    )


def _searched(
    scaled: Array,
    Y: Array,
    weights: Array,
    choices: Choices,
    validation: Validation,
    side: int,
    tell: Callable[[str], None],
) -> list[Candidate]:
    """Find settings for every family that the choices leave open."""
    return candidates(
        families(
            choices.chosen_activation,
            given(choices, "shift"),
            given(choices, "depth"),
            _layers(choices, Y.shape[1]),
            given(choices, "encoding"),
        ),
        scaled,
        Y,
        weights,
        validation,
        choices.prudence,
        noise=given(choices, "ridge"),
        metric=choices.metric,
        seed=choices.seed,
        side=side,
        tell=tell,
    )


def _layers(choices: Choices, outputs: int) -> str | None:
    """Return which layers learn, None to choose: all of them only where one training will do."""
    if choices.layers != "auto":
        return choices.layers
    return None if outputs == 1 else "last"


def _few(found: list[Candidate], Y: Array, weights: Array, choices: Choices) -> list[int]:
    """Return the candidates that are worth training."""
    M = error_products(np.stack([c.left_out for c in found]), Y, weights)
    return best_few(M, choices.members, choices.prudence.towards_equal)


def _in_blocks(
    scaling: Scaling,
    offset: Array,
    scaled: Array,
    Y: Array,
    weights: Array,
    choices: Choices,
    validation: Validation,
    tell: Callable[[str], None],
    began: float,
) -> Ensemble:
    """Fit many rows in blocks, the last of them predicted before they are learned."""
    order = arrival(validation, len(scaled), choices.seed)
    tell(
        f"{len(scaled)} rows are more than {EXACT_ROWS}: settings from {SEARCHED} of them, a step "
        f"through {ANCHORS} anchors from all"
    )
    scaled, Y, weights, validation = scaled[order], Y[order], weights[order], validation.of(order)
    stream = open_stream(scaling, offset, scaled, Y, weights, choices, validation, tell, began)
    last = max(len(order) - JUDGED, 0)
    if validation.groups is not None:  # a group is judged as a whole, or not at all
        last = int(np.flatnonzero(validation.groups == validation.groups[last])[0])
    for part in (slice(None, last), slice(last, None)):
        tell(f"learning {len(scaled[part])} rows")
        stream.absorb(scaled[part], Y[part], weights[part])
    return stream.ensemble(order)


def arrival(validation: Validation, n: int, seed: int) -> Integers:
    """Return the order in which rows are learned: by time, group by group, or at random."""
    if validation.ordered:
        return np.arange(n)
    places = np.random.default_rng(seed).permutation(n)
    if validation.groups is None:
        return places
    return np.argsort(places[validation.groups], kind="stable")


def open_stream(
    scaling: Scaling,
    offset: Array,
    scaled: Array,
    Y: Array,
    weights: Array,
    choices: Choices,
    validation: Validation,
    tell: Callable[[str], None],
    began: float,
) -> Stream:
    """Find settings on the first rows, and make the first ones anchors; nothing is learned yet."""
    few = np.arange(min(SEARCHED, len(scaled)))
    with few_threads(SINGLE_ROWS) as side:
        found = _searched(
            scaled[few], Y[few], weights[few], choices, validation.of(few), side, tell
        )
    return Stream(
        [found[i] for i in _few(found, Y[few], weights[few], choices)],
        scaled[:ANCHORS],
        outputs=Y.shape[1],
        width=None if choices.width == "auto" else int(choices.width),
        weights=choices.weights,
        seed=choices.seed,
        towards_equal=choices.prudence.towards_equal,
        scaling=scaling,
        offset=offset,
        candidates=found,
        searched=time.perf_counter() - began,
    )


class Growing:
    """An ensemble whose rows keep coming.

    The first ones are kept and fitted anew with every block; once they suffice for anchors,
    further rows are predicted, learned and let go of, and memory no longer grows.

    Args:
        choices: what is given.
        kept: rows that were fitted already: inputs, targets, sample weights.
    """

    def __init__(self, choices: Choices, kept: tuple[Array, Array, Array] | None = None) -> None:
        self._choices = choices
        self._stream: Stream | None = None
        self._kept, self._unit = kept, 1.0

    def learn(
        self, X: Array, Y: Array, weights: Array, tell: Callable[[str], None] = log.debug
    ) -> Ensemble:
        """Take a block of rows in, and return the ensemble of all so far."""
        began = time.perf_counter()
        X, Y, weights = X[weights > 0], Y[weights > 0], weights[weights > 0]
        if self._stream is not None:
            if len(X):
                self._stream.learn(X, Y, weights / self._unit)
            return self._stream.ensemble(None)
        if self._kept is not None:
            before = zip(self._kept, (X, Y, weights), strict=True)
            X, Y, weights = (np.concatenate(pair) for pair in before)
        if len(X) < ANCHORS:
            self._kept = X, Y, weights
            return fit_ensemble(X, Y, weights, self._choices, Validation(), tell)
        self._kept, self._unit = None, float(weights.mean())
        weights = weights / self._unit
        scaling, offset = Scaling.fit(X, weights), (weights @ Y) / weights.sum()
        self._stream = open_stream(
            scaling,
            offset,
            scaling(X),
            Y - offset,
            weights,
            self._choices,
            Validation(),
            tell,
            began,
        )
        self._stream.learn(X[:ANCHORS], Y[:ANCHORS], weights[:ANCHORS])
        if len(X) > ANCHORS:
            self._stream.learn(X[ANCHORS:], Y[ANCHORS:], weights[ANCHORS:])
        return self._stream.ensemble(None)


def validation_of(validation: str, groups: object, weights: Array) -> Validation:
    """Return what is left out together, or say what is wrong; rows of weight 0 do not count."""
    choice("validation", validation, ("rows", "groups", "time"))
    if (groups is not None) != (validation == "groups"):
        raise InvalidInput(
            "groups= goes with validation='groups': rows of one group are then left out together"
        )
    if groups is None:
        return Validation(None, validation == "time")
    labels = np.asarray(groups)
    if labels.shape != weights.shape:
        raise InvalidInput(f"groups must have shape ({len(weights)},), got {labels.shape}")
    _, numbered = np.unique(labels, return_inverse=True)
    if np.ptp(numbered[weights > 0]) == 0:
        raise InvalidInput("groups must name at least two groups, got one")
    return Validation(numbered.reshape(-1))


def mean_ridge(ensemble: Ensemble) -> float:
    """Return the members' ridge in units of G/m, their geometric mean by weight."""
    logs = [
        m.settings.noise + math.log(float(m.recipe.profile.values[0])) for m in ensemble.members
    ]
    return math.exp(float(ensemble.weights @ np.asarray(logs)))
