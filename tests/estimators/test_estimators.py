"""What both estimators promise of their predictions, whatever they chose."""

import itertools
import math

import numpy as np
import pytest
from sklearn.datasets import (
    load_diabetes,
    load_iris,
    load_wine,
    make_friedman1,
    make_friedman2,
    make_friedman3,
)
from sklearn.metrics import log_loss

from subquad import (
    GELU,
    InvalidInput,
    ReLU,
    ShiftedReLU,
    SubquadClassifier,
    SubquadRegressor,
    Tanh,
    ThresholdedLinear,
)
from subquad.estimators.encoding import Encoding
from subquad.estimators.evidence import Settings, Task
from subquad.estimators.member import Trained, train_member
from subquad.estimators.recipe import Recipe

Array = np.ndarray


def table(n: int = 60, d: int = 4, seed: int = 0, noise: float = 0.1) -> tuple[Array, Array]:
    draw = np.random.default_rng(seed)
    X = draw.standard_normal((n, d))
    return X, np.sin(2 * X[:, 0]) + X[:, 1] + noise * draw.standard_normal(n)


def regressor(**settings: object) -> SubquadRegressor:
    return SubquadRegressor(**{"width": 512, "random_state": 0, **settings})


def classifier(**settings: object) -> SubquadClassifier:
    return SubquadClassifier(**{"width": 512, "random_state": 0, **settings})


SETS = {
    "diabetes": lambda: load_diabetes(return_X_y=True),
    "friedman1": lambda: make_friedman1(400, noise=1.0, random_state=0),
    "friedman2": lambda: make_friedman2(400, noise=100.0, random_state=0),
    "friedman3": lambda: make_friedman3(400, noise=0.1, random_state=0),
}


def test_iterating_beats_its_own_first_step() -> None:
    """On every set the residual falls; on none does the error on other rows rise to speak of."""
    ratios = []
    for make in SETS.values():
        X, y = make()
        whole, once = (regressor(**how).fit(X[:100], y[:100]) for how in ({}, {"max_iter": 1}))
        assert once.n_iter_ == 1
        for all_steps, first in zip(
            whole._ensemble.trainings, once._ensemble.trainings, strict=True
        ):
            assert all_steps.status == "converged"
            assert all_steps.residuals[1] == pytest.approx(first.residuals[-1], rel=1e-6)
            assert all_steps.residuals[-1] < 1e-3 * all_steps.residuals[1]
        last, first_error = (
            float(((model.predict(X[100:]) - y[100:]) ** 2).mean()) for model in (whole, once)
        )
        ratios += [last / first_error, (1 - whole.loo_score_) / (1 - once.loo_score_)]
    assert np.mean(ratios) < 1.005


@pytest.mark.parametrize(
    "recipe",
    [
        Recipe(activation=ReLU()),
        Recipe(activation=ShiftedReLU(1.0), depth=2),
        Recipe(activation=GELU()),
        Recipe(activation=GELU(), depth=2, layers="all"),
    ],
    ids=str,
)
def test_left_out_predictions_come_near_to_training_anew(recipe: Recipe) -> None:
    draw = np.random.default_rng(2)
    X = draw.standard_normal((14, 3))
    Y = (X[:, :1] + 0.5 * np.sin(3 * X[:, 1:2])) + 0.2 * draw.standard_normal((14, 1))
    weights, owner = np.ones(14), np.arange(3)
    weights[3] = 2.0
    found = Settings(np.array([-0.4, -0.7, -1.2]), -3.0)
    plain = Encoding.fit("plain", X, weights)

    def trained(task: Task, **how: object) -> Trained:
        return train_member(
            recipe,
            found,
            plain,
            task,
            width=2048,
            weights="sobol",
            seed=0,
            **how,
        )  # type: ignore[arg-type]

    task = Task(X, Y, weights, owner)
    alone = trained(task).left_out
    groups = np.array([0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 4, 4, 5, 5])
    together = trained(task, groups=groups).left_out
    later = trained(task, ordered=True).left_out

    def refitted(own: list[int], rest: Task) -> Array:
        return trained(rest).member.predict(X[own])

    def without(own: list[int]) -> Task:
        kept = np.setdiff1d(np.arange(14), own)
        return Task(X[kept], Y[kept], weights[kept], owner)

    close = {"rtol": 0, "atol": 0.01}
    for i in (0, 3, 13):
        assert np.allclose(alone[[i]], refitted([i], without([i])), **close)
    assert np.allclose(together[[2, 3, 4]], refitted([2, 3, 4], without([2, 3, 4])), **close)
    assert np.allclose(later[[9]], refitted([9], without(list(range(9, 14)))), **close)


