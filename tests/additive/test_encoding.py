"""Columns that additive models make features of: target means, and times on circles."""

from copy import deepcopy

import numpy as np
import pyarrow as pa
import pytest

import streamlearn as sl
from streamlearn.estimator.rows.inputs import open_features
from streamlearn.export.scoring_table import scoring_table
from streamlearn.numeric.bases.registry import CYCLE, LEVELS, SPLINE
from streamlearn.numeric.bases.splines import Cycle, Spline

pd = pytest.importorskip("pandas")
N = 3000
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


@pytest.fixture(scope="module")
def table():
    """Numbers with holes, few and many words, and times; the target needs all of them."""
    rng = np.random.default_rng(0)
    effect, code = rng.standard_normal(300), np.arange(N) % 300
    when = pd.Timestamp("2020-02-01") + pd.to_timedelta(rng.integers(0, 10**8, N), unit="s")
    frame = pd.DataFrame(
        {
            "when": when,
            "x": rng.standard_normal(N),
            "city": rng.choice(["rome", "oslo", "bern"], N),
            "zip": [f"z{k}" for k in code],
        }
    )
    hour = when.hour + when.minute / 60
    y = np.sin(2 * np.pi * hour / 24) + (when.dayofweek >= 5) + effect[code] + 0.5 * frame.x
    y = y.to_numpy() + (frame.city == "rome").to_numpy() + 0.3 * rng.standard_normal(N)
    frame.loc[::17, "x"] = np.nan
    frame.loc[::19, "city"] = None
    frame.loc[::23, "when"] = pd.NaT
    return frame, y


def clock(n=4000, seed=0):
    """A time of day, and a target that jumps at six and at midnight does not."""
    rng = np.random.default_rng(seed)
    hour = rng.uniform(0, 24, n)
    y = np.cos(2 * np.pi * hour / 24) + (np.abs(hour - 12) < 6) + 0.3 * rng.standard_normal(n)
    seconds = (hour * 3600).astype(int)
    times = pa.array((seconds * 10**6).tolist(), pa.time64("us"))
    return pa.table({"at": times, "y": y}), seconds / 3600.0, y


def circle(hour, m, degree):
    """(n, m) periodic splines on m equal intervals of a day, and (n, m + degree) those beneath."""
    u = hour / 24 * m
    Phi = Spline().functions(u.astype(np.float32), m + degree, m, degree)
    E = np.vstack([np.eye(m), np.eye(m)[:degree]])
    return Phi @ E


def around(m, order):
    """The penalty of the free coefficients: differences around the circle."""
    D = np.linalg.matrix_power(np.roll(np.eye(m), 1, axis=1) - np.eye(m), order)
    return D.T @ D * m ** (2 * order - 1)


@pytest.mark.parametrize("degree", [1, 2, 3])
@pytest.mark.parametrize("order", [0, 1, 2])
def test_a_clock_is_a_ridge_on_periodic_splines(degree, order):
    """By the normal equations of the free coefficients alone."""
    data, hour, y = clock()
    m, C = 12, 0.1
    model = sl.AdditiveRegressor(
        C=C, n_bases=m + degree, degree=degree, penalty_order=order, interactions=0, tol=1e-10,
        intercept_scaling=1e4,
    ).fit(data, "y")  # fmt: skip
    A = circle(hour, m, degree)
    A -= A.mean(axis=0)
    P = around(m, order) if order else np.eye(m) / m
    if not order:  # those beneath are charged one by one, so the repeated ones are twice
        P = Cycle().factor(m + degree, m, 0, "integral")
        E = np.vstack([np.eye(m), np.eye(m)[:degree]])
        P = E.T @ (P.T @ P) @ E
    else:
        P = P + 1e-9 * np.eye(m)
    w = np.linalg.solve(2 * C * A.T @ A + P, 2 * C * A.T @ (y - y.mean()))
    np.testing.assert_allclose(model.predict(data.select(["at"])) - y.mean(), A @ w, atol=2e-5)
    ends = model.shape_function("at=hour", np.array([0.0, 24.0]))
    np.testing.assert_allclose(ends[0], ends[1], rtol=1e-12)
    assert model.bases_.kind.tolist() == [CYCLE]


