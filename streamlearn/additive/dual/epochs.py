"""Epochs of dual coordinate descent over a chunk's rows: which kernel, and what it needs once."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from ...data.source import Csr
from ...numeric.bases.bsplines import Bases, as_columns
from ...numeric.rows.dense import flat_rows
from ...numeric.simd.add import ROW
from ..basis import functions as explicit
from . import kernels as kernels_dual
from . import kernels_linear as kernels_dual_linear
from .kernels_linear import POINTS, RAMPS, TABLES, LinearRows, Shape
from .kernels_step import dual_rule
from .kernels_tables import pad_coefficients, pad_rows

SAME = 1e-9
NO_INDEX, NO_POINTER = np.empty(0, np.int32), np.empty(0, np.int64)


class DualState(NamedTuple):
    """What `dual_epochs_rows` changes in place."""

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
        X: Any,
        bases: Bases,
        loss: Any,
        problem: Any,
        y: np.ndarray,
        weight: np.ndarray,
        state: DualState,
    ) -> None:
        self._X, self._bases, self._problem = X, bases, problem
        self._targets, self._state = (y, weight), state
        self._columns, self._rule = as_columns(bases, np.float32), dual_rule(loss)
        linear = bool((bases.degree[bases.n_intervals > 0] == 1).all())
        self._linear = linear and not bases.dense
        if self._linear:
            self._prepare()

    def _prepare(self) -> None:
        X, sparse, W = self._X, isinstance(self._X, Csr), self._state.W
        if sparse:
            indices = X.indices.astype(np.int32, copy=False)
            self._rows = LinearRows(X.data, indices, X.indptr, 0)
        else:
            self._rows = LinearRows(X.reshape(-1), NO_INDEX, NO_POINTER, X.shape[1])
        self._shape = find_shape(self._bases, self._problem, sparse)
        c, roughness = self._problem.reference.c, self._problem.roughness
        if self._shape.kind == TABLES:
            self._padded = pad_rows(self._columns, roughness, c, not sparse, W)
        else:
            row = 1 if self._shape.kind == POINTS else ROW
            self._padded = pad_coefficients(self._columns, c, not sparse, W, row)
        self._norms = np.empty((len(self._targets[0]), 2))
        kernels_dual_linear.row_norms(
            self._rows, self._columns, self._padded, self._shape, self._norms
        )

    def visit(self, orders: Iterable[np.ndarray]) -> None:
        """Visit the rows in each order in turn, every class's dual variable exactly minimised.

        An order (intp row numbers) may leave rows out or repeat them.
        """
        if self._bases.dense:
            explicit.dual_epochs(
                self._X, self._bases, self._rule, self._problem, *self._targets, orders, self._state
            )
            return
        if not self._linear:
            dense = not isinstance(self._X, Csr)
            rows = (flat_rows(self._X),) if dense else self._X[:3]
            epoch = kernels_dual.epoch if dense else kernels_dual.epoch_csr
            for order in orders:
                args = self._columns, self._rule, self._problem, *self._targets
                epoch(*rows, *args, order, self._state)
            return
        args = self._columns, self._rule, self._problem, self._shape, self._padded, self._norms
        for order in orders:
            kernels_dual_linear.epoch_linear(self._rows, *args, *self._targets, order, self._state)
        kernels_dual_linear.finish_linear(
            self._columns, self._problem.roughness, self._shape, self._padded, self._state.W
        )

    def decisions(self) -> np.ndarray | None:
        """(m, K) f of the rows as the last visit left them; None where passes are as quick."""
        if not self._linear:
            return None
        F = np.empty((len(self._norms), len(self._state.W)))
        kernels_dual_linear.decisions_linear(
            self._rows, self._columns, self._shape, self._padded, self._norms, self._state.b, F
        )
        return F


def find_shape(bases: Bases, problem: Any, sparse: bool) -> Shape:
    """The shape of the problem's tables; TABLES if the columns do not share a simpler one."""
    roughness, reference = problem.roughness, problem.reference
    n_bases, scales = np.diff(bases.first), find_scales(bases, roughness)
    kind = TABLES
    for candidate in (RAMPS, POINTS):
        if np.isfinite(scales[candidate]).all():
            kind = candidate
    none = np.zeros(len(reference.c)), np.zeros(len(n_bases))
    # tables hold what c = Phi(0) takes off beside what a value adds, points would need both
    if sparse and (kind == POINTS or not _begins_at_zero(bases, reference.c)):
        kind = TABLES
    if sparse:
        return Shape(kind, np.nan_to_num(scales[kind % 2]), *none)
    if kind == TABLES:
        return Shape(kind, none[1], reference.t, reference.s)
    t, s = none
    for d in np.flatnonzero(n_bases):
        block = slice(*bases.first[d : d + 2])
        c, i = reference.c[block], np.arange(n_bases[d])
        low = np.minimum(i, i[:, None]) @ c if kind == RAMPS else c
        t[block] = scales[kind, d] * low
        s[d] = c @ t[block]
    return Shape(kind, scales[kind], t, s)


def find_scales(bases: Bases, roughness: Any, *, from_zero: bool = False) -> np.ndarray:
    """(2, p): every column's `_scales`."""
    n_bases, seen = np.diff(bases.first), {}
    scales = np.zeros((2, len(n_bases)))
    for d in np.flatnonzero(n_bases):
        key = roughness.table[d]
        if key not in seen:
            n = n_bases[d]
            seen[key] = _scales(roughness.L[key : key + n * n].reshape(n, n), from_zero)
        scales[:, d] = seen[key]
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