def test_left_out_predictions_speak_of_new_rows() -> None:
    X, y = make_friedman1(500, noise=1.0, random_state=1)
    model = regressor().fit(X[:100], y[:100])
    assert model.loo_prediction_.shape == (100,)
    assert model.loo_score_ == pytest.approx(model.score(X[100:], y[100:]), abs=0.08)
    assert model.loo_score_ < model.score(X[:100], y[:100])
    assert model.loo_score_ == pytest.approx(
        1 - ((model.loo_prediction_ - y[:100]) ** 2).mean() / y[:100].var()
    )


def test_importances_find_the_inputs_that_matter() -> None:
    X, y = table(120, 10)
    for importances in (
        regressor().fit(X, y).feature_importances_,
        classifier().fit(X, y > 0).feature_importances_,
    ):
        assert importances.shape == (10,)
        assert importances.sum() == pytest.approx(1)
        assert set(np.argsort(importances)[-2:]) == {0, 1}
    shares = regressor(metric="learned").fit(X, y).feature_importances_
    assert shares[:2].sum() > 0.8
    equal = regressor(metric="equal").fit(X, y).feature_importances_
    assert np.allclose(equal, 0.1)


def test_units_do_not_matter() -> None:
    X, y = table()
    model = regressor().fit(X, y)
    Z, means = table(20, seed=5)[0], None
    scales, shift = np.array([1e-9, 3.0, 1e7, 1.0]), np.array([1e-9, -5.0, 1e8, 0.0])
    for inputs, factor, offset in (
        (lambda X: X, 1e9, 0.0),
        (lambda X: X, -1e-6, 1e-3),
        (lambda X: X, 1.0, 1e5),
        (lambda X: X, 1e200, 0.0),
        (lambda X: X * scales + shift, 1.0, 0.0),
    ):
        other = regressor().fit(inputs(X), factor * y + offset)
        means, deviations = other.predict(inputs(Z), return_std=True)
        expected = model.predict(Z, return_std=True)
        assert np.allclose((means - offset) / factor, expected[0], atol=1e-3)
        assert np.allclose(deviations / abs(factor), expected[1], rtol=0.01)


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"depth": 2}, {"depth": 2}),
        ({"shift": 0.7}, {"shift": 0.7, "activation": "ShiftedReLU"}),
        ({"activation": "Tanh"}, {"activation": "Tanh", "shift": None}),
        ({"activation": Tanh(), "layers": "all", "depth": 2}, {"layers": "all", "depth": 2}),
        ({"ridge": 0.3}, {"ridge": 0.3}),
        ({"weights": "hadamard"}, {"weights": "hadamard"}),
        ({"width": 300}, {"width": 300}),
    ],
    ids=str,
)
def test_what_is_given_is_kept(settings: dict[str, object], named: dict[str, object]) -> None:
    X, y = table(40)
    model = regressor(**settings).fit(X, y)
    for name, value in named.items():
        expected = pytest.approx(value) if name == "ridge" else value
        assert model.chosen_[name] == expected
        if name != "weights":
            assert all(member[name] == expected for member in model.members_)
    assert model.score(X, y) > 0.8
    assert sum(member["weight"] for member in model.members_) == pytest.approx(1)


def test_members_are_bounded() -> None:
    X, y = table()
    for most in (1, 2):
        assert len(regressor(members=most).fit(X, y).members_) <= most


def test_one_seed_is_one_result() -> None:
    X, y = table()
    Z = table(seed=1)[0]
    same = [regressor().fit(X, y).predict(Z) for _ in range(2)]
    assert np.array_equal(*same)
    assert not np.array_equal(same[0], regressor(random_state=1).fit(X, y).predict(Z))
    drawn = [regressor(random_state=np.random.RandomState(4)).fit(X, y).predict(Z) for _ in "ab"]
    assert np.array_equal(*drawn)
    state = np.random.get_state()[1].copy()
    regressor(random_state=2).fit(X, y)
    assert np.array_equal(state, np.random.get_state()[1]), "the global generator was drawn from"


