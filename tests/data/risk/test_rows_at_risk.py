"""Rows at risk against brute force: every store's laws, slices, roles, choices and refusals."""

import pickle

import dask.dataframe as dd
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import streamlearn as sl
from streamlearn.data.risk.steps import Intervals
from streamlearn.data.risk.store import rows_at_risk
from streamlearn.errors import SourceError
from streamlearn.testing.rows import read_whole
from streamlearn.testing.stores import LAWS

CUTS = [0.5, 1.0, 2.5, 4.0]


def subjects(n=300, seed=0):
    rng = np.random.default_rng(seed)
    time = rng.choice([0.25, 0.5, 1.0, 1.7, 2.5, 3.0, 4.0, 9.0], n)
    return pd.DataFrame(
        {
            "age": rng.normal(50, 9, n),
            "time": time,
            "town": rng.choice(["a", "b", "c"], n),
            "died": rng.integers(0, 2, n),
            "w": rng.integers(0, 3, n).astype(float),
        }
    )


def brute(table, cuts=CUTS):
    """The rows at risk by a loop over subjects and intervals, as a textbook has them."""
    rows = []
    starts = [0.0, *cuts[:-1]]
    for i, one in enumerate(table.itertuples()):
        for j, (start, end) in enumerate(zip(starts, cuts, strict=True)):
            if one.time <= start:
                break
            spent = min(one.time, end) - start
            event = one.died == 1 and one.time <= end
            rows.append((i * len(cuts) + j, one.age, j, spent, int(event), one.w, i))
    return pd.DataFrame(rows, columns=["row", "age", "interval", "exposure", "died", "w", "of"])


def opened(table, folder=None, **kw):
    kw = {"target": "died", "weight": "w"} | kw
    if folder is None:
        return sl.open_dataset(table, **kw)
    table.to_parquet(folder / "t.parquet", row_group_size=64)
    return sl.open_dataset(folder / "t.parquet", **kw)


def assert_rows(data, want, features=("age", "interval", "exposure")):
    whole = read_whole(data)
    np.testing.assert_array_equal(whole.X, want[list(features)].to_numpy(data.dtype))
    np.testing.assert_array_equal(whole.y, want["died"])
    np.testing.assert_array_equal(whole.weight, want["w"])
    np.testing.assert_array_equal(whole.numbers, want["row"])
    assert whole.y.dtype == np.uint8


@pytest.mark.parametrize("on_disk", [False, True])
@pytest.mark.parametrize("slice_rows", [1, 3, 37, 10**6])
def test_rows_are_those_of_brute_force(tmp_path, on_disk, slice_rows):
    table = subjects()
    data = opened(table, tmp_path if on_disk else None).select(["age", "time"])
    rows = data.at_risk("time", CUTS).with_slice_rows(slice_rows)
    assert rows.feature_names == ("age", "interval", "exposure")
    assert (rows.target, rows.weight, rows.n_rows) == ("died", "w", None)
    assert rows.n_physical_rows == 4 * len(table)
    assert_rows(rows, brute(table))
    assert max(chunk.n_rows for chunk in rows.iter_chunks()) <= slice_rows


def test_chunks_of_at_most_the_dataset_s_chunk_rows():
    data = opened(subjects(), chunk_rows=50).select(["age", "time"]).at_risk("time", CUTS)
    assert [ref.n_rows for ref in data.refs()] == [50] * 24
    assert_rows(data, brute(subjects()))


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.integers(0, 6), min_size=1, max_size=30),
    st.sets(st.integers(1, 7), min_size=1, max_size=6),
    st.integers(1, 20),
)
def test_any_times_cuts_and_slices(times, cuts, slice_rows):
    table = subjects(len(times)).assign(time=np.array(times, float))
    table.loc[table.time == 0, "died"] = 0
    data = opened(table).select(["age", "time"]).at_risk("time", sorted(cuts))
    assert_rows(data.with_slice_rows(slice_rows), brute(table, [float(c) for c in sorted(cuts)]))


def test_time_spent_and_events_are_kept():
    table = subjects()
    whole = read_whole(opened(table).select(["age", "time"]).at_risk("time", CUTS))
    assert whole.X[:, 2].sum() == pytest.approx(np.minimum(table.time, CUTS[-1]).sum(), rel=1e-14)
    assert whole.y.sum() == (table.died * (table.time <= CUTS[-1])).sum()


