"""A compressed model answers as its original."""

import numpy as np
import pytest
from sklearn.datasets import make_blobs, make_moons
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.exceptions import NotFittedError
from sklearn.kernel_ridge import KernelRidge
from sklearn.multioutput import MultiOutputRegressor
from sklearn.neighbors import NearestCentroid
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

import streamlearn as sl
from streamlearn.errors import CheckpointError


def moons(n=400, seed=0):
    return make_moons(n, noise=0.2, random_state=seed)


@pytest.fixture(scope="module")
def svm():
    return SVC(C=10).fit(*moons())


def test_ten_prototypes_agree_with_an_svm_on_two_moons(svm):
    X, _ = moons()
    model = sl.compress(svm, X, 10)
    other, _ = moons(4000, seed=1)
    assert model.deviation_.agreement >= 0.99
    assert np.mean(model.predict(other) == svm.predict(other)) >= 0.99
    assert model.n_passes_ == 1
    decision = model.decision_function(X) - svm.decision_function(X)
    assert model.deviation_.rms == pytest.approx(np.sqrt(np.mean(decision**2)))
    assert model.deviation_.largest == pytest.approx(np.abs(decision).max())
    assert model.deviation_.weight == 400


@pytest.mark.parametrize("scratch", [None, False])
def test_more_rows_than_the_sample(svm, monkeypatch, scratch):
    """One read evaluates the original; its answers are kept, or found out again in each read."""
    monkeypatch.setattr("streamlearn.supersparse.model.SAMPLE_ROWS", 300)
    monkeypatch.setattr("streamlearn.supersparse.model.ROWS_PER_ENTRY", 0)
    X, _ = moons(1500, seed=2)
    with sl.config_context(scratch=scratch):
        model = sl.compress(svm, sl.open_dataset(X, chunk_rows=500), 8, tol=1e-2)
    assert model.deviation_.weight == 1500
    assert model.deviation_.agreement > 0.98
    trail = [record["objective"] for record in model.history_]
    assert trail == sorted(trail, reverse=True)


class Interrupted(SVC):
    """Answers a number of times, then dies as a killed process would."""

    left = 10**9

    def decision_function(self, X):
        self.left -= 1
        if self.left < 0:
            raise KeyboardInterrupt
        return super().decision_function(X)


@pytest.mark.parametrize("class_weight", [None, "balanced"])
@pytest.mark.parametrize("sample_rows", [300, 20_000])
def test_an_interrupted_compression_goes_on_to_the_same_bits(
    monkeypatch, tmp_path, sample_rows, class_weight
):
    monkeypatch.setattr("streamlearn.supersparse.model.SAMPLE_ROWS", sample_rows)
    monkeypatch.setattr("streamlearn.supersparse.model.ROWS_PER_ENTRY", 0)
    X = sl.open_dataset(moons(900, seed=2)[0], chunk_rows=300)
    svm = Interrupted(C=10).fit(*moons())
    plain = {"tol": 1e-2, "class_weight": class_weight}
    options = {**plain, "checkpoint": tmp_path / "run"}
    # without scratch each read asks the original again, so it can die in any of them
    with sl.config_context(scratch=False):
        quiet = sl.compress(svm, X, 5, **plain)
        interruptions = 0
        for left in (0, 1, 5, 8, 10**9):
            svm.left = left
            try:
                model = sl.compress(svm, X, 5, **options)
                break
            except KeyboardInterrupt:
                interruptions += 1
        in_all = 4 if sample_rows == 300 else 2  # class weights are a read more
        assert interruptions == min(4, in_all + (class_weight is not None))
        again = sl.compress(svm, X, 5, **options)
    for one in (model, again):
        np.testing.assert_array_equal(one.prototypes_, quiet.prototypes_)
        np.testing.assert_array_equal(one.coef_, quiet.coef_)
        assert one.deviation_ == quiet.deviation_
        assert one.n_passes_ == quiet.n_passes_
    assert again.certificate_ == model.certificate_


def test_a_compressed_model_can_be_saved(svm, tmp_path):
    X, _ = moons()
    model = sl.compress(svm, X, 4)
    sl.save(model, tmp_path / "model.slm")
    loaded = sl.load(tmp_path / "model.slm")
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))


def test_a_checkpoint_of_another_model_or_other_parameters_is_refused(svm, tmp_path):
    X, y = moons()
    sl.compress(svm, X, 4, checkpoint=tmp_path)
    with pytest.raises(CheckpointError, match="belongs to another model"):
        sl.compress(SVC(C=1).fit(X, y), X, 4, checkpoint=tmp_path)
    with pytest.raises(CheckpointError, match="n_prototypes: 4 then, 5 now"):
        sl.compress(svm, X, 5, checkpoint=tmp_path)
    with pytest.raises(CheckpointError, match='original: "SVC" then'):
        sl.compress(RandomForestClassifier(5).fit(X, y), X, 4, checkpoint=tmp_path)


