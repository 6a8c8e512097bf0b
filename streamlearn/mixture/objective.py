"""The likelihood of a mixture, and all that one read of the rows says of it.

    F = sum_i s_i log sum_j g_j(x_i) e^-l(y_i, f_j(x_i)) - sum_j |w_j|^2 / (2 C) - nu sum_j log xi_j

(Fu 2010, eq. 8 and 19), g_j the gate's share with its mixing coefficient xi_j (`gate.log_shares`),
f_j(x) = w_j.(x, 1).  The free linear gate holds no xi_j (its offsets do that) and its rows are
penalised as the experts' are.  As d log sum = sum of posterior times d log, the gradient of F is
that of EM's lower bound: one read gives F, its gradient, and the mass S_j = sum_i s_i q_ij from
which the next xi_j follow (eq. 12 and 20).  The posteriors q are never stored.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import numpy as np

from ..data.source import Chunk
from ..numeric import links
from ..numeric.checks import check_array, check_integer, check_number
from ..numeric.rows.blocks import block_rows, blocks, square_norms
from ..passes.fold import Fold
from ..passes.sums import add_sums
from . import experts, gate
from .gate import Tree


class Problem(NamedTuple):
    """What is fixed during a fit, but for the tree, which pruning makes smaller."""

    kind: str
    """"generative", "rbf" or "linear"."""
    loss: str
    tree: Tree
    n_outputs: int
    """Decisions of an expert."""
    tau: float
    C: float
    nu: float
    """Rows that a component must hold more than."""
    names: np.ndarray
    """(k,) number that each component had in the beginning."""
    shift: np.ndarray | None
    """Scaled columns are (x - shift) * factor; None for sparse rows."""
    factor: np.ndarray | None

    def check(self, n_columns: int | None = None) -> None:
        """Raise ValueError unless it is one that a fit makes, of so many columns: from a file."""
        if (
            self.kind not in gate.GATES
            or self.loss not in experts.LOSSES
            or type(self.tree) is not Tree
        ):
            raise ValueError(f"a mixture with the gate {self.kind!r} and the loss {self.loss!r}")
        check_integer("n_outputs", self.n_outputs, 1, 2**20)
        for name in ("tau", "C", "nu"):
            check_number(name, getattr(self, name), 0)
        check_array("names", self.names, (self.tree.n_leaves,), "integer", low=0)
        for name in ("shift", "factor"):
            if getattr(self, name) is not None:
                check_array(name, getattr(self, name), (n_columns,))

    def check_parameters(self, at: Any) -> None:
        """Raise ValueError unless parameters from a file are of this problem."""
        if not isinstance(at, Parameters):
            raise ValueError(f"parameters are a {type(at).__name__}")
        width = None if self.factor is None else len(self.factor) + 1
        check_array("rows", at.rows, (self.tree.n_gates + self.n_experts, width))
        check_array("log_mix", at.log_mix, (self.tree.n_gates,), finite=False)

    @property
    def n_experts(self) -> int:
        """Rows of expert weights."""
        return self.tree.n_leaves * self.n_outputs

    def dual_columns(self) -> Any:
        """Where the experts' dual variables lie in a row's state, which no pruning moves."""
        n = self.n_outputs
        return (self.names[:, None] * n + np.arange(n)).ravel()

    def ridge(self, n_gates: int) -> np.ndarray:
        """(R, 1) second derivative of the penalty on each row of parameters."""
        of_gates = 1.0 / self.C if self.kind == "linear" else 0.0
        return np.r_[np.full(n_gates, of_gates), np.full(self.n_experts, 1.0 / self.C)][:, None]


class Parameters(NamedTuple):
    """A mixture, in scaled columns."""

    rows: np.ndarray
    """(R, p + 1): the gate's rows, then the experts', outputs of one after the other."""
    log_mix: np.ndarray
    """(n_gates,) log xi of branches and leaves; 0 for the linear gate."""


class EStep(NamedTuple):
    """What a read says at one place."""

    at: Parameters
    log_likelihood: float
    objective: float
    """F, to be maximised."""
    gradient: np.ndarray
    """(R, p + 1) dF."""
    mass: np.ndarray
    """(n_gates,) sums of posteriors."""
    weight: float
    """Of all rows."""
    dual: np.ndarray | None = None
    """(k O, p + 1) experts that the dual variables of hinges stand for."""


class Posterior(NamedTuple):
    """The E-step for some rows."""

    log_likelihood: np.ndarray
    """(m,)."""
    q: np.ndarray
    """(m, k)."""
    offered: np.ndarray
    """(m, n_gates) shares of the softmax, mixing coefficients not included."""
    F: np.ndarray
    """(m, k, O) decisions."""
    slope: np.ndarray
    """(m, k, O) slopes of the losses."""


def evaluation_fold(problem: Problem, at: Parameters) -> Fold[dict[str, Any], EStep]:
    """Fold: the `EStep` at `at`.  State 8 R (p + 2) bytes; two matrix products a block."""
    return Fold(
        partial(empty_sums, *at.rows.shape, problem.tree.n_gates),
        partial(_step, problem, at),
        add_sums,
        partial(_finish, problem, at),
    )


def likelihood_fold(problem: Problem, at: Parameters) -> Fold[dict[str, Any], float]:
    """Fold: the mean log-likelihood of held-out rows."""
    return Fold(
        partial(empty_sums, 0, 0, 0),
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
    """`gate.log_shares`, two arrays (m, n_gates), and (m, k, O) decisions."""
    tree, n = problem.tree, problem.tree.n_gates
    S = gate.logits(problem.kind, problem.tau, at.rows[:n], Z[:, :n], squares)
    F = Z[:, n:] + at.rows[n:, -1]
    logs, offered = gate.log_shares(problem.kind, tree, at.log_mix, S)
    return logs, offered, F.reshape(len(Z), tree.n_leaves, problem.n_outputs)


def row_blocks(problem: Problem, at: Parameters, X: Any, *, density: bool = True):
    """(rows, block, Z, |x|^2): the products that an E-step or an answer begins with.

    Without `density` the generative gate's |x|^2, the same for all components, is left 0.
    """
    density &= problem.kind == "generative"
    A = np.ascontiguousarray(at.rows[:, :-1].T)
    size = block_rows(sum(A.shape))
    for rows, B in blocks(X, problem.shift, problem.factor, size):
        m = rows.stop - rows.start
        squares = square_norms(B)[:m] if density else np.zeros(m)
        yield rows, B, (B @ A)[:m], squares


def slopes(problem: Problem, e: Posterior) -> np.ndarray:
    """(m, R): d log-likelihood / d product, of gate rows and experts."""
    tree = problem.tree
    held = tree.to_gates(e.q)
    if problem.kind != "generative":
        offered = e.offered
        if tree.n_branches:
            offered = offered.copy()
            offered[:, tree.n_branches :] *= held[:, tree.parent]
        held = held - offered
    return np.hstack([held, (-e.q[:, :, None] * e.slope).reshape(len(e.q), -1)])


def empty_sums(n_rows: int, width: int, n_gates: int) -> dict[str, Any]:
    """The sums of no rows, for parameters (n_rows, width)."""
    return {
        "moment": np.zeros((n_rows, width)),
        "mass": np.zeros(n_gates),
        "log_likelihood": 0.0,
        "weight": 0.0,
    }


def _step(problem: Problem, at: Parameters, state: dict[str, Any], chunk: Chunk) -> dict[str, Any]:
    for _ in add_blocks(problem, at, state, chunk):
        pass
    return state


def add_blocks(problem: Problem, at: Parameters, state: dict[str, Any], chunk: Chunk) -> Any:
    """Add a chunk to the sums block by block; yields (rows, block, posterior) of each."""
    for rows, B, Z, squares in row_blocks(problem, at, chunk.X):
        s = weights(chunk, rows)
        e = posterior(problem, at, Z, squares, chunk.y[rows])
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


def filled(D: np.ndarray, B: Any) -> np.ndarray:
    """D with rows of zeros below, as many as the block has."""
    if len(D) == B.shape[0]:
        return D
    out = np.zeros((B.shape[0], D.shape[1]))
    out[: len(D)] = D
    return out


def _finish(problem: Problem, at: Parameters, state: dict[str, Any]) -> EStep:
    n = problem.tree.n_gates
    gradient = state["moment"].copy()
    if problem.kind != "linear":  # eq. 14 with its factor 2 tau: of centres, not of slopes
        gradient[:n] = 2.0 * problem.tau * (gradient[:n] - gradient[:n, -1:] * at.rows[:n])
        gradient[:n, -1] = 0.0
    ridge = problem.ridge(n)
    gradient -= ridge * at.rows
    penalty = 0.5 * float((ridge * at.rows**2).sum())
    if problem.kind != "linear":
        penalty += problem.nu * float(problem.tree.to_leaves(at.log_mix[None]).sum())
    value = state["log_likelihood"]
    return EStep(at, value, value - penalty, gradient, state["mass"], state["weight"])


def _step_likelihood(
    problem: Problem, at: Parameters, state: dict[str, Any], chunk: Chunk
) -> dict[str, Any]:
    for rows, _, Z, squares in row_blocks(problem, at, chunk.X):
        s = weights(chunk, rows)
        e = posterior(problem, at, Z, squares, chunk.y[rows])
        state["log_likelihood"] += float(s @ e.log_likelihood)
        state["weight"] += float(s.sum())
    return state


def _mean_likelihood(state: dict[str, Any]) -> float:
    return state["log_likelihood"] / state["weight"] if state["weight"] else 0.0
