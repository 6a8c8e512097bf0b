"""Figures of a mixture: the weights of its experts, component by column."""

from __future__ import annotations

import numpy as np

from ..estimator.report.figures import MOST_COLUMNS, MOST_ROWS, HeatMap
from ..estimator.rows.encoding import HasColumns, feature_names
from .objective import Parameters, Problem


def expert_weights(problem: Problem, parameters: Parameters) -> np.ndarray:
    """(k, p) weights of the experts in scaled columns; with several decisions their norm."""
    n = problem.tree.n_gates
    experts = parameters.rows[n:, :-1].reshape(problem.tree.n_leaves, problem.n_outputs, -1)
    weights: np.ndarray = (
        experts[:, 0] if problem.n_outputs == 1 else np.linalg.norm(experts, axis=1)
    )
    return weights


def largest_columns(weights: np.ndarray, most: int) -> np.ndarray:
    """The columns with the largest weights, in the order of the table."""
    size = np.abs(weights).max(axis=0)
    columns: np.ndarray = np.sort(np.argsort(-size, kind="stable")[:most])
    return columns


def figures_of(
    model: HasColumns, problem: Problem, parameters: Parameters, shares: np.ndarray
) -> tuple[str, list[HeatMap]]:
    """Text on the experts' weights, and the figure of them."""
    weights, names = expert_weights(problem, parameters), feature_names(model)
    columns = largest_columns(weights, MOST_COLUMNS)
    order = np.argsort(-shares, kind="stable")[:MOST_ROWS]
    said = (
        "Each component is a linear model of its own region, which a gate assigns to it. A row is "
        "a component with its share of the rows, the largest first."
    )
    notes = []
    if len(columns) < len(names):
        notes.append(f"the {len(columns)} of {len(names)} columns with the largest weights")
    if len(order) < len(shares):
        notes.append(f"the {len(order)} largest of {len(shares)} components")
    unit = "weight in scaled columns" + (
        "" if problem.n_outputs == 1 else ", its norm over classes"
    )
    rows = [f"{j}: {shares[j]:.1%}" for j in order]
    values = weights[np.ix_(order, columns)]
    title = f"Experts: {unit}"
    return said, [HeatMap(title, unit, rows, [names[d] for d in columns], values, "; ".join(notes))]
