"""Passes of the additive models over the rows of a chunk, bases computed on the fly.

f_k(x) = b_k + sum_d Phi_d(x)'w_dk.  `X` is (m, p) float32 or float64 in any order, or `Csr`, or
(``bases.prepared``) the coordinates u of `coordinates_rows`; NaN only in columns that have a level
for missing values.  `y` (m,) float64 holds +1/-1 or targets when there is one class, and the codes
0..K-1 when there are K > 1 (one against the rest).  `weight` (m,) float64, empty = every weight is
1.  Coefficients are (K, dim).

Arithmetic is done in the dtype of the coefficients given: float32 is the fast path (relative error
about 1e-7 a row), float64 the exact one.  Sums are always float64 and are added to.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np

from ...data.source import Csr
from ...numeric.bases.bsplines import Bases, Columns, as_columns
from ...numeric.bases.roughness import Reference, Roughness
from ...numeric.losses import Force, Loss
from ...numeric.rows.dense import flat_rows
from ..dual import kernels_step as kernels_dual_step
from . import functions as explicit
from . import (
    kernels_classes,
    kernels_csr,
    kernels_dense,
    kernels_gram,
    kernels_loss,
    kernels_pairs,
)
from .kernels_loss import is_coded, loss_code, own_losses, targets_by_class
from .pair_terms import looks_up_pairs, pair_terms
from .written import WrittenRows

Matrix = np.ndarray | Csr
NONE = np.empty(0)
"""No weights, no right-hand side."""


class Point(NamedTuple):
    """Coefficients at which a pass evaluates f = b + Phi W."""

    W: np.ndarray
    """(K, dim) float32 or float64."""
    b: np.ndarray
    """(K,) float64."""


class Sums(NamedTuple):
    """Sums of `gradient_rows`, all float64; r is the slope of the loss in f."""

    value: np.ndarray
    """(K,) sum s l(y, f)."""
    slope: np.ndarray
    """(K,) sum s r."""
    gradient: np.ndarray
    """(K, dim) sum s r Phi; (0, dim) = not wanted."""


def make_point(W: np.ndarray, b: np.ndarray) -> Point:
    """A point of one or K outputs."""
    return Point(np.atleast_2d(W), np.atleast_1d(np.asarray(b, float)))


def empty_sums(n_classes: int, dim: int, *, gradient: bool = True) -> Sums:
    """Zeros of the right shapes."""
    kept = n_classes if gradient else 0
    return Sums(np.zeros(n_classes), np.zeros(n_classes), np.zeros((kept, dim)))


class GramSums(NamedTuple):
    """Sums of `gram_rows`, float64."""

    H: np.ndarray
    """(dim, dim) sum h Phi Phi', upper triangle (the lower one is not defined)."""
    g: np.ndarray
    """(dim,) sum h Phi."""
    b: np.ndarray
    """(dim,) sum r Phi; untouched without r."""


class DualProblem(NamedTuple):
    """The fixed part of a dual problem: 1/2 w'Pw + 1/2 b^2/B^2 + C sum s l."""

    roughness: Roughness
    reference: Reference
    """Dense X: any; Csr: c = Phi(0), so that absent values cost nothing."""
    C: float
    intercept_scaling: float
    """B."""


def present(X: Matrix, bases: Bases) -> Matrix:
    """X with missing values as kernels take them, +inf; a copy if there are any."""
    if bases.prepared or isinstance(X, WrittenRows) or not bases.has_missing.any():
        return X
    values = X.data if isinstance(X, Csr) else X
    with np.errstate(over="ignore", invalid="ignore"):
        if not np.isnan(values.sum(dtype=np.float64)):  # quick: a NaN makes the sum one
            return X
    filled = values.copy(order="K")
    filled[np.isnan(filled)] = np.inf
    return X._replace(data=filled) if isinstance(X, Csr) else filled