@pytest.mark.parametrize("degree", [1, 2, 3])
@pytest.mark.parametrize("n", [6, 20, 127])
@pytest.mark.parametrize("scale", ["integral", "paper"])
def test_the_penalty_of_a_circle(degree, n, scale):
    """On periodic coefficients it is that of differences around; on others it is stiff."""
    m = n - degree
    E = np.vstack([np.eye(m), np.eye(m)[:degree]])
    for order in (1, 2):
        R = Cycle().factor(n, m, order, scale)
        P = R.T @ R
        size = m ** (2 * order - 1) if scale == "integral" else 1.0
        expected = size * around(m, order) / m ** (2 * order - 1)
        ones = E.sum(axis=0)[:, None] @ E.sum(axis=0)[None] / n
        ones /= 1.0 if scale == "integral" else m ** (2 * order - 1)
        np.testing.assert_allclose(E.T @ P @ E, expected + ones, rtol=1e-6, atol=1e-6 * size)
        opened = np.zeros(n)
        opened[-1] = 1.0
        assert opened @ P @ opened > 1e8 * m * size / m ** (2 * order - 1)
        inverse = np.linalg.inv(R)
        np.testing.assert_allclose(inverse @ inverse.T @ P, np.eye(n), atol=1e-5)


@pytest.mark.parametrize("loss", ["log_loss", "hinge"])
@pytest.mark.parametrize("interactions", [0, [("at=hour", "x")]])
def test_every_solver_has_the_same_optimum(loss, interactions):
    data, hour, y = clock(1500)
    x = np.sin(np.arange(len(y)))
    data = data.append_column("x", pa.array(x)).set_column(1, "y", pa.array(y > 0.5))
    found = {}
    for solver in ("newton", "lbfgs", "dual-cd"):
        if solver != "dual-cd" and loss == "hinge":
            continue
        model = sl.AdditiveClassifier(
            loss, C=1.0, n_bases=8, solver=solver, interactions=interactions, tol=1e-7,
            max_passes=2000,
        )  # fmt: skip
        model.fit(data, "y")
        assert model.certificate_.converged
        found[solver] = model.decision_function(data.drop(["y"]))
        midnight = pa.table({"at": pa.array([0, 86400 * 10**6 - 1], pa.time64("us"))})
        midnight = midnight.append_column("x", pa.array([0.3, 0.3]))
        ends = model.decision_function(midnight)  # a curve and its pair close together
        np.testing.assert_allclose(ends[0], ends[1], atol=1e-4)
    first, *others = found.values()
    for other in others:
        np.testing.assert_allclose(other, first, atol=5e-3)


def test_a_circle_is_closed_whatever_the_data_say():
    """Rows whose two sides of midnight differ: the ends agree, though the data pull them apart."""
    rng = np.random.default_rng(1)
    hour = rng.uniform(0, 24, 20_000)
    data = pa.table({"at": pa.array((hour * 3600e6).astype(int).tolist(), pa.time64("us"))})
    for C in (1e-2, 1.0, 1e4):
        model = sl.AdditiveRegressor(C=C, n_bases=20, interactions=0).fit(data, hour)
        curve = model.shape_function("at=hour", np.array([0.0, 0.01, 23.99, 24.0]))
        assert curve[0] == curve[3]
        assert abs(curve[1] - curve[2]) < 0.3


@pytest.mark.parametrize("solver", ["newton", "lbfgs"])
def test_a_number_with_a_period_is_a_time_of_day(solver):
    """The same curve as of times, on any turn of the circle; and what is asked of times holds."""
    table, hour, y = clock()
    turns = np.random.default_rng(0).integers(-3, 4, len(y)) * 24
    frame = pd.DataFrame({"at": hour + turns})
    more = {"interactions": 0, "solver": solver, "tol": 1e-6}
    table = table.select(["at"])
    times = sl.AdditiveRegressor(**more).fit(table, y)
    numbers = sl.AdditiveRegressor(encoding={"at": 24}, **more).fit(frame, y)
    np.testing.assert_allclose(numbers.predict(frame), times.predict(table), rtol=1e-4, atol=1e-4)
    hours = np.linspace(0, 24, 97)
    curve = numbers.shape_function("at", hours)
    assert curve[0] == curve[-1]
    np.testing.assert_allclose(curve, times.shape_function("at=hour", hours), atol=1e-4)
    with pytest.raises(ValueError, match="curve ends where it begins"):
        sl.AdditiveRegressor(encoding={"at": 24}, monotone={"at": 1}, interactions=0).fit(frame, y)


def features(model, X):
    return np.concatenate([np.array(chunk.X) for chunk in open_features(model, X).iter_chunks()])


