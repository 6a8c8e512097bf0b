"""Survival curves and ordered classes: fits to rows at risk against other ways to the same."""

import numpy as np
import pytest
from scipy.optimize import minimize

import streamlearn as sl
from streamlearn.errors import CheckpointError, MemoryBudgetError
from streamlearn.estimator import at_risk

FREE = 1e8
"""C at which the penalty moves no coefficient by more than about 1e-6."""


def subjects(n, seed=1):
    """Times with ties; two columns of few values, so that curves are free at each of them."""
    rng = np.random.default_rng(seed)
    x1, x2 = rng.integers(0, 2, n).astype(float), rng.integers(0, 3, n).astype(float)
    death = rng.exponential(np.exp(-(0.8 * x1 - 0.5 * (x2 == 1) + 0.4 * (x2 == 2))))
    lost = rng.exponential(1.5, n)
    time = np.ceil(20 * np.minimum(death, lost)) / 20
    return {"x1": x1, "x2": x2, "time": time, "died": (death <= lost).astype(int)}


def coded(table):
    return np.column_stack([table["x1"], table["x2"] == 1, table["x2"] == 2]).astype(float)


def contrasts(model):
    """The coefficients of `coded`, from the curves."""
    f1, f2 = (model.shape_function(name, [0.0, 1.0, 2.0]) for name in ("x1", "x2"))
    return np.array([f1[1] - f1[0], f2[1] - f2[0], f2[2] - f2[0]])


def hazards_of(table, cuts, C=FREE, **kw):
    rows = sl.open_dataset(table, target="died").at_risk("time", cuts)
    model = sl.AdditiveRegressor("poisson", exposure="exposure", C=C, n_bases=256, tol=1e-10, **kw)
    return model.fit(rows)


def cox(table):
    """Cox's coefficients by the partial likelihood, ties as Breslow has them, and his hazards."""
    Z, time, died = coded(table), table["time"], table["died"] == 1
    order = np.argsort(-time, kind="stable")
    last = np.searchsorted(-time[order], -time, "right") - 1  # of those at risk at each time

    def minus_log(b):
        risk = np.cumsum(np.exp(Z[order] @ b))
        mean = np.cumsum(Z[order] * np.exp(Z[order] @ b)[:, None], axis=0) / risk[:, None]
        value = (Z @ b - np.log(risk[last]))[died].sum()
        return -value, -(Z - mean[last])[died].sum(axis=0)

    b = minimize(minus_log, np.zeros(3), jac=True, options={"gtol": 1e-9}).x
    cuts = np.unique(time[died])
    at_risk = np.array([np.exp(Z @ b)[time >= cut].sum() for cut in cuts])
    events = np.array([(time[died] == cut).sum() for cut in cuts])
    return b, cuts, np.cumsum(events / at_risk)


def test_a_cut_at_every_event_gives_cox_s_coefficients_and_breslow_s_hazard():
    table = subjects(500)
    b, cuts, baseline = cox(table)
    # Cox does not count the time between the last event and a loss: it is taken off.
    before = np.append(0.0, cuts)[np.searchsorted(cuts, table["time"], "right")]
    kept = np.where(table["died"] == 1, table["time"], before)
    model = hazards_of(table | {"time": kept}, cuts)
    np.testing.assert_allclose(contrasts(model), b, atol=5e-6)
    new = {"x1": np.array([0.0, 1.0]), "x2": np.array([1.0, 2.0])}
    survival = sl.survival_curves(model, new, cuts)
    scale = np.exp(coded(new) @ b)
    np.testing.assert_allclose(survival, np.exp(-scale[:, None] * baseline), atol=5e-6)
    # with it, the model is the piecewise-exponential one: near, and not the same
    near = contrasts(hazards_of(table, cuts))
    assert 1e-5 < abs(near - b).max() < 0.05


def test_without_covariates_hazards_are_events_over_time_at_risk():
    table, cuts = subjects(400), np.array([0.3, 0.5, 1.1, 2.0])
    table["x1"][:] = 0
    del table["x2"]
    model = hazards_of(table, cuts)
    starts = np.append(0, cuts[:-1])
    spent = np.clip(table["time"][:, None] - starts, 0, cuts - starts).sum(axis=0)
    inside = (table["time"][:, None] > starts) & (table["time"][:, None] <= cuts)
    events = (inside & (table["died"] == 1)[:, None]).sum(axis=0)
    want = np.exp(-np.cumsum(events / spent * np.diff(cuts, prepend=0)))
    got = sl.survival_curves(model, {"x1": np.zeros(3)}, cuts)
    np.testing.assert_allclose(got, np.tile(want, (3, 1)), rtol=1e-6)


