"""One encoding for all families: against numpy and by brute force."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy.sparse import csr_array

import streamlearn as sl
from streamlearn.data.clocks import PERIODS
from streamlearn.data.encoding import N_PARTS, parts_of
from streamlearn.data.levels import hash_words
from streamlearn.errors import CheckpointError
from streamlearn.estimator.rows.inputs import open_features
from streamlearn.passes.target_means import hashes_fold, shrunk_means

pd = pytest.importorskip("pandas")
N = 900
MODELS = {
    "SVMMixtureClassifier": {"n_components": 2, "max_passes": 4},
    "ShareBoostClassifier": {"n_selected": 3},
    "ProjectionPursuitRegressor": {"n_terms": 1, "backfit": 0},
    "JensenShannonBoostClassifier": {"n_learners": 2},
    "SuperSparseRegressor": {"n_prototypes": 2, "n_passes": 3},
    "SuperSparseClassifier": {"n_prototypes": 2, "n_passes": 3},
    "SuperSparseRegressorCV": {"n_prototypes": (1, 2), "n_passes": 4},
    "SuperSparseClassifierCV": {"n_prototypes": (1, 2), "n_passes": 4},
    "SVMMixtureClassifierCV": {"n_components": [1, 2], "max_passes": 4, "cv": 2},
    "ShareBoostClassifierCV": {"n_selected": [1, 3], "cv": 2},
    "ProjectionPursuitRegressorCV": {"n_terms": 1, "tau": 30.0, "backfit": 0, "cv": 2},
    "JensenShannonBoostClassifierCV": {"n_learners": [1, 2], "cv": 2},
    "AdditiveRegressor": {"n_bases": 5, "C": 1.0, "interactions": [("x", "when=hour")]},
    "AdditiveClassifier": {"n_bases": 5, "C": 1.0, "interactions": 0},
    "AdditiveRegressorCV": {"n_bases": 5, "Cs": [0.1, 1.0], "cv": 2, "interactions": 0},
    "AdditiveClassifierCV": {"n_bases": 5, "Cs": [0.1, 1.0], "cv": 2, "interactions": 0},
}
KEEP_LEVELS = [name for name in MODELS if getattr(sl, name)._accepts_levels]
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def make(name, **more):
    return getattr(sl, name)(**{**MODELS[name], **more})


@pytest.fixture(scope="module")
def table():
    """A frame with holes, booleans, few and many levels and times; the target needs them."""
    rng = np.random.default_rng(0)
    effect, code = rng.standard_normal(300), np.arange(N) % 300
    frame = pd.DataFrame(
        {
            "x": rng.standard_normal(N),
            "flag": rng.random(N) < 0.5,
            "city": rng.choice(["rome", "oslo", "bern"], N),
            "zip": [f"z{k}" for k in code],
            "when": pd.Timestamp("2024-01-01")
            + pd.to_timedelta(rng.integers(0, 10**7, N), unit="s"),
        }
    )
    y = (frame.city == "rome") + effect[code] + 0.3 * frame.x + 0.3 * frame.flag
    frame.loc[::17, "x"] = np.nan
    frame.loc[::19, "city"] = None
    return frame, y.to_numpy()


def target_of(name, y):
    return np.where(y > 0.5, "yes", "no") if "Classifier" in name else y


def features(model, X):
    return np.concatenate([np.array(chunk.X) for chunk in open_features(model, X).iter_chunks()])


def shrunk(weights, values, level, n_levels):
    """Means by level, shrunk, one level at a time (from the formula, for one output)."""
    n, there = weights.sum(), [l for l in range(n_levels) if weights[level == l].sum() > 0]
    overall = weights @ values / n
    size = {l: weights[level == l].sum() for l in there}
    mean = {l: weights[level == l] @ values[level == l] / size[l] for l in there}
    within = sum(
        (weights[level == l] * (values[level == l] - mean[l]) ** 2).sum() for l in there
    ) / (n - len(there))
    between = sum(size[l] * (mean[l] - overall) ** 2 for l in there)
    n0 = (n - sum(s**2 for s in size.values()) / n) / (len(there) - 1)
    spread = max((between / (len(there) - 1) - within) / n0, 0.0)
    found = np.full(n_levels, overall)
    for l in there:
        k = size[l] * spread
        found[l] = overall + k / (k + within) * (mean[l] - overall)
    return found


def test_every_family_that_encodes_is_here():
    public = (getattr(sl, name) for name in sl.__all__)
    found = [cls for cls in public if "encoding" in getattr(cls, "_parameter_constraints", ())]
    assert {cls.__name__ for cls in found} == set(MODELS)
    assert all(cls._encodes != cls._accepts_levels for cls in found)


def test_features_equal_a_plain_encoding(table):
    frame, y = table
    model = make("SuperSparseRegressor").fit(frame, y)
    columns = {}
    x = frame.x.to_numpy()
    columns["x"], columns["x=missing"] = np.where(np.isnan(x), np.nanmean(x), x), np.isnan(x)
    columns["flag"] = frame.flag.to_numpy()
    there = frame.city.notna().to_numpy()
    for city in frame.city.value_counts().index:
        is_one = (frame.city == city).to_numpy()
        columns[f"city={city}"] = np.where(there, is_one, is_one[there].mean())
    columns["city=other"] = ~there
    level = np.arange(N) % 300
    columns["zip=mean"] = shrunk(np.ones(N), y, level, 300)[level]
    columns["zip=count"] = np.full(N, np.log1p(3.0))
    seconds = (frame.when - pd.Timestamp(0)).dt.total_seconds().to_numpy()
    columns["when"] = seconds / PERIODS["year"]
    for period, length in PERIODS.items():
        columns[f"when=sin({period})"] = np.sin(2 * np.pi * seconds / length)
        columns[f"when=cos({period})"] = np.cos(2 * np.pi * seconds / length)
    X = features(model, frame)
    names = model.encoding_.feature_names()
    assert sorted(names) == sorted(columns)
    for j, name in enumerate(names):
        np.testing.assert_allclose(X[:, j], columns[name], rtol=1e-9, atol=1e-7, err_msg=name)
    assert model.n_features_in_ == 5
    assert list(model.feature_names_in_) == list(frame)


@pytest.mark.parametrize(
    "name", [name for name in MODELS if "scaling" in getattr(sl, name)().get_params()]
)
def test_a_category_counts_in_distances_as_a_number_does(name, table):
    """Its indicators share one scale, by which the variances of all add up to 1: a number's."""
    frame, y = table
    frame = frame.drop(columns="zip")
    frame["city"] = frame.city.where(np.arange(N) % 100 > 0, "ulm")  # few rows have this one
    model = make(name, scaling="standard").fit(frame, target_of(name, y))
    variance = features(model, frame).astype(float).var(axis=0)
    names = model.encoding_.feature_names()
    cities = [j for j, title in enumerate(names) if title.startswith("city=")]
    assert len(cities) == 5
    assert variance[cities].min() < 0.02
    expected = 1 / np.sqrt(variance)
    expected[cities] = 1 / np.sqrt(variance[cities].sum())
    scale = model.similarity_.scale if hasattr(model, "similarity_") else model.problem_.factor
    np.testing.assert_allclose(scale, expected, rtol=1e-4)