def test_the_given_arrays_are_left_as_they_were() -> None:
    X, y = table()
    weights, copies = np.linspace(0, 1, 60), [X.copy(), y.copy()]
    regressor().fit(X, y, sample_weight=weights).predict(X)
    classifier(class_weight="balanced").fit(X, y > 0, sample_weight=weights).predict(X)
    assert np.array_equal(X, copies[0])
    assert np.array_equal(y, copies[1])
    assert np.array_equal(weights, np.linspace(0, 1, 60))


class TestWeights:
    def test_rows_of_weight_0_do_not_count_at_all(self) -> None:
        X, y = table()
        y[::7] = 1e300
        weights = np.ones(60)
        weights[::7] = 0
        kept = weights > 0
        Z = table(seed=3)[0]
        one = regressor().fit(X, y, sample_weight=weights)
        two = regressor().fit(X[kept], y[kept])
        assert np.array_equal(one.predict(Z), two.predict(Z))
        labels = np.where(y > 1e3, 5, y > 0)
        guesses = classifier().fit(X, labels, sample_weight=weights).predict(Z)
        assert set(guesses) <= {0, 1}

    def test_weight_2_is_a_row_twice(self) -> None:
        X, y = table(40, noise=0.5)
        counts = np.where(np.arange(40) % 3 == 0, 2, 1)
        whole = np.repeat(np.arange(40), counts)
        Z = table(seed=3)[0]
        one = regressor().fit(X, y, sample_weight=counts)
        two = regressor().fit(X[whole], y[whole])
        assert np.allclose(one.predict(Z), two.predict(Z), atol=1e-5)
        assert one.loo_score_ == pytest.approx(two.loo_score_, abs=1e-5)

    @pytest.mark.parametrize("weight", [0.01, 2.0, 1e-30])
    def test_only_ratios_of_weights_count(self, weight: float) -> None:
        X, y = table(40, noise=0.5)
        Z = table(seed=3)[0]
        one, two = (regressor().fit(X, y, w) for w in (None, np.full(40, weight)))
        assert np.allclose(one.predict(Z), two.predict(Z), atol=1e-6)

    def test_rows_held_twice_do_not_look_noiseless(self) -> None:
        X, y = table(40, noise=1.0)
        one, two = regressor().fit(X, y), regressor().fit(np.tile(X, (2, 1)), np.tile(y, 2))
        assert np.allclose(one.loo_prediction_, two.loo_prediction_[40:], atol=1e-6)
        assert one.chosen_["ridge"] == pytest.approx(two.chosen_["ridge"])

    def test_heavy_rows_are_followed(self) -> None:
        X, y = table(50, noise=1.0)
        weights = np.ones(50)
        weights[:5] = 1e3
        light, heavy = (regressor(ridge=1.0).fit(X, y, w) for w in (None, weights))
        misses = [np.abs(model.predict(X[:5]) - y[:5]).max() for model in (light, heavy)]
        assert misses[1] < 0.1 * misses[0]

    def test_class_weights_move_the_border(self) -> None:
        draw = np.random.default_rng(0)
        X = draw.standard_normal((100, 2))
        y = (X[:, 0] + draw.standard_normal(100) > 1.5).astype(int)
        plain, even, given = (
            classifier(metric="equal", class_weight=w).fit(X, y)
            for w in (None, "balanced", {0: 1.0, 1: 10.0})
        )
        shares = [model.predict(X).mean() for model in (plain, even, given)]
        assert shares[0] < shares[1]
        assert shares[0] < shares[2]
        explicit = classifier(metric="equal").fit(X, y, np.where(y, 10.0, 1.0))
        assert np.allclose(given.predict_proba(X), explicit.predict_proba(X))

    def test_classes_of_weight_0_do_not_count(self) -> None:
        X, y = table()
        labels = np.digitize(y, [-1, 1])
        model = classifier(class_weight={0: 1.0, 1: 0.0, 2: 1.0}).fit(X, labels)
        assert set(model.predict(X)) <= {0, 2}
        assert np.isnan(model.loo_prediction_[labels == 1]).all()
        assert np.isfinite(model.loo_prediction_[labels != 1]).all()
        with pytest.raises(InvalidInput, match="y has one class, True: "):
            classifier(class_weight={False: 0.0, True: 1.0}).fit(X, y > 0)


