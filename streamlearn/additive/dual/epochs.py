"""Epochs of dual coordinate descent over a chunk's rows: their form, and what it needs once."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from ...data.source import Csr
from ...numeric.bases.bsplines import Bases, as_columns
from ...numeric.bases.roughness import Roughness
from ...numeric.losses import Loss
from ..basis import functions as explicit
from ..basis.kernels import DualProblem, Matrix
from ..objective import Problem
from .kernels_epoch import UNSEEN, Descent, decisions, visit_rows
from .kernels_splines import PIECE, Active, DenseRows, SplineRows, measure_rows
from .kernels_tables import POINTS, RAMPS, TABLES, Inverse, pad_rows, restore_rows
from .wide_rows import WIDE_NBYTES, WideEpochs, has_products

SAME = 1e-9
NO_INDEX, NO_POINTER = np.empty(0, np.int32), np.empty(0, np.int64)


class DualState(NamedTuple):
    """The arrays that `dual_epochs_rows` changes in place."""

    alpha: np.ndarray
    """(m, K) float32 dual variables: forces times C s, of a class times its sign (then >= 0);
    log-loss (m, 2K): alpha, then C s - alpha; both 0 = not yet visited."""
    W: np.ndarray
    """(K, dim) float64 = sum_i alpha_i y_i L (Phi_i - c)."""
    b: np.ndarray
    """(K,) float64 = B^2 sum_i alpha_i y_i; the model is f = b + (Phi - c)'W."""


class DualEpochs:
    """Dual coordinate descent over rows in hand; `state` is changed in place.

    `X` holds the coordinates of ``coordinates_rows(X, bases, "C")``, dense and row-major or Csr;
    `bases` are prepared.
    """

    def __init__(
        self,
        X: Matrix,
        bases: Bases,
        loss: Loss,
        problem: DualProblem,
        y: np.ndarray,
        weight: np.ndarray,
        state: DualState,
        norms: np.ndarray | None = None,
        n_threads: int = 1,
        wide_nbytes: int = WIDE_NBYTES,
    ) -> None:
        """`norms`: what `norms` was when the same rows were visited before.

        `wide_nbytes`: bytes of one class's coefficients from which visits go by blocks.
        """
        self._X, self._bases, self._problem = X, bases, problem
        self._targets, self._state = (y, weight), state
        bias = problem.intercept_scaling**2
        self._descent = Descent(loss.dual_rule(), problem.C, bias, 0, len(state.b))
        self._wide: WideEpochs | None = None
        if not bases.dense:
            self._splines = splines = spline_rows(X, bases, problem, state.W, norms)
            self._rows: SplineRows | DenseRows = splines
            if has_products(splines) and 8 * splines.padded.room >= wide_nbytes:
                assert isinstance(X, np.ndarray)  # as dense rows are
                self._wide = WideEpochs(X, splines, n_threads)
            if norms is None:
                self._measure_rows()
            if splines.linear and not isinstance(X, Csr) and len(state.b) == 1:
                self._rows = dense_rows(splines)

    def _measure_rows(self) -> None:
        """Find every row's |Psi|^2 and t'Phi."""
        if self._wide is None:
            measure_rows(self._splines, np.arange(len(self._splines.norms)))
        else:
            self._wide.measure()

    def visit(self, orders: Iterable[np.ndarray]) -> None:
        """Visit the rows in each order in turn, every class's dual variable exactly minimised.

        An order (intp row numbers) may leave rows out or repeat them.
        """
        state = self._state
        if self._bases.dense:
            common = self._X, self._bases, self._descent, self._problem, *self._targets
            explicit.dual_epochs(*common, orders, state)
            return
        if self._wide is not None:
            self._wide.visit(orders, self._descent, self._targets, state.alpha, state.b)
        else:
            for order in orders:
                args = self._rows, self._descent, *self._targets, order
                visit_rows(*args, state.alpha, state.b, UNSEEN)
        rows = self._splines
        restore_rows(self._problem.roughness, rows.inverse, rows.padded, state.W)

    @property
    def norms(self) -> np.ndarray | None:
        """(m, 2) |Psi|^2 and t'Phi of the rows; None where they are not kept."""
        return None if self._bases.dense else self._splines.norms

    def decisions(self) -> np.ndarray | None:
        """(m, K) f of the rows as the last visit left them; None where passes are as quick."""
        if self._bases.dense:
            return None
        if self._wide is not None:
            return self._wide.decisions(self._state.b)
        F = np.empty((len(self._targets[0]), len(self._state.b)))
        decisions(self._splines, np.arange(len(F)), 0, self._state.b, F)
        return F

    def margins(self, W: np.ndarray) -> np.ndarray | None:
        """(m, K) Phi W' of any coefficients (K, dim); None where passes are as quick."""
        return None if self._wide is None else self._wide.margins(W)

    def sums(self, A: np.ndarray) -> np.ndarray:
        """(K, dim) sum a Phi of the rows' `A` (m, K), where `margins` has an answer."""
        assert self._wide is not None
        return self._wide.sums(A)