def test_refs_in_any_order_and_two_readers():
    rows = opened(subjects()).select(["age", "time"]).at_risk("time", CUTS).with_slice_rows(7)
    want = brute(subjects())
    with rows.reader() as one, rows.reader() as other:
        for ref in [*rows.refs()[::-1], *rows.refs()[:2], rows.refs()[4]]:
            chunk = one.read(ref)
            other.read(rows.refs()[0])
            at = (want.row >= ref.start) & (want.row < ref.stop)
            np.testing.assert_array_equal(chunk.X[:, 2], want.exposure[at])


def test_strings_filters_shares_and_maps_come_along(tmp_path):
    table = subjects()
    rows = opened(table, tmp_path, filters=[("age", ">", 50)]).at_risk("time", CUTS)
    assert rows.categorical == ("town",)
    summary = rows.summary()
    kept = brute(table)[lambda d: d.age > 50]
    assert rows.n_rows == len(kept[kept.w > 0]) or rows.n_rows == len(kept)
    assert summary.columns[rows.feature_names.index("town")].levels
    coded = rows.with_levels({"town": ["a", "b", "c"]})
    kept = kept.assign(town=table.town.map({"a": 0, "b": 1, "c": 2}).to_numpy()[kept["of"]])
    assert_rows(coded, kept, ("age", "town", "interval", "exposure"))
    before = opened(table, tmp_path).with_levels({"town": ["a", "b", "c"]})
    everyone = brute(table)
    everyone["town"] = table.town.map({"a": 0, "b": 1, "c": 2}).to_numpy()[everyone["of"]]
    assert_rows(before.at_risk("time", CUTS), everyone, ("age", "town", "interval", "exposure"))
    assert before.at_risk("time", CUTS).levels == {"town": ("a", "b", "c")}
    first, _ = opened(table).select(["age", "time"]).split(0.5, seed=1)
    of = np.concatenate([chunk.numbers.copy() for chunk in first.iter_chunks()])
    assert_rows(first.at_risk("time", CUTS), brute(table)[lambda d: d["of"].isin(of)])
    doubled = opened(table).select(["age", "time"]).map(_double_age).at_risk("time", CUTS)
    assert_rows(doubled, brute(table.assign(age=2 * table.age)))


def _double_age(X):
    return X * [2, 1]


@pytest.mark.parametrize("column", ["town", "interval", "exposure"])
def test_one_column_as_the_target_of_chunks(tmp_path, column):
    table = subjects()
    rows = opened(table, tmp_path).at_risk("time", CUTS).with_slice_rows(41)
    want = brute(table)
    want["town"] = table.town.to_numpy()[want["of"]]
    got = []
    with rows.column(column).reader() as reader:
        got = [reader.read(ref).y.copy() for ref in rows.refs()]
    np.testing.assert_array_equal(np.concatenate(got), want[column])


