"""The uncertainty of importances, by draws of the coefficients from their posterior.

    importance of a term = mean over the rows of |f(x)|

is not smooth where a curve crosses 0, and a curve of noise does little else, so its standard error
is that of draws of the curve, with the rows where they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from ...estimator.rows.encoding import column_names
from ...numeric.bases.bsplines import Bases, evaluate
from ..smooth.posterior import Posterior
from .densities import Density, points_of

N_DRAWS = 400
"""Draws of the coefficients: the error of a standard error of them is one part in 28."""
SEED = 0


class HasImportances(Protocol):
    """A fitted additive model that knows its covariance, by what its importances are made of."""

    n_features_in_: int
    bases_: Bases

    @property
    def _edited_terms(self) -> list[str]: ...
    @property
    def densities_(self) -> list[Density]: ...
    def _curve(self, d: int, grid: object) -> np.ndarray: ...


def importance_errors(
    model: HasImportances, posterior: Posterior, columns: Sequence[int]
) -> np.ndarray:
    """(K, columns) standard errors of the importances of columns; NaN of those that were edited.

    The draws of a column do not depend on which others are asked for.
    """
    bases, densities, names = model.bases_, model.densities_, column_names(model)
    out = np.zeros((len(posterior.scale), len(columns)))
    for i, d in enumerate(columns):
        if names[d] in model._edited_terms:
            out[:, i] = np.nan
            continue
        own = slice(*bases.first[d : d + 2])
        at, share = points_of(densities[d])
        if own.start == own.stop or not share.size:
            continue
        if bases.has_missing[d]:
            at, share = np.append(at, np.nan), np.append(share, densities[d].missing)
        share = share / share.sum()
        f = model._curve(d, at).reshape(len(at), -1)
        A = evaluate(bases, d, at) - posterior.means[own]
        for k, covariance in enumerate(posterior.covariance):
            values, vectors = np.linalg.eigh(covariance[own, own])
            roots = vectors * np.sqrt(np.maximum(values, 0.0))
            rng = np.random.Generator(np.random.Philox(key=[SEED, d * len(out) + k]))
            drawn = f[:, k, None] + A @ (roots @ rng.normal(size=(len(values), N_DRAWS)))
            out[k, i] = np.std(share @ np.abs(drawn), ddof=1)
    return out