def coordinates_rows(
    X: Matrix, bases: Bases, order: str = "F", columns: Columns | None = None
) -> Matrix:
    """The coordinates u as float32; see `Bases.prepared`.

    `order`: "F" (columns) for passes, "C" (rows) for dual epochs; Csr keeps its pattern.
    `columns`: the bases' map for rows of this dtype, where the caller keeps it.
    """
    X = present(X, bases)
    if columns is None:
        columns = as_columns(bases, X.data.dtype if isinstance(X, Csr) else X.dtype)
    if isinstance(X, Csr):
        data = np.empty(len(X.data), np.float32)
        kernels_csr.coordinates(X.data, X.indices, columns, data)
        return X._replace(data=data)
    if order == "C":
        U = np.empty(X.shape, np.float32)
        kernels_dense.coordinates_by_row(flat_rows(X), columns, U)
        return U
    U = np.empty(X.shape[::-1], np.float32)
    kernels_dense.coordinates(flat_rows(X), columns, U)
    return U.T


def _is_explicit(X: Matrix, bases: Bases) -> bool:
    """Whether passes go over functions that are written out."""
    return bases.dense or isinstance(X, WrittenRows)


def margins_rows(X: Matrix, bases: Bases, W: np.ndarray, F: np.ndarray) -> None:
    """Write Phi W into `F` (m, K) float64 in place."""
    W, X = np.ascontiguousarray(W), present(X, bases)
    if looks_up_pairs(X, bases):
        rows, columns, terms = *_dense(X, bases), pair_terms(bases)
        kernels_pairs.margins(rows, columns, terms, W.astype(np.float64, copy=False), F)
    elif _is_explicit(X, bases):
        explicit.margins(X, bases, W, F)
    elif isinstance(X, Csr):
        kernels_csr.margins(*_sparse(X, bases), W, F)
    else:
        kernels_dense.margins(flat_rows(X), as_columns(bases, X.dtype), W, F)


def side_by_side(X: Matrix, bases: Bases, n_classes: int) -> bool:
    """Whether `class_margins_rows` and `class_sums_rows` take these rows."""
    return n_classes > 1 and not bases.dense and not isinstance(X, Csr)


def class_margins_rows(X: np.ndarray, bases: Bases, W: np.ndarray, F: np.ndarray) -> None:
    """`margins_rows` of several classes, in float64."""
    rows, columns = _dense(X, bases)
    kernels_classes.class_margins(rows, columns, np.ascontiguousarray(W.T, np.float64), F)


def class_sums_rows(X: np.ndarray, bases: Bases, A: np.ndarray) -> np.ndarray:
    """(K, dim) sum a Phi of the rows' `A` (m, K) float64, of several classes."""
    (rows, columns), G = _dense(X, bases), np.zeros((bases.dim, A.shape[1]))
    kernels_classes.class_sums(rows, columns, np.ascontiguousarray(A), G)
    return np.ascontiguousarray(G.T)


def gradient_rows(
    X: Matrix, bases: Bases, loss: Loss, point: Point, y: np.ndarray, weight: np.ndarray, sums: Sums
) -> None:
    """Add the rows' losses, slopes and gradients at `point` to `sums` in place."""
    X, y = present(X, bases), targets_by_class(y)
    if not is_coded(loss):
        _add_own_loss(X, bases, loss, point, y, weight, sums)
        return
    if looks_up_pairs(X, bases):
        rows, columns, terms = *_dense(X, bases), pair_terms(bases)
        exact = point._replace(W=point.W.astype(np.float64, copy=False))
        kernels_pairs.gradient(rows, columns, terms, loss_code(loss), exact, y, weight, sums)
    elif _is_explicit(X, bases):
        explicit.gradient(X, bases, loss, point, y, weight, sums)
    elif isinstance(X, Csr):
        kernels_csr.gradient(*_sparse(X, bases), loss_code(loss), point, y, weight, sums)
    else:
        columns = as_columns(bases, X.dtype)
        code = loss_code(loss)
        coordinates = kernels_dense.tile_coordinates(X, columns)
        kernels_dense.gradient(flat_rows(X), columns, coordinates, code, point, y, weight, sums)


def _add_own_loss(
    X: Matrix, bases: Bases, loss: Loss, point: Point, y: np.ndarray, weight: np.ndarray, sums: Sums
) -> None:
    """`gradient_rows` of a loss defined elsewhere: its slopes are the forces of a second look."""
    F = np.empty((len(y), len(point.b)))
    margins_rows(X, bases, point.W, F)
    F += point.b
    value, slopes = own_losses(loss, F, y, weight)
    zero = make_point(np.zeros(point.W.shape), np.zeros(len(point.b)))
    gradient_rows(X, bases, Force(), zero, slopes, NONE, sums)
    sums.value[:] += value