@pytest.mark.parametrize("n_classes", [0, 2, 3])
def test_a_training_row_never_sees_its_own_target(table, monkeypatch, n_classes):
    """Means over the rows of the other parts, by brute force; and the rows that were trained on."""
    frame, y = table
    if n_classes:
        y = np.digitize(y, np.quantile(y, np.arange(1, n_classes) / n_classes))
    seen = {}
    cls = sl.SuperSparseClassifier if n_classes else sl.SuperSparseRegressor
    fit = cls._fit

    def spy(self, run, dataset, *rest):
        with dataset.reader() as reader:
            seen["X"] = np.concatenate([np.array(reader.read(r).X) for r in dataset.refs()])
        return fit(self, run, dataset, *rest)

    monkeypatch.setattr(cls, "_fit", spy)
    model = make(cls.__name__, random_state=3).fit(frame[["x", "zip"]], y)
    part, level = parts_of(range(N), 3), np.arange(N) % 300
    outputs = [y == 1] if n_classes == 2 else [y == c for c in range(n_classes)] or [y]
    for o, values in enumerate(outputs):
        expected = np.empty(N)
        for f in range(N_PARTS):
            others = part != f
            means = shrunk(np.ones(others.sum()), 1.0 * values[others], level[others], 300)
            expected[part == f] = means[level[part == f]]
        at = 2 + o  # x, x=missing
        assert model.encoding_.feature_names()[at].startswith("zip=mean")
        np.testing.assert_allclose(seen["X"][:, at], expected, rtol=1e-9, atol=1e-12)


def test_identifiers_say_nothing():
    weight, sums = np.ones(50), np.arange(50.0)[:, None]
    means = shrunk_means(weight, sums, (sums**2).sum(axis=0))
    np.testing.assert_allclose(means, np.full((51, 1), 24.5))


