"""The likelihood of a mixture, and all that one read of the rows measures of it.

    F = sum_i s_i log sum_j g_j(x_i) e^-l(y_i, f_j(x_i)) - sum_j |w_j|^2 / (2 C) - nu sum_j log xi_j

(Fu 2010, eq. 8 and 19), where g_j is the gate's share with its mixing coefficient xi_j
(`gate.log_shares`), and f_j(x) = w_j.(x, 1).  Gates of free linear logits have no xi_j, because
their offsets do the same; the rows of "linear" are penalised as the experts' are.  As d log sum is
the sum of posterior times d log, the gradient of F is that of EM's lower bound.  So one read gives
F, its gradient, and the mass S_j = sum_i s_i q_ij from which the next xi_j follow (eq. 12 and 20).
The posteriors q are never stored.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import NamedTuple, TypedDict

import numpy as np

from ..data.source import Chunk, Csr
from ..numeric import links
from ..numeric.checks import check_array, check_integer, check_number
from ..numeric.rows.blocks import Block, block_rows, blocks, square_norms
from ..passes.fold import Fold
from ..passes.sums import add_sums
from . import experts, gate
from .gate import Tree


class Problem(NamedTuple):
    """Fixed part of a fit: gate, loss, constants, and the tree, which pruning makes smaller."""

    kind: str
    """The form of the gate: one of the values of `gate.GATES`."""
    loss: str
    """One of `experts.LOSSES`."""
    tree: Tree
    n_outputs: int
    """Number of decisions of an expert."""
    tau: float
    """Inverse width of the gate's centres."""
    C: float
    """Weight of the rows against the penalty."""
    nu: float
    """Number of rows that a component must exceed."""
    names: np.ndarray
    """(k,) number that each component had in the beginning."""
    shift: np.ndarray | None
    """(p,) subtrahend of scaled columns, (x - shift) * factor; None: 0."""
    factor: np.ndarray | None
    """(p,) factor of scaled columns; None: 1."""

    def check(self, n_columns: int | None = None) -> None:
        """Raise ValueError unless a problem from a file is one that a fit of such columns makes."""
        if (
            self.kind not in gate.GATES.values()
            or self.loss not in experts.LOSSES
            or type(self.tree) is not Tree
        ):
            raise ValueError(f"a mixture with the gate {self.kind!r} and the loss {self.loss!r}")
        check_integer("n_outputs", self.n_outputs, 1, 2**20)
        check_number("tau", self.tau, 0)
        check_number("C", self.C, 0)
        check_number("nu", self.nu, 0)
        check_array("names", self.names, (self.tree.n_leaves,), "integer", low=0)
        if self.shift is not None:
            check_array("shift", self.shift, (n_columns,))
        if self.factor is not None:
            check_array("factor", self.factor, (n_columns,))

    def check_parameters(self, at: object) -> None:
        """Raise ValueError unless parameters from a file are of this problem."""
        if not isinstance(at, Parameters):
            raise ValueError(f"parameters are a {type(at).__name__}")
        width = None if self.factor is None else len(self.factor) + 1
        check_array("rows", at.rows, (self.tree.n_gates + self.n_experts, width))
        check_array("log_mix", at.log_mix, (self.tree.n_gates,), finite=False)

    @property
    def has_centres(self) -> bool:
        """Whether gate rows are centres, beside mixing coefficients; else they are free logits."""
        return self.kind not in gate.LINEAR

    @property
    def n_experts(self) -> int:
        """Number of rows of expert weights."""
        return self.tree.n_leaves * self.n_outputs

    def dual_columns(self) -> np.ndarray:
        """(k O,) columns of the row state with the experts' variables; no pruning moves them."""
        n = self.n_outputs
        columns: np.ndarray = self.names[:, None] * n + np.arange(n)
        return columns.ravel()

    def ridge(self, n_gates: int) -> np.ndarray:
        """(R, 1) second derivative of the penalty on each row of parameters."""
        of_gates = 1.0 / self.C if self.kind == "linear" else 0.0
        return np.r_[np.full(n_gates, of_gates), np.full(self.n_experts, 1.0 / self.C)][:, None]


