"""Fitted models as ONNX, in float64: additive, mixture, ShareBoost and super-sparse models."""

from __future__ import annotations

import numpy as np

from ..additive.inspect.terms import Terms
from ..data.clocks import Clock
from ..estimator.rows.encoding import n_features
from ..mixture.estimator import SVMMixtureClassifier
from ..mixture.objective import Problem
from ..shareboost.estimator import ShareBoostClassifier
from ..shareboost.selection.candidates import Pieces, Products, SingleColumns, Stumps
from ..supersparse.model import SuperSparseModel
from .graph import Graph
from .scoring_table import Column, scoring_table
from .sql import powers


def to_onnx(model: object) -> bytes:
    """A fitted model as a file of ONNX, whose output "decision" is (n, K) float64.

    It is what `decision_function` gives for a classifier (K = 1 for two classes, positive for the
    second), and the prediction of a regressor, for rows of float64; in other dtypes the model
    itself rounds its rows.  An additive model has an input (n, 1) for each column, named as the
    column: float64, where NaN is missing, or strings, where a word that training did not have is
    like a missing one.  Dates and times, of any unit, are seconds since the begin of 1970, of zones
    in UTC.  Other models have one input "X" (n, p) of float64.

    Parameters
    ----------
    model : fitted additive, mixture, ShareBoost or super-sparse model
        Of another family than the additive one: a model of columns of numbers without missing
        values, ShareBoost not of pieces, super-sparse with a similarity that has a name.

    Returns
    -------
    bytes
        To be written to a file, or given to ``onnxruntime.InferenceSession``.

    Raises
    ------
    TypeError
        The model is of a family that is not exported.
    ValueError
        A part of the model has no exact form, or onnx is not installed.

    Examples
    --------
    >>> import numpy as np
    >>> from onnxruntime import InferenceSession
    >>> from streamlearn import AdditiveRegressor, to_onnx
    >>> X = np.linspace(0, 1, 200)[:, None]
    >>> session = InferenceSession(to_onnx(AdditiveRegressor(n_bases=3).fit(X, 2 * X[:, 0])))
    >>> session.run(["decision"], {"x0": np.array([[0.5]])})[0].round(2)
    array([[1.]])
    """
    graph = Graph()
    if isinstance(model, Terms):
        decision, n_outputs = _additive(graph, model)
    elif isinstance(model, SVMMixtureClassifier):
        decision, n_outputs = _mixture(graph, model, _rows(graph, model))
    elif isinstance(model, ShareBoostClassifier):
        decision, n_outputs = _shareboost(graph, model, _rows(graph, model))
    elif isinstance(model, SuperSparseModel):
        decision, n_outputs = _super_sparse(graph, model, _rows(graph, model))
    else:
        raise TypeError(
            f"{type(model).__name__} is not exported to ONNX; additive, mixture, ShareBoost and "
            "super-sparse models are, and sl.compress makes a super-sparse model of any"
        )
    return graph.model(decision, n_outputs, type(model).__name__)


def _rows(
    graph: Graph, model: SVMMixtureClassifier | ShareBoostClassifier | SuperSparseModel
) -> str:
    encoding = getattr(model, "encoding_", None)
    if encoding is not None and not encoding.is_plain:
        raise ValueError(
            f"this {type(model).__name__} encodes its columns (words, times or missing values), "
            "which has no form in ONNX here; fit it to columns of numbers without missing values"
        )
    return graph.input("X", n_features(model))


# Additive models.


def _additive(graph: Graph, model: Terms) -> tuple[str, int]:
    table = scoring_table(model)
    spoken = {column.place for column in table.columns if column.levels is not None}
    inputs = [graph.input(name, 1, words=d in spoken) for d, name in enumerate(table.names)]
    total = graph.constant(table.intercept[None])
    for column in table.columns:
        total = graph.op("Add", total, _term(graph, column, inputs))
    for first, second in table.pairs:
        lines = _term(graph, first, inputs)
        parts = [graph.op("Mul", lines, _term(graph, column, inputs)) for column in second]
        sums = [graph.total(part, 1, keep=True) for part in parts]
        total = graph.op("Add", total, graph.op("Concat", *sums, axis=1))
    if not table.columns:  # as many rows as there are, all alike
        zero = graph.op("Mul", inputs[0], graph.constant(0.0))
        total = graph.op("Add", total, zero)
    if table.offset >= 0:
        total = graph.op("Add", total, inputs[table.offset])
    if table.link == "log":
        total = graph.op("Exp", total)
        if table.exposure >= 0:
            total = graph.op("Mul", total, inputs[table.exposure])
    return total, len(table.intercept)


def _term(graph: Graph, column: Column, inputs: list[str]) -> str:
    """(n, K) what a column adds."""
    term = _levels if column.levels is not None else _spline
    return term(graph, column, inputs[column.place])


