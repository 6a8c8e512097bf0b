"""Strings by edit distance: a row codes a string, prototypes move by edits."""

import numpy as np
import pytest

import streamlearn as sl

LENGTH, LETTERS = 8, "abcd"


def code(word):
    return np.array([ord(letter) for letter in word.ljust(LENGTH, "\0")], np.float32)


def word_of(row):
    return "".join(chr(int(c)) for c in row if c > 0)


def edit_distances(X, Z):
    """(n, m) Levenshtein distances, one prototype letter at a time for all rows."""
    X, Z = X.astype(int), Z.astype(int)
    out = np.empty((len(X), len(Z)))
    lengths = (X > 0).sum(axis=1)
    for j, z in enumerate(Z):
        row = np.tile(np.arange(X.shape[1] + 1), (len(X), 1))
        for i, letter in enumerate(z[z > 0]):
            new = np.empty_like(row)
            new[:, 0] = i + 1
            for k in range(X.shape[1]):
                swap = row[:, k] + (X[:, k] != letter)
                new[:, k + 1] = np.minimum(np.minimum(row[:, k + 1], new[:, k]) + 1, swap)
            row = new
        out[:, j] = row[np.arange(len(X)), lengths]
    return out


def similarity(X, Z):
    return np.exp(-0.5 * edit_distances(X, Z))


def edits(z):
    word = word_of(z)
    found = {word[:i] + word[i + 1 :] for i in range(len(word)) if len(word) > 1}
    for i in range(len(word) + 1):
        for letter in LETTERS:
            found.add(word[:i] + letter + word[i + 1 :])
            if len(word) < LENGTH:
                found.add(word[:i] + letter + word[i:])
    return np.array([code(w) for w in sorted(found - {word}) if len(w) <= LENGTH])


def words(n, seed=0):
    """Strings a few edits away from one of two."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, n)
    out = []
    for label in y:
        z = code("abcabc" if label else "ddbbd")
        for _ in range(rng.integers(1, 4)):
            moves = edits(z)
            z = moves[rng.integers(len(moves))]
        out.append(z)
    return np.array(out), y


def test_edit_distance():
    pairs = {("abc", "abc"): 0, ("abc", "abd"): 1, ("abcd", "bcd"): 1, ("a", "dddd"): 4}
    for (a, b), expected in pairs.items():
        assert edit_distances(code(a)[None], code(b)[None])[0, 0] == expected


@pytest.mark.parametrize("sample_rows", [20_000, 60])
def test_prototypes_become_strings_that_no_row_is(monkeypatch, sample_rows):
    monkeypatch.setattr("streamlearn.supersparse.model.SAMPLE_ROWS", sample_rows)
    monkeypatch.setattr("streamlearn.supersparse.model.ROWS_PER_ENTRY", 0)
    monkeypatch.setattr("streamlearn.supersparse.descent.SWAPS", 1)
    X, y = words(240)
    model = sl.SuperSparseClassifier(
        2, similarity=similarity, neighbours=edits, loss="squared_error", n_passes=20, tol=1e-2
    )
    model.fit(X, y)
    found = sorted(word_of(z) for z in model.prototypes_)
    assert model.score(X, y) > 0.97
    assert all(set(word) <= set(LETTERS) for word in found)
    if sample_rows > 240:
        assert model.n_passes_ == 2
        fixed = sl.SuperSparseClassifier(
            2,
            similarity=similarity,
            neighbours=lambda z: np.empty((0, LENGTH)),
            init=np.array(sorted(X.tolist())[:2]),
            loss="squared_error",
        ).fit(X, y)
        assert model.certificate_.objective < fixed.certificate_.objective
        assert edit_distances(code(found[0])[None], code("abcabc")[None])[0, 0] <= 3
    trail = [record["objective"] for record in model.history_]
    assert trail == sorted(trail, reverse=True)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"similarity": "rbf"}, "similarity must then be a callable"),
        ({"init": "k-means"}, "init must then be 'rows'"),
        ({"schedule": "paper"}, "schedule must then be 'all'"),
        ({"repulsion": 0.1}, "repulsion must then be 0"),
        ({"scaling": "standard"}, "codes have no unit; use scaling='none'"),
    ],
)
def test_what_structures_cannot_have(parameters, message):
    X, y = words(30)
    options = {"similarity": similarity, "neighbours": edits, **parameters}
    with pytest.raises(ValueError, match=message):
        sl.SuperSparseClassifier(2, **options).fit(X, y)


@pytest.mark.parametrize(
    ("moves", "message"),
    [
        (lambda z: z[:-1], "shape"),
        (lambda z: np.array([[np.nan] * LENGTH]), "not finite"),
    ],
)
def test_bad_neighbours_are_named(moves, message):
    X, y = words(30)
    with pytest.raises(ValueError, match=f"neighbours.*{message}"):
        sl.SuperSparseClassifier(2, similarity=similarity, neighbours=moves).fit(X, y)