class Parameters(NamedTuple):
    """A mixture, in scaled columns."""

    rows: np.ndarray
    """(R, p + 1) rows of the gate, then of the experts, each with one row for each output."""
    log_mix: np.ndarray
    """(n_gates,) logarithms of xi, of branches and leaves; 0 for gates of free logits."""


class EStep(NamedTuple):
    """Result of one read at one point."""

    at: Parameters
    """The point."""
    log_likelihood: float
    objective: float
    """Value of F, which is to be maximised."""
    gradient: np.ndarray
    """(R, p + 1) gradient of F."""
    mass: np.ndarray
    """(n_gates,) sums of posteriors."""
    weight: float
    """Weight of all rows."""
    dual: np.ndarray | None = None
    """(k O, p + 1) experts that the dual variables of hinges stand for."""


class Posterior(NamedTuple):
    """The E-step for some rows."""

    log_likelihood: np.ndarray
    """(m,) log-likelihood of each row."""
    q: np.ndarray
    """(m, k) posteriors."""
    offered: np.ndarray
    """(m, n_gates) shares of the softmax, without the mixing coefficients."""
    F: np.ndarray
    """(m, k, O) decisions."""
    slope: np.ndarray
    """(m, k, O) slopes of the losses."""


class Sums(TypedDict):
    """State of the folds."""

    moment: np.ndarray
    """(R, p + 1) sums of slopes times (x, 1)."""
    mass: np.ndarray
    """(n_gates,) sums of posteriors."""
    log_likelihood: float
    weight: float


def evaluation_fold(problem: Problem, at: Parameters) -> Fold[Sums, EStep]:
    """Fold of the `EStep` at `at`.  State: 8 R (p + 2) bytes; a block takes two matrix products."""
    return Fold(
        partial(empty_sums, at.rows.shape, problem.tree.n_gates),
        partial(_step, problem, at),
        add_sums,
        partial(finish_sums, problem, at),
    )


def likelihood_fold(problem: Problem, at: Parameters) -> Fold[Sums, float]:
    """Fold of the mean log-likelihood of held-out rows."""
    return Fold(
        partial(empty_sums, (0, 0), 0),
        partial(_step_likelihood, problem, at),
        add_sums,
        _mean_likelihood,
    )


def posterior(
    problem: Problem, at: Parameters, Z: np.ndarray, squares: np.ndarray, y: np.ndarray
) -> Posterior:
    """The E-step (eq. 11) from products Z (m, R) of rows and parameters, |x|^2 (m,), codes y."""
    logs, offered, F = split(problem, at, Z, squares)
    loss, slope = experts.losses(problem.loss, F, y)
    total, q = links.share_out(problem.tree.to_leaves(logs) - loss, 1)
    return Posterior(total[:, 0], q, offered, F, slope)


