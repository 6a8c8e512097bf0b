"""The scoring table and the SQL of additive models answer as the models do, on awkward rows."""

import json

import numpy as np
import pandas as pd
import pytest

import streamlearn as sl
from streamlearn.export.scoring_table import score, scoring_table

ODD = 'a "b", c; --'
WORDS = ["red", "it's", 'say "no"', ""]


def rows(n=400, seed=0):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            ODD: rng.standard_normal(n),
            "few": rng.integers(0, 5, n).astype(float),
            "gone": np.where(rng.random(n) < 0.2, np.nan, rng.random(n)),
            "word": np.array(WORDS, object)[rng.integers(0, 3, n)],
            "flat": np.ones(n),
            "exposed": rng.uniform(0.5, 2, n),
        }
    )
    f = np.sin(2 * frame[ODD]) + (frame["word"] == "red") + np.nan_to_num(frame["gone"])
    return frame, f.to_numpy()


def awkward():
    """Values at, between and beyond breakpoints, missing ones, words that are new."""
    frame, _ = rows(60, seed=1)
    frame.loc[0:3, ODD] = [-1e9, 1e9, 0.0, -0.0]
    frame.loc[4:8, "few"] = [2.5, -7.0, 99.0, 4.0, 0.0]
    frame.loc[9:12, "gone"] = [np.nan, -5.0, 5.0, 1e-300]
    frame["word"] = frame["word"].where(frame.index % 7 > 0, "new").where(frame.index % 5 > 0, None)
    return frame


def columns_of(frame):
    return [frame[name].to_numpy() for name in frame]


def models():
    frame, f = rows()
    label = (f > 0.8).astype(int)
    many = np.digitize(f, [0.3, 1.0])
    yield sl.AdditiveRegressor(n_bases=6), f
    yield sl.AdditiveRegressor(n_bases=6, degree=2, penalty_order=2), f
    yield sl.AdditiveRegressor(n_bases=6, degree=3, penalty_order=2, offset="exposed"), f
    yield sl.AdditiveRegressor(n_bases=4, loss="poisson", exposure="exposed"), many
    yield sl.AdditiveClassifier(n_bases=6), label
    yield sl.AdditiveClassifier(n_bases=4, loss="squared_hinge"), label
    yield sl.AdditiveClassifier(n_bases=4), many
    pairs = [(ODD, "gone"), ("word", "few"), ("gone", "word"), (ODD, "flat")]
    yield sl.AdditiveRegressor(n_bases=12, interactions=pairs, offset="exposed"), f
    yield sl.AdditiveClassifier(n_bases=6, interactions=pairs), label
    yield sl.AdditiveClassifier(n_bases=4, interactions=pairs[:2]), many
    yield sl.AdditiveClassifier(n_bases=4, multi_class="multinomial"), many
    yield sl.AdditiveClassifier(n_bases=4, multi_class="multinomial"), label


@pytest.fixture(scope="module", params=range(12))
def fitted(request):
    model, y = list(models())[request.param]
    return model.fit(rows()[0], y)


def decisions(model, frame):
    if hasattr(model, "classes_"):
        return model.decision_function(frame).reshape(len(frame), -1)
    return model.predict(frame).reshape(len(frame), -1)


def test_the_table_has_the_models_decisions(fitted):
    frame = awkward()
    got, wanted = score(scoring_table(fitted), columns_of(frame)), decisions(fitted, frame)
    if getattr(fitted, "exposure", None):
        got = np.exp(got) * frame[["exposed"]].to_numpy()
    np.testing.assert_allclose(got, wanted, rtol=1e-9, atol=1e-9)


def added(column, x):
    """What a column of a JSON table adds."""
    if "levels" in column:
        return column["levels"].get(x, column["missing"])
    if x != x:
        return column["missing"]
    k = column["breakpoints"]
    j = max((a for a in range(len(k)) if k[a] <= x), default=0)
    u = float(j)
    if x > k[0] and j < len(k) - 1:
        u += (x - k[j]) / (k[j + 1] - k[j])
    u = float(np.float32(u))
    j = min(int(u), len(k) - 2)
    return [w[j] * (1 - (u - j)) + w[j + 1] * (u - j) for w in column["coefficients"]]


