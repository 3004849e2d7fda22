"""Ensembles read back to the same predictions; every damaged field is named."""

import copy
import json

import numpy as np
import pytest
import torch

from subquad.errors import InvalidInput
from subquad.estimators import base, stream
from subquad.estimators.base import fit_ensemble
from subquad.estimators.calibration import Calibration
from subquad.estimators.choices import Choices
from subquad.estimators.interval import reach
from subquad.estimators.saved import ensemble_from, state_of
from subquad.estimators.search import Validation

RNG = np.random.default_rng(0)
X, NEW = RNG.normal(size=(50, 3)), RNG.normal(size=(9, 3))
Y = np.stack([np.sin(2 * X[:, 0]), np.ones(50), X[:, 1]], axis=1)
CASES = {
    "auto": Choices(width=64),
    "all layers": Choices(width=64, layers="all", depth=2, members=1, encoding="plain"),
    "ladders": Choices(width=64, shift=0.5, members=2, encoding="ranks"),
}


@pytest.fixture(scope="module", params=CASES)
def fitted(request):
    return fit_ensemble(X, Y, np.ones(50), CASES[request.param], Validation())


@pytest.fixture(scope="module")
def state():
    ensemble = fit_ensemble(X, Y[:, :1], np.ones(50), CASES["ladders"], Validation())
    config, tensors = state_of(ensemble, Calibration(2.0, (0.5, -0.5)))
    return json.loads(json.dumps(config)), tensors


def through_json(ensemble):
    config, tensors = state_of(ensemble)
    return ensemble_from(json.loads(json.dumps(config)), tensors)[0]


