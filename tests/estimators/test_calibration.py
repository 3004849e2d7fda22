"""Probabilities of scores against a general optimiser and a model that is known."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.special import log_softmax, softmax

from subquad.estimators.calibration import (
    OFFSET_PRIOR,
    SHARPNESS_PRIOR,
    calibrate,
)

FEW = settings(max_examples=25, deadline=None, derandomize=True)


def scored(seed: int, count: int, n: int = 60) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Scores (one column for two classes), classes, weights."""
    draw = np.random.default_rng(seed)
    classes = np.concatenate([np.arange(count), draw.integers(0, count, n - count)])
    scores = 1.5 * np.eye(count)[classes] + draw.standard_normal((n, count)) - 0.5
    if count == 2:
        scores = scores[:, 1:] - scores[:, :1]
    return scores, classes, draw.uniform(0.2, 3, n)


def spread(scores: np.ndarray) -> np.ndarray:
    return np.c_[-scores, scores] / 2 if scores.shape[1] == 1 else scores


def loss(p: np.ndarray, scores: np.ndarray, classes: np.ndarray, weights: np.ndarray) -> float:
    logs = log_softmax(p[0] * spread(scores) + p[1:], axis=1)
    prior = (p[0] / SHARPNESS_PRIOR) ** 2 + ((p[1:] / OFFSET_PRIOR) ** 2).sum()
    return float(-weights @ logs[np.arange(len(classes)), classes] + prior / 2)


@FEW
@given(seed=st.integers(0, 10**6), count=st.integers(2, 5))
def test_the_least_loss(seed: int, count: int) -> None:
    """As BFGS finds it, and no step away lowers it."""
    scores, classes, weights = scored(seed, count)
    found = calibrate(scores, classes, count, weights)
    p = np.array([found.sharpness, *found.offsets])
    value = loss(p, scores, classes, weights)
    other = minimize(loss, np.r_[1.0, np.zeros(count)], (scores, classes, weights), tol=1e-10)
    assert value <= other.fun + 1e-7
    if other.x[0] > 0:
        assert np.allclose(p, other.x, atol=1e-3)
    for step in np.random.default_rng(seed).standard_normal((20, count + 1)):
        assert value <= loss(p + 1e-3 * step, scores, classes, weights)


@FEW
@given(seed=st.integers(0, 10**6), count=st.integers(2, 5))
def test_the_loss_is_convex(seed: int, count: int) -> None:
    given_rows, draw = scored(seed, count), np.random.default_rng(seed)
    for _ in range(10):
        p, q = draw.standard_normal((2, count + 1)) * 3
        ends = loss(p, *given_rows) + loss(q, *given_rows)
        assert loss((p + q) / 2, *given_rows) <= ends / 2 + 1e-9


@FEW
@given(seed=st.integers(0, 10**6), count=st.integers(2, 5))
def test_probabilities_are_a_softmax_and_classes_have_no_order(seed: int, count: int) -> None:
    scores, classes, weights = scored(seed, count)
    found = calibrate(scores, classes, count, weights)
    shares = found(scores)
    assert np.allclose(shares.sum(1), 1)
    assert np.allclose(shares, softmax(found.logits(scores), axis=1))
    if count > 2:
        order = np.random.default_rng(seed).permutation(count)
        back = np.argsort(order)
        mixed = calibrate(scores[:, order], back[classes], count, weights)
        assert np.allclose(mixed(scores[:, order]), shares[:, order], atol=1e-6)
    else:
        turned = calibrate(-scores, 1 - classes, 2, weights)
        assert np.allclose(turned(-scores), shares[:, ::-1], atol=1e-6)


def test_a_row_of_weight_w_counts_like_w_rows() -> None:
    scores, classes, _ = scored(3, 3, 20)
    weights = np.arange(1, 21)
    whole = np.repeat(np.arange(20), weights)
    one = calibrate(scores, classes, 3, weights.astype(float))
    two = calibrate(scores[whole], classes[whole], 3, np.ones(len(whole)))
    assert one.sharpness == pytest.approx(two.sharpness, abs=1e-8)
    assert np.allclose(one.offsets, two.offsets, atol=1e-8)


def test_a_logistic_model_is_found() -> None:
    draw = np.random.default_rng(0)
    scores = draw.standard_normal((20000, 1))
    classes = (draw.random(20000) < 1 / (1 + np.exp(-(3 * scores[:, 0] - 0.7)))).astype(int)
    found = calibrate(scores, classes, 2, np.ones(20000))
    assert found.sharpness == pytest.approx(3, abs=0.15)
    assert found.offsets[1] - found.offsets[0] == pytest.approx(-0.7, abs=0.1)


def test_scores_that_separate_stay_finite_and_scores_that_mislead_are_not_used() -> None:
    classes = np.arange(40) % 2
    separate = calibrate(10.0 * (2 * classes[:, None] - 1), classes, 2, np.ones(40))
    assert np.isfinite(separate.sharpness)
    assert separate(np.array([[10.0]]))[0, 1] > 0.99
    assert calibrate(np.zeros((40, 1)), classes, 2, np.ones(40))(np.zeros((1, 1)))[0, 0] == 0.5
    wrong = calibrate(1.0 - 2.0 * classes[:, None], classes, 2, np.ones(40))
    assert wrong.sharpness == 0
    assert np.allclose(wrong(np.array([[5.0], [-5.0]])), 0.5, atol=1e-6)
