"""An additive model as a table of numbers from which anyone can score rows.

The decision is the intercept plus a number for each column.  A column of categories has a number
for each word, and one for every other word and for missing ones.  Any other column has ascending
breakpoints k_0 < ... < k_M and coefficients w:

    u = j + (x - k_j) / (k_{j+1} - k_j), j the last with k_j <= x, clamped to [0, M]
    u rounded to a float of 32 bits;  i = min(floor u, M - 1);  f = u - i
    degree 1:  w_i (1 - f) + w_{i+1} f

and for degrees 2 and 3 the splines of `streamlearn.numeric.bases.bsplines`.  A missing value has a
number of its own, or none: the model then refuses it.

A column of times, in seconds since 1970 or since midnight, has several such curves, each of
x = seconds / unit + begin, or if it has a period of what is left of that by the period.  A column
of numbers that were given a period has one such curve, of unit 1 and begin 0.

A pair of columns adds sum_a g_a(x_d) h_a(x_e), the g_a and h_a being such numbers of one column.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..additive.inspect.terms import Terms
from ..data.clocks import Clock
from ..data.source import Chunk
from ..estimator.rows.encoding import (
    column_names,
    column_of,
    feature_names,
    is_encoded,
    with_target_means,
)
from ..numeric.bases.bsplines import evaluate, make_bases
from ..numeric.bases.pairs import lines_of
from ..numeric.bases.registry import CYCLE, LEVELS, SPLINE
from ..numeric.links import IDENTITY, LOG, LOGIT

PROBES = 64
"""Rows on which a table must answer as its model does."""


class Column(NamedTuple):
    """The terms that one column adds to the decision."""

    name: str
    place: int
    """Number of the column in the training table."""
    knots: np.ndarray
    """(M + 1,) breakpoints; none of a column of categories."""
    degree: int
    weights: np.ndarray
    """(K, M + degree) coefficients, of categories (K, levels)."""
    missing: np.ndarray | None
    """(K,) number of a missing value; None: the model refuses it."""
    levels: tuple[str, ...] | None = None
    clock: Clock | None = None
    """Rule of the feature of times in seconds, or of a number with a period, that has the
    breakpoints; None: the column has."""


class Pair(NamedTuple):
    """Term of two columns, beside the term of each: sum_a g_a(x_d) h_a(x_e)."""

    first: Column
    """The g_a, as many as its weights have rows."""
    second: list[Column]
    """The h_a, for each of K decisions."""


class ScoringTable(NamedTuple):
    """An additive model as numbers."""

    names: list[str]
    """All columns of the training table, those without a say too."""
    columns: list[Column]
    intercept: np.ndarray
    """(K,)."""
    link: str
    """Link of the decision to: "logit" (the probability of the second class; of each of several,
    before they are made to sum to 1), "softmax" (the probabilities of several classes), "log" (the
    mean), "identity" (the mean), or "none"."""
    classes: list[object] | None
    exposure: int
    """Number of the column that multiplies the mean, -1: none; or"""
    offset: int
    """of the column that is added to the decision."""
    pairs: list[Pair]


def scoring_table(model: object) -> ScoringTable:
    """The table of a fitted additive model.

    Raises
    ------
    TypeError
        The model is of another family.
    ValueError
        A column has functions that are no splines, or the model has parts that are no curves of
        columns or pairs.
    """
    if not isinstance(model, Terms):
        raise TypeError(
            f"{type(model).__name__} is no additive model; only those have a scoring table"
        )
    if names := with_target_means(model):
        raise ValueError(
            f"this {type(model).__name__} has target means of the words of {names[0]!r}, which it "
            "knows by their hashes alone; fit it without that column to export it, or with "
            f"encoding={{{names[0]!r}: 'levels'}}"
        )
    if model._levels:
        raise ValueError(
            f"this {type(model).__name__} has the quantiles {list(model._levels)}, whose "
            "predictions are put in order, which is no sum of terms; fit one quantile to export it"
        )
    bases, names = model.bases_, column_names(model)
    columns = []
    for d in np.flatnonzero(np.diff(bases.main.first)).tolist():
        if bases.kind[d] not in (SPLINE, LEVELS, CYCLE):
            raise ValueError(
                f"column {feature_names(model)[d]!r} has the basis "
                f"{type(bases.basis(d)).__name__}, which is no polynomial between breakpoints; fit "
                "with basis='bspline' to export the model"
            )
        columns.append(_column(model, d))
    names_of = {LOGIT: "logit", LOG: "log", IDENTITY: "identity"}
    link = "none" if model._loss.link is None else names_of.get(model._loss.link, "none")
    if model._is_joint:
        link = "softmax"
    classes = getattr(model, "classes_", None)
    at = getattr(model, "_column_of_mean", -1)
    at = int(column_of(model)[at]) if at >= 0 else at
    exposed = getattr(model, "exposure", None) is not None
    table = ScoringTable(
        names,
        columns,
        model.intercept_.copy(),
        link,
        None if classes is None else classes.tolist(),
        at if exposed else -1,
        -1 if exposed else at,
        _pairs(model),
    )
    _check(model, table)
    return table


def _of_feature(model: Terms, d: int) -> tuple[str, int, Clock | None]:
    """The name and number of the column that feature d is made of, and what of a time it is."""
    place = int(column_of(model)[d])
    clock = model.encoding_.clocks[d] if is_encoded(model) else None
    return column_names(model)[place], place, clock


def _column(model: Terms, d: int) -> Column:
    bases, (name, place, clock) = model.bases_, _of_feature(model, d)
    first, last = bases.first[d : d + 2]
    shift = model._shifts[:, d]
    alone = np.array([np.nan])
    has_missing = bool(bases.has_missing[d])
    missing = None
    if has_missing or bases.kind[d] == LEVELS:
        missing = np.atleast_1d(model._curve(d, alone)[0])
    if bases.kind[d] == LEVELS:
        words = tuple(model.levels_[name])
        values = model._curve(d, np.arange(float(len(words)))).reshape(len(words), -1)
        return Column(name, place, np.empty(0), 0, values.T, missing, words)
    degree = int(bases.degree[d])
    weights = model.coef_[:, first : last - degree if has_missing else last]
    weights = weights - shift[:, None]
    return Column(name, place, model.knots_[d], degree, weights, missing, None, clock)


def _pairs(model: Terms) -> list[Pair]:
    """The pairs: the lines of one column, and for each of them a curve of the other."""
    bases, pairs = model.bases_, []
    for (d, e, most), pair in zip(
        [] if bases.pairs is None else bases.pairs.tolist(), model.pair_tables_, strict=True
    ):
        if not pair.density.size:  # of a constant column
            continue
        first = _curves(model, d, lines_of(bases, d, most))
        lines = lines_of(bases, e, most)
        second = [_curves(model, e, own @ lines) for own in np.moveaxis(pair.by_output, 2, 0)]
        pairs.append(Pair(first, second))
    return pairs


def _curves(model: Terms, d: int, W: np.ndarray) -> Column:
    """Curves of feature d of degree 1, by their coefficients (n, functions)."""
    bases, (name, place, clock) = model.bases_, _of_feature(model, d)
    if bases.kind[d] == LEVELS:
        words = tuple(model.levels_[name])
        codes = np.append(np.arange(float(len(words))), np.nan)
        values = W @ evaluate(bases, d, codes).T
        return Column(name, place, np.empty(0), 0, values[:, :-1], values[:, -1], words)
    if bases.has_missing[d]:
        return Column(name, place, model.knots_[d], 1, W[:, :-1], W[:, -1], None, clock)
    return Column(name, place, model.knots_[d], 1, W, None, None, clock)


def score(table: ScoringTable, rows: Sequence[np.ndarray]) -> np.ndarray:
    """(n, K) decisions of rows, given as one array for each of `names`: the table's own meaning.

    Offsets are in them, exposures are not.
    """
    out = np.tile(table.intercept, (len(rows[0]), 1))
    for column in table.columns:
        out += _values(column, rows)
    for first, second in table.pairs:
        lines = _values(first, rows)
        for k, column in enumerate(second):
            out[:, k] += (lines * _values(column, rows)).sum(axis=1)
    if table.offset >= 0:
        out += np.asarray(rows[table.offset], np.float64)[:, None]
    return out


def _values(column: Column, rows: Sequence[np.ndarray]) -> np.ndarray:
    """(n, K) what a column adds."""
    x = rows[column.place]
    if column.levels is not None:
        place = {word: j for j, word in enumerate(column.levels)}
        at = np.array([place.get(value, -1) for value in x.tolist()])
        assert column.missing is not None  # categories always have one
        return np.vstack([column.weights.T, column.missing])[at]
    x = np.asarray(x, np.float64)
    x = x if column.clock is None else column.clock.of(x)
    bases = make_bases([column.knots], [column.degree])
    there, out = ~np.isnan(x), np.empty((len(x), len(column.weights)))
    out[there] = evaluate(bases, 0, x[there]) @ column.weights.T
    out[~there] = np.nan if column.missing is None else column.missing
    return out


def _check(model: Terms, table: ScoringTable) -> None:
    """Compare the table with the model: no part that is left out goes unnoticed."""
    rng = np.random.Generator(np.random.Philox(key=0))
    X, rows = np.zeros((PROBES, len(table.names))), [np.zeros(PROBES)] * len(table.names)
    for column in table.columns:
        if column.levels is not None:
            codes = rng.integers(0, len(column.levels), PROBES)
            X[:, column.place] = codes
            rows[column.place] = np.array(column.levels, dtype=object)[codes]
            continue
        low, high = column.knots[0], column.knots[-1]
        if column.clock is not None:
            low, high = 0.0, 2e9  # seconds from 1970 to 2033
        x = rng.uniform(low - 0.1 * (high - low), high + 0.1 * (high - low), PROBES)
        X[:, column.place] = rows[column.place] = x
    if is_encoded(model):
        X = np.asarray(model.encoding_.encode(X, range(PROBES)))
    wanted = Terms._decision_chunk(model, Chunk(X, rows=range(PROBES))).reshape(PROBES, -1)
    got = score(table._replace(offset=-1), rows)
    if not np.allclose(got, wanted, rtol=1e-9, atol=1e-9 * (1.0 + np.abs(wanted).max())):
        raise ValueError(
            f"this {type(model).__name__} has parts that are no curves of columns or pairs, which "
            "a scoring table cannot hold; fit it without them to export it"
        )


def to_dict(model: object) -> dict[str, object]:
    """A fitted additive model as a dict that JSON can hold, from which anyone can score rows.

    The module says how.  With a link "logit" the probability is 1 / (1 + exp(-decision)), of one of
    several classes that over the sum of all; with "softmax" it is exp(decision) over the sum of
    all; with "log" the mean is exp(decision), times the exposure if there is one.

    Parameters
    ----------
    model : fitted AdditiveClassifier or AdditiveRegressor, or one with ``CV``

    Returns
    -------
    dict

    Examples
    --------
    >>> import numpy as np
    >>> from streamlearn import AdditiveRegressor, to_dict
    >>> X = np.linspace(0, 1, 200)[:, None]
    >>> table = to_dict(AdditiveRegressor(n_bases=3).fit(X, 2 * X[:, 0]))
    >>> table["link"], [column["name"] for column in table["columns"]]
    ('identity', ['x0'])
    """
    table = scoring_table(model)
    return {
        "intercept": table.intercept.tolist(),
        "columns": [_said(column) for column in table.columns],
        "pairs": [
            {"first": _said(first), "second": [_said(column) for column in second]}
            for first, second in table.pairs
        ],
        "link": table.link,
        "classes": table.classes,
        "exposure": table.names[table.exposure] if table.exposure >= 0 else None,
        "offset": table.names[table.offset] if table.offset >= 0 else None,
    }


def _said(column: Column) -> dict[str, object]:
    """A column as JSON takes it."""
    said: dict[str, object] = {"name": column.name}
    if column.clock is not None:
        said["time"] = column.clock._asdict()
    if column.levels is None:
        said |= {"breakpoints": column.knots.tolist(), "degree": column.degree}
        said["coefficients"] = column.weights.tolist()
    else:
        said["levels"] = {
            word: column.weights[:, j].tolist() for j, word in enumerate(column.levels)
        }
    said["missing"] = None if column.missing is None else column.missing.tolist()
    return said