def _levels(graph: Graph, column: Column, x: str) -> str:
    words, n = list(column.levels or ()), column.weights.shape[1]
    flat = graph.op("Reshape", x, graph.constant(np.array([-1])))
    at = graph.op(
        "LabelEncoder", flat, keys_strings=words, values_int64s=list(range(n)), default_int64=n
    )
    assert column.missing is not None  # categories always have one
    return graph.op("Gather", graph.constant(np.vstack([column.weights.T, column.missing])), at)


def _of_time(graph: Graph, clock: Clock | None, x: str) -> str:
    """The feature of times in seconds that breakpoints are of; numbers as they are."""
    if clock is None:
        return x
    unit, begin, period = map(graph.constant, clock)
    x = graph.op("Add", graph.op("Div", x, unit), begin)
    if not clock.period:
        return x
    whole = graph.op("Floor", graph.op("Div", x, period))
    return graph.op("Sub", x, graph.op("Mul", whole, period))


def _spline(graph: Graph, column: Column, x: str) -> str:
    knots, last = column.knots, len(column.knots) - 2
    gone = graph.op("IsNaN", x)
    x = _of_time(graph, column.clock, x)
    x = graph.op("Where", gone, graph.constant(knots[:1][None]), x)
    reached = graph.cast(graph.op("GreaterOrEqual", x, graph.constant(knots[None])), "INT64")
    j = graph.op("Sub", graph.total(reached, 1, keep=False), graph.constant(1))
    j = graph.op("Max", j, graph.constant(0))
    inverse = np.append(1.0 / np.diff(knots), 0.0)
    k, slope = (
        graph.op("Gather", graph.constant(values[:, None]), j) for values in (knots, inverse)
    )
    t = graph.op("Mul", graph.op("Sub", x, k), slope)
    t = graph.op("Clip", t, graph.constant(0.0), graph.constant(1.0))
    whole = graph.op("Unsqueeze", graph.cast(j, "DOUBLE"), graph.constant(np.array([1])))
    u = graph.cast(graph.cast(graph.op("Add", whole, t), "FLOAT"), "DOUBLE")  # as the model rounds
    i = graph.cast(graph.op("Floor", u), "INT64")
    i = graph.op("Min", i, graph.constant(last))
    f = graph.op("Sub", u, graph.cast(i, "DOUBLE"))
    i = graph.op("Reshape", i, graph.constant(np.array([-1])))
    coefficients = np.array(
        [
            [powers(row[a : a + column.degree + 1].tolist()) for row in column.weights]
            for a in range(last + 1)
        ]
    )  # (M, K, degree + 1)
    parts = [
        graph.op("Gather", graph.constant(coefficients[:, :, r]), i)
        for r in range(column.degree + 1)
    ]
    value = parts[-1]
    for part in parts[-2::-1]:
        value = graph.op("Add", part, graph.op("Mul", f, value))
    missing = np.full(len(column.weights), np.nan) if column.missing is None else column.missing
    return graph.op("Where", gone, graph.constant(missing[None]), value)


# Mixtures.


def _mixture(graph: Graph, model: SVMMixtureClassifier, x: str) -> tuple[str, int]:
    """The same steps as `mixture.answers.decisions`."""
    problem, at = model.problem_, model.parameters_
    tree, n = problem.tree, problem.tree.n_gates
    if problem.shift is not None:
        x = graph.op("Sub", x, graph.constant(problem.shift[None]))
    if problem.factor is not None:
        x = graph.op("Mul", x, graph.constant(problem.factor[None]))
    gates, experts = at.rows[:n], at.rows[n:]
    scale = 2.0 * problem.tau if problem.has_centres else 1.0
    norms = (gates[:, :-1] ** 2).sum(axis=1) + gates[:, -1] ** 2
    constant = -problem.tau * norms if problem.has_centres else gates[:, -1]
    S = _affine(graph, x, scale * gates[:, :-1], constant)
    if problem.kind != "generative":
        contests = [np.arange(n)[part] for part in tree.contests()]
        logs = [graph.op("LogSoftmax", graph.columns(S, part), axis=1) for part in contests]
        S = graph.op("Concat", *logs, axis=1)
    if problem.has_centres:
        S = graph.op("Add", S, graph.constant(at.log_mix[None]))
    joint = graph.columns(S, np.arange(tree.n_branches, n))
    if tree.n_branches:
        joint = graph.op("Add", joint, graph.columns(S, tree.parent))
    F = _affine(graph, x, experts[:, :-1], experts[:, -1])
    shape = graph.constant(np.array([-1, tree.n_leaves, problem.n_outputs]))
    loss = _class_losses(graph, problem, graph.op("Reshape", F, shape))
    each = graph.op("Sub", graph.op("Unsqueeze", joint, graph.constant(np.array([2]))), loss)
    out = graph.op("ReduceLogSumExp", each, axes=[1], keepdims=0)
    if problem.n_outputs == 1:
        one, other = (graph.columns(out, np.array([k])) for k in (1, 0))
        return graph.op("Sub", one, other), 1
    return graph.op("LogSoftmax", out, axis=1), problem.n_outputs


