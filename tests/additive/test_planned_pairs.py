"""What a plan knows of the functions of pairs, against those of the fit that follows."""

from itertools import combinations

import numpy as np
import pandas as pd
import pytest

import streamlearn as sl
from streamlearn.additive import pairs
from streamlearn.additive.costs import sizes
from streamlearn.additive.pairs import AUTO_PAIRS, SCREENED_FUNCTIONS, planned_nodes, planned_sizes
from streamlearn.numeric.bases.bsplines import nodes_of
from streamlearn.numeric.bases.pairs import MOST_FUNCTIONS, N_NODES

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
N = 700


def columns():
    """A column of each kind, twice: numbers, many, few or tied; words of three and of thirty."""
    rng = np.random.default_rng(0)
    out = {}
    for twin in "ab":
        few = rng.integers(0, 4, N).astype(np.float64)
        gap = rng.random(N) < 0.2
        words = rng.choice(["x", "y", "z"], N).astype(object)
        out |= {
            f"many {twin}": rng.random(N),
            f"tied {twin}": np.where(rng.random(N) < 0.9, 0.0, rng.random(N)),
            f"few {twin}": few,
            f"two {twin}": few % 2,
            f"ten {twin}": rng.integers(0, 10, N).astype(np.float64),
            f"many or none {twin}": np.where(gap, np.nan, rng.random(N)),
            f"few or none {twin}": np.where(gap, np.nan, few),
            f"one or none {twin}": np.where(gap, np.nan, 3.0),
            f"constant {twin}": np.full(N, 2.0),
            f"words {twin}": words,
            f"words or none {twin}": np.where(gap, None, words),
            f"thirty {twin}": np.array([f"w{j}" for j in rng.integers(0, 30, N)], object),
        }
    return pd.DataFrame(out)


FRAME = columns()
Z = FRAME["many a"] * FRAME["few a"] + FRAME["two a"] * (FRAME["words a"] == "x")
NAMES = list(FRAME)


class Made(Exception):
    """The pairs are made, and what follows is not of interest."""


@pytest.fixture
def made(monkeypatch):
    """What makes (functions, numbers of their penalties) of the pairs that a fit would have."""
    add_pairs = pairs.add_pairs

    def counted(bases, roughness, *others):
        joined = add_pairs(bases, roughness, *others)
        raise Made(
            "the pairs are made", joined[0].dim - bases.dim, len(joined[1].P) - len(roughness.P)
        )

    def of_fit(interactions, frame=FRAME):
        estimator = sl.AdditiveRegressor(interactions=interactions, n_bases=12, C=1.0)
        with pytest.raises(Made, match="pairs are made") as stopped:
            estimator.fit(frame, Z)
        return stopped.value.args[1:]

    monkeypatch.setattr(pairs, "add_pairs", counted)
    return of_fit


def planned(interactions, frame=FRAME):
    """What the plan counts, with the summary and before it."""
    data = sl.open_dataset(frame.assign(target=Z), target="target")
    estimator = sl.AdditiveRegressor(interactions=interactions, n_bases=12, C=1.0)
    found = [sizes.size_of(estimator, data, one) for one in (data.summary(), None)]
    return [(size.pair_dim, size.pair_squares) for size in found]


def kind(name):
    return name[:-2]


KINDS = sorted({kind(name) for name in NAMES})


@pytest.mark.parametrize("one", KINDS)
def test_given_pairs_of_every_two_kinds_are_known_from_the_summary(one, made):
    others = [b for b in NAMES if b.endswith("b")]
    pairs = [(f"{one} a", b) for b in others] + [(f"{one} b", b[:-1] + "a") for b in others]
    pairs = list({tuple(sorted(pair)): pair for pair in pairs}.values())
    (functions, squares), (before, squares_before) = planned(pairs)
    actual, actual_squares = made(pairs)
    assert actual <= functions <= before
    assert actual_squares <= squares <= squares_before
    if not any("tied" in name for name in (one, *sum(pairs, ()))):
        assert actual == functions


def test_pairs_without_ties_are_exact(made):
    pairs = [pair for pair in combinations([n for n in NAMES if "tied" not in n], 2)
             if "thirty" not in kind(pair[0]) + kind(pair[1])]  # fmt: skip
    (functions, squares), _ = planned(pairs)
    actual, actual_squares = made(pairs)
    assert actual == functions
    assert actual_squares <= squares


@pytest.mark.parametrize("interactions", [1, 7, AUTO_PAIRS, 10_000])
def test_a_screening_takes_at_most_what_the_summary_allows(interactions, made):
    frame = FRAME[[name for name in NAMES if not name.startswith(("many", "ten"))]]
    (functions, squares), (before, _) = planned(interactions, frame)
    actual, actual_squares = made(interactions, frame)
    assert 0 < actual <= functions
    assert 0 < actual_squares <= squares
    assert functions < before


@pytest.mark.parametrize("most", [1, 5, 40, 10_000])
def test_the_largest_pairs_of_a_screening_are_counted(most):
    data = sl.open_dataset(FRAME.assign(target=Z), target="target")
    estimator = sl.AdditiveRegressor(interactions=most, n_bases=12)
    nodes = planned_nodes(estimator, data, data.summary().columns)
    used = np.flatnonzero(nodes.n)
    products = []
    for d, e in combinations(used, 2):
        size, is_known = int(nodes.n[d] * nodes.n[e]), min(nodes.kind[[d, e]]) >= 0
        if size <= SCREENED_FUNCTIONS or not is_known:
            products.append(min(size, SCREENED_FUNCTIONS))
    products.sort(reverse=True)
    functions, squares = planned_sizes(estimator, np.empty((0, 2), np.intp), nodes)
    assert functions == sum(products[:most])
    assert squares <= sum(size**2 for size in products[:most])


@pytest.mark.parametrize("interactions", [AUTO_PAIRS, 3])
def test_a_plan_counts_the_most_pairs_until_they_are_known(interactions):
    frame = FRAME[[name for name in NAMES if name.endswith("a")]]
    data = sl.open_dataset(frame.assign(target=Z), target="target")
    estimator = sl.AdditiveRegressor(interactions=interactions, n_bases=12, C=1.0)
    before = sl.plan(estimator, data)
    said = f"a screening takes at most {interactions} pairs of at most 256 functions"
    assert before.note.startswith(said)
    fitted = estimator.fit(data)
    assert 0 < len(fitted.pair_tables_) <= interactions
    assert fitted.plan_.note == ""
    assert fitted.plan_.peak_bytes < before.peak_bytes
    first = ["summary", "main effects", "screening", "penalties"]  # those that are done are kept
    assert [name for name, _ in fitted.plan_.terms][:4] == first
    assert not sl.plan(estimator.set_params(interactions=[("many a", "few a")]), data).note


def test_nodes_are_those_of_the_bases():
    data = sl.open_dataset(FRAME.assign(target=Z), target="target")
    estimator = sl.AdditiveRegressor(n_bases=12, C=1.0)
    nodes = planned_nodes(estimator, data, data.summary().columns)
    bases = estimator.fit(FRAME, Z).bases_
    actual = np.array([len(nodes_of(bases, d, N_NODES)) for d in range(len(NAMES))])
    tied = np.array(["tied" in name for name in NAMES])
    np.testing.assert_array_equal(nodes.n[~tied], actual[~tied])
    assert (nodes.n[tied] >= actual[tied]).all()
    assert (nodes.n[:, None] * nodes.n).max() <= MOST_FUNCTIONS