def test_many_classes_share_prototypes():
    X, y = make_blobs(300, centers=4, random_state=0)
    names = np.array(["a", "b", "c", "d"])[y]
    svm = SVC().fit(X, names)
    model = sl.compress(svm, X, 8)
    assert model.coef_.shape == (4, 8)
    assert model.deviation_.agreement > 0.97
    assert set(model.predict(X[:50])) <= set(names)


def test_regressors_forests_and_our_own():
    X, y = moons(300)
    z = np.sin(3 * X[:, 0]) + X[:, 1]
    for model in (
        KernelRidge(kernel="rbf", alpha=0.1).fit(X, z),
        RandomForestRegressor(5, random_state=0).fit(X, z),
        sl.AdditiveRegressor(n_bases=6).fit(X, z),
    ):
        small = sl.compress(model, X, 6)
        assert small.deviation_.rms < 0.35 * z.std()
        assert small.deviation_.agreement == 1.0
    forest = RandomForestClassifier(10, random_state=0).fit(X, y)
    assert sl.compress(forest, X, 8).deviation_.agreement > 0.9


def test_weights_of_the_rows_count(svm):
    import pandas as pd

    X, _ = moons()
    frame = pd.DataFrame(X, columns=["a", "b"]).assign(w=(X[:, 0] > 0.5).astype(float))
    kept = sl.compress(svm, sl.open_dataset(frame, weight="w"), 4)
    alone = sl.compress(svm, X[X[:, 0] > 0.5], 4, gamma=kept.gamma_)
    assert kept.deviation_.weight == alone.deviation_.weight
    assert kept.deviation_.rms == pytest.approx(alone.deviation_.rms, rel=1e-3)


@pytest.mark.parametrize("from_disk", [False, True])
def test_class_weights_are_weights_of_the_rows_that_get_the_class(monkeypatch, tmp_path, from_disk):
    """Also of more rows than the sample, whose summary, sample and answers see them."""
    import pandas as pd

    monkeypatch.setattr("streamlearn.supersparse.model.SAMPLE_ROWS", 300)
    monkeypatch.setattr("streamlearn.supersparse.model.ROWS_PER_ENTRY", 0)
    X, y = make_blobs([600, 200, 100], random_state=0)
    svm = SVC().fit(X, y)
    of = svm.predict(X)
    counts = np.bincount(of)
    for given, factors in (
        ({2: 4.0}, np.array([1.0, 1.0, 4.0])),
        ("balanced", counts.sum() / (3 * counts)),
    ):
        frame = pd.DataFrame(X, columns=["a", "b"]).assign(w=factors[of])
        bare, by_hand = frame[["a", "b"]], frame
        if from_disk:
            by_hand.to_parquet(tmp_path / "rows.parquet", row_group_size=100)
            bare = tmp_path / "rows.parquet"
            bare = sl.open_dataset(bare, features=["a", "b"])
            by_hand = tmp_path / "rows.parquet"
        wanted = sl.compress(svm, sl.open_dataset(by_hand, weight="w"), 4, tol=1e-2)
        found = sl.compress(svm, bare, 4, tol=1e-2, class_weight=given)
        np.testing.assert_array_equal(found.prototypes_, wanted.prototypes_)
        np.testing.assert_array_equal(found.coef_, wanted.coef_)
        assert found.deviation_ == wanted.deviation_


def test_refused_by_name(svm):
    X, y = moons(60)
    with pytest.raises(NotFittedError, match="SVC instance is not fitted"):
        sl.compress(SVC(), X, 3)
    scaler = StandardScaler().fit(X)
    with pytest.raises(TypeError, match="StandardScaler has no predict"):
        sl.compress(scaler, X, 3)
    with pytest.raises(ValueError, match="X has 1 features, but SVC"):
        sl.compress(svm, X[:, :1], 3)
    with pytest.raises(ValueError, match="n_prototypes=100 is more than n_samples=60"):
        sl.compress(svm, X, 100)
    with pytest.raises(TypeError, match="unexpected keyword argument 'ridges'"):
        sl.compress(svm, X, 3, ridges=1.0)
    with pytest.raises(TypeError, match="weighs classes, but the KernelRidge to compress predicts"):
        sl.compress(KernelRidge().fit(X, y), X, 3, class_weight="balanced")
    with pytest.raises(TypeError, match="gives 2 columns; compress takes regressors of one"):
        sl.compress(MultiOutputRegressor(KernelRidge()).fit(X, X), X, 3)
    blobs, label = make_blobs(80, centers=4, random_state=0)
    with pytest.raises(TypeError, match="6 columns for 4 classes.*ovr"):
        sl.compress(SVC(decision_function_shape="ovo").fit(blobs, label), blobs, 3)
    bare = NearestCentroid().fit(X, y)
    if not hasattr(bare, "decision_function") and not hasattr(bare, "predict_proba"):
        with pytest.raises(TypeError, match="neither decision_function nor predict_proba"):
            sl.compress(bare, X, 3)
