"""Codes of words, whoever gives them and however many at a time."""

import numpy as np
import pyarrow as pa
import pytest

import streamlearn as sl
from streamlearn.data.levels import BLOCK_WORDS, Coder, HashCoder, hash_words
from streamlearn.data.memory.arrow_values import encode_arrow

N = 2 * BLOCK_WORDS + 5
WORDS = [None if k % 11 == 0 else f"w{k % (N - 100)}" for k in range(N)]
LEVELS = [f"w{k}" for k in (1, BLOCK_WORDS - 1, BLOCK_WORDS, N - 101, N)]


def coders():
    hashes = np.sort(hash_words(LEVELS))
    order = np.argsort(hash_words(LEVELS))
    return Coder("w", [LEVELS[k] for k in order]), HashCoder("w", hashes)


@pytest.mark.parametrize("coder", coders(), ids=["names", "hashes"])
def test_codes_of_more_words_than_are_made_at_a_time(coder):
    ascending = coders()[0].words
    expected = [ascending.index(w) if w in ascending else np.nan for w in WORDS]
    codes = coder.of_words(iter(WORDS))
    assert codes.dtype == np.float32
    np.testing.assert_array_equal(codes, [*expected, np.nan])
    np.testing.assert_array_equal(coder.of_words([]), [np.nan])


@pytest.mark.parametrize("kind", ["string", "dictionary", "slice", "empty"])
def test_words_of_arrow_are_those_that_it_lists(kind):
    array = {
        "string": lambda: pa.array(WORDS),
        "dictionary": lambda: pa.array(WORDS).dictionary_encode(),
        "slice": lambda: pa.array(["no", *WORDS]).slice(1),
        "empty": lambda: pa.array([], pa.string()),
    }[kind]()
    said = []
    for indices, words in encode_arrow(array):
        known = [*words, None]
        said += [known[k] for k in indices.tolist()]
    assert said == array.to_pylist()


def test_a_frame_of_arrow_is_coded_as_its_words():
    data = sl.open_dataset(pa.table({"w": WORDS}), target=None).with_levels({"w": LEVELS})
    expected = [LEVELS.index(w) if w in LEVELS else np.nan for w in WORDS]
    X = np.concatenate([chunk.X.copy() for chunk in data.iter_chunks()])
    np.testing.assert_array_equal(X[:, 0], np.array(expected, np.float32))
