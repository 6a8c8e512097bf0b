import numpy as np
import pytest

import streamlearn as sl
from streamlearn.data.source import Chunk
from streamlearn.passes.summary.label_sums import add_labels, empty_labels, merge_labels
from streamlearn.passes.summary.labels import finish_labels

STARTS = np.array([0, 100, 250, 400, 700])
N = 1000


def labels_of(y, weight=None, cuts=(), starts=STARTS, rows=None):
    """Fold the labels of rows 0..n-1 in chunks that end at `cuts`, and merge the halves."""
    rows = np.arange(len(y)) if rows is None else rows
    edges = [0, *cuts, len(y)]
    states = []
    for a, b in zip(edges[:-1], edges[1:], strict=True):
        chunk = Chunk(np.empty((b - a, 0)), y[a:b], None if weight is None else weight[a:b])
        chunk.rows = rows[a:b]
        states.append(add_labels(empty_labels(), chunk, starts, "y"))
    state = empty_labels()
    for other in states:
        state = merge_labels(state, other)
    return finish_labels(merge_labels(state, empty_labels()), "y", len(starts))


def draw(kind, rng):
    codes = rng.integers(0, 3, N)
    if kind == "strings":
        return np.array(["red", "green", "blue"], object)[codes]
    return codes.astype({"ints": np.int64, "floats": np.float32, "bools": bool}[kind])


@pytest.mark.parametrize("kind", ["ints", "floats", "bools", "strings"])
@pytest.mark.parametrize("cuts", [(), (1, 1, 99, 300, 650), tuple(range(50, N, 50))])
def test_classes_and_counts_by_ref(kind, cuts):
    y = draw(kind, np.random.default_rng(0))
    labels = labels_of(y, cuts=cuts)
    classes, counts = np.unique(y.astype(str) if kind == "strings" else y, return_counts=True)
    np.testing.assert_array_equal(labels.classes, classes)
    assert labels.classes.dtype.kind == ("U" if kind == "strings" else y.dtype.kind)
    np.testing.assert_array_equal(labels.counts, counts)
    for ref, part in enumerate(np.split(y, STARTS[1:])):
        expected = [np.sum(part == label) for label in classes]
        np.testing.assert_array_equal(labels.ref_labels[ref], expected)
    assert labels.count == N


@pytest.mark.parametrize("dtype", ["i1", "u1", "i2", "u4", "i8", "u8"])
@pytest.mark.parametrize("width", [1, 2, 1000, 1001])
def test_whole_numbers_that_lie_close_together(dtype, width):
    """Counted by their places; weights of one take the general way."""
    rng, info = np.random.default_rng(0), np.iinfo(dtype)
    width = min(width, int(info.max) - int(info.min) + 1)
    for low in {0, int(info.min), max(int(info.min), -5), int(info.max) - width + 1}:
        if max(-low, low + width) > 1 << 53 or low + width - 1 > info.max:
            continue
        y = (low + rng.integers(0, width, N)).astype(dtype)
        y[:2] = low, low + width - 1
        found, known = (labels_of(y, w, cuts=(130, 600)) for w in (None, np.ones(N)))
        for name in ("classes", "by_ref", "refs"):
            np.testing.assert_array_equal(getattr(found, name), getattr(known, name))
        assert (found.mean, found.min, found.max) == (known.mean, known.min, known.max)
        assert found.variance == pytest.approx(known.variance, rel=1e-12, abs=0)
        assert (found.count, found.dtype, found.missing) == (N, known.dtype, 0)


def test_labels_beyond_the_exact_ones_are_refused_however_close():
    with pytest.raises(sl.SourceError, match=r"integers beyond 2\*\*53"):
        labels_of(np.array([2**53 + 1, 2**53 + 2]))


@pytest.mark.parametrize("kind", ["ints", "strings"])
def test_weights_are_copies(kind):
    rng = np.random.default_rng(1)
    y, w = draw(kind, rng), rng.integers(0, 3, N).astype(float)
    y[w == 0] = 99 if kind == "ints" else "never"
    weighted = labels_of(y, w, cuts=(130, 600))
    repeated = labels_of(np.repeat(y, w.astype(int)), rows=np.repeat(np.arange(N), w.astype(int)))
    np.testing.assert_array_equal(weighted.classes, repeated.classes)
    np.testing.assert_array_equal(weighted.ref_labels, repeated.ref_labels)
    np.testing.assert_allclose(weighted.variance, repeated.variance, rtol=1e-12)


