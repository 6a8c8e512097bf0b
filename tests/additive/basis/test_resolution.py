import numpy as np
import pytest
from additive_kit import as_dataset

import streamlearn as sl
from streamlearn.additive.basis.resolution import (
    AUTO,
    CURVATURE_NBYTES,
    FEWEST,
    MOST,
    ROWS_A_SPLINE,
    count_of_splines,
    least_count,
)
from streamlearn.additive.costs import sizes
from streamlearn.numeric.bases.registry import BASES

INF = np.inf
TABLES = {
    "narrow": (np.full(3, INF), 0),
    "eight columns": (np.full(8, INF), 0),
    "twenty columns": (np.full(20, INF), 0),
    "wide": (np.full(400, INF), 0),
    "mostly flags": (np.append(np.full(10, INF), np.full(44, 2.0)), 0),
    "counted values": (np.array([30.0, 90.0, 250.0, INF]), 0),
    "categories": (np.full(6, INF), 120),
    "more categories than room": (np.full(2, INF), 900),
    "no numbers": (np.zeros(0), 40),
}
ROWS = (1, 300, 4_000, 4_200, 12_345, 10**9)


@pytest.mark.parametrize("n_rows", ROWS)
@pytest.mark.parametrize("name", TABLES)
def test_auto_is_the_largest_count_within_every_limit(name, n_rows):
    values, others = TABLES[name]

    def is_allowed(n):
        dim = np.minimum(values, n).sum() + others
        return n <= MOST and n * ROWS_A_SPLINE <= n_rows and 8 * dim**2 <= CURVATURE_NBYTES

    most = max([n for n in range(FEWEST + 1, 300) if is_allowed(n)], default=FEWEST)
    assert count_of_splines(AUTO, BASES["bspline"], n_rows, values, others) == most


@pytest.mark.parametrize("name", BASES)
def test_a_number_is_that_number_and_functions_that_meet_every_row_stay_few(name):
    values = np.full(4, INF)
    assert count_of_splines(7, BASES[name], 10**6, values, 0) == 7
    auto = count_of_splines(AUTO, BASES[name], 10**6, values, 0)
    assert auto == (MOST if BASES[name].local else FEWEST)


def test_least_count():
    assert (least_count(AUTO), least_count(9), least_count([8, 4])) == (FEWEST, 9, 4)


def rows(n=6_000):
    rng = np.random.default_rng(0)
    X = rng.random((n, 3))
    X[:, 1] = rng.integers(0, 25, n)  # between 20 and the 30 splines that 6,000 rows allow
    return X, np.sin(40 * X[:, 0]) + 0.1 * X[:, 1]


@pytest.mark.parametrize("kind", [sl.AdditiveRegressor, sl.AdditiveClassifier])
def test_a_fit_takes_what_its_plan_counts(kind):
    X, y = rows()
    y = y if kind is sl.AdditiveRegressor else y > 1
    auto, same = kind().fit(X, y), kind(n_bases=30).fit(X, y)
    dataset = as_dataset(X, y)
    assert np.diff(auto.bases_.first).tolist() == [30, 25, 30]
    assert sizes.size_of(auto, dataset, dataset.summary()).dim == auto.bases_.dim
    assert sizes.size_of(auto, dataset).dim >= auto.bases_.dim
    np.testing.assert_array_equal(auto.coef_, same.coef_)


def test_small_tables_have_what_they_had():
    X, y = rows(1_000)
    np.testing.assert_array_equal(
        sl.AdditiveRegressor().fit(X, y).coef_, sl.AdditiveRegressor(n_bases=20).fit(X, y).coef_
    )


def test_a_stream_keeps_the_count_of_its_first_call():
    X, y = rows()
    model = sl.AdditiveClassifier().partial_fit(X, y > 1, classes=[False, True])
    dim = model.bases_.dim
    assert dim == 30 + 25 + 30
    assert model.partial_fit(X[:50], y[:50] > 1).bases_.dim == dim


def test_several_counts_are_for_those_who_choose():
    with pytest.raises(ValueError, match="'n_bases' parameter of AdditiveRegressor must be"):
        sl.AdditiveRegressor(n_bases=[4, 8]).fit(*rows(100))