@pytest.mark.parametrize("name", MODELS)
def test_every_family_takes_the_table_everywhere(name, table, tmp_path):
    """Parquet in one line, save and load, parts on disk, checkpoint; unseen values are answered."""
    frame, y = table
    target = target_of(name, y)
    frame.assign(y=target).to_parquet(tmp_path / "t.parquet")
    model = make(name).fit(str(tmp_path / "t.parquet"), "y", checkpoint=tmp_path / "run")
    resumed = make(name).fit(str(tmp_path / "t.parquet"), "y", checkpoint=tmp_path / "run")
    in_memory = make(name).fit(frame, target)
    sl.save(model, tmp_path / "m.slm")
    answers = model.predict(frame)
    for other in (resumed, in_memory, sl.load(tmp_path / "m.slm")):
        np.testing.assert_array_equal(other.predict(frame), answers)
    np.testing.assert_array_equal(model.predict(tmp_path / "t.parquet"), answers)
    model.predict_to(tmp_path / "t.parquet", tmp_path / "out")
    written = pd.read_parquet(tmp_path / "out")["prediction"].to_numpy()
    np.testing.assert_array_equal(written, answers)
    new = frame.assign(city="paris", zip="?", flag=np.nan, when=pd.NaT)
    if name in KEEP_LEVELS:  # a column that had no missing values takes none
        with pytest.raises(sl.SourceError, match="NaN in column 'flag', row 0"):
            model.predict(new)
        new = frame.assign(city="paris", zip="?", x=np.nan)
    assert len(set(model.predict(new).tolist())) >= 1
    assert 0 < model.score(frame, target) <= 1
    if hasattr(model, "predict_proba"):
        np.testing.assert_allclose(model.predict_proba(new).sum(axis=1), 1.0)


def test_what_says_nothing_is_the_mean_of_training(table):
    frame, y = table
    model = make("SuperSparseRegressor").fit(frame, y)
    new = frame.iloc[:1].assign(x=np.nan, city="paris", zip="?", flag=np.nan, when=pd.NaT)
    X = features(model, new)[0]
    location = model.encoding_.location
    np.testing.assert_array_equal(X, location)
    said = dict(zip(model.encoding_.feature_names(), X, strict=True))
    assert said["x=missing"] == 1
    assert said["city=other"] == 1
    np.testing.assert_allclose(said["flag"], frame.flag.mean())


def test_chunks_do_not_matter(table):
    frame, y = table
    model = make("SuperSparseRegressor").fit(frame, y)
    whole = features(model, frame)
    for rows in (1, 7, 256):
        np.testing.assert_array_equal(
            features(model, sl.open_dataset(frame, chunk_rows=rows)), whole
        )


def test_columns_are_selected_whole_and_read_alone(table, tmp_path):
    frame, y = table
    target = target_of("ShareBoostClassifier", y)
    model = make("ShareBoostClassifier", n_selected=2).fit(frame, target)
    assert set(model.columns_) <= set(range(5))
    assert len(model.columns_) == 2
    of = model.encoding_.column_of
    np.testing.assert_array_equal(model.support_, np.flatnonzero(np.isin(of, model.columns_)))
    assert model.get_support(indices=True).tolist() == model.columns_.tolist()
    names = model.encoding_.feature_names()
    assert list(model.get_feature_names_out()) == [names[j] for j in model.support_]
    assert set(open_features(model, frame).columns) == {list(frame)[j] for j in model.columns_}
    assert model.transform(frame).shape == (N, len(model.support_))


def test_pursuit_weighs_columns_by_name(table):
    frame, y = table
    model = make("ProjectionPursuitRegressor").fit(frame, y)
    shares = [model.irrelevant_weight([name]) for name in frame]
    np.testing.assert_allclose(sum(shares), 1.0)
    assert model.directions_.shape == (1, model.encoding_.n_features)