class TestValidation:
    def test_groups_are_left_out_together(self) -> None:
        """Rows of a group share what no input tells: leaving single rows out flatters."""
        draw = np.random.default_rng(0)
        groups = np.repeat(np.arange(20), 6)
        centres = draw.standard_normal((20, 4))
        X = centres[groups] + 0.05 * draw.standard_normal((120, 4))
        y = X[:, 0] + draw.standard_normal(20)[groups] + 0.1 * draw.standard_normal(120)
        rows = regressor().fit(X, y)
        whole = regressor(validation="groups").fit(X, y, groups=groups)
        assert whole.loo_score_ < rows.loo_score_ - 0.2
        named = np.array([f"g{k}" for k in groups])
        again = regressor(validation="groups").fit(X, y, groups=named)
        assert np.array_equal(again.predict(X), whole.predict(X))
        labels = classifier(validation="groups").fit(X, y > 0, groups=groups)
        assert 0 <= labels.loo_score_ <= 1

    def test_rows_are_foretold_from_those_before(self) -> None:
        X, y = table(90)
        model = regressor(validation="time").fit(X, y)
        left_out = model.loo_prediction_
        assert np.isnan(left_out[:30]).all()
        assert np.isfinite(left_out[30:]).all()
        assert 0 < model.loo_score_ < 1
        assert np.isfinite(model.predict_interval(X)).all()
        labels = classifier(validation="time").fit(X, y > 0)
        assert labels.loo_score_ > 0.6

    def test_groups_of_rows_without_weight_go(self) -> None:
        X, y = table()
        groups = np.arange(60) // 10
        weights = np.where(groups == 2, 0.0, 1.0)
        kept = weights > 0
        one = regressor(validation="groups").fit(X, y, weights, groups)
        two = regressor(validation="groups").fit(X[kept], y[kept], None, groups[kept])
        assert np.allclose(one.predict(X), two.predict(X), atol=1e-6)


class TestOutputs:
    def test_each_output_is_learned(self) -> None:
        X, y = table(100)
        Y = np.c_[y, 50 * X[:, 2] ** 2, -y]
        Z, z = table(100, seed=4)
        model = regressor().fit(X, Y)
        means, deviations = model.predict(Z, return_std=True)
        low, high = model.predict_interval(Z)
        for found in (means, deviations, low, high):
            assert found.shape == (100, 3)
        assert (low < means).all()
        assert (means < high).all()
        for k, truth in enumerate((z, 50 * Z[:, 2] ** 2, -z)):
            assert 1 - ((means[:, k] - truth) ** 2).mean() / truth.var() > 0.7
        assert np.std(means[:, 0] + means[:, 2]) < 0.02 * np.std(means[:, 0])
        assert model.loo_prediction_.shape == (100, 3)

    def test_a_column_is_not_a_vector(self) -> None:
        X, y = table(30)
        assert regressor().fit(X, y).predict(X).shape == (30,)
        column = regressor().fit(X, y[:, None])
        assert column.predict(X).shape == (30, 1)

    def test_one_output_may_be_constant(self) -> None:
        X, y = table(40)
        model = regressor().fit(X, np.c_[np.full(40, 7.0), y])
        assert np.allclose(model.predict(X)[:, 0], 7)
        assert model.score(X, np.c_[np.full(40, 7.0), y]) > 0.8