def _affine(graph: Graph, x: str, weights: np.ndarray, constant: np.ndarray) -> str:
    return graph.op(
        "Add", graph.op("MatMul", x, graph.constant(weights.T)), graph.constant(constant[None])
    )


def _class_losses(graph: Graph, problem: Problem, F: str) -> str:
    """(n, k, K) loss of each class as the answer, as `mixture.experts.class_losses`."""
    if problem.loss == "log_loss" and problem.n_outputs > 1:
        return graph.op("Neg", graph.op("LogSoftmax", F, axis=2))
    up, down = (_margin_loss(graph, problem.loss, z) for z in (F, graph.op("Neg", F)))
    if problem.n_outputs == 1:
        return graph.op("Concat", down, up, axis=2)
    rest = graph.total(down, 2, keep=True)
    return graph.op("Sub", graph.op("Add", rest, up), down)


def _margin_loss(graph: Graph, loss: str, z: str) -> str:
    zero, one = graph.constant(0.0), graph.constant(1.0)
    if loss == "log_loss":  # log(1 + e^-z) without overflow
        far = graph.op("Exp", graph.op("Neg", graph.op("Abs", z)))
        near = graph.op("Log", graph.op("Add", one, far))
        return graph.op("Add", graph.op("Max", graph.op("Neg", z), zero), near)
    short = graph.op("Max", graph.op("Sub", one, z), zero)
    return short if loss == "hinge" else graph.op("Mul", short, short)


# ShareBoost and super-sparse models.


def _shareboost(graph: Graph, model: ShareBoostClassifier, x: str) -> tuple[str, int]:
    kind, choices = model._kind, model.choices_
    if isinstance(kind, Pieces):
        raise ValueError(
            f"candidates={model.candidates!r} weigh rows by their distance from anchors, which has "
            "no form in ONNX here; use 'columns', 'products' or 'stumps'"
        )
    W, b = model.coef_, model.intercept_
    if len(b) == 2:
        W, b = W[1:] - W[:1], b[1:] - b[:1]
    if not choices:
        zero = graph.op("Mul", graph.columns(x, np.array([0])), graph.constant(0.0))
        return graph.op("Add", zero, graph.constant(b[None])), len(b)
    if isinstance(kind, SingleColumns):
        members = [j for choice in choices for j in kind.members(choice)]
        V = graph.columns(x, np.array(members))
    elif isinstance(kind, Products):
        one, other = np.array(choices, np.int64).T
        V = graph.op("Mul", graph.columns(x, one), graph.columns(x, other))
    else:
        assert isinstance(kind, Stumps)
        column, threshold = np.array(choices, np.float64).T
        V = graph.columns(x, column.astype(np.int64))
        V = graph.op("LessOrEqual", V, graph.constant(threshold[None]))
        V = graph.cast(V, "DOUBLE")
    return _affine(graph, V, W, b), len(b)


def _super_sparse(graph: Graph, model: SuperSparseModel, x: str) -> tuple[str, int]:
    similarity, Z = model.similarity_, model.prototypes_
    if similarity.name == "callable":
        raise ValueError(
            "a similarity of your own has no form in ONNX; fit with similarity='rbf', 'linear', "
            "'poly', 'laplacian' or 'chi2'"
        )
    if similarity.scale is not None:
        x, Z = graph.op("Mul", x, graph.constant(similarity.scale[None])), Z * similarity.scale
    if similarity.name in ("linear", "poly"):
        scale = 1.0 if similarity.name == "linear" else similarity.gamma
        S = graph.op("MatMul", x, graph.constant(scale * Z.T))
        if similarity.name == "poly":
            S = graph.op("Add", S, graph.constant(similarity.coef0))
            S = graph.op("Pow", S, graph.constant(float(similarity.degree)))
    else:
        x, z = graph.op("Unsqueeze", x, graph.constant(np.array([1]))), graph.constant(Z[None])
        apart = graph.op("Sub", x, z)
        if similarity.name == "laplacian":
            apart = graph.op("Abs", apart)
        else:
            apart = graph.op("Mul", apart, apart)
        if similarity.name == "chi2":
            least = graph.constant(np.finfo(np.float64).tiny)
            apart = graph.op("Div", apart, graph.op("Max", graph.op("Add", x, z), least))
        total = graph.total(apart, 2, keep=False)
        S = graph.op("Exp", graph.op("Mul", graph.constant(-similarity.gamma), total))
    return _affine(graph, S, model.coef_, model.intercept_), len(model.coef_)
