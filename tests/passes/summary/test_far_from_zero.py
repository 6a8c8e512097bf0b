"""What fits take from a summary's quantiles is as even far from 0 as it is next to it."""

from dataclasses import fields

import numpy as np
import pytest
from passes.summary.columns_kit import hard_columns

import streamlearn as sl
from streamlearn.additive.basis.column_bases import Shape, fit_bases
from streamlearn.data.files.archive import _required_fields
from streamlearn.passes.summary.facts import ColumnFacts
from streamlearn.pursuit.columns import TAILS, make_columns
from streamlearn.shareboost.selection.stumps import first_edges

N = 20_000
FAR = {name: hard_columns(N, np.float64)[name] for name in ("longitude", "offset", "seconds")}


def breakpoints(summary):
    return fit_bases(summary, Shape(21, 1, "quantile"), np.dtype(np.float64)).knots[1:-1]


def edges(summary):
    return first_edges(summary, np.dtype(np.float64)).value


@pytest.mark.parametrize("name", FAR)
@pytest.mark.parametrize("points_of", [breakpoints, edges])
def test_intervals_hold_as_many_rows_each(name, points_of):
    x = FAR[name]
    summary = sl.open_dataset(x[:, None]).summary()
    assert summary.columns[0].rank_error < 0.01
    points = points_of(summary)
    share = np.diff(np.searchsorted(np.sort(x), points, "right")) / N
    assert len(points) == {"breakpoints": 19, "edges": 63}[points_of.__name__]
    even = 1 / (len(points) + 1)
    np.testing.assert_allclose(share, even, atol=summary.columns[0].rank_error)


@pytest.mark.parametrize("name", FAR)
def test_tails_are_cut_where_they_begin(name):
    x = FAR[name]
    summary = sl.open_dataset(x[:, None]).summary()
    columns = make_columns(summary, True)
    below = [(x <= end).mean() for end in (columns.low[0], columns.high[0])]
    np.testing.assert_allclose(below, TAILS, atol=summary.columns[0].rank_error + 1 / N)


def test_a_record_of_bins_without_levels_is_refused():
    """Streams of an older version hold the numbers of other bins."""
    assert {field.name for field in fields(ColumnFacts)} == _required_fields(ColumnFacts)