class TestBlocks:
    def test_few_rows_in_blocks_are_fitted_together(self) -> None:
        X, y = table(60)
        whole, parts = regressor().fit(X, y), regressor()
        for rows in (slice(0, 25), slice(25, 26), slice(26, 60)):
            parts.partial_fit(X[rows], y[rows])
        # Targets are measured in units of the first block's: nothing else may differ.
        assert np.allclose(parts.predict(X), whole.predict(X), atol=1e-3)
        assert parts.loo_score_ == pytest.approx(whole.loo_score_, abs=1e-3)
        with pytest.raises(InvalidInput, match="y must have 1 outputs as before, got 2"):
            parts.partial_fit(X, np.c_[y, y])
        parts.fit(X[:30], y[:30])
        assert np.array_equal(parts.predict(X), regressor().fit(X[:30], y[:30]).predict(X))

    def test_a_first_block_of_one_class(self) -> None:
        X, y = table()
        labels = (y > 0).astype(int)
        model = classifier().partial_fit(X[labels == 0], labels[labels == 0], classes=[0, 1])
        assert set(model.predict(X)) == {0}
        model.partial_fit(X[labels == 1], labels[labels == 1])
        assert model.score(X, labels) > 0.8

    def test_classes_are_named_first(self) -> None:
        X, y = table(60)
        labels = np.array(["low", "mid", "high"])[np.digitize(y, [-1, 1])]
        model = classifier()
        with pytest.raises(InvalidInput, match="classes must be given at the first call"):
            model.partial_fit(X, labels)
        for rows in (slice(0, 40), slice(40, 60)):
            model.partial_fit(X[rows], labels[rows], classes=["low", "mid", "high", "never"])
        assert model.classes_.tolist() == ["high", "low", "mid", "never"]
        assert model.predict_proba(X).shape == (60, 4)
        assert model.score(X, labels) > 0.8
        assert (model.predict_proba(X)[:, 3] < 0.2).all()
        with pytest.raises(InvalidInput, match="y holds 'other', which classes did not name"):
            model.partial_fit(X[:1], ["other"])
        with pytest.raises(InvalidInput, match="cannot balance classes"):
            classifier(class_weight="balanced").partial_fit(X, labels, classes=np.unique(labels))

    def test_an_earlier_fit_names_the_classes(self) -> None:
        X, y = table(40)
        model = classifier().fit(X, y > 0)
        assert model.partial_fit(X, y > 0).classes_.tolist() == [False, True]


class TestEdges:
    @pytest.mark.parametrize("value", [0.0, 7.0, -1e12, 1e-200, 1e300])
    def test_constant_targets_are_predicted(self, value: float) -> None:
        X, _ = table(20)
        model = regressor().fit(X, np.full(20, value))
        means, deviations = model.predict(X, return_std=True)
        assert np.allclose(means, value, rtol=1e-12)
        assert np.isfinite(deviations).all()
        assert np.allclose(deviations, 0, atol=1e-6 * abs(value))
        assert np.allclose(model.predict_interval(X), value, rtol=1e-6)

    @pytest.mark.parametrize("value", [0.0, 3.0, 1e300])
    def test_inputs_that_do_not_vary_give_the_mean(self, value: float) -> None:
        X, y = np.full((30, 3), value), np.arange(30.0)
        assert np.allclose(regressor().fit(X, y).predict(X[:4]), y.mean(), atol=1e-6)
        labels = classifier().fit(X, np.arange(30) % 3 == 0)
        assert np.allclose(labels.predict_proba(X[:4])[:, 1], 1 / 3, atol=0.05)
        assert np.isfinite(labels.feature_importances_).all()

    def test_one_column_may_not_vary(self) -> None:
        X, y = table()
        wider = np.c_[X, np.full(60, 5.0)]
        model = regressor().fit(wider, y)
        assert model.feature_importances_[-1] == 0
        assert np.allclose(model.predict(wider), regressor().fit(X, y).predict(X), atol=1e-6)

    @pytest.mark.parametrize("validation", ["rows", "time", "groups"])
    @pytest.mark.parametrize("n", [2, 3, 4])
    def test_few_rows_will_do(self, n: int, validation: str) -> None:
        X, y = table(n)
        groups = np.arange(n) if validation == "groups" else None
        model = regressor(validation=validation).fit(X, y, groups=groups)
        assert np.isfinite(model.predict(X)).all()
        low, high = model.predict_interval(X, coverage=0.4)
        assert (low < high).all()
        assert np.isinf(model.predict_interval(X, coverage=0.9)).all()
        labels = classifier(validation=validation).fit(X, np.arange(n) % 2, groups=groups)
        assert np.allclose(labels.predict_proba(X).sum(1), 1)

    def test_one_input_will_do(self) -> None:
        X, y = table(60, 2)
        assert regressor().fit(X[:, :1], np.sin(2 * X[:, 0])).score(X[:, :1], np.sin(2 * X[:, 0]))
        assert regressor().fit(X[:, :1], y).feature_importances_.tolist() == [1.0]

    def test_more_inputs_than_rows_will_do(self) -> None:
        X, y = table(12, 40)
        assert np.isfinite(regressor().fit(X, y).predict(X)).all()

    def test_equal_rows_with_other_targets_are_averaged(self) -> None:
        X, y = table(30)
        model = regressor().fit(np.r_[X, X], np.r_[y + 1, y - 1])
        assert np.isfinite(model.loo_score_)
        assert abs(float(np.mean(model.predict(X) - y))) < 0.3

    def test_far_away_is_finite(self) -> None:
        X, y = table()
        model = regressor().fit(X, y)
        for found in model.predict(np.full((2, 4), 1e300), return_std=True):
            assert np.isfinite(found).all()


