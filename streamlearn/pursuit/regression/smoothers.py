"""Ridge functions from sums over rows: penalised cubic splines, smoothness by GCV.

With G = sum w Phi Phi', b = sum w r Phi, rr = sum w r^2, n = sum w and P = D'D of second
differences (Eilers & Marx 1996), theta = (G + mu P)^-1 b gives without another read

    RSS = rr - 2 theta'b + theta'G theta,  df = tr (G + mu P)^-1 G,  cost = RSS / (1 - g df / n)^2.

mu is the one of least cost, so the cost of a direction is a minimum over all functions of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from ...numeric.rows.dense import flat_rows
from ..kernels import Cells, ScaledColumns
from .kernels_splines import (
    add_cross,
    add_splines,
    least_gcv,
    spline_values,
    splines_of_cells,
    splines_of_columns,
)

GAMMA = 1.4
"""Factor g of the degrees of freedom in GCV (Wood 2006, section 4.5.4: 1 fits too roughly)."""
GRID = 10.0 ** np.linspace(-6, 6, 37)
"""Values of mu that are tried, in units of tr G / tr P."""
RIDGE = 1e-11
"""Share of the mean diagonal of G that is added to it, so that splines without rows have
coefficients."""
ROUNDING = 1e-13
"""Share of the mean diagonal of the penalty that is added too, as its largest entries lose it in
rounding."""
LEAST_DIVISOR = 0.05
"""Least value of 1 - g df / n, because GCV says nothing of a handful of rows."""
JOINT_GRID = 10.0 ** np.linspace(-2, 2, 17)
"""Factors of the terms' own penalties that are tried when all terms are fitted together."""


class Fit(NamedTuple):
    """Penalised fits of k directions."""

    cost: np.ndarray
    """(k,) GCV costs, on the scale of a sum of squares."""
    rss: np.ndarray
    """(k,) residual sums of squares."""
    df: np.ndarray
    """(k,) degrees of freedom."""
    mu: np.ndarray
    """(k,) factors of the penalty."""
    theta: np.ndarray
    """(k, n) coefficients."""


def full_gram(band: np.ndarray) -> np.ndarray:
    """(..., n, n) symmetric matrices from bands (..., n, c), the diagonal and those above it."""
    n = band.shape[-2]
    out = np.zeros((*band.shape[:-2], n, n))
    for d in range(band.shape[-1]):
        at = np.arange(n - d)
        out[..., at, at + d] = out[..., at + d, at] = band[..., : n - d, d]
    return out


def penalty(n: int) -> np.ndarray:
    """(n, n) matrix P of squared second differences."""
    D = np.diff(np.eye(n), 2, axis=0)
    P: np.ndarray = D.T @ D
    return P


def search_gamma(n: float) -> float:
    """Factor of the degrees of freedom where directions are compared, log(n) / 2 as in BIC.

    With less, the one of many directions would be chosen whose function follows the noise.
    """
    return max(GAMMA, 0.5 * float(np.log(max(n, 1.0))))


def fit_splines(G: np.ndarray, b: np.ndarray, rr: float, n: float, gamma: float = GAMMA) -> Fit:
    """Fits of k directions together, from G (k, B, B) and b (k, B)."""
    P = penalty(b.shape[1])
    trace = np.trace(G, axis1=1, axis2=2)
    trace = np.where(trace > 0, trace, 1.0)
    unit = trace / np.trace(P)
    fit = fit_penalised(G, b, rr, n, unit[:, None, None] * P, GRID, gamma=gamma)
    return fit._replace(mu=fit.mu * unit)


def score_splines(
    band: np.ndarray, b: np.ndarray, rr: float, n: float, gamma: float
) -> tuple[np.ndarray, np.ndarray]:
    """Costs and coefficients of `fit_splines` from bands (k, B, 4), quicker and to fewer digits.

    Where the penalty is large, rounding is 1e-10 of what is explained.
    """
    k, B = b.shape
    trace = band[:, :, 0].sum(1)
    trace = np.where(trace > 0, trace, 1.0)
    P = penalty(B)
    whole = np.trace(P)
    unit = trace / whole
    diagonals = np.zeros((B, 4))
    for d in range(3):
        diagonals[: B - d, d] = np.diagonal(P, d)
    cost, theta = np.empty(k), np.empty((k, B))
    ridge = (RIDGE + ROUNDING) * trace / B
    mus = unit[:, None] * GRID
    least_gcv(band, b, diagonals, mus, ridge, rr, max(n, 1.0), gamma, LEAST_DIVISOR, cost, theta)
    unsure = np.isnan(cost)
    if unsure.any():
        fit = fit_splines(full_gram(band[unsure]), b[unsure], rr, n, gamma)
        cost[unsure], theta[unsure] = fit.cost, fit.theta
    return cost, theta