@pytest.mark.parametrize(
    "chosen, told",
    [
        ({"town": "target"}, "the column 'town', which is not among the features"),
        ({"city": "hash"}, "'hash'}: use one of 'number', 'cyclic', 'indicator', 'target'"),
        ({"city": "cyclic"}, "does not fit the column, which is .*; use one of 'indicator'"),
        ({"when": "target"}, "does not fit the column, which is timestamp"),
        ({"when": 24}, "'when': 24} does not fit the column, which is timestamp"),
        ({"city": 24}, "'city': 24} does not fit the column, which is string"),
        ({"x": "cyclic"}, "use one of 'number', 'indicator', 'target', or its period"),
        ({"x": 0}, "'x': 0}: a period is a finite number above 0"),
        ({"x": -24.0}, "'x': -24.0}: a period is a finite number above 0"),
        ({"x": np.inf}, "'x': inf}: a period is a finite number above 0"),
        ({"x": np.nan}, "'x': nan}: a period is a finite number above 0"),
        ({"x": True}, "'x': True}: use one of .*, or the period of a column of numbers"),
        ({"x": [24]}, r"'x': \[24\]}: use one of .*, or the period of a column of numbers"),
    ],
)
def test_a_choice_that_cannot_be_is_refused_by_name(table, chosen, told):
    frame, y = table
    with pytest.raises(ValueError, match=told):
        make("SuperSparseRegressor", encoding=chosen).fit(frame, y)


def test_choices(table):
    frame, y = table
    frame = frame.assign(code=np.arange(N) % 4)
    chosen = {"city": "target", "when": "number", "code": "indicator", "zip": "indicator"}
    model = make("SuperSparseRegressor", encoding=chosen).fit(frame, y)
    names = model.encoding_.feature_names()
    for name in ("city=mean", "city=count", "when", "code=0", "code=3"):
        assert name in names
    assert "when=sin(day)" not in names
    assert sum(name.startswith("zip=") for name in names) == 255 + 1  # and one for all others