def test_a_row_of_weight_2_is_two_rows():
    table, cuts = subjects(60), [0.3, 0.8, 2.0]
    twice = {name: np.repeat(values, 1 + np.arange(60) % 2) for name, values in table.items()}
    table["w"] = 1.0 + np.arange(60) % 2
    rows = sl.open_dataset(table, target="died", weight="w").at_risk("time", cuts)
    model = sl.AdditiveRegressor("poisson", exposure="exposure", C=10, tol=1e-10).fit(rows)
    both = hazards_of(twice, cuts, C=10)
    np.testing.assert_allclose(contrasts(model), contrasts(both), atol=1e-6)


def ordered(n, seed=0):
    rng = np.random.default_rng(seed)
    x1, x2 = rng.integers(0, 2, n).astype(float), rng.integers(0, 3, n).astype(float)
    score = 0.9 * x1 - 0.6 * (x2 == 1) + rng.logistic(size=n)
    return {"x1": x1, "x2": x2, "y": np.array(["low", "mid", "high", "top"])[
        np.digitize(score, [-0.5, 0.7, 1.8])
    ]}  # fmt: skip


ORDER = ["low", "mid", "high", "top"]


def test_a_classifier_of_steps_is_the_sequential_logit():
    table = ordered(600)
    rows = sl.open_dataset(table, target="y").ordinal_steps(ORDER)
    model = sl.AdditiveClassifier(C=FREE, n_bases=20, tol=1e-10).fit(rows)
    Z, y = coded(table), np.array([ORDER.index(word) for word in table["y"]])

    def chances(b):
        stops = 1 / (1 + np.exp(-(b[:3] + (Z @ b[3:])[:, None])))
        comes = np.cumprod(np.column_stack([np.ones(len(Z)), 1 - stops]), axis=1)
        return comes * np.column_stack([stops, np.ones(len(Z))])

    best = minimize(lambda b: -np.log(chances(b)[np.arange(600), y]).sum(), np.zeros(6))
    np.testing.assert_allclose(contrasts(model), best.x[3:], atol=2e-4)  # BFGS without a gradient
    new = {name: table[name] for name in ("x2", "x1")}
    got = sl.ordinal_probabilities(model, new, ORDER)
    np.testing.assert_allclose(got, chances(best.x), atol=1e-4)
    np.testing.assert_allclose(got.sum(axis=1), 1, atol=1e-15)
    # the likelihood of the classes is the product of those of the steps
    p = model.predict_proba(rows)
    of_steps = np.log(p[:, 1])[read_targets(rows) == 1].sum()
    of_steps += np.log(p[:, 0])[read_targets(rows) == 0].sum()
    assert np.log(got[np.arange(600), y]).sum() == pytest.approx(of_steps, rel=1e-12)


def read_targets(rows):
    return np.concatenate([chunk.y.copy() for chunk in rows.iter_chunks()])


def test_levels_of_education_in_adult(shared_data):
    """Real classes in their order, strings and missing values among the columns."""
    classes, wanted = range(1, 17), ["age", "occupation", "hours_per_week"]
    train, test = (
        sl.open_dataset(
            shared_data(f"adult/{part}.parquet"), target="education_num", features=wanted
        )
        for part in ("train", "test")
    )
    train = train.take(0.3)
    counts = train.select(["age"]).summary().labels.counts
    y = np.concatenate([c.y.copy() for c in test.select(["age"]).iter_chunks()]).astype(int) - 1
    model = sl.AdditiveClassifier(C=1).fit(train.ordinal_steps(classes))
    chances = sl.ordinal_probabilities(model, test, classes)
    np.testing.assert_allclose(chances.sum(axis=1), 1, atol=1e-14)
    by_frequency = -np.log(counts[y] / counts.sum()).mean()  # 2.03
    assert -np.log(chances[np.arange(len(y)), y]).mean() < by_frequency - 0.15