def fit_penalised(
    G: np.ndarray,
    b: np.ndarray,
    rr: float,
    n: float,
    P: np.ndarray,
    grid: np.ndarray,
    extra_df: float = 0.0,
    gamma: float = GAMMA,
) -> Fit:
    """The fit of least GCV cost among the penalties ``grid * P``; mu is the multiple of P.

    It takes one eigenvalue problem for each direction: with (G + P) = LL' and L^-1 P L^-T =
    U diag(d) U' all penalties are diagonal.
    """
    k, B = b.shape
    diagonal = np.trace(G, axis1=1, axis2=2) / B
    ridge = RIDGE * np.where(diagonal > 0, diagonal, 1.0)
    ridge += ROUNDING * np.trace(P, axis1=1, axis2=2) / B
    A = G + P
    A[:, np.arange(B), np.arange(B)] += ridge[:, None]
    L = np.linalg.cholesky(A)
    inverse = np.linalg.inv(L)
    S = inverse @ P @ inverse.transpose(0, 2, 1)
    d, U = np.linalg.eigh(0.5 * (S + S.transpose(0, 2, 1)))
    d = np.clip(d, 0.0, 1.0)
    basis = inverse.transpose(0, 2, 1) @ U
    c = np.einsum("kij,ki->kj", basis, b)
    shrink = 1.0 + (grid[:, None, None] - 1.0) * d  # (g, k, B)
    df = ((1.0 - d) / shrink).sum(2)
    rss = rr - (c**2 * (2.0 / shrink - (1.0 - d) / shrink**2)).sum(2)
    rss = np.maximum(rss, 0.0)
    left = np.maximum(1.0 - (gamma * df + extra_df) / max(n, 1.0), LEAST_DIVISOR)
    cost = rss / left**2
    best = cost.argmin(0)
    at = np.arange(k)
    theta = np.einsum("kij,kj->ki", basis, c / shrink[best, at])
    return Fit(cost[best, at], rss[best, at], df[best, at], grid[best], theta)


@dataclass(frozen=True)
class PSpline:
    """Ridge functions of n penalised cubic splines."""

    n_bases: int
    band: ClassVar = 4
    """Width of the Gram matrix's band."""
    stride: ClassVar = 1e-3
    """Step of the difference that stands for a slope, as a share of the range."""
    entry_nbytes: ClassVar = 24
    """Bytes of driver memory for each entry of the Gram matrix of all terms."""

    @property
    def fit_nbytes(self) -> int:
        """Bytes of temporaries of the fit of one direction."""
        return 256 * self.n_bases**2

    def add_rows(
        self, t: np.ndarray, low: float, high: float, w: np.ndarray, wr: np.ndarray,
        gram: np.ndarray, moment: np.ndarray,
    ) -> None:  # fmt: skip
        """Add rows to the sums gram (n, band) and moment (n,), in place."""
        add_splines(t, low, high, w, wr, gram, moment)

    def add_columns(
        self, X: np.ndarray, columns: ScaledColumns, live: np.ndarray, w: np.ndarray,
        wr: np.ndarray, gram: np.ndarray, moment: np.ndarray,
    ) -> None:  # fmt: skip
        """Add rows, placed by each of the columns `live`, to gram and moment of each, in place."""
        splines_of_columns(flat_rows(X), live, columns, w, wr, gram, moment)

    def add_cross(
        self, t: np.ndarray, low: float, high: float, t2: np.ndarray, low2: float, high2: float,
        w: np.ndarray, out: np.ndarray,
    ) -> None:  # fmt: skip
        """Add sum w Phi(t) Phi(t2)' to `out` (n, n), in place."""
        add_cross(t, low, high, t2, low2, high2, w, out)

    def add_cells(
        self, cells: Cells, at: np.ndarray, shifts: np.ndarray, low: np.ndarray,
        high: np.ndarray, gram: np.ndarray, moment: np.ndarray,
    ) -> None:  # fmt: skip
        """Add the cells of the tables `at` to gram (k, n, band) and moment (k, n), in place."""
        splines_of_cells(cells, at, shifts, low, high, gram, moment)

    def add_values(
        self, t: np.ndarray, low: float, high: float, theta: np.ndarray, out: np.ndarray
    ) -> None:
        """Add the function with coefficients `theta` to `out`, in place."""
        spline_values(t, low, high, theta, out)

    def fit(
        self, band: np.ndarray, b: np.ndarray, rr: float, n: float, gamma: float = GAMMA
    ) -> Fit:
        """Fits of k directions from their sums band (k, n, 4) and b (k, n)."""
        return fit_splines(full_gram(band), b, rr, n, gamma)

    def score(
        self, band: np.ndarray, b: np.ndarray, rr: float, n: float, gamma: float
    ) -> tuple[np.ndarray, np.ndarray]:
        """Costs and coefficients of `fit`, for a comparison of directions."""
        return score_splines(band, b, rr, n, gamma)

    def fit_together(
        self, grams: list[list[np.ndarray]], moments: list[np.ndarray], mus: list[float], rr: float,
        n: float, extra_df: float,
    ) -> Fit:  # fmt: skip
        """The fit of all terms, with their own penalties times one factor of least GCV cost.

        `grams` are J x J blocks.  The result is the `Fit` of one direction that has the
        coefficients of all terms, one term after the other.
        """
        G, b = np.block(grams), np.concatenate(moments)
        P, at = np.zeros_like(G), 0
        for moment, mu in zip(moments, mus, strict=True):
            size = len(moment)
            P[at : at + size, at : at + size] = mu * penalty(size)
            at += size
        return fit_penalised(G[None], b[None], rr, n, P[None], JOINT_GRID, extra_df)