def test_a_json_table_scores_as_the_model(fitted):
    """Scored by what the table says alone, in plain Python, as its reader would."""
    if fitted.degree != 1:
        return
    table = json.loads(json.dumps(sl.to_dict(fitted), allow_nan=False))
    frame = awkward()
    for i, row in enumerate(frame.to_dict("records")):
        got = list(table["intercept"])
        for column in table["columns"]:
            values = added(column, row[column["name"]])
            got = [a + b for a, b in zip(got, values, strict=True)]
        for pair in table["pairs"]:
            first = added(pair["first"], row[pair["first"]["name"]])
            for k, column in enumerate(pair["second"]):
                second = added(column, row[column["name"]])
                got[k] += sum(a * b for a, b in zip(first, second, strict=True))
        if table["offset"]:
            got[0] += row[table["offset"]]
        if table["exposure"]:
            got = [np.exp(got[0]) * row[table["exposure"]]]
        np.testing.assert_allclose(got, decisions(fitted, frame)[i], rtol=1e-6, atol=1e-6)
        if hasattr(fitted, "predict_proba"):
            found = probabilities(table["link"], np.array(got))
            expected = fitted.predict_proba(frame.iloc[[i]])[0]
            np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def probabilities(link, got):
    """Of the decisions of a row, as the docstring of `to_dict` says it."""
    shares = {"logit": 1 / (1 + np.exp(-got)), "softmax": np.exp(got)}[link]
    return np.append(1 - shares, shares) if len(got) == 1 else shares / shares.sum()


def test_a_database_answers_as_the_model(fitted):
    duckdb = pytest.importorskip("duckdb")
    frame = awkward()
    asked = frame.astype({"gone": object}).where(frame.notna(), None)
    asked["gone"] = pd.to_numeric(frame["gone"])
    base = duckdb.connect()
    base.execute("CREATE TABLE data (i INTEGER, " + ", ".join(
        f'"{name.replace(chr(34), 2 * chr(34))}" {"VARCHAR" if name == "word" else "DOUBLE"}'
        for name in frame
    ) + ")")  # fmt: skip
    values = [
        [i, *(None if value is None or value != value else value for value in row)]
        for i, row in enumerate(frame.itertuples(index=False))
    ]
    base.executemany(f"INSERT INTO data VALUES ({', '.join('?' * (1 + frame.shape[1]))})", values)

    def ask(**kw):
        found = base.execute(f"SELECT {sl.to_sql(fitted, **kw)} FROM data ORDER BY i").fetchall()
        return np.array(found, float)[:, 0]

    wanted = decisions(fitted, frame)
    if wanted.shape[1] > 1:
        for k, label in enumerate(fitted.classes_.tolist()):
            np.testing.assert_allclose(ask(label=label), wanted[:, k], rtol=1e-9, atol=1e-9)
        with pytest.raises(ValueError, match="more than two classes: no one expression"):
            sl.to_sql(fitted, what="mean", label=0)
        return
    if hasattr(fitted, "predict_proba"):
        p = fitted.predict_proba(frame)[:, 1]
        np.testing.assert_allclose(ask(what="mean"), p, rtol=1e-9, atol=1e-9)
    if hasattr(fitted, "classes_"):
        np.testing.assert_allclose(ask(), wanted[:, 0], rtol=1e-9, atol=1e-9)
    else:
        np.testing.assert_allclose(ask(what="mean"), wanted[:, 0], rtol=1e-9, atol=1e-9)


def test_what_cannot_be_exact_is_refused():
    frame, f = rows()
    X = frame[["few"]]
    with pytest.raises(ValueError, match="no polynomial between breakpoints"):
        sl.to_sql(sl.AdditiveRegressor(basis="cosine", n_bases=4).fit(X, f))
    with pytest.raises(TypeError, match="is no additive model"):
        sl.to_dict(sl.ProjectionPursuitRegressor(1, backfit=0).fit(X, f))
    model = sl.AdditiveRegressor(n_bases=4).fit(X, f)
    with pytest.raises(ValueError, match="the model has one decision"):
        sl.to_sql(model, label=1)
    with pytest.raises(ValueError, match="what='probability' is not known"):
        sl.to_sql(model, what="probability")
    hinge = sl.AdditiveClassifier(n_bases=4, loss="squared_hinge").fit(X, f > 0.8)
    with pytest.raises(ValueError, match="a loss without probabilities"):
        sl.to_sql(hinge, what="mean")


def test_a_part_that_the_table_lacks_is_noticed():
    """A model whose decisions are more than its curves is refused, whatever is added to them."""
    frame, f = rows()
    model = sl.AdditiveRegressor(n_bases=4).fit(frame[["few"]], f)
    model._shifts = model._shifts + 1.0  # enters the decision by another way than the curves
    model.intercept_ = model.intercept_ + 0.5
    table = scoring_table(model)
    assert table.intercept == model.intercept_
    from streamlearn.export import scoring_table as module

    with pytest.raises(ValueError, match="parts that are no curves of columns or pairs"):
        module._check(model, table._replace(columns=[]))