def check_equal(ensemble, again):
    np.testing.assert_allclose(again.predict(NEW), ensemble.predict(NEW), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(again.deviation(NEW), ensemble.deviation(NEW), rtol=1e-8)
    np.testing.assert_allclose(reach(again, NEW, 0.8), reach(ensemble, NEW, 0.8), rtol=1e-8)
    np.testing.assert_array_equal(again.importances, ensemble.importances)
    np.testing.assert_array_equal(again.left_out.rows, ensemble.left_out.rows)
    np.testing.assert_array_equal(again.left_out.predictions, ensemble.left_out.predictions)


def test_predictions_come_back(fitted):
    check_equal(fitted, through_json(fitted))


def test_predictions_through_anchors_come_back(monkeypatch):
    monkeypatch.setattr(base, "EXACT_ROWS", 40)
    for module in (base, stream):
        monkeypatch.setattr(module, "ANCHORS", 20)
        monkeypatch.setattr(module, "JUDGED", 15)
    ensemble = fit_ensemble(X, Y[:, :1], np.ones(50), CASES["ladders"], Validation())
    assert ensemble.left_out.inputs is not None
    check_equal(ensemble, through_json(ensemble))


def test_an_input_that_nothing_varies_in_comes_back():
    flat = np.hstack([X, np.ones((50, 1))])
    ensemble = fit_ensemble(flat, Y[:, :1], np.ones(50), CASES["ladders"], Validation())
    more = np.hstack([NEW, np.zeros((9, 1))])
    np.testing.assert_array_equal(through_json(ensemble).predict(more), ensemble.predict(more))


def test_the_change_is_all_that_is_kept():
    _, tensors = state_of(fit_ensemble(X, Y[:, :1], np.ones(50), CASES["auto"], Validation()))
    assert not any("frozen" in name for name in tensors)
    assert len({tensor.data_ptr() for tensor in tensors.values()}) == len(tensors)


def test_members_share_their_frozen_weights(fitted):
    for member in through_json(fitted).members:
        frozen = {id(p.net.layers[0].frozen) for p in member.predictors if p is not None}
        assert len(frozen) == 1


def test_calibration_comes_back(state):
    assert ensemble_from(*state)[1] == Calibration(2.0, (0.5, -0.5))


def changed(state, path, value):
    """The state with a field of its config set, or removed by ``...``."""
    config, tensors = copy.deepcopy(state[0]), dict(state[1])
    *way, last = path
    where = config
    for key in way:
        where = where[key]
    if value is ...:
        del where[last]
    else:
        where[last] = value
    return config, tensors


MEMBER = ("members", 0)
NET = (*MEMBER, "predictors", 0, "net")


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("code",), "import os", "unknown key 'code'"),
        (("members",), ..., "members is missing"),
        (("members",), [], "weights of sum 1"),
        (("members",), [3], r"members\[0\] must be an object"),
        (("samples",), "50", "samples must be a whole number"),
        (("samples",), 0, "samples must be an integer >= 1"),
        (("samples",), 49, r"'X' must have shape \(49, 3\)"),
        (("left_out",), 49, "'left_out.rows' must number 49 rows"),
        (("kept",), 2, "above 0 for 2 inputs"),
        (("outputs",), 2, "must have shape"),
        (("calibration",), ..., "calibration is missing"),
        (("calibration",), 3, "calibration must be an object"),
        (("calibration", "offsets"), [1.0], "must hold 2 numbers"),
        (("calibration", "offsets"), [1.0, "x"], "must be a finite number"),
        (("calibration", "sharpness"), -1.0, "must lie between 0"),
        ((*MEMBER, "code"), 1, "unknown key 'code'"),
        ((*MEMBER, "encoding"), "zip", "unknown encoding 'zip'"),
        ((*MEMBER, "encoding"), "plain", "net.features must be 4"),
        ((*MEMBER, "activation"), {"name": "eval"}, "unknown activation 'eval'"),
        ((*MEMBER, "activation"), {"name": "GELU"}, "net.activation must be"),
        ((*MEMBER, "depth"), 3, "net.depth must be 3"),
        ((*MEMBER, "depth"), True, "depth must be a whole number"),
        ((*MEMBER, "layers"), "first", "unknown layers 'first'"),
        ((*MEMBER, "noise"), 1e9, "noise must lie between"),
        ((*MEMBER, "noise"), float("nan"), "noise must be a finite number"),
        ((*MEMBER, "weight"), 7.0, "weight must lie between"),
        ((*MEMBER, "sizes"), [1.0, 1.0], "must hold 1 sizes"),
        ((*MEMBER, "sizes"), [-1.0], "must lie between 0"),
        ((*MEMBER, "predictors"), ["x"], "must be an object or null"),
        ((*MEMBER, "predictors", 0, "tensors"), ["net.layers.0.left", "x"], "no layer's change"),
        ((*MEMBER, "predictors", 0, "tensors"), ["net.layers.9.left"], "no layer's change"),
        ((*MEMBER, "predictors", 0, "tensors"), [], "unknown tensor"),
        ((*MEMBER, "predictors", 0, "centred"), 1, "'centred'"),
        ((*NET, "weights"), "given", "given matrices"),
        ((*NET, "weights"), "zip", "kind of weights"),
        ((*NET, "device"), "meta", "network config"),
        ((*NET, "seed"), "x", "seed"),
        ((*NET, "dtype"), "float32", "dtype must be float64"),
        ((*NET, "width"), [32], "must have shapes"),
        ((*NET, "width"), [10**12], "would fit"),
    ],
)
def test_damaged_config(state, path, value, message):
    with pytest.raises(InvalidInput, match=message):
        ensemble_from(*changed(state, path, value))


def test_damaged_tensors(state):
    config, tensors = state
    for name, tensor in tensors.items():
        for damaged, message in (
            (None, f"tensor '{name}' is missing"),
            (tensor.to(torch.float32), f"tensor '{name}' must be torch"),
            (tensor.to(torch.float64) * torch.nan, f"tensor '{name}' must be"),
            (tensor[..., None], r"must have shape|must number|factors"),
        ):
            given = {key: value for key, value in tensors.items() if key != name}
            if damaged is not None:
                given[name] = damaged
            with pytest.raises(InvalidInput, match=message):
                ensemble_from(config, given)
    with pytest.raises(InvalidInput, match="unknown tensor 'more'"):
        ensemble_from(config, {**tensors, "more": torch.zeros(1)})


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("counts", lambda t: t * 0, "must be above 0"),
        ("scaling.scale", lambda t: -t, "at least 0"),
        ("members.0.scales", lambda t: t + 1e3, "logarithms below"),
        ("members.0.owner", lambda t: t + 2, "must number inputs below 3"),
        ("members.0.high", lambda t: t - 1e3, "must be above 'low'"),
        ("left_out.rows", lambda t: t + 1, "must number 50 rows"),
    ],
)
def test_tensors_out_of_range(state, name, change, message):
    config, tensors = state
    with pytest.raises(InvalidInput, match=message):
        ensemble_from(config, {**tensors, name: change(tensors[name])})