def gram_rows(
    X: Matrix, bases: Bases, h: np.ndarray, r: np.ndarray, sums: GramSums, n_threads: int = 1
) -> None:
    """Add the rows' curvature-weighted outer products to `sums` in place.

    `h` (m,) weights, `r` (m,) right-hand side (weighted target) or empty; all in float64.  Dense
    splines, and pairs beside them, use up to `n_threads` threads; the bits are those of one.
    """
    X = present(X, bases)
    looks_up = looks_up_pairs(X, bases)
    if isinstance(X, Csr) or (bases.dense and not looks_up):
        explicit.gram(X, bases, h, r, sums)
        return
    rows, columns = flat_rows(X), as_columns(bases, X.dtype)

    def add(part: int) -> None:
        kernels_gram.gram(rows, columns, part, n_threads, h, r, sums)
        if looks_up:
            kernels_pairs.gram(rows, columns, pair_terms(bases), part, n_threads, h, r, sums)

    if n_threads == 1:
        add(0)
        return
    with ThreadPoolExecutor(n_threads) as pool:
        list(pool.map(add, range(n_threads)))


def diagonal_blocks_rows(
    X: np.ndarray, bases: Bases, h: np.ndarray, begin: np.ndarray, out: np.ndarray
) -> None:
    """Add each column's own block of the rows' Gram to `out` (n,) in place; dense splines alone.

    Column d's is the upper triangle of the (n_d, n_d) matrix from ``begin[d]`` on.
    """
    kernels_gram.diagonal_blocks(*_dense(X, bases), h, begin, out)


def loss_sum_rows(
    loss: Loss, F: np.ndarray, y: np.ndarray, weight: np.ndarray, out: np.ndarray
) -> None:
    """Add the rows' weighted losses at the decisions `F` (m, K) to `out` (K,) in place."""
    y = targets_by_class(y)
    if is_coded(loss):
        kernels_loss.loss_sum(loss_code(loss), F, y, weight, out)
    else:
        out += own_losses(loss, F, y, weight)[0]


def dual_sum_rows(
    loss: Loss, C: float, y: np.ndarray, weight: np.ndarray, alpha: np.ndarray, out: np.ndarray
) -> None:
    """Add C sum_i s_i dual_value(alpha_i) of each class to `out` (K,) in place.

    The dual objective of `dual_epochs_rows` is this less 1/2 |w|^2 = 1/2 W'PW + 1/2 b^2/B^2.
    """
    kernels_dual_step.dual_sum(loss.dual_rule(), C, y, weight, alpha, out)


def embed_rows(
    X: Matrix, bases: Bases, psi: tuple[Roughness, Reference] | None = None
) -> tuple[np.ndarray, np.ndarray, np.ndarray, int]:
    """Explicit features as (data, indices, indptr, n_columns) of a CSR matrix, float64.

    Without `psi`: Phi, degree + 1 values a column.  With it: Psi = R^-T (Phi - c), the features in
    which the penalty is 1/2 |w|^2; for Csr rows c must be Phi(0), then absent values stay absent.
    """
    X = present(X, bases)
    if psi is None and isinstance(X, Csr):  # absent values have functions too
        X, bases = kernels_csr.dense_coordinates(X, bases), bases._replace(prepared=True)
    if psi is None and not bases.dense:
        return kernels_dense.embed(X, bases)
    return explicit.embed(X, bases, psi)


def _csr(X: Csr) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return X.data, X.indices, X.indptr


def _dense(X: Matrix, bases: Bases) -> tuple:
    rows = present(X, bases)
    assert isinstance(rows, np.ndarray)
    return flat_rows(rows), as_columns(bases, rows.dtype)


def _sparse(X: Csr, bases: Bases) -> tuple:
    u0 = kernels_csr.coordinates_of_zero(bases, X.data.dtype)
    return *_csr(X), as_columns(bases, X.data.dtype), u0