class OutputEpochs:
    """`DualEpochs` of outputs whose losses differ, one after the other over the rows in hand."""

    def __init__(
        self,
        X: Matrix,
        problem: Problem,
        targets: tuple[np.ndarray, np.ndarray],
        state: DualState,
        norms: np.ndarray | None,
        n_threads: int = 1,
    ) -> None:
        self._state, self._outputs = state, []
        dual, self.norms = _dual_problem(problem), norms
        for at, loss in problem.outputs():
            # the rows' state has all outputs side by side, epochs take one array
            own = DualState(np.ascontiguousarray(state.alpha[:, at]), state.W[at], state.b[at])
            given = *targets, own, self.norms, n_threads
            epochs = DualEpochs(X, problem.bases, loss, dual, *given)
            self._outputs.append((at, own, epochs))
            self.norms = epochs.norms

    def visit(self, orders: Iterable[np.ndarray]) -> None:
        """`DualEpochs.visit` of every output."""
        orders = list(orders)
        for at, own, epochs in self._outputs:
            epochs.visit(orders)
            self._state.alpha[:, at] = own.alpha

    def decisions(self) -> np.ndarray | None:
        """(m, K) `DualEpochs.decisions` of the outputs."""
        each = [epochs.decisions() for _, _, epochs in self._outputs]
        found = [F for F in each if F is not None]
        return np.hstack(found) if found else None

    def margins(self, W: np.ndarray) -> np.ndarray | None:
        """(m, K) `DualEpochs.margins` of the outputs."""
        each = [epochs.margins(W[at]) for at, _, epochs in self._outputs]
        found = [F for F in each if F is not None]
        return np.hstack(found) if found else None

    def sums(self, A: np.ndarray) -> np.ndarray:
        """(K, dim) `DualEpochs.sums` of the outputs."""
        return np.vstack([epochs.sums(A[:, at]) for at, _, epochs in self._outputs])


def make_epochs(
    problem: Problem,
    X: Matrix,
    targets: tuple[np.ndarray, np.ndarray],
    state: DualState,
    norms: np.ndarray | None = None,
    n_threads: int = 1,
) -> DualEpochs | OutputEpochs:
    """Epochs over rows in hand, as `DualEpochs` takes them; the problem's bases are prepared."""
    if problem.levels:
        return OutputEpochs(X, problem, targets, state, norms, n_threads)
    dual = _dual_problem(problem)
    return DualEpochs(X, problem.bases, problem.loss, dual, *targets, state, norms, n_threads)


def _dual_problem(problem: Problem) -> DualProblem:
    return DualProblem(problem.roughness, problem.reference, problem.C, problem.intercept_scaling)


def spline_rows(
    X: Any, bases: Bases, problem: DualProblem, W: np.ndarray, norms: np.ndarray | None = None
) -> SplineRows:
    """Rows of coordinates with the coefficients `W`; `norms` of the rows, if these are known."""
    sparse, columns = isinstance(X, Csr), as_columns(bases, np.dtype(np.float32))
    used = np.flatnonzero(columns.n_intervals)
    n_rows, most = X.shape[0], len(used)
    if sparse:
        u, indices, indptr, step = X.data, X.indices.astype(np.int32, copy=False), X.indptr, 0
        most = int(np.diff(indptr).max(initial=0))
    else:
        u, indices, indptr, step = X.reshape(-1), NO_INDEX, NO_POINTER, X.shape[1]
    inverse = find_inverse(bases, problem, sparse)
    padded = pad_rows(columns, problem.roughness, problem.reference.c, not sparse, inverse.kind, W)
    last = (columns.n_intervals - 1).astype(np.int32)
    (which, place), linear = np.zeros((2, most), np.uintp), bool((columns.degree[used] == 1).all())
    active = Active(np.zeros(1, np.uintp), which, place, np.zeros(most), np.zeros(4 * most))
    rows = SplineRows(
        u, indices, indptr, step, used.astype(np.uintp), last, columns.degree, linear,
        inverse, padded, np.empty((n_rows, 2)) if norms is None else norms,
        float(inverse.s.sum()), active,
    )  # fmt: skip
    return rows


