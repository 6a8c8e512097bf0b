"""Estimators that choose by splits, against every candidate fitted for every split by hand."""

import numpy as np
import pytest
from laws.subjects import rows_of

import streamlearn as sl
from streamlearn.data.order import row_share
from streamlearn.estimator.scores.cross_validate import without_split
from streamlearn.estimator.scores.results import best_index, cv_results, error_of_difference
from streamlearn.solvers.splits import split_shares

N = 360
SHAREBOOST, MIXTURE = {"tol": 1e-6}, {"max_passes": 30, "tau": 1.0}


def table():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((N, 5))
    f = X[:, 0] * X[:, 1] + X[:, 2]
    return X, (f + 0.3 * rng.standard_normal(N) > 0).astype(int), f + 0.1 * rng.standard_normal(N)


CASES = {
    "ShareBoostClassifierCV": ({"n_selected": [1, 2, 4], "ridge": [1e-3, 1e-1]}, SHAREBOOST),
    "JensenShannonBoostClassifierCV": ({"n_learners": [1, 3, 6], "tau": [5.0, 30.0]}, {}),
    "ProjectionPursuitRegressorCV": ({"n_terms": [1, 2], "tau": [5.0, 30.0]}, {}),
    "SVMMixtureClassifierCV": (
        {"n_components": [1, 2, (2, 2)], "gate": ["linear", "rbf"], "Cs": [0.1, 10.0]},
        MIXTURE,
    ),
}


def test_all_that_choose_by_splits_have_a_case():
    from streamlearn.additive.choose.choosing import Choosing  # most in shared reads: its own tests
    from streamlearn.estimator.scores.choosing import ChoosesBySplits

    found = [getattr(sl, name) for name in sl.__all__ if name.endswith("CV")]
    by_splits = {cls for cls in found if issubclass(cls, ChoosesBySplits)}
    assert {cls.__name__ for cls in by_splits if not issubclass(cls, Choosing)} == set(CASES)


def made(name, scoring=None, **more):
    grid, shared = CASES[name]
    return getattr(sl, name)(**grid, **shared, cv=2, scoring=scoring, random_state=3, **more)