def test_new_rows_of_any_kind_give_the_same_curves(tmp_path):
    import pandas as pd

    table, cuts = subjects(300), [0.3, 0.8, 2.0]
    model = hazards_of(table, cuts, C=1)
    frame = pd.DataFrame(table).assign(more="words")
    frame.to_parquet(tmp_path / "t.parquet", row_group_size=64)
    want = sl.survival_curves(model, frame, cuts)
    assert want.shape == (300, 3)
    assert (np.diff(want, axis=1, prepend=1) < 0).all()
    opened = sl.open_dataset(tmp_path / "t.parquet", target="died")
    for X in (tmp_path / "t.parquet", opened, table, opened.with_slice_rows(7)):
        np.testing.assert_array_equal(sl.survival_curves(model, X, cuts), want)
    halves = [sl.survival_curves(model, part, cuts) for part in opened.split(0.5)]
    assert sum(map(len, halves)) == 300
    sl.save(model, tmp_path / "m.slm")
    again = sl.survival_curves(sl.load(tmp_path / "m.slm"), frame, cuts)
    np.testing.assert_array_equal(again, want)
    with (
        pytest.raises(MemoryBudgetError, match="the answer alone"),
        sl.config_context(memory_budget="5kB"),
    ):
        sl.survival_curves(model, opened, cuts)


def test_a_checkpoint_of_other_cuts_is_refused(tmp_path):
    data = sl.open_dataset(subjects(300), target="died")
    model = sl.AdditiveRegressor("poisson", exposure="exposure")
    first = model.fit(data.at_risk("time", [1, 2]), checkpoint=tmp_path / "run").predict(
        data.at_risk("time", [1, 2])
    )
    again = model.fit(data.at_risk("time", [1, 2]), checkpoint=tmp_path / "run")
    np.testing.assert_array_equal(again.predict(data.at_risk("time", [1, 2])), first)
    other = r"belongs to another fit: data.steps.cuts\[1\]: 2.0 then, 3.0"
    with pytest.raises(CheckpointError, match=other):
        model.fit(data.at_risk("time", [1, 3]), checkpoint=tmp_path / "run")


def test_splits_of_a_choice_hold_subjects_together():
    from streamlearn.additive.choose.newton import Splits

    rows = sl.open_dataset(subjects(300), target="died").at_risk("time", [0.2, 0.5, 1.0])
    of = {}
    for chunk in rows.iter_chunks():
        splits = Splits(5, 0, rows.siblings).of(chunk)
        for row, split in zip(chunk.numbers // 3, splits, strict=True):
            assert of.setdefault(row, split) == split
    assert len(set(of.values())) == 5
    model = sl.AdditiveRegressorCV("poisson", exposure="exposure", Cs=[0.1, 10], n_bases=[8], cv=3)
    assert model.fit(rows).C_ in (0.1, 10)


def test_models_of_other_rows_are_refused():
    table, cuts = subjects(200), [0.5, 1.0]
    X, y = coded(table), table["died"]
    with pytest.raises(ValueError, match="fitted without exposures"):
        sl.survival_curves(sl.AdditiveRegressor().fit(X, y), X, cuts)
    spent = sl.AdditiveRegressor("poisson", exposure="time").fit(
        sl.open_dataset(table, target="died")
    )
    with pytest.raises(ValueError, match="was not fitted to rows at risk: it has no column"):
        sl.survival_curves(spent, table, cuts)
    with pytest.raises(ValueError, match="was not fitted to rows at risk: .* but no names"):
        sl.ordinal_probabilities(sl.AdditiveClassifier().fit(X, y), X, [0, 1])
    with pytest.raises(ValueError, match="has no probabilities of two classes"):
        sl.ordinal_probabilities(spent, table, [0, 1])


@pytest.mark.parametrize("n_steps", [1, 2, 5])
def test_chances_are_put_together_in_the_place_of_the_answers(n_steps, monkeypatch):
    monkeypatch.setattr(at_risk, "BLOCK", 7)
    stops = np.random.default_rng(0).random((20, n_steps))
    answers = np.stack([1 - stops, stops], axis=2).reshape(-1, 2)
    found = at_risk._chances(answers, n_steps)
    assert np.shares_memory(found, answers)
    comes = np.cumprod(np.column_stack([np.ones(20), 1 - stops]), axis=1)
    expected = comes * np.column_stack([stops, np.ones(20)])
    np.testing.assert_allclose(found, expected, rtol=1e-14)