class TestClasses:
    def test_probabilities_are_those_of_a_logistic_model(self) -> None:
        draw = np.random.default_rng(0)
        X, Z = draw.standard_normal((400, 3)), draw.standard_normal((3000, 3))
        p, q = (1 / (1 + np.exp(-(2 * rows[:, 0] - rows[:, 1]))) for rows in (X, Z))
        y, z = draw.random(400) < p, draw.random(3000) < q
        found = classifier().fit(X, y).predict_proba(Z)[:, 1]
        assert np.abs(found - q).mean() < 0.06
        assert log_loss(z, found) < log_loss(z, q) + 0.03
        for low, high in itertools.pairwise([0, 0.2, 0.4, 0.6, 0.8, 1]):
            inside = (found >= low) & (found < high)
            if inside.sum() > 100:
                assert found[inside].mean() == pytest.approx(q[inside].mean(), abs=0.1)

    @pytest.mark.parametrize("load", [load_iris, load_wine])
    def test_three_classes(self, load: object) -> None:
        X, y = load(return_X_y=True)  # type: ignore[operator]
        names = np.array(["one", "two", "three"])[y]
        model = classifier().fit(X[::2], names[::2])
        shares, scores = model.predict_proba(X), model.decision_function(X)
        assert model.classes_.tolist() == ["one", "three", "two"]
        assert shares.shape == scores.shape == (len(X), 3)
        assert np.allclose(shares.sum(1), 1)
        assert (shares >= 0).all()
        assert np.array_equal(model.classes_[shares.argmax(1)], model.predict(X))
        assert np.array_equal(shares.argmax(1), scores.argmax(1))
        assert model.score(X[1::2], names[1::2]) > 0.9
        assert model.loo_score_ > 0.9
        assert np.allclose(np.exp(scores) / np.exp(scores).sum(1, keepdims=True), shares)

    def test_two_classes_have_one_score(self) -> None:
        X, y = table()
        model = classifier().fit(X, y > 0)
        scores, shares = model.decision_function(X), model.predict_proba(X)
        assert scores.shape == (60,)
        assert np.allclose(1 / (1 + np.exp(-scores)), shares[:, 1])
        assert np.array_equal(scores > 0, model.predict(X))
        assert model.loo_prediction_.shape == (60, 1)

    def test_swapped_classes_swap_their_shares(self) -> None:
        """Nearly: a network is not symmetric in the sign of its targets."""
        X, y = table()
        one, two = (classifier().fit(X, label) for label in (y > 0, y <= 0))
        assert np.allclose(one.predict_proba(X), two.predict_proba(X)[:, ::-1], atol=1e-3)

    def test_separable_classes_keep_finite_scores(self) -> None:
        X = np.r_[np.zeros((20, 2)), np.ones((20, 2))] + np.linspace(0, 0.1, 40)[:, None]
        model = classifier().fit(X, np.arange(40) >= 20)
        assert np.isfinite(model.decision_function(X)).all()
        assert model.score(X, np.arange(40) >= 20) == 1

    def test_a_class_of_one_row(self) -> None:
        X, y = table(30)
        labels = np.where(y > 0, 1, 0)
        labels[4] = 2
        model = classifier().fit(X, labels)
        assert np.allclose(model.predict_proba(X).sum(1), 1)