def plain_of(model, parameters):
    plain = model._plain()
    shared = {k: v for k, v in model.get_params().items() if k in plain.get_params()}
    return model._plain(**{**shared, **parameters})


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", [name for name in CASES if "Classifier" in name])
def test_a_class_of_one_split_alone_is_left_out_there(name, tmp_path):
    """No candidate can know it: the split's scores are those of a table without its row."""
    X, y, _ = table()
    edges, seed = split_shares(2, 3)
    lone = np.flatnonzero(row_share(np.arange(N), seed) >= edges[1])[0]
    y[lone] = 2
    without = np.ones(N)
    without[lone] = 0.0
    place = tmp_path / "kept"
    found = made(name, "neg_log_loss").fit(rows_of(X, y, np.ones(N)), checkpoint=place)
    other = made(name, "neg_log_loss").fit(rows_of(X, y, without))
    assert found.classes_.tolist() == [0, 1, 2]
    np.testing.assert_array_equal(
        found.cv_results_["split1_test_score"], other.cv_results_["split1_test_score"]
    )
    with pytest.raises(ValueError, match=r"label .*2.* was not in the training data"):
        sl.cross_validate(plain_of(found, found.best_params_), X, y=y, cv=2, scoring="neg_log_loss")


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("other", [False, True])
def test_scores_are_those_of_fits_by_hand(name, other):
    X, y, z = table()
    classifies = name != "ProjectionPursuitRegressorCV"
    other = {True: "roc_auc", False: "r2"}[classifies] if other else None
    model = made(name, other)
    w = np.random.default_rng(1).integers(1, 3, N).astype(float)
    rows = rows_of(X, y if classifies else z, w, chunk_rows=100)
    model.fit(rows)
    default = "neg_log_loss" if classifies else "neg_mean_squared_error"
    edges, seed = split_shares(2, 3)
    results = model.cv_results_
    reads = {}
    for split in range(2):
        train, apart = without_split(rows, edges, split, seed)
        for k, parameters in enumerate(results["params"]):
            plain = plain_of(model, parameters)
            if name == "ShareBoostClassifierCV":  # the points of the path of the largest number
                fitted = plain.set_params(n_selected=4).fit(train)
                fitted = fitted.at(parameters["n_selected"])
            else:
                fitted = plain.fit(train)
            score = fitted.score(apart, metric=other or default)
            assert results[f"split{split}_test_score"][k] == score
            reads[split, k] = fitted.n_passes_
    best = plain_of(model, model.best_params_).fit(rows)
    assert results["mean_test_score"].argmax() == model.best_index_
    assert results["params"][model.best_index_] == model.best_params_
    np.testing.assert_array_equal(model.predict(X), best.predict(X))
    if classifies:
        np.testing.assert_array_equal(model.decision_function(X), best.decision_function(X))
    assert best.n_passes_ < model.n_passes_
    assert model.certificate_.n_passes == model.n_passes_
    # what one fit gives is not fitted again
    assert model.n_passes_ <= sum(reads.values()) + best.n_passes_ + 2


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", CASES)
def test_saved_resumed_and_refused(name, tmp_path, monkeypatch):
    X, y, z = table()
    target = y if name != "ProjectionPursuitRegressorCV" else z
    model = made(name).fit(X, target, checkpoint=tmp_path / "run")
    sl.save(model, tmp_path / "m.slm")
    loaded = sl.load(tmp_path / "m.slm")
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
    assert (loaded.best_params_, loaded.best_score_) == (model.best_params_, model.best_score_)
    with monkeypatch.context() as patched:  # nor are the scores of the splits read once more
        patched.setattr("streamlearn.estimator.scores.choosing.scores_of_split", None)
        again = made(name).fit(X, target, checkpoint=tmp_path / "run")
        np.testing.assert_array_equal(again.predict(X), model.predict(X))
        assert again.best_params_ == model.best_params_
        assert again.n_passes_ == model.n_passes_
        patched.setattr("streamlearn.engine.checkpoint.several.once", lambda *_: {"scores": None})
        with pytest.raises(sl.CheckpointError, match="other things than the scores of a split"):
            made(name).fit(X, target, checkpoint=tmp_path / "run")
    with pytest.raises(ValueError, match=f"{name} judges on its splits; leave validation out"):
        made(name).fit(X, target, validation=0.1)
    with pytest.raises(ValueError, match="does not fit|is not known"):
        made(name, "f1").fit(X, target)
    first = next(iter(CASES[name][0]))
    with pytest.raises(ValueError, match=f"{first} is empty; give at least one value"):
        made(name).set_params(**{first: []}).fit(X, target)
    with pytest.raises(AttributeError, match=f"{name} has no partial_fit: all candidates"):
        model.partial_fit(X, target)
    # a bad value among several is refused before anything is read
    with pytest.raises(ValueError, match=f"The '{first}' parameter of"):
        made(name).set_params(**{first: [1, 0]}).fit(X, target)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", [*CASES, "hinge"])
def test_the_reads_are_those_of_the_plan(name):
    """Summaries of all fits and scores of all splits included."""
    X, y, z = table()
    if name == "hinge":
        model = sl.AdditiveClassifierCV("hinge", Cs=[0.01, 0.1], n_bases=4, cv=2, tol=0.1)
    else:
        model = made(name)
    rows = rows_of(X, z if "Regressor" in name else y, None, chunk_rows=100)
    fewest, most = sl.plan(model, rows).passes
    model.fit(rows)
    assert fewest <= model.n_passes_ <= most
    n_groups = len(model._together())
    assert model._n_fits(rows) == (n_groups + 1, 2 * n_groups + 1)
    assert model.n_passes_ >= n_groups + 1 + 1  # summaries that splits share, and their scores