def dense_rows(rows: SplineRows) -> DenseRows:
    """The form of dense rows of one class."""
    n = len(rows.used)
    return DenseRows(
        rows,
        rows.padded.at.astype(np.int32),
        rows.inverse.scale[rows.used],
        np.zeros(n, np.uint32),
        np.zeros(n, np.float32),
        np.zeros(n // int(PIECE) + 1),
        np.zeros(2 * int(PIECE)),
        np.ones(1, np.bool_),
    )


def find_inverse(bases: Bases, problem: DualProblem, sparse: bool) -> Inverse:
    """L of the problem's columns; TABLES if they do not share a simpler kind."""
    roughness, reference = problem.roughness, problem.reference
    n_bases, kind = np.diff(bases.first), TABLES
    scales = np.full((2, len(n_bases)), np.inf)
    if (bases.degree[n_bases > 0] == 1).all():
        scales = find_scales(bases, roughness)
        for candidate in (RAMPS, POINTS):
            if np.isfinite(scales[candidate]).all():
                kind = candidate
    # tables hold what c = Phi(0) takes off beside what a value adds, points would need both
    if sparse and (kind == POINTS or not _begins_at_zero(bases, reference.c)):
        kind = TABLES
    none, first = np.zeros(len(n_bases)), bases.first
    scale = none if kind == TABLES else scales[kind]
    if sparse:
        return Inverse(kind, scale, np.empty(0), none, first)
    if kind == TABLES:
        return Inverse(kind, scale, reference.t, reference.s, first)
    t, used = np.zeros(len(reference.c)), np.flatnonzero(n_bases)
    for n in np.unique(n_bases[used]):  # columns of one size at a time
        columns, i = used[n_bases[used] == n], np.arange(n)
        at = first[columns][:, None] + i
        c = reference.c[at]
        t[at] = scale[columns][:, None] * (c @ np.minimum(i, i[:, None]) if kind == RAMPS else c)
    s = np.bincount(np.repeat(np.arange(len(n_bases)), n_bases), reference.c * t, len(n_bases))
    return Inverse(kind, scale, t, s, first)


def find_scales(bases: Bases, roughness: Roughness, *, from_zero: bool = False) -> np.ndarray:
    """(2, p): every column's `_scales`."""
    n_bases = np.diff(bases.first)
    used, scales = np.flatnonzero(n_bases), np.zeros((2, len(n_bases)))
    tables, first, which = np.unique(roughness.table[used], return_index=True, return_inverse=True)
    if len(tables):
        each = [
            _scales(roughness.L[key : key + n * n].reshape(n, n), from_zero)
            for key, n in zip(tables, n_bases[used[first]], strict=True)
        ]
        scales[:, used] = np.array(each)[which].T
    return scales


def _scales(L: np.ndarray, from_zero: bool) -> tuple[float, float]:
    """(of POINTS, of RAMPS) the s with L = s I, s min(i, j) on vectors of sum 0; else inf.

    `from_zero`: POINTS is s I but for the first diagonal number, which is 0.
    """
    n = len(L)
    i = np.arange(n)

    def centred(A: np.ndarray) -> np.ndarray:
        A = A - A.mean(axis=0)
        return A - A.mean(axis=1, keepdims=True)

    seen, out = centred(L), []
    points = np.eye(n)
    points[0, 0] = 0.0 if from_zero else 1.0
    for simple in (points, np.minimum(i, i[:, None]).astype(float)):
        target = centred(simple)
        s = float((seen * target).sum() / (target * target).sum())
        near = abs(seen - s * target).max() <= SAME * abs(seen).max()
        out.append(s if near else np.inf)
    return out[POINTS], out[RAMPS]


def _begins_at_zero(bases: Bases, c: np.ndarray) -> bool:
    """Whether c = Phi(0) is the first spline of every column."""
    first = bases.first[:-1][np.diff(bases.first) > 0]
    return bool((c[first] == 1.0).all())