class TestIntervals:
    @pytest.mark.parametrize("coverage", [0.5, 0.9])
    def test_they_hold_what_they_say(self, coverage: float) -> None:
        """Within four deviations: of the share over test rows, and of 100 residuals' quantile."""
        shares = []
        for seed in range(8):
            X, y = make_friedman1(600, noise=2.0, random_state=seed)
            low, high = (
                regressor(metric="equal").fit(X[:100], y[:100]).predict_interval(X[100:], coverage)
            )
            shares.append(((low <= y[100:]) & (y[100:] <= high)).mean())
        one = math.sqrt(coverage * (1 - coverage) * (1 / 100 + 1 / 500))
        assert np.mean(shares) == pytest.approx(coverage, abs=4 * one / math.sqrt(8) + 0.01)

    def test_more_coverage_is_wider(self) -> None:
        X, y = table()
        model = regressor().fit(X, y)
        widths = [np.subtract(*model.predict_interval(X, c)[::-1]) for c in (0.3, 0.6, 0.9, 1.0)]
        for narrow, wide in itertools.pairwise(widths):
            assert (narrow <= wide).all()

    def test_deviations_are_those_of_new_targets(self) -> None:
        """Errors in units of their deviation have size 1; far away, deviations are larger."""
        X, y = table(150, noise=0.5)
        Z, z = table(1000, seed=9, noise=0.5)
        model = regressor().fit(X, y)
        means, deviations = model.predict(Z, return_std=True)
        assert np.sqrt((((means - z) / deviations) ** 2).mean()) == pytest.approx(1, abs=0.25)
        assert (deviations > 0.3).all()
        beyond = model.predict(np.full((1, 4), 6.0), return_std=True)[1]
        assert beyond > deviations.mean()


REFUSED: list[tuple[dict[str, object], str]] = [
    ({"width": 0}, "width must be an integer >= 1, got 0"),
    ({"width": "wide"}, "width must be an integer >= 1, got 'wide'"),
    ({"depth": 1.5}, "depth must be an integer >= 1, got 1.5"),
    ({"shift": -1}, "shift must be a finite number >= 0, got -1"),
    ({"layers": "first"}, "layers"),
    ({"ridge": 0}, "ridge must be a finite number > 0"),
    ({"metric": "euclid"}, "metric"),
    ({"weights": "sobel"}, "did you mean 'sobol'"),
    ({"members": 0}, "members must be an integer >= 1, got 0"),
    ({"max_iter": 0}, "max_iter must be an integer >= 1, got 0"),
    ({"activation": "gelu"}, "did you mean 'GELU'"),
    ({"activation": 3}, "activation must be 'auto', a name or a subquad activation, got 3"),
    ({"activation": "GELU", "shift": 1.0}, "give shift or activation, not both"),
    ({"activation": ThresholdedLinear(1.0)}, "no closed form for ThresholdedLinear: take Shifted"),
    ({"validation": "folds"}, "validation"),
    ({"validation": "groups"}, "groups= goes with validation='groups'"),
    ({"max_memory": "1MB"}, "memory"),
]


@pytest.mark.parametrize(("settings", "message"), REFUSED, ids=str)
@pytest.mark.parametrize("make", [regressor, classifier])
def test_misuse_gets_one_line(make: object, settings: dict[str, object], message: str) -> None:
    X, y = table(20)
    with pytest.raises(InvalidInput, match=message) as caught:
        make(**settings).fit(X, y > 0)  # type: ignore[operator]
    assert "\n" not in str(caught.value)


def test_misuse_of_rows_gets_one_line() -> None:
    X, y = table(20)
    for how, message in (
        ({"groups": np.arange(20)}, "groups= goes with validation='groups'"),
        ({"sample_weight": np.eye(20)[0]}, "sample_weight must be above 0 in at least 2 rows"),
    ):
        with pytest.raises(InvalidInput, match=message):
            regressor().fit(X, y, **how)
    grouped = regressor(validation="groups")
    for groups, message in (
        (np.arange(19), r"groups must have shape \(20,\), got \(19,\)"),
        (np.zeros(20), "at least two groups, got one"),
    ):
        with pytest.raises(InvalidInput, match=message):
            grouped.fit(X, y, groups=groups)
    with pytest.raises(InvalidInput, match="at least two groups"):
        grouped.fit(X, y, np.where(np.arange(20) < 10, 1.0, 0.0), np.arange(20) // 10)
    with pytest.raises(ValueError, match=r"[Nn]egative"):
        regressor().fit(X, y, sample_weight=-np.ones(20))
    with pytest.raises(InvalidInput, match="y has one class, 1: classification needs at least"):
        classifier().fit(X, np.ones(20, dtype=int))
    with pytest.raises(InvalidInput, match="y has one class, 0: "):
        classifier().fit(X, np.arange(20) % 2, np.where(np.arange(20) % 2, 0.0, 1.0))
    model = regressor().fit(X, y)
    for coverage in (0.0, -1.0, 1.01, "most"):
        with pytest.raises(InvalidInput, match="coverage must be a finite number > 0 and <= 1"):
            model.predict_interval(X, coverage)  # type: ignore[arg-type]
