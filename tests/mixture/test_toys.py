"""The paper's circle and spirals (Fu 2010, Fig. 3 and 4), with its gate and its hinges."""

import numpy as np
import pytest
from mixture_kit import fit, make, measure, rows_of, table

import streamlearn as sl
from bench.mixture.generated import circle, spirals
from streamlearn.mixture import answers

SEEDS = range(5)
PAPER = {"gate": "rbf", "expert_loss": "hinge", "C": 100.0, "nu": 0.0, "n_init": 3}


@pytest.mark.parametrize("seed", SEEDS)
def test_circle(seed):
    X, y = circle()
    model = fit(X, y, n_components=4, random_state=seed, **PAPER)
    assert model.n_components_ == 4
    assert model.score(X, y) >= 0.95


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_spirals(seed):
    X, y = spirals()
    model = fit(X, y, n_components=20, random_state=seed, **PAPER)
    assert model.score(X, y) >= 0.98


def test_as_printed_the_gate_ends_with_few_components_and_warns():
    X, y = circle()
    with pytest.warns(UserWarning, match="eq. 7 as printed: .*; use gate='rbf'"):
        model = fit(X, y, n_components=4, **PAPER | {"gate": "rbf-unnormalised"})
    assert model.n_components_ < 4
    assert model.problem_.kind == "rbf"


def test_the_weights_of_the_rbf_gate_are_the_papers_divided_by_their_sum():
    X, y, _ = table(80)
    problem, at = make("rbf", "log_loss", rows_of(X, y), nu=0.0)
    centres, mix = at.rows[:4, :-1], np.exp(at.log_mix)
    weights = mix * np.exp(-problem.tau * ((X[:, None] - centres) ** 2).sum(axis=2))
    rows = at.rows.copy()
    rows[:4, :-1] = 2 * problem.tau * centres
    rows[:4, -1] = at.log_mix - problem.tau * (centres**2).sum(axis=1)
    own = problem._replace(kind="normalised"), at._replace(rows=rows, log_mix=np.zeros(4))
    shares = weights / weights.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(answers.gate_shares(*own, X), shares, atol=1e-12)
    assert measure(*own, rows_of(X, y)).objective > measure(problem, at, rows_of(X, y)).objective


@pytest.mark.parametrize("gate", ["rbf", "linear"])
def test_an_rbf_gate_begins_at_the_clusters_and_a_linear_one_softly(gate):
    X, _ = spirals()
    y = np.arange(len(X)) % 2  # says nothing, so that one read leaves the gate where it begins
    model = fit(X, y, n_components=20, gate=gate, max_passes=2, tol=1e300)
    largest = np.sort(model.gate_probabilities(X).max(axis=1))
    assert (np.median(largest) > 0.9) == (gate == "rbf")


def test_the_gate_is_chosen_by_its_word():
    with pytest.raises(ValueError, match="'gate' parameter of SVMMixtureClassifier must be a str"):
        sl.SVMMixtureClassifier(2, gate="normalised").fit(*circle())