def test_features_equal_a_plain_encoding(table):
    """Times by the calendar; levels and numbers as they are; what is not known stays so."""
    frame, y = table
    model = sl.AdditiveRegressor(n_bases=5, C=1.0, interactions=0).fit(frame, y)
    names = ["when", "when=hour", "when=weekday", "when=yearday", "x", "city"]
    assert model.term_names_ == [*names, "zip=mean", "zip=count"]
    assert model.bases_.kind.tolist() == [SPLINE, *[CYCLE] * 3, SPLINE, LEVELS, SPLINE, SPLINE]
    X = dict(zip(model.term_names_, features(model, frame).T, strict=True))
    when = frame.when.dt
    hour = when.hour + when.minute / 60 + when.second / 3600
    np.testing.assert_allclose(X["when=hour"], hour, atol=1e-6)
    np.testing.assert_allclose(X["when=weekday"], when.dayofweek + hour / 24, atol=1e-6)
    years = when.year + (when.dayofyear - 1 + hour / 24) / 365.2425
    assert np.nanmax(np.abs(X["when"] - years)) < 1.5 / 365  # leap days
    gap = np.abs(X["when=yearday"] - (when.dayofyear - 1 + hour / 24))
    assert np.nanmax(np.minimum(gap, 365.2425 - gap)) < 1.5
    np.testing.assert_array_equal(X["x"], frame.x)
    there = frame.city.notna().to_numpy()
    assert [model.levels_["city"][int(k)] for k in X["city"][there]] == frame.city[there].tolist()
    assert np.isnan(X["city"][~there]).all()
    np.testing.assert_allclose(X["zip=count"], np.log1p(10.0))
    apart = np.corrcoef(X["zip=mean"], y)[0, 1]
    assert apart > 0.5


def test_what_is_new_is_answered(table):
    """A word that training did not have: the mean of all rows; a missing time its level."""
    frame, y = table
    model = sl.AdditiveRegressor(n_bases=5, C=1.0, interactions=0).fit(frame, y)
    new = frame.iloc[:3].assign(zip=["?", None, "z1"], when=pd.NaT, city="paris")
    X = dict(zip(model.term_names_, features(model, new).T, strict=True))
    np.testing.assert_allclose(X["zip=mean"][:2], y.mean())
    assert X["zip=count"].tolist()[:2] == [0.0, 0.0]
    assert np.isnan(X["when=hour"]).all()
    assert np.isfinite(model.predict(new)).all()


def test_many_levels_are_worth_reading(table):
    """300 words of ten rows each: their means say more than a coefficient each."""
    frame, y = table
    test = np.random.default_rng(3).random(N) < 0.3
    train = ~test
    scores = {}
    for kind in ("target", "levels"):
        model = sl.AdditiveRegressor(encoding={"zip": kind}, max_levels=255, random_state=1)
        model.fit(frame[train], y[train])
        scores[kind] = model.score(frame[test], y[test])
    alone = sl.AdditiveRegressor().fit(frame[train].drop(columns="zip"), y[train])
    others = scores["levels"], alone.score(frame[test].drop(columns="zip"), y[test])
    assert scores["target"] > max(others) + 0.03


def test_max_levels_decides(table):
    frame, y = table
    for most, names in ((3, ["city"]), (2, ["city=mean", "city=count"])):
        model = sl.AdditiveRegressor(max_levels=most, n_bases=4, interactions=0)
        model.fit(frame[["city"]], y)
        assert model.term_names_ == names
    model = sl.AdditiveRegressor(max_levels=2, encoding={"city": "levels"}, n_bases=4)
    assert len(model.fit(frame[["city"]], y).levels_["city"]) == 2


def test_columns_by_number_are_those_of_the_table(table):
    """Numbers count columns, not features; a column of several features is asked for by name."""
    frame, y = table
    model = sl.AdditiveRegressor(n_bases=5, C=1.0, interactions=[(1, 2)]).fit(frame, y)
    assert model.term_names_[-1] == "x & city"
    grid = np.array([0.0, 1.0])
    np.testing.assert_array_equal(model.shape_function(1, grid), model.shape_function("x", grid))
    told = r"column 0 is 'when', which is encoded as the features \['when', 'when=hour'"
    with pytest.raises(ValueError, match=told):
        model.shape_function(0, grid)
    for parameters in ({"interactions": [(0, 1)]}, {"monotone": {0: 1}}, {"offset": 0}):
        with pytest.raises(ValueError, match=told):
            sl.AdditiveRegressor(C=1.0, **{"interactions": 0, **parameters}).fit(frame, y)
    told = "'when=hour', a clock whose curve ends where it begins"
    with pytest.raises(ValueError, match=told):
        sl.AdditiveRegressor(interactions=0, monotone={"when=hour": 1}).fit(frame, y)
    model = sl.AdditiveRegressor(interactions=0, monotone={1: 1}).fit(frame, y)
    assert (np.diff(model.shape_function("x", np.linspace(-2, 2, 50))) >= 0).all()
    model = sl.AdditiveRegressor(interactions=0, offset=1).fit(frame.assign(x=0.5), y)
    assert model.certificate_.converged


