"""Missing values and categories as levels, from every container."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from additive_kit import table
from oracles import liblinear, linear_problem

import streamlearn as sl
from streamlearn.errors import SourceError
from streamlearn.numeric.bases.registry import LEVELS

WORDS = ["red", "green", "blue", "x,y"]


def frame(n=300, seed=0):
    """A number with holes, strings with holes, int categories, booleans, and a target of all."""
    rng = np.random.default_rng(seed)
    a, c = rng.random(n), rng.integers(0, 4, n)
    a[rng.random(n) < 0.1] = np.nan
    words = np.array(WORDS, object)[c]
    words[rng.random(n) < 0.1] = None
    k, b = rng.integers(5, 8, n), rng.random(n) < 0.5
    f = np.where(np.isnan(a), 2.0, 3 * np.sin(6 * np.nan_to_num(a))) + c - 2 + b
    data = pd.DataFrame({"a": a, "c": words, "k": pd.Categorical(k), "b": b})
    return data, (rng.random(n) < 1 / (1 + np.exp(-f))).astype(int)


def arrow(data, y=None):
    columns = {
        "a": pa.array(data.a.to_numpy(), from_pandas=True),
        "c": pa.array(data.c.tolist()),
        "k": pa.array([str(v) for v in data.k]).dictionary_encode(),
        "b": pa.array(data.b.to_numpy()),
    }
    return pa.table(columns | ({} if y is None else {"y": y}))


def model(**parameters):
    return sl.AdditiveClassifier(**({"n_bases": 5, "tol": 1e-8} | parameters))


@pytest.fixture(scope="module")
def fitted():
    data, y = frame()
    return model().fit(data, y)


def explicit(data, levels):
    """Indicators of the levels, the last of all others, as a numeric table."""
    out = []
    for name in data:
        if name in levels:
            known = data[name].map(lambda v: None if pd.isna(v) else str(v)).tolist()
            columns = [[float(v == w) for v in known] for w in levels[name]]
            columns.append([float(v not in levels[name]) for v in known])
            out.append(np.array(columns).T)
    return np.hstack(out)


def test_levels_are_shrunk_one_by_one():
    """A column of categories is a ridge on indicators less their means: by LIBLINEAR."""
    data, y = frame()
    data = data[["c", "k"]]
    one = model(C=0.3).fit(data, y)
    A = explicit(data, one.levels_)
    A = np.column_stack([A - A.mean(axis=0), np.ones(len(A))])
    problem = linear_problem(Given(A[:, :-1]), None, 2 * y - 1, "log_loss", C=0.3)
    v, best = liblinear(problem)
    assert one.certificate_.primal == pytest.approx(best, rel=1e-8)
    np.testing.assert_allclose(one.decision_function(data), A @ v, atol=1e-4)
    assert (one.bases_.kind == LEVELS).all()


class Given:
    """Features that are there already."""

    def __init__(self, A):
        self.A = A

    def transform(self, X):
        import scipy.sparse

        return scipy.sparse.csr_array(self.A)


@pytest.mark.parametrize("degree", [1, 2, 3])
@pytest.mark.parametrize("solver", ["newton", "dual-cd"])
def test_a_missing_value_has_a_level_of_its_own(degree, solver):
    X, y = table(250)
    X[np.random.default_rng(1).random(X.shape) < 0.15] = np.nan
    shape = dict(n_bases=5, degree=degree)
    problem = linear_problem(sl.SplineEmbedding(**shape).fit(X), X, 2 * y - 1, "log_loss", C=0.2)
    v, best = liblinear(problem)
    one = model(**shape, C=0.2, solver=solver, tol=1e-7, max_passes=2000).fit(X, y)
    assert one.certificate_.primal == pytest.approx(best, rel=1e-6)
    np.testing.assert_allclose(one.decision_function(X), problem.A @ v, atol=0.02)
    # the level is free of the curve: no value's function is met by both
    terms = [one.shape_function(d, X[:, d]) for d in range(5)]
    np.testing.assert_allclose(sum(terms) + one.intercept_, one.decision_function(X))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_missing_values_in_float32_too(dtype):
    """Tables of 17 rows and more take the vector search, whose padding no value may reach."""
    X, y = table(250)
    X[np.random.default_rng(1).random(X.shape) < 0.15] = np.nan
    both = [model().fit(Z, y).decision_function(Z) for Z in (X.astype(dtype), X)]
    np.testing.assert_allclose(*both, atol=1e-3)


def test_every_container_gives_the_same_model(fitted, tmp_path):
    data, y = frame()
    import polars as pl

    expected = fitted.decision_function(data)
    assert fitted.n_passes_ == 3  # the levels, the summary, and what proves the optimum
    pq.write_table(arrow(data, y), tmp_path / "t.parquet", row_group_size=77)
    sources = {
        "arrow": arrow(data, y),
        "polars": pl.from_arrow(arrow(data, y)),
        "parquet": tmp_path / "t.parquet",
        "stream": arrow(data, y).to_reader(),
        "pandas": data.assign(y=y),
    }
    for name, source in sources.items():
        one = model().fit(source, "y")
        assert one.levels_ == fitted.levels_, name
        np.testing.assert_allclose(one.decision_function(data), expected, atol=1e-9, err_msg=name)
    np.testing.assert_array_equal(fitted.decision_function(tmp_path / "t.parquet"), expected)
    mixed = sl.open_dataset(data[["k", "b", "c", "a"]])
    np.testing.assert_array_equal(fitted.decision_function(mixed), expected)
    sl.save(fitted, tmp_path / "m.slm")
    again = sl.load(tmp_path / "m.slm")
    assert again.levels_ == fitted.levels_
    np.testing.assert_array_equal(again.decision_function(data), expected)


def test_dask_frames(fitted):
    import dask.dataframe as dd

    data, y = frame()
    one = model().fit(dd.from_pandas(data.assign(y=y), npartitions=3), "y")
    expected = fitted.decision_function(data)
    np.testing.assert_allclose(one.decision_function(data), expected, atol=1e-9)
    lazy = fitted.decision_function(dd.from_pandas(data, npartitions=2))
    np.testing.assert_array_equal(lazy.compute(), expected)


def test_unseen_levels_are_missing_ones(fitted):
    data, _ = frame()
    unseen, missing = data.copy(), data.copy()
    unseen.loc[:, "c"], missing.loc[:, "c"] = "violet", None
    np.testing.assert_array_equal(
        fitted.decision_function(unseen), fitted.decision_function(missing)
    )
    assert abs(fitted.decision_function(unseen) - fitted.decision_function(data)).max() > 0.1


def test_rare_levels_share_one_and_are_shrunk():
    rng = np.random.default_rng(0)
    n = 2000
    word = np.array([f"w{k}" for k in np.minimum(rng.zipf(1.5, n), 300)], object)
    y = rng.random(n) < 0.5
    data = pd.DataFrame({"w": word, "x": rng.random(n)})
    one = model(max_levels=20, encoding={"w": "levels"}).fit(data, y)
    assert len(one.levels_["w"]) == 20
    assert one.bases_.first[1] == 21
    counts = pd.Series(word).value_counts()
    size = abs(one.coef_[0, :20])
    rare = [k for k, w in enumerate(one.levels_["w"]) if counts[w] < 10]
    assert size[rare].max() < 1.5  # log-odds of few rows alone would be infinite


def test_missing_error_refuses_numbers_and_lets_categories_pass():
    data, y = frame()
    with pytest.raises(sl.SourceError, match="column 'a' holds .* NaN"):
        model(missing="error").fit(data, y)
    whole = data.assign(a=data.a.fillna(0.0))
    one = model(missing="error").fit(whole, y)
    assert one.certificate_.converged


def test_a_level_that_a_validation_split_keeps_out_harms_nothing():
    data, y = frame()
    data.loc[0, "c"] = "once"
    one = model().fit(data, y, validation=0.5)
    assert "once" in one.levels_["c"]
    red = data.assign(c=data.c.where(data.c != "once", "red"))
    step = one.decision_function(data) - one.decision_function(red)
    effect = dict(zip(one.levels_["c"], one.coef_[0, one.bases_.first[1] :], strict=False))
    assert step[0] == pytest.approx(effect["once"] - effect["red"], rel=1e-5)
    assert not step[1:].any()


def test_warm_start_keeps_the_levels_and_says_what_is_new():
    data, y = frame()
    warm = model(warm_start=True).fit(data, y)
    levels = warm.levels_
    again = data.assign(c=np.roll(data.c.to_numpy(), 7), k=data.k)
    again.loc[0, "c"] = "purple"
    warm.fit(again, y)
    assert warm.levels_ == levels
    with pytest.raises(ValueError, match="without missing values in .'b'.*new estimator"):
        warm.fit(data.assign(b=np.where(np.arange(len(data)) % 2, np.nan, 1.0)), y)


def test_validation_rows_are_checked_too():
    data, y = frame()
    numbers = data[["a"]].assign(d=np.arange(len(data)) * 1.0)
    bad = numbers.assign(d=np.where(np.arange(len(data)) == 7, np.nan, numbers.d))
    with pytest.raises(SourceError, match="NaN in column 'd', row 7"):
        model().fit(numbers, y, validation=(bad, y))
