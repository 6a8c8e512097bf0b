"""The uncertainty of importances, by draws of the coefficients from their posterior.

    importance of a term = mean over the rows of |f(x)|

is not smooth where a curve crosses 0, and a curve of noise does little else, so its standard error
is that of draws of the curve, with the rows where they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from ...numeric.bases.bsplines import Bases, evaluate
from ..pairs import PairTable
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
    @property
    def term_names_(self) -> list[str]: ...
    @property
    def pair_tables_(self) -> list[PairTable]: ...
    def _curve(self, d: int, grid: object) -> np.ndarray: ...


def importance_errors(
    model: HasImportances, posterior: Posterior, terms: Sequence[int]
) -> np.ndarray:
    """(K, terms) standard errors of the importances of terms; NaN of those that were edited.

    The draws of a term do not depend on which others are asked for.
    """
    bases, densities, names = model.bases_, model.densities_, model.term_names_
    edited, tables = model._edited_terms, model.pair_tables_
    out = np.zeros((len(posterior.scale), len(terms)))
    for i, d in enumerate(terms):
        if names[d] in edited:
            out[:, i] = np.nan
            continue
        own = slice(*bases.first[d : d + 2])
        if own.start == own.stop:
            continue
        if d >= model.bases_.n_columns:  # of a pair: at its nodes
            table = tables[d - model.bases_.n_columns]
            share = table.density.ravel()
            f, phi = table.by_output.reshape(share.size, -1), np.eye(share.size)
        else:
            at, share = points_of(densities[d])
            if bases.has_missing[d]:
                at, share = np.append(at, np.nan), np.append(share, densities[d].missing)
            f, phi = model._curve(d, at).reshape(len(at), -1), evaluate(bases, d, at)
        if not share.size:
            continue
        share = share / share.sum()
        A = phi - posterior.means[own]
        for k, covariance in enumerate(posterior.covariance):
            values, vectors = np.linalg.eigh(covariance[own, own])
            roots = vectors * np.sqrt(np.maximum(values, 0.0))
            rng = np.random.Generator(np.random.Philox(key=[SEED, d * len(out) + k]))
            drawn = f[:, k, None] + A @ (roots @ rng.normal(size=(len(values), N_DRAWS)))
            out[k, i] = np.std(share @ np.abs(drawn), ddof=1)
    return out