@pytest.fixture(scope="module")
def hours():
    """Hours that go on after 24, and a target that goes by the hour of the day."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal(N)
    hour = rng.integers(-240, 240, N) / 4
    frame = pd.DataFrame({"x": x, "hour": hour})
    y = np.sin(2 * np.pi * (hour - 5) / 24) + 0.5 * x + 0.1 * rng.standard_normal(N)
    frame.loc[::17, "hour"] = np.nan
    return frame, y


@pytest.mark.parametrize("name", MODELS)
def test_a_column_with_a_period(name, hours, tmp_path):
    """One more turn of the circle changes no answer; and the circle is closed."""
    frame, y = hours
    y = target_of(name, y)
    pairs = {"interactions": [("x", "hour")]} if name == "AdditiveRegressor" else {}
    model = make(name, encoding={"hour": 24}, **pairs).fit(frame, y)
    whole = features(model, frame)
    later = frame.assign(hour=frame.hour + 24)
    np.testing.assert_allclose(features(model, later), whole, rtol=0, atol=1e-9)
    answer = getattr(model, "decision_function", model.predict)
    np.testing.assert_allclose(answer(later), answer(frame), rtol=1e-9, atol=1e-9)
    midnight = pd.DataFrame({"x": 0.0, "hour": [24 - 1e-9, 0.0]})
    np.testing.assert_allclose(*answer(midnight), rtol=1e-6, atol=1e-6)
    names, angle = model.encoding_.feature_names(), 2 * np.pi * frame.hour / 24
    if type(model)._accepts_levels:
        assert names == ["x", "hour"]
        np.testing.assert_array_equal(whole[:, 1], frame.hour % 24)
    else:
        assert names == ["x", "hour=sin", "hour=cos", "hour=missing"]
        there = frame.hour.notna()
        np.testing.assert_allclose(whole[there, 1], np.sin(angle[there]), atol=1e-12)
        np.testing.assert_allclose(whole[there, 2], np.cos(angle[there]), atol=1e-12)
        assert (whole[~there, 3] == 1).all()
    sl.save(model, tmp_path / "model.slm")
    loaded = sl.load(tmp_path / "model.slm")
    np.testing.assert_array_equal(loaded.predict(frame), model.predict(frame))
    infinite = frame.assign(hour=frame.hour.where(frame.index != 3, np.inf))
    with pytest.raises(ValueError, match="infinit.*hour|hour.*infinit"):
        make(name, encoding={"hour": 24}, **pairs).fit(infinite, y)
    with pytest.raises(ValueError, match="infinit.*hour|hour.*infinit"):
        model.predict(infinite)
    if hasattr(model, "partial_fit"):
        more = {"interactions": 0, "loss": "huber"} if pairs else {}
        stream = make(name, encoding={"hour": 24}, **more)
        with pytest.raises(ValueError, match="of period 24: .*'hour': 'number'} takes it as it is"):
            stream.partial_fit(frame, y)


def test_sparse_tables_stay_sparse():
    rng = np.random.default_rng(0)
    dense = rng.standard_normal((200, 5)) * (rng.random((200, 5)) < 0.3)
    dense[::9, 2] = np.nan
    y = dense[:, 0] > 0
    X = csr_array(dense)
    model = make("SuperSparseClassifier").fit(X, y)
    chunk = next(open_features(model, X).iter_chunks())
    assert chunk.X.shape == (200, 6)
    assert model.encoding_.feature_names() == ["x0", "x1", "x2", "x2=missing", "x3", "x4"]
    full = np.zeros((200, 6))
    full[np.repeat(np.arange(200), np.diff(chunk.X.indptr)), chunk.X.indices] = chunk.X.data
    filled = np.nan_to_num(dense)
    np.testing.assert_array_equal(full[:, [0, 1, 2, 4, 5]], filled)
    np.testing.assert_array_equal(full[:, 3], np.isnan(dense[:, 2]))


def test_a_column_keeps_its_type(table):
    frame, y = table
    model = make("SuperSparseRegressor").fit(frame, y)
    with pytest.raises(ValueError, match="'x' holds strings, but numbers when Super"):
        model.predict(frame.assign(x="a"))
    with pytest.raises(ValueError, match="'city' holds no strings, but categories when"):
        model.predict(frame.assign(city=1.0))
    with pytest.raises(ValueError, match="'when' holds float64 values, but timestamp values"):
        model.predict(frame.assign(when=1.0))
    with pytest.raises(ValueError, match="'when' holds strings, but times when Super"):
        model.predict(frame.assign(when="2020-01-01"))


def test_another_encoding_is_another_fit(table, tmp_path):
    frame, y = table
    make("SuperSparseRegressor").fit(frame, y, checkpoint=tmp_path)
    with pytest.raises(CheckpointError, match="encoding"):
        make("SuperSparseRegressor", encoding={"when": "number"}).fit(frame, y, checkpoint=tmp_path)


def test_a_stream_of_rows_takes_numbers(table):
    frame, y = table
    model = sl.SVMMixtureClassifier(2, algorithm="online-em")
    with pytest.raises(ValueError, match="partial_fit takes columns of numbers, but 'city'"):
        model.partial_fit(frame[["city"]], y > 0)


def test_cross_validation_learns_levels_in_each_split(table):
    frame, y = table
    scores = sl.cross_validate(
        make("SuperSparseRegressor"), frame, cv=2, y=y, param_grid={"ridge": ["auto", 1e-2]}
    )
    assert scores.scores.shape == (2, 2)
    assert scores.n_score_passes == 2
    one = sl.cross_validate(
        make("SuperSparseRegressor"),
        frame,
        cv=2,
        y=y,
        param_grid={"encoding": [None, {"when": "number"}]},
    )
    assert one.n_score_passes == 4
    np.testing.assert_array_equal(one.scores[0], scores.scores[0])


def test_the_most_frequent_levels_are_kept_in_bounded_memory():
    """Misra & Gries: of 2,000 levels 100 are kept, with the frequent ones among them."""
    words = [f"w{k}" for k in range(2000)] + [f"w{k}" for k in range(50) for _ in range(400)]
    frame = pd.DataFrame({"word": words})
    fold = hashes_fold("word", 100)
    state = fold.start()
    column = sl.open_dataset(frame, chunk_rows=512).column("word")
    with column.reader() as reader:
        for ref in column.refs():
            state = fold.step(state, reader.read(ref))
            assert len(state["hashes"]) <= 100
    assert set(hash_words(words[:50]).tolist()) <= set(state["hashes"].tolist())


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["ShareBoostClassifier", "SVMMixtureClassifier", "SuperSparseClassifier"]
)
def test_100_000_levels_within_the_budget(name, tmp_path):
    """A column of 100,000 words that decides the target: better on new rows, within 128 MiB."""
    rng = np.random.default_rng(0)
    n, n_levels, budget = 240_000, 100_000, 128 << 20
    level, x = rng.integers(0, n_levels, n), rng.random(n)
    y = target_of(name, rng.standard_normal(n_levels)[level] + 0.5 * x)
    table = pa.table({"x": x, "word": [f"word {k}" for k in level], "y": y})
    paths = [tmp_path / "train.parquet", tmp_path / "test.parquet"]
    for path, part in zip(paths, (table[:200_000], table[200_000:]), strict=True):
        pq.write_table(part, path, row_group_size=20_000)
    scores = {}
    for features in (["x", "word"], ["x"]):
        data = [sl.open_dataset(path, target="y", features=features) for path in paths]
        with sl.config_context(memory_budget=budget):
            model = make(name).fit(data[0])
            scores[len(features)] = model.score(data[1])
        spent = model.certificate_
        assert spent.peak_memory_bytes - spent.memory_before_bytes < budget
    assert scores[2] > scores[1] + 0.1
