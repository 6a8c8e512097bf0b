"""An additive model as one expression of SQL, of what databases have: CASE, CAST, FLOOR and EXP."""

from __future__ import annotations

from .scoring_table import Column, ScoringTable, scoring_table

WHAT = ("decision", "mean")


def to_sql(model: object, *, what: str = "decision", label: object = None) -> str:
    """A fitted additive model as one SQL expression over the columns of a table.

    NULL is the missing value, and a word that training did not have is like one.  Where the model
    refuses a missing value the expression is NULL.  Numbers are taken as DOUBLE PRECISION, as the
    model takes rows of float64; answers differ by rounding alone.  Dates and times are numbers
    too: seconds since the begin of 1970 (`EXTRACT(EPOCH FROM ...)`), of zones in UTC.

    Parameters
    ----------
    model : fitted AdditiveClassifier or AdditiveRegressor, or one with ``CV``
    what : {"decision", "mean"}
        "mean": the regressor's prediction, or with a log-loss and without calibration the
        probability of the second class.
    label : optional
        With more than two classes, the class whose decision is wanted.

    Returns
    -------
    str

    Examples
    --------
    >>> import numpy as np
    >>> from streamlearn import AdditiveRegressor, to_sql
    >>> X = np.linspace(0, 1, 200)[:, None]
    >>> sql = to_sql(AdditiveRegressor(n_bases=3).fit(X, 2 * X[:, 0]))
    >>> sql[sql.index("CASE") :][:34]
    'CASE WHEN "x0" IS NULL THEN NULL W'
    """
    if what not in WHAT:
        raise ValueError(f"what={what!r} is not known; use one of {', '.join(map(repr, WHAT))}")
    table = scoring_table(model)
    k = _output(table, label)
    terms = [_number(float(table.intercept[k]))]
    terms += [_term(column, k) for column in table.columns]
    for first, second in table.pairs:
        for a in range(len(first.weights)):
            terms.append(f"({_term(first, a)} * {_term(second[k], a)})")
    if table.offset >= 0:
        terms.append(_double(table.names[table.offset]))
    decision = "(" + "\n + ".join(terms) + ")"
    if what == "decision":
        return decision
    if len(table.intercept) > 1 or getattr(model, "calibration_", None) is not None:
        raise ValueError(
            f"the probabilities of this {type(model).__name__} are calibrated, or of more than two "
            "classes: no one expression; take what='decision' of each class"
        )
    if table.link == "none":
        raise ValueError(
            f"this {type(model).__name__} has a loss without probabilities; use what='decision'"
        )
    if table.link == "identity":
        return decision
    if table.link == "logit":
        return f"(1.0 / (1.0 + EXP(-{decision})))"
    mean = f"EXP({decision})"
    if table.exposure >= 0:
        mean = f"({mean} * {_double(table.names[table.exposure])})"
    return mean


def _output(table: ScoringTable, label: object) -> int:
    """Number of the decision that is wanted."""
    if len(table.intercept) == 1:
        if label is not None:
            raise ValueError(f"label={label!r}: the model has one decision; leave label out")
        return 0
    assert table.classes is not None  # only classifiers have several decisions
    if label not in table.classes:
        raise ValueError(f"label={label!r} is none of the classes {table.classes[:10]}; name one")
    return table.classes.index(label)


def _name(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _word(word: str) -> str:
    if "\0" in word:
        raise ValueError(f"the level {word!r} holds a zero character, which SQL has not")
    return "'" + word.replace("'", "''") + "'"


def _number(value: float) -> str:
    """A number of type DOUBLE PRECISION: with an exponent it is no DECIMAL."""
    return f"({value!r})" if "e" in repr(value) else f"({value!r}e0)"


def _double(name: str) -> str:
    return f"CAST({_name(name)} AS DOUBLE PRECISION)"


def _term(column: Column, k: int) -> str:
    name = _name(column.name)
    gone = "NULL" if column.missing is None else _number(float(column.missing[k]))
    weights = column.weights[k].tolist()
    if column.levels is not None:
        cases = [
            f"WHEN {name} = {_word(word)} THEN {_number(w)}"
            for word, w in zip(column.levels, weights, strict=True)
        ]
        return f"CASE {' '.join(cases)} ELSE {gone} END"
    knots, x = column.knots.tolist(), _value(column)
    cases = [f"WHEN {name} IS NULL THEN {gone}"]
    last = len(knots) - 2
    for j in range(last + 1):
        then = _polynomial(x, j, knots, weights[j : j + column.degree + 1])
        more = f"WHEN {x} < {_number(knots[j + 1])} THEN {then}"
        cases.append(more if j < last else f"ELSE {then}")
    return f"CASE {' '.join(cases)} END"


def _value(column: Column) -> str:
    """The number that the breakpoints are of."""
    x, clock = _double(column.name), column.clock
    if clock is None:
        return x
    x = f"({x} / {_number(clock.unit)} + {_number(clock.begin)})"
    if not clock.period:
        return x
    period = _number(clock.period)
    return f"({x} - FLOOR({x} / {period}) * {period})"


def _polynomial(x: str, j: int, knots: list[float], w: list[float]) -> str:
    """The spline between breakpoints j and j + 1, its coordinate rounded as the model rounds it."""
    inverse = 1.0 / (knots[j + 1] - knots[j])
    t = f"({x} - {_number(knots[j])}) * {_number(inverse)}"
    if j == 0:
        t = f"CASE WHEN {x} <= {_number(knots[0])} THEN 0e0 ELSE {t} END"
    if j == len(knots) - 2:
        t = f"CASE WHEN {x} >= {_number(knots[-1])} THEN 1e0 ELSE {t} END"
    f = f"(CAST(CAST({j}e0 + {t} AS REAL) AS DOUBLE PRECISION) - {j}e0)"
    a = powers(w)
    value = _number(a[-1])
    for coefficient in a[-2::-1]:  # Horner's rule
        value = f"({_number(coefficient)} + {f} * {value})"
    return value


def powers(w: list[float]) -> list[float]:
    """Coefficients of 1, f, f^2, f^3 of a sum of the splines that are met in one interval."""
    if len(w) == 2:
        a, b = w
        return [a, b - a]
    if len(w) == 3:
        a, b, c = w
        return [0.5 * (a + b), b - a, 0.5 * a - b + 0.5 * c]
    a, b, c, d = w
    return [
        (a + 4.0 * b + c) / 6.0,
        0.5 * (c - a),
        0.5 * a - b + 0.5 * c,
        (d - a) / 6.0 + 0.5 * (b - c),
    ]
