"""`class_weight` is weights given by hand, in every classifier; found by enumeration."""

import numpy as np
import pytest
from laws.test_estimators import MODELS, answer, close, fit, make, rows
from sklearn.base import is_classifier

import streamlearn as sl

CLASSIFIERS = [name for name in MODELS if is_classifier(getattr(sl, name)())]
WORDS = np.array(["few", "many", "some"])


def task(n_classes=2):
    """Rows whose classes are 1 to 3 times as frequent as the first, with weights."""
    X, z = rows()
    y = np.searchsorted(np.quantile(z, [0.25] if n_classes == 2 else [0.2, 0.6]), z)
    return X, y, np.random.default_rng(2).integers(1, 4, len(y)).astype(float)


def small(name, **params):
    """A quick fit; what is compared is the same arithmetic twice."""
    params = {"tol": 1e-3, "n_learners": 4, "n_selected": 2, "n_components": 2, **params}
    if name.startswith("SuperSparse"):
        params |= {"n_prototypes": [2, 3] if name.endswith("CV") else 2, "n_passes": 5}
    return make(name, **params)


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_three_classes_of_words_from_disk(name, tmp_path):
    """Planned, read once more, kept in the checkpoint; the same model as in memory."""
    import pandas as pd

    X, y, _ = task(3)
    frame = pd.DataFrame(X, columns=["a", "b", "c"]).assign(y=WORDS[y])
    frame.to_parquet(tmp_path / "rows.parquet", row_group_size=100)
    data = sl.open_dataset(tmp_path / "rows.parquet", target="y")
    given = {"few": 2.0, "some": 0.5}
    model = small(name, class_weight=given)
    assert "class-weights" in str(sl.plan(model, data))
    weighed = fit(model, data, None)
    factors = np.array([2.0, 1.0, 0.5])
    columns = frame[["a", "b", "c"]]
    by_hand = fit(small(name), columns, WORDS[y], factors[y])
    close(answer(weighed, columns), answer(by_hand, columns), 1e-3)


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_bad_class_weights_are_named_everywhere(name):
    X, y, _ = task()
    with pytest.raises(ValueError, match=r"class_weight names \[7\], which are none of"):
        small(name, class_weight={7: 1.0}).fit(X, y)
    with pytest.raises(ValueError, match="class_weight must be finite and above 0, got"):
        small(name, class_weight={0: -1.0}).fit(X, y)


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_streams_take_a_dict(name):
    X, y, w = task()
    params = {"algorithm": "online-em", "class_weight": {1: 3.0}}
    if not hasattr(small(name, **params), "partial_fit"):
        pytest.skip(f"{name} has no partial_fit")
    weighed, by_hand = small(name, **params), small(name, **{**params, "class_weight": None})
    factors = np.array([1.0, 3.0])
    for part in (slice(0, 120), slice(120, None)):
        weighed.partial_fit(X[part], y[part], w[part], classes=[0, 1])
        by_hand.partial_fit(X[part], y[part], w[part] * factors[y[part]], classes=[0, 1])
    np.testing.assert_array_equal(answer(weighed, X), answer(by_hand, X))
    with pytest.raises(ValueError, match="'balanced' needs the counts of all rows"):
        small(name, **{**params, "class_weight": "balanced"}).partial_fit(X, y, classes=[0, 1])


def test_validation_rows_are_weighed_and_calibration_rows_are_not():
    X, y, _ = task()
    factors = np.array([1.0, 3.0])
    model = sl.AdditiveClassifier(class_weight={1: 3.0}, n_bases=4)
    weighed = model.fit(X, y, validation=(X[:80], y[:80]))
    by_hand = sl.AdditiveClassifier(n_bases=4).fit(
        X, y, factors[y], validation=(X[:80], y[:80], factors[y[:80]])
    )
    assert weighed.history_ == by_hand.history_
    # of all rows 3 of 4 are of class 1, of the weights 27 of 28; a tenth of the rows calibrate
    X, y = np.tile(X, (20, 1)), np.tile(y, 20)
    model = sl.AdditiveClassifier(class_weight={1: 9.0}, n_bases=4, calibration="sigmoid")
    assert model.fit(X, y).predict_proba(X)[:, 1].mean() == pytest.approx(0.75, abs=0.06)


def test_cross_validation_fits_with_them():
    X, y, w = task()
    grid = {"class_weight": [None, "balanced"]}
    found = sl.cross_validate(
        sl.AdditiveClassifier(n_bases=4), X, 2, grid, scoring="neg_log_loss", y=y, sample_weight=w
    )
    assert found.best_parameters == {"class_weight": None}  # rows held out come as they come
