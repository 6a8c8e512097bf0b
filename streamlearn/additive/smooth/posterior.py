"""Posterior of the coefficients: their covariance, and tests of the terms.

The Bayesian covariance is psi V, V = (H + S)^-1 (Nychka 1988; Marra & Wood 2012): bands of a curve
that are made of it cover the curve, on average over x, as often as they say.  The weights of the
penalties are taken as known.

With terms of two columns all of it is of what they are after their purification (`purification`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...data.source import Csr
from ...numeric.bases.bsplines import Bases
from ...numeric.checks import check_array, check_number
from ..basis.functions import LEAST_ROWS, tiles
from ..basis.kernels import present
from ..objective import Problem
from ..purification import purified, purified_freedom, purify_covariance
from .criteria import Quadratic
from .fitting import Point
from .optimum import Fit
from .penalties import Penalties
from .significance import test_term


class Posterior(NamedTuple):
    """A row an output (K), a column a term (p), those of pairs after those of the columns."""

    covariance: np.ndarray
    """(K, dim + 1, dim + 1) of the coefficients and, last, the intercept."""
    reference: np.ndarray
    """(dim,) c: decisions are b + (Phi - c)'w, and"""
    means: np.ndarray
    """(dim,) what curves have instead: the functions' means over the rows."""
    weights: np.ndarray
    """(K, p) of each term's penalty; infinite of a column without a curve."""
    line_weights: np.ndarray
    """(K, p) of the straight line's own penalty; 0 where there is none."""
    freedom: np.ndarray
    """(K, p) effective degrees of freedom."""
    reference_freedom: np.ndarray
    """(K, p) degrees of freedom of the reference of each test, and"""
    statistic: np.ndarray
    """(K, p) its statistic, and"""
    p_value: np.ndarray
    """(K, p) its p-value; 1 of a column without a curve."""
    total_freedom: np.ndarray
    """(K,) effective degrees of freedom, the intercept's too."""
    scale: np.ndarray
    """(K,) dispersion: 1 for classes and counts."""
    losses: np.ndarray
    """(K,) sum s l at the end, and"""
    null_losses: np.ndarray
    """(K,) at the best constant decision."""
    weight: float
    """sum s."""

    def check(self) -> None:
        """Raise ValueError unless the arrays agree: for those from a file."""
        K, p, dim = len(self.scale), self.weights.shape[-1], len(self.means)
        check_array("posterior.covariance", self.covariance, (K, dim + 1, dim + 1))
        check_array("posterior.reference", self.reference, (dim,))
        check_array("posterior.means", self.means, (dim,))
        check_array("posterior.weights", self.weights, (K, p), finite=False)
        own = self._asdict()
        for name in ("line_weights", "freedom", "reference_freedom", "statistic", "p_value"):
            check_array(f"posterior.{name}", own[name], (K, p))
        for name in ("total_freedom", "scale", "losses", "null_losses"):
            check_array(f"posterior.{name}", own[name], (K,))
        check_number("posterior.weight", self.weight, 0.0)


def check_posterior(posterior: object, shape: tuple[int, ...]) -> Posterior:
    """The posterior; ValueError unless it is one of (outputs, coefficients, columns) `shape`."""
    if not isinstance(posterior, Posterior):
        raise ValueError(f"the posterior is a {type(posterior).__name__}")
    posterior.check()
    got = len(posterior.scale), len(posterior.means), posterior.weights.shape[1]
    if got != shape:
        raise ValueError(f"the posterior is of (outputs, coefficients, columns) {got}, not {shape}")
    return posterior


def make_posterior(
    penalties: Penalties,
    points: list[Point],
    fits: list[Fit],
    problem: Problem,
    means: np.ndarray,
) -> Posterior:
    """From each output's model of all rows at its end, and the fit there."""
    bases, reference, loss = problem.bases, problem.reference.c, problem.loss
    unit = 1.0 if loss.scale_known else 2.0 * loss.deviances
    K, p = len(fits), penalties.n_terms
    shape = (K, p)
    weights, lines, freedom = np.full(shape, np.inf), np.zeros(shape), np.zeros(shape)
    tests = np.zeros((3, *shape))
    tests[2] = 1.0
    covariance = np.empty((K, penalties.dim + 1, penalties.dim + 1))
    for k, (point, fit) in enumerate(zip(points, fits, strict=True)):
        model, V = point.model, fit.V
        VHV = V - V @ penalties.matrix(fit.weights) @ V
        purify_covariance(bases, VHV, means)
        w = purified(bases, fit.theta[None, :-1], means)[0]
        rows = None if model.known else max(model.weight - fit.edf, 1.0)
        freedom[k] = purified_freedom(bases, penalties, fit, means)
        for penalty, own in penalties.by_term():
            d, at = penalty.term, penalty.at
            weights[k, d] = fit.weights[own[0]]
            lines[k, d] = fit.weights[own[1]] if len(own) > 1 else 0.0
            H = _about_means(model, at, means[at] - reference[at])
            tests[:, k, d] = test_term(w[at], H, VHV[at, at], fit.psi, rows)
        del VHV  # of matrices there is one less when the next output's is made
        np.multiply(V, fit.psi, out=covariance[k])
        purify_covariance(bases, covariance[k], means)
    return Posterior(
        covariance,
        reference,
        means,
        weights,
        lines,
        freedom,
        tests[0],
        tests[1],
        tests[2],
        np.array([fit.edf for fit in fits]),
        np.array([fit.psi for fit in fits]) / unit,
        np.array([point.model.value for point in points]),
        np.array([point.alone for point in points]),
        points[0].model.weight,
    )


def _about_means(model: Quadratic, at: slice, shift: np.ndarray) -> np.ndarray:
    """A term's part of the curvature, its functions less their means: these less c are `shift`."""
    if not shift.any():
        return model.H[at, at]
    moved = np.outer(model.H[at, -1], shift)
    H: np.ndarray = model.H[at, at] - moved - moved.T + model.H[-1, -1] * np.outer(shift, shift)
    return H


def row_deviations(posterior: Posterior, bases: Bases, X: np.ndarray | Csr) -> np.ndarray:
    """(m, K) standard deviations of the decisions of rows.

    Blocks of one size: BLAS takes one path, and a row's bits do not depend on its batch.
    """
    m, dim = X.shape[0] if not isinstance(X, Csr) else len(X.indptr) - 1, bases.dim
    out = np.empty((m, len(posterior.scale)))
    block = np.zeros((LEAST_ROWS, dim + 1))
    for tile in tiles(present(X, bases), bases):
        for start in range(tile.start, tile.stop, LEAST_ROWS):
            stop = min(start + LEAST_ROWS, tile.stop)
            Phi = tile.A[start - tile.start : stop - tile.start]
            n = stop - start
            block[:n, :dim] = Phi if tile.base is None else Phi.toarray() + tile.base
            block[:n, :dim] -= posterior.reference
            block[:, -1] = 1.0
            for k, covariance in enumerate(posterior.covariance):
                squares = np.einsum("ij,ij->i", block @ covariance, block)
                out[start:stop, k] = np.sqrt(np.maximum(squares[:n], 0.0))
    return out


def curve_deviations(posterior: Posterior, at: slice, Phi: np.ndarray) -> np.ndarray:
    """(m, K) standard deviations of a term's curve where its functions are Phi (m, n)."""
    A = Phi - posterior.means[at]
    parts = [
        np.einsum("ij,jk,ik->i", A, covariance[at, at], A) for covariance in posterior.covariance
    ]
    return np.sqrt(np.maximum(np.column_stack(parts), 0.0))
