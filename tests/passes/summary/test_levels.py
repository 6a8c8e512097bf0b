"""Levels of string columns: exact counts, or the heaviest in bounded memory."""

import numpy as np
import pandas as pd
import pytest

import streamlearn as sl
from streamlearn.data.source import Chunk
from streamlearn.passes.fold import run_fold
from streamlearn.passes.summary import levels
from streamlearn.passes.summary.levels import learn_levels, levels_fold


def chunks_of(words, size=500, weight=None):
    for a in range(0, len(words), size):
        part = slice(a, a + size)
        w = None if weight is None else weight[part]
        yield Chunk(np.empty((len(words[part]), 0)), words[part], w, range(a, a + len(words[part])))


def test_levels_come_by_frequency_then_name():
    words = np.array(["b"] * 3 + ["a"] * 3 + ["c"] * 5 + [None] * 9 + [1, 1.0, 2.5], object)
    assert run_fold(levels_fold("w"), chunks_of(words, 4)) == ("c", "a", "b", "1", "2.5")
    assert run_fold(levels_fold("w", 2), chunks_of(words, 4)) == ("c", "a")


def test_weights_count_rows():
    words, weight = np.array(["a", "b", "c"], object), np.array([1.0, 3.0, 0.0])
    assert run_fold(levels_fold("w"), chunks_of(words, 2, weight)) == ("b", "a")


def test_more_words_than_are_kept_leave_the_heaviest(monkeypatch):
    monkeypatch.setattr(levels, "CAPACITY", 50)
    rng = np.random.default_rng(0)
    words = np.array([f"w{k}" for k in np.minimum(rng.zipf(1.3, 20_000), 5000)], object)
    fold = levels_fold("w", 10)
    halves = []
    for part in (words[:9000], words[9000:]):
        state = fold.start()
        for chunk in chunks_of(part):
            state = fold.step(state, chunk)
            assert len(state["counts"]) <= 100
        halves.append(state)
    merged = fold.merge(*halves)
    exact = pd.Series(words).value_counts()
    lost = merged["forgotten"]
    assert lost <= 2 * len(words) / 50
    for word, count in exact.items():
        kept = merged["counts"].get(word, 0.0)
        assert count - lost <= kept <= count
    assert set(exact.index[:5]) <= set(fold.finish(merged))


def test_a_dataset_reads_codes_once_it_has_levels():
    frame = pd.DataFrame({"x": [1.0, 2.0, 3.0], "w": ["u", None, "v"], "y": [0, 1, 0]})
    data = sl.open_dataset(frame, target="y")
    assert data.categorical == ("w",)
    with pytest.raises(sl.SourceError, match="'w' hold strings.*with_levels"):
        next(data.iter_chunks())
    coded = learn_levels(data)
    assert coded.levels == {"w": ("u", "v")}
    assert coded.categorical == ()
    chunk = next(coded.iter_chunks())
    np.testing.assert_array_equal(chunk.X, [[1, 0], [2, np.nan], [3, 1]])
    said = str(data.summary())
    assert "'w' has 2 levels: u 33.33 %, v 33.33 %; missing or none of these: 33.33 %." in said
    whole = learn_levels(sl.open_dataset(frame.dropna(), target="y"))
    assert "'w' has 2 levels: u 50 %, v 50 %." in str(whole.summary())
    with pytest.raises(sl.SourceError, match="'x' are no columns of strings"):
        data.with_levels({"x": ["u"]})
    with pytest.raises(sl.SourceError, match=r"Dataset.map.*'w'"):
        data.map(np.log1p).with_levels({"w": ["u"]})


def test_words_of_many_characters_are_kept_as_far_as_their_bytes_go():
    """2,000 words of 1,000 characters do not fit; the two that are frequent stay, exact or less."""
    words = np.array([f"{k:04d}" + "x" * 996 for k in range(2_000)] + ["often"] * 900, object)
    words = np.concatenate([words, np.array(["é" * 1_000] * 700, object)])
    fold = levels.levels_fold("w", most=2)
    state = fold.start()
    for some in np.array_split(np.random.default_rng(0).permutation(words), 7):
        state = fold.step(state, Chunk(np.empty((len(some), 0)), some, None, range(len(some))))
        held = sum(len(w) if w.isascii() else 4 * len(w) for w in state["counts"])
        assert held == state["nbytes"] <= 2 * levels.WORDS_NBYTES
    assert fold.finish(state) == ("often", "é" * 1_000)
    assert 900 - state["forgotten"] <= state["counts"]["often"] <= 900


@pytest.mark.parametrize("kind", [sl.AdditiveClassifier, sl.ShareBoostClassifier])
@pytest.mark.parametrize("words", ["each once", "all missing"])
def test_a_column_without_a_frequent_word_is_learned_and_asked(kind, words):
    """More distinct words than are counted, each once, or none: the column has no levels."""
    rng = np.random.default_rng(0)
    n = 3 * levels.CAPACITY
    users = [f"user {k}" if words == "each once" else None for k in range(n)]
    frame = pd.DataFrame({"x": rng.random(n), "user": pd.Series(users, dtype=object)})
    y = np.where(frame["x"] > 0.5, "b", "a")
    model = kind().fit(frame, y)
    assert model.score(frame, y) > 0.98
    assert model.score(frame.assign(user="nobody"), y) > 0.98
