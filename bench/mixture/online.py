"""Online EM: one look at a table in calls of 1,000 rows, beside a fit that reads it many times.

``steps alone`` holds no first rows, so that no EM runs over them: what the steps do by themselves.
circle, covtype and pendigits chose how a stream begins; california and mnist had no say in it.
"""

from unittest import mock

import numpy as np

from bench import data

ROWS, CALL, SEEDS = 20_000, 1_000, 5
TINY = 600, 300, 1
GATES = ("linear", "generative")
LIMIT = 1.5
"""Points of accuracy by which one look may be behind a fit."""


def run(session):
    tiny = session.options.tiny
    n, call, n_seeds = TINY if tiny else (ROWS, CALL, SEEDS)
    for name, (table, parameters) in TABLES.items():
        try:
            X, y = table()
        except data.Absent as error:
            session.note(f"{name} left out: {error}")
            continue
        for gate in GATES[:1] if tiny or name == "mnist" else GATES:
            found = [
                looks(X, y, n, call, seed, parameters | {"gate": gate}) for seed in range(n_seeds)
            ]
            right = {what: 100 * np.array([of[what] for of in found]) for what in found[0]}
            mean = {what: float(values.mean()) for what, values in right.items()}
            near = mean["fit"] - mean["one look"] <= LIMIT
            session.add(
                {
                    "data": f"online, {name}",
                    "rows": min(n, len(y) * 3 // 4),
                    "gate": gate,
                    "fit, %": mean["fit"],
                    "one look, %": mean["one look"],
                    "each seed, %": " ".join(f"{value:.1f}" for value in right["one look"]),
                    "steps alone, %": mean["steps alone"],
                    "at most 1.5 behind": "yes" if near else "no",
                }
            )


def looks(X, y, n, call, seed, parameters):
    """Share of held-out rows that each of the three answers rightly."""
    from streamlearn import SVMMixtureClassifier
    from streamlearn.mixture import needs

    order = np.random.default_rng(seed).permutation(len(y))
    cut = min(n, len(y) * 3 // 4)
    rows, test = order[:cut], order[cut : cut + ROWS // 2]
    A, b, classes = X[rows], y[rows], np.unique(y)
    given = parameters | {"random_state": seed}
    right = {"fit": SVMMixtureClassifier(**given).fit(A, b).score(X[test], y[test])}
    for what, held in (("one look", needs.HELD_ROWS), ("steps alone", 0)):
        with mock.patch.object(needs, "HELD_ROWS", held):
            model = SVMMixtureClassifier(algorithm="online-em", **given)
            for a in range(0, cut, call):
                model.partial_fit(A[a : a + call], b[a : a + call], classes=classes)
        right[what] = model.score(X[test], y[test])
    return right


def circle():
    """Rows uniform in a square, in a circle within or around it, 30,000 of them."""
    X = np.random.default_rng(0).uniform(-1, 1, (30_000, 2))
    return X, (X**2).sum(axis=1) < 0.5


def shared(folder, name, label=lambda y: y):
    """Columns and label of a real table."""
    _, X, y = data.read_table(data.shared_folder() / folder / f"{name}.parquet")
    return np.column_stack(X).astype(np.float32), label(y)


TABLES = {
    "circle": (circle, {"n_components": 8, "C": 100.0}),
    "covtype": (lambda: shared("covtype", "covtype_sample16", lambda y: y == 2), {}),
    "pendigits": (lambda: shared("pendigits", "train"), {}),
    "california": (
        lambda: shared("california_housing", "cal_housing", lambda y: y > np.median(y)),
        {},
    ),
    "mnist": (
        lambda: shared("mnist", "train", lambda y: y % 2),
        {"scaling": "range", "C": 0.1},
    ),
}