def test_exposures_stand_beside_encoded_columns(table):
    frame, y = table
    frame = frame.assign(x=1.0 + np.arange(N) % 3)
    counts = np.random.default_rng(0).poisson(np.exp(0.3 * y) * frame.x)
    model = sl.AdditiveRegressor("poisson", exposure="x", interactions=0).fit(frame, counts)
    twice = model.predict(frame.assign(x=2 * frame.x))
    np.testing.assert_allclose(twice, 2 * model.predict(frame), rtol=1e-9)


def test_what_does_not_go_with_it_is_refused_by_name(table, tmp_path):
    frame, y = table
    model = sl.AdditiveRegressor(n_bases=5, interactions=0, smoothness="reml").fit(frame, y)
    with pytest.raises(ValueError, match="has target means of the words of 'zip', which it knows"):
        scoring_table(model)
    with pytest.raises(ValueError, match="'zip' of model 0 is encoded by means of the targets"):
        model.merge(deepcopy(model))
    again = sl.AdditiveRegressor(n_bases=5, interactions=0, C=1.0, warm_start=True).fit(frame, y)
    with pytest.raises(ValueError, match="'zip' is encoded by means of its targets, which rows"):
        again.fit(frame, y)
    stream = sl.AdditiveRegressor("huber", interactions=0)
    with pytest.raises(ValueError, match=r"'when' holds timestamp .*\{'when': 'number'\} takes"):
        stream.partial_fit(frame[["when"]], y)
    stream = sl.AdditiveRegressor("huber", encoding={"when": "number"}, n_bases=4)
    stream.partial_fit(frame[["when"]].fillna(frame.when[1]), y)
    assert stream.term_names_ == ["when"]
    told = "use one of 'number', 'cyclic', 'levels', 'target'"
    with pytest.raises(ValueError, match=told):
        sl.AdditiveRegressor(encoding={"city": "indicator"}).fit(frame, y)


def test_times_go_on_from_a_fit_and_are_joined(table):
    """Clocks need no target: a warm start keeps them, and parts of the rows are joined."""
    frame, y = table
    frame = frame[["when", "x", "city"]]
    first = sl.AdditiveRegressor(n_bases=6, C=1.0, covariance=True, warm_start=True)
    first.set_params(interactions=0).fit(frame[::2], y[::2])
    second = deepcopy(first).fit(frame[1::2], y[1::2])
    whole = deepcopy(first).fit(frame, y)
    merged = first.merge(second)
    np.testing.assert_allclose(merged.predict(frame), whole.predict(frame), atol=1e-5)


def test_a_held_out_part_is_encoded_once(table):
    frame, y = table
    model = sl.AdditiveClassifier(n_bases=5, C=1.0, interactions=0, calibration="sigmoid")
    model.fit(frame, y > 0.5, validation=(frame[::5], y[::5] > 0.5))
    model.set_params(warm_start=True, encoding={"zip": "levels"}, calibration=None)
    again = sl.AdditiveClassifier(**model.get_params()).fit(frame, y > 0.5, validation=0.2)
    again.fit(frame, y > 0.5, validation=0.2)
    assert again.score(frame, y > 0.5) > 0.8


def test_a_stream_after_a_fit_has_its_own_features(table):
    frame, y = table
    model = sl.AdditiveRegressor("huber", n_bases=4, interactions=0).fit(frame, y)
    x = frame[["x"]].fillna(0.0)
    model.partial_fit(x, y)
    assert model.term_names_ == ["x"]
    assert np.isfinite(model.predict(x)).all()


def test_a_table_of_numbers_has_no_encoding(table):
    frame, y = table
    model = sl.AdditiveRegressor(n_bases=5, interactions=0).fit(frame, y)
    assert model.encoding_.keeps_levels
    model.fit(frame[["x", "city"]], y)
    assert not hasattr(model, "encoding_")