def test_fewest_of_those_that_are_as_good():
    X, y, _ = table()
    best = made("JensenShannonBoostClassifierCV").fit(X, y)
    simple = made("JensenShannonBoostClassifierCV", one_standard_error=True).fit(X, y)
    mean, std = (simple.cv_results_[f"{what}_test_score"] for what in ("mean", "std"))
    within = mean >= mean[best.best_index_] - std[best.best_index_]
    assert simple.best_index_ == int(np.flatnonzero(within)[0]) <= best.best_index_


def test_error_of_a_difference_over_splits():
    gains = np.array([1.0, 3.0, 2.0, 6.0])
    expected = np.sqrt((1 / 4 + 1 / 3) * (4 + 0 + 1 + 9) / 3)
    assert error_of_difference(gains) == pytest.approx(expected)
    assert error_of_difference(np.append(gains, np.nan)) == pytest.approx(expected)
    assert error_of_difference(gains[:1]) == np.inf


ROOM = np.array([0.0, 0.1, -0.1, 0.2, -0.2])
"""Deviations of a gain over splits: its error is their deviation times sqrt(1 / 5 + 1 / 4)."""


@pytest.mark.parametrize(("factor", "left"), [(0.9, False), (1.1, True)])
def test_the_default_is_left_for_more_than_a_standard_error(factor, left):
    gains = ROOM + factor * error_of_difference(ROOM)
    scores = np.array([np.arange(5.0) + gains, np.arange(5.0), np.arange(5.0) - 9])
    results = cv_results([{"n": k} for k in range(3)], scores)
    assert best_index(results, one_standard_error=False) == 0
    assert best_index(results, one_standard_error=False, default=1) == (0 if left else 1)
    assert best_index(results, one_standard_error=True, default=2) == 0
    scores[2] = np.nan
    results = cv_results([{"n": k} for k in range(3)], scores)
    assert best_index(results, one_standard_error=False, default=2) == 0


def test_boosting_keeps_its_default_against_luck():
    """Of labels that no column tells, fewer learners are better by luck alone."""
    X = np.random.default_rng(0).standard_normal((80, 3))
    y = np.random.default_rng(3).integers(0, 2, 80)
    model = sl.JensenShannonBoostClassifierCV([1, 100], cv=4, n_bins=4).fit(X, y)
    scores = np.array([model.cv_results_[f"split{k}_test_score"] for k in range(4)])
    gains = scores[:, 0] - scores[:, 1]
    better = gains.mean() > error_of_difference(gains)
    assert model.best_params_["n_learners"] == (1 if better else 100)
    # candidates without the default have none to keep
    model = sl.JensenShannonBoostClassifierCV([1, 2])
    assert model._default_of(model._candidates()) is None


@pytest.mark.parametrize("n_classes", [2, 3])
def test_first_learners_are_a_fit_that_ends_there(n_classes):
    X, y, _ = table()
    y = y + (n_classes > 2) * (X[:, 3] > 1)
    whole = sl.JensenShannonBoostClassifier(12, stop=None).fit(X, y)
    for n in (1, 2, 7, 12, 40):
        ends = sl.JensenShannonBoostClassifier(min(n, 12), stop=None).fit(X, y)
        np.testing.assert_array_equal(whole.at(n).decision_function(X), ends.decision_function(X))
        assert len(whole.at(n).directions_[0]) == min(n, 12)
    with pytest.raises(ValueError, match="n=0; a model has at least 1 learner"):
        whole.at(0)


@pytest.mark.parametrize("name", CASES)
def test_shared_parameters_have_the_defaults_of_the_estimator_that_does_not_choose(name):
    model = getattr(sl, name)()
    chosen = set(model._choices.values())
    plain, own = model._plain().get_params(), model.get_params()
    assert set(own) - set(model._choices) - {"cv", "scoring", "one_standard_error"} <= set(plain)
    shared = (set(own) & set(plain)) - chosen
    assert {key: own[key] for key in shared} == {key: plain[key] for key in shared}