def test_a_subject_is_never_divided():
    table = subjects(2000)
    rows = opened(table).select(["age", "time"]).at_risk("time", CUTS)
    first, rest = rows.split(0.5, seed=3)
    mine, theirs = (set((read_whole(part).numbers // 4).tolist()) for part in (first, rest))
    assert not mine & theirs
    assert len(mine | theirs) == (table.time > 0).sum()
    below = opened(table).select(["age", "time"]).split(0.5, seed=3)[0].at_risk("time", CUTS)
    np.testing.assert_array_equal(read_whole(first).X, read_whole(below).X)
    with pytest.raises(SourceError, match="take a share"):
        rows.take(10)


def test_float32_durations_give_float32_rows():
    table = subjects()
    narrow = table.astype({"age": "float32", "time": "float32"})
    rows = opened(narrow).select(["age", "time"]).at_risk("time", [0.1, 0.3, 9.0])
    assert rows.dtype == np.float32
    assert opened(table).select(["age", "time"]).at_risk("time", [0.1]).dtype == np.float64


def classes_by_hand(y, order):
    at = {word: k for k, word in enumerate(order)}
    return [
        (i * (len(order) - 1) + j, i, j, int(at[word] == j))
        for i, word in enumerate(y)
        for j in range(min(at[word], len(order) - 2) + 1)
    ]


@pytest.mark.parametrize("order", [["low", "mid", "high"], [3, 5, 8], [False, True], [1.5, 0.5]])
def test_steps_of_ordered_classes(order):
    y = np.array(order * 40, dtype=object if isinstance(order[0], str) else None)
    y = np.random.default_rng(0).permutation(y)
    table = {"x": np.arange(len(y), dtype=float), "y": y}
    rows = sl.open_dataset(table, target="y").ordinal_steps(order).with_slice_rows(7)
    whole = read_whole(rows)
    number, of, step, stops = np.array(classes_by_hand(y, order)).T
    np.testing.assert_array_equal(whole.numbers, number)
    np.testing.assert_array_equal(whole.X, np.column_stack([of, step]))
    np.testing.assert_array_equal(whole.y, stops)


OF_SUBJECTS = [law for law in LAWS if law.__name__ != "check_split"]
"""A split chooses subjects, not rows, where they have several."""


@pytest.mark.parametrize(
    ("law", "siblings"),
    [(law, 1) for law in LAWS] + [(law, 3) for law in OF_SUBJECTS],
    ids=lambda value: getattr(value, "__name__", value),
)
@pytest.mark.parametrize("on_disk", [False, True])
def test_laws_of_every_store(tmp_path, law, on_disk, siblings):
    """Rows that nothing ends are as many as their numbers, as the laws would have it."""
    table = subjects(603)
    data = opened(table, tmp_path if on_disk else None, target=None).select(["age", "time"])
    rows = rows_at_risk(data, Intervals(CUTS[:siblings], "interval", "exposure"))
    law(rows, read_whole(rows))


def test_a_pickle_is_as_small_as_the_dataset_s(tmp_path):
    rows = opened(subjects(5000), tmp_path).at_risk("time", CUTS)
    rows.refs()
    assert len(pickle.dumps(rows)) < 20_000
    assert pickle.loads(pickle.dumps(rows)).fingerprint() == rows.fingerprint()


def test_fingerprints_tell_steps_apart():
    data = opened(subjects()).select(["age", "time"])
    made = [
        data.at_risk("time", CUTS),
        data.at_risk("time", CUTS[:3]),
        data.at_risk("time", [0.5, 1.0, 2.5, 4.1]),
        data.at_risk("age", CUTS),
        data.split(0.5)[0].at_risk("time", CUTS),
        data.at_risk("time", CUTS).split(0.5)[0],
        data.ordinal_steps([0, 1]),
        data.ordinal_steps([1, 0]),
    ]
    assert len({str(one.fingerprint()) for one in made}) == len(made)


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (
            {"time": -1.0},
            r"rows 0 to 9: in row 4 the duration 'time' is -1; .* at least 0 .* leave such rows",
        ),
        ({"time": np.nan}, "duration 'time' is nan"),
        ({"time": np.inf}, "duration 'time' is inf"),
        ({"died": 2.0}, "in row 4 the event is 2.0; it is 1 where it happened, else 0"),
        ({"died": np.nan}, "the event is nan"),
        ({"time": 0.0, "died": 1.0}, "duration 'time' of an event is 0"),
    ],
)
def test_bad_rows_are_named_unless_their_weight_is_0(change, match):
    table = subjects(9).astype({"died": float}).assign(w=1.0)
    for name, value in change.items():
        table.loc[4, name] = value
    data = opened(table).select(["age", "time"])
    with pytest.raises(SourceError, match=match):
        read_whole(data.at_risk("time", CUTS))
    table.loc[4, "w"] = 0.0
    left = brute(table.drop(index=4))
    got = read_whole(opened(table).select(["age", "time"]).at_risk("time", CUTS))
    np.testing.assert_array_equal(got.X, left[["age", "interval", "exposure"]])


@pytest.mark.parametrize(
    ("cuts", "match"),
    [
        ([], "cuts has shape"),
        (3.0, "cuts has shape"),
        ([1, 1], r"cuts\[1\] = 1 does not come after cuts\[0\] = 1"),
        ([0, 1], r"cuts\[0\] = 0 does not come after 0, where time starts"),
        ([2, 1], r"cuts\[1\] = 1 does not come after cuts\[0\] = 2; .*numpy.unique"),
        ([1, np.nan], r"cuts\[1\] = nan"),
        ([1, np.inf], r"cuts\[1\] = inf"),
    ],
)
def test_cuts_that_do_not_ascend_are_refused(cuts, match):
    with pytest.raises(ValueError, match=match):
        opened(subjects()).at_risk("time", cuts)


def test_columns_that_do_not_fit_are_refused():
    table = subjects()
    data = opened(table)
    with pytest.raises(SourceError, match="no duration column 'years'; there are 'age'"):
        data.at_risk("years", CUTS)
    with pytest.raises(SourceError, match="the duration 'town' holds strings"):
        data.at_risk("town", CUTS)
    with pytest.raises(SourceError, match="at_risk needs a column that says"):
        opened(table, target=None).at_risk("time", CUTS)
    with pytest.raises(SourceError, match="the event 'town' is string"):
        data.at_risk("time", CUTS, event="town")
    with pytest.raises(SourceError, match="columns 'age' are there already"):
        data.at_risk("time", CUTS, interval="age")
    with pytest.raises(SourceError, match="ordinal_steps needs the classes"):
        opened(table, target=None).ordinal_steps([0, 1])
    with pytest.raises(SourceError, match="the class 'died' is .*, which is none of the 2 classes"):
        read_whole(data.select(["age"]).ordinal_steps([1, 2]))
    for classes in (3, "abc"):
        with pytest.raises(ValueError, match="is no list; pass all classes in their order"):
            data.ordinal_steps(classes)
    for few in ([1], [1, 1], [1, None]):
        with pytest.raises(ValueError, match="must be at least two classes, each named once"):
            data.ordinal_steps(few)


def streamed(table):
    return pa.Table.from_pandas(table).to_reader()


def in_partitions(table):
    return dd.from_pandas(table, npartitions=3)


@pytest.mark.parametrize("given", [in_partitions, streamed])
def test_collections_and_streams_are_expanded_like_tables(given):
    """Written to scratch as they are, and expanded as they are read: the same model, bit by bit."""
    table = subjects()
    names = ["age", "time"] if given is in_partitions else ["age", "time", "town"]
    models = []
    for source in (table, given(table)):
        rows = opened(source, features=names).at_risk("time", CUTS)
        models.append(sl.AdditiveRegressor("poisson", exposure="exposure", n_bases=4).fit(rows))
    a, b = models
    np.testing.assert_array_equal(a.coef_, b.coef_)
    if given is in_partitions:
        curves = [sl.survival_curves(a, source, CUTS) for source in (table, given(table))]
        np.testing.assert_array_equal(*curves)
    summary = opened(given(table), features=["age", "time"]).at_risk("time", CUTS).summary()
    assert summary.n_rows == len(brute(table))


@pytest.mark.parametrize("given", [in_partitions, streamed])
@pytest.mark.parametrize("words", [False, True])
def test_steps_of_collections_and_streams(given, words):
    table = subjects().assign(grade=lambda d: np.digitize(d["age"], [45, 55]))
    classes = [0, 1, 2]
    if words:
        classes = ["low", "middle", "high"]
        table["grade"] = np.array(classes)[table["grade"]]
    models = [
        sl.AdditiveClassifier(n_bases=4).fit(
            opened(source, target="grade", features=["age", "time"]).ordinal_steps(classes)
        )
        for source in (table, given(table))
    ]
    np.testing.assert_array_equal(*(model.coef_ for model in models))


def test_strings_of_collections_need_their_levels():
    data = opened(in_partitions(subjects()), features=["age", "time", "town"])
    with pytest.raises(SourceError, match="'town' .* hold strings, .*Dataset.with_levels"):
        data.at_risk("time", CUTS)
    rows = data.with_levels({"town": ["a", "b", "c"]}).at_risk("time", CUTS)
    model = sl.AdditiveRegressor("poisson", exposure="exposure", n_bases=4).fit(rows)
    assert model.levels_ == {"town": ["a", "b", "c"]}


def test_an_event_column_beside_another_target(tmp_path):
    table = subjects()
    rows = opened(table, tmp_path, target=None, features=["age"]).at_risk(
        "time", CUTS, event="died"
    )
    assert_rows(rows, brute(table))