def split(
    problem: Problem, at: Parameters, Z: np.ndarray, squares: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The two arrays (m, n_gates) of `gate.log_shares`, and the (m, k, O) decisions."""
    tree, n = problem.tree, problem.tree.n_gates
    S = gate.logits(problem.kind, problem.tau, at.rows[:n], Z[:, :n], squares)
    F = Z[:, n:] + at.rows[n:, -1]
    logs, offered = gate.log_shares(problem.kind, tree, at.log_mix, S)
    return logs, offered, F.reshape(len(Z), tree.n_leaves, problem.n_outputs)


def row_blocks(
    problem: Problem, at: Parameters, X: np.ndarray | Csr, *, density: bool = True
) -> Iterator[tuple[slice, Block, np.ndarray, np.ndarray]]:
    """Yield (rows, block, Z, |x|^2), the products with which an E-step or an answer begins.

    Without `density` the generative gate's |x|^2 stays 0, which is the same for all components.
    """
    density &= problem.kind == "generative"
    A = np.ascontiguousarray(at.rows[:, :-1].T)
    size = block_rows(sum(A.shape))
    for rows, B in blocks(X, problem.shift, problem.factor, size):
        m = rows.stop - rows.start
        squares = square_norms(B)[:m] if density else np.zeros(m)
        yield rows, B, (B @ A)[:m], squares


def slopes(problem: Problem, e: Posterior) -> np.ndarray:
    """(m, R) derivatives of the log-likelihood by the products of gate rows and experts."""
    tree = problem.tree
    of_gates = tree.to_gates(e.q)
    if problem.kind != "generative":
        offered = e.offered
        if tree.n_branches:
            offered = offered.copy()
            offered[:, tree.n_branches :] *= of_gates[:, tree.parent]
        of_gates = of_gates - offered
    return np.hstack([of_gates, (-e.q[:, :, None] * e.slope).reshape(len(e.q), -1)])


def empty_sums(shape: tuple[int, ...], n_gates: int) -> Sums:
    """The sums of no rows, for parameters of this shape."""
    return {
        "moment": np.zeros(shape),
        "mass": np.zeros(n_gates),
        "log_likelihood": 0.0,
        "weight": 0.0,
    }


def _step(problem: Problem, at: Parameters, state: Sums, chunk: Chunk) -> Sums:
    for _ in add_blocks(problem, at, state, chunk):
        pass
    return state


def add_blocks(
    problem: Problem, at: Parameters, state: Sums, chunk: Chunk
) -> Iterator[tuple[slice, Block, Posterior]]:
    """Add a chunk to the sums block by block, and yield (rows, block, posterior) of each."""
    for rows, B, Z, squares in row_blocks(problem, at, chunk.X):
        s = weights(chunk, rows)
        e = posterior(problem, at, Z, squares, chunk.target[rows])
        D = slopes(problem, e) * s[:, None]
        state["moment"][:, -1] += D.sum(axis=0)
        state["moment"][:, :-1] += (B.T @ filled(D, B)).T
        state["mass"] += s @ problem.tree.to_gates(e.q)
        state["log_likelihood"] += float(s @ e.log_likelihood)
        state["weight"] += float(s.sum())
        yield rows, B, e


def weights(chunk: Chunk, rows: slice) -> np.ndarray:
    """(m,) weights of some rows of a chunk."""
    return np.ones(rows.stop - rows.start) if chunk.weight is None else chunk.weight[rows]


def filled(D: np.ndarray, B: Block) -> np.ndarray:
    """D with rows of zeros below, so that it has as many rows as the block."""
    if len(D) == B.shape[0]:
        return D
    out = np.zeros((B.shape[0], D.shape[1]))
    out[: len(D)] = D
    return out


def finish_sums(problem: Problem, at: Parameters, state: Sums) -> EStep:
    """The `EStep` at `at`, from the sums of all rows."""
    n = problem.tree.n_gates
    gradient = state["moment"].copy()
    if problem.has_centres:  # eq. 14 with its factor 2 tau: these rows are not slopes
        gradient[:n] = 2.0 * problem.tau * (gradient[:n] - gradient[:n, -1:] * at.rows[:n])
        gradient[:n, -1] = 0.0
    ridge = problem.ridge(n)
    gradient -= ridge * at.rows
    penalty = 0.5 * float((ridge * at.rows**2).sum())
    if problem.has_centres:
        penalty += problem.nu * float(problem.tree.to_leaves(at.log_mix[None]).sum())
    value = state["log_likelihood"]
    return EStep(at, value, value - penalty, gradient, state["mass"], state["weight"])


def _step_likelihood(problem: Problem, at: Parameters, state: Sums, chunk: Chunk) -> Sums:
    for rows, _, Z, squares in row_blocks(problem, at, chunk.X):
        s = weights(chunk, rows)
        e = posterior(problem, at, Z, squares, chunk.target[rows])
        state["log_likelihood"] += float(s @ e.log_likelihood)
        state["weight"] += float(s.sum())
    return state


def _mean_likelihood(state: Sums) -> float:
    return state["log_likelihood"] / state["weight"] if state["weight"] else 0.0