def test_regression_moments_against_longdouble():
    y = 1e3 + np.random.default_rng(2).standard_normal(5000)
    labels = labels_of(y, cuts=(7, 4000))
    exact = y.astype(np.longdouble)
    assert labels.classes is None
    assert (labels.min, labels.max) == (y.min(), y.max())
    assert abs(labels.mean - exact.mean()) < 1e-12 * 1e3
    assert abs(labels.variance - exact.var()) < 1e-12 * 1e3
    assert not labels.order_bias


def test_selected_rows_fall_into_their_refs():
    rows = np.array([3, 5, 99, 100, 401, 699, 999])
    labels = labels_of(np.array([0, 0, 1, 1, 1, 0, 1]), rows=rows)
    assert labels.ref_labels.tolist() == [[2, 1], [0, 1], [0, 0], [1, 1], [0, 1]]


@pytest.mark.parametrize("kind", ["ints", "strings"])
def test_a_file_sorted_by_class_is_recognised(kind):
    y = draw(kind, np.random.default_rng(3))
    assert not labels_of(y).order_bias
    ordered = labels_of(np.sort(y))
    assert ordered.order_bias.found
    assert ordered.order_bias.ratio > 50
    assert "random order" in ordered.order_bias.text


def test_a_file_sorted_by_a_number_is_recognised():
    y = np.random.default_rng(4).standard_normal(3000)
    assert not labels_of(y).order_bias
    assert labels_of(np.sort(y)).order_bias


def test_one_class_and_one_ref_are_legal():
    assert not labels_of(np.ones(N)).order_bias
    assert not labels_of(np.arange(90) % 2, starts=np.array([0])).order_bias


def test_missing_labels_are_counted_and_placed():
    y = np.arange(N, dtype=float) % 4
    y[[17, 300]] = np.nan
    y[5] = np.inf
    labels = labels_of(y, cuts=(10,))
    assert (labels.missing, labels.infinite, labels.first_bad, labels.count) == (2, 1, 5, N - 3)
    words = np.array(["a", "b"], object)[np.arange(N) % 2]
    words[[44, 45]] = None
    labels = labels_of(words, cuts=(10,))
    assert (labels.missing, labels.first_bad, labels.classes.tolist()) == (2, 44, ["a", "b"])


def test_what_is_no_label_is_refused():
    many = np.array([f"id-{k}" for k in range(1500)], object)
    with pytest.raises(sl.SourceError, match="more than 1000 different strings"):
        labels_of(many, cuts=(700,))
    with pytest.raises(sl.SourceError, match=r"integers beyond 2\*\*53"):
        labels_of(np.array([2**60 + 1, 2**60 + 3]))
    odd = np.empty(2, object)
    odd[:] = [("a",), ("b",)]
    with pytest.raises(sl.SourceError, match="of type tuple"):
        labels_of(odd)
    with pytest.raises(sl.SourceError, match="a number in some rows and a string in others"):
        merge_labels(
            add_labels(empty_labels(), Chunk(None, np.ones(2), rows=range(2)), STARTS, "y"),
            add_labels(
                empty_labels(), Chunk(None, np.array(["a"], object), rows=range(1)), STARTS, "y"
            ),
        )


def test_the_summary_of_a_sorted_file_says_so():
    y = np.sort(np.arange(N) % 2)
    X = np.column_stack([np.random.default_rng(5).random(N), y])
    summary = sl.open_dataset(X, target="x1", chunk_rows=128).summary()
    assert summary.order_bias
    assert summary.ref_labels.shape == (8, 2)
    text = str(summary)
    assert "2 classes" in text
    assert "50.00%" in text
    assert "sorted by 'x1'" in text
    assert "sorted" not in str(sl.open_dataset(X[::2], target="x0", chunk_rows=128).summary())
