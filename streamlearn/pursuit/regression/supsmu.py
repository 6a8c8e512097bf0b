"""Ridge functions by running lines: Friedman's super smoother of rows binned by their projection.

A ridge function is constant in each bin, so sums over the rows of a bin give its residuals exactly:
with counts G (diagonal) and moments b,  RSS = rr - 2 theta'b + theta'G theta,  as for penalised
splines.  The counts of pairs of bins tell what one term explains of another.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ...numeric.rows.dense import flat_rows
from ..kernels import Cells, ScaledColumns, bins_of_cells, step_values
from .kernels_supsmu import add_counts, add_joint_counts, counts_of_columns, super_smooth
from .smoothers import GAMMA, LEAST_DIVISOR, Fit

SWEEPS = 20
"""Largest number of rounds of backfitting of all terms together."""


@dataclass(frozen=True)
class SuperSmoother:
    """Ridge functions of n steps, smoothed by running lines, with the members of `PSpline`."""

    n_bases: int
    band: ClassVar = 1
    stride: ClassVar = 0.01
    entry_nbytes: ClassVar = 8

    @property
    def fit_nbytes(self) -> int:
        """Bytes of temporaries of the fit of one direction."""
        return 256 * self.n_bases

    def add_rows(
        self, t: np.ndarray, low: float, high: float, w: np.ndarray, wr: np.ndarray,
        gram: np.ndarray, moment: np.ndarray,
    ) -> None:  # fmt: skip
        """Add rows to the counts gram (n, 1) and moment (n,), in place."""
        add_counts(t, low, high, w, wr, gram[:, 0], moment)

    def add_columns(
        self, X: np.ndarray, columns: ScaledColumns, live: np.ndarray, w: np.ndarray,
        wr: np.ndarray, gram: np.ndarray, moment: np.ndarray,
    ) -> None:  # fmt: skip
        """Add rows, placed by each of the columns `live`, to gram and moment of each, in place."""
        counts_of_columns(flat_rows(X), live, columns, w, wr, gram, moment)

    def add_cross(
        self, t: np.ndarray, low: float, high: float, t2: np.ndarray, low2: float, high2: float,
        w: np.ndarray, out: np.ndarray,
    ) -> None:  # fmt: skip
        """Add the counts of pairs of bins to `out` (n, n), in place."""
        add_joint_counts(t, low, high, t2, low2, high2, w, out)

    def add_cells(
        self, cells: Cells, at: np.ndarray, shifts: np.ndarray, low: np.ndarray,
        high: np.ndarray, gram: np.ndarray, moment: np.ndarray,
    ) -> None:  # fmt: skip
        """Add the cells of the tables `at` to gram (k, n, 1) and moment (k, n), in place."""
        sums = np.zeros((*moment.shape, 2))
        bins_of_cells(cells, at, shifts, low, high, sums)
        gram += sums[..., :1]
        moment += sums[..., 1]

    def add_values(
        self, t: np.ndarray, low: float, high: float, theta: np.ndarray, out: np.ndarray
    ) -> None:
        """Add the steps of heights `theta` to `out`, in place."""
        step_values(t, low, high, theta, out)

    def fit(
        self, band: np.ndarray, b: np.ndarray, rr: float, n: float, gamma: float = GAMMA
    ) -> Fit:
        """Fits of k directions from their sums, counts band (k, n, 1) and b (k, n)."""
        counts = np.ascontiguousarray(band[..., 0])
        theta, df = np.empty_like(b), np.empty(len(b))
        super_smooth(counts, b, theta, df)
        rss = np.maximum(rr + (theta * (theta * counts - 2 * b)).sum(1), 0.0)
        left = np.maximum(1.0 - gamma * df / max(n, 1.0), LEAST_DIVISOR)
        return Fit(rss / left**2, rss, df, np.zeros(len(b)), theta)

    def score(
        self, band: np.ndarray, b: np.ndarray, rr: float, n: float, gamma: float
    ) -> tuple[np.ndarray, np.ndarray]:
        """Costs and coefficients of `fit`."""
        fit = self.fit(band, b, rr, n, gamma)
        return fit.cost, fit.theta

    def fit_together(
        self, grams: list[list[np.ndarray]], moments: list[np.ndarray], mus: list[float], rr: float,
        n: float, extra_df: float,
    ) -> Fit:  # fmt: skip
        """The fit of all terms by backfitting on their sums, until the GCV cost falls no more."""
        J = len(moments)
        thetas, df = [np.zeros(len(moment)) for moment in moments], np.zeros(J)
        counts = [np.diagonal(grams[j][j]).copy() for j in range(J)]
        best: list[Fit] = []
        for _ in range(SWEEPS):
            for j in range(J):
                others = sum((grams[j][k] @ thetas[k] for k in range(J) if k != j), 0.0)
                out = np.empty((1, len(moments[j])))
                super_smooth(counts[j][None], (moments[j] - others)[None], out, df[j : j + 1])
                thetas[j] = out[0]
            fitted = [sum(grams[j][k] @ thetas[k] for k in range(J)) for j in range(J)]
            rss = rr + sum(
                float(theta @ (f - 2 * b))
                for theta, f, b in zip(thetas, fitted, moments, strict=True)
            )
            left = max(1.0 - (GAMMA * df.sum() + extra_df) / max(n, 1.0), LEAST_DIVISOR)
            cost = max(rss, 0.0) / left**2
            if best and not cost < best[-1].cost[0] * (1 - 1e-6):
                break
            theta = np.concatenate(thetas)[None]
            best = [Fit(np.array([cost]), np.array([rss]), df.sum()[None], np.zeros(1), theta)]
        return best[-1]
