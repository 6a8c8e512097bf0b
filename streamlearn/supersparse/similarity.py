"""Similarities s(x, z) of rows to prototypes, and their derivatives by the prototype.

A similarity need be neither positive definite nor differentiable (Biggio 2015, section II).  The
search needs its values, and `gradient`, the sum over rows of R_ij ds(x_i, z_j)/dz_j.  Similarities
take rows in dense float64 blocks, which `dense_blocks` makes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np

from ..data.source import Csr

NAMES = ("rbf", "linear", "poly", "laplacian", "chi2")
BOUNDED = ("rbf", "laplacian", "chi2")
"""Named similarities that a prototype far from all rows does not make large."""
_TINY = np.finfo(np.float64).tiny
BLOCK_NBYTES = 1 << 19
"""Bytes of a block's rows and similarities, which must stay in a core's cache."""
LEAST_ROWS, MOST_ROWS = 16, 1024
"""Rows of a block."""

Function = Callable[[np.ndarray, np.ndarray], np.ndarray]
"""Similarities (n, m) of rows (n, p) and prototypes (m, p), both read-only float64."""
Vjp = Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]
"""The (m, p) sum over rows i of R_ij ds(x_i, z_j)/dz_j, a function of X, Z and R (n, m)."""
SimilarityParameter: TypeAlias = str | Function | tuple[Function, Vjp]
Neighbours = Callable[[np.ndarray], np.ndarray]
"""Moves (k, p) of a structured prototype (p,)."""


@dataclass(frozen=True)
class Similarity:
    """One similarity with its parameters; picklable if its callables are.

    ==========  =============================================
    rbf         exp(-gamma |x - z|^2)
    linear      x.z
    poly        (gamma x.z + coef0)^degree
    laplacian   exp(-gamma |x - z|_1)
    chi2        exp(-gamma sum_l (x_l - z_l)^2 / (x_l + z_l))
    callable    ``function(X, Z)``
    ==========  =============================================
    """

    name: str
    """One of `NAMES`, or "callable"."""
    gamma: float = 1.0
    degree: int = 3
    coef0: float = 1.0
    function: Function | None = None
    vjp: Vjp | None = None
    centre: np.ndarray | None = None
    """(p,) point that rbf subtracts from rows and prototypes; it changes rounding, no value."""
    scale: np.ndarray | None = None
    """(p,) factors by which rows and prototypes are multiplied first; None: 1."""

    @property
    def has_gradient(self) -> bool:
        """Whether `gradient` is a derivative, and not the direction of eq. 7's heuristic."""
        return self.function is None or self.vjp is not None

    def values(self, X: np.ndarray, Z: np.ndarray) -> np.ndarray:
        """(n, m) similarities in a new array."""
        if self.scale is not None:
            X, Z = X * self.scale, Z * self.scale
        if self.function is not None:
            return _checked(self.function, "similarity", (X, Z), (len(X), len(Z)))
        return _VALUES[self.name](self, X, Z)

    def gradient(self, X: np.ndarray, Z: np.ndarray, S: np.ndarray, R: np.ndarray) -> np.ndarray:
        """(m, p) sum over rows i of R_ij ds(x_i, z_j)/dz_j, given the values S.

        For a callable without a vjp the derivative is replaced by s(x, z) (x - z) (eq. 7), as a
        move towards a row makes the two more similar.
        """
        if self.scale is not None:
            inner = replace(self, scale=None)
            return inner.gradient(X * self.scale, Z * self.scale, S, R) * self.scale
        if self.vjp is not None:
            return _checked(self.vjp, "vjp", (X, Z, R), Z.shape)
        if self.function is not None:
            W = R * S
            moves: np.ndarray = W.T @ X - W.sum(axis=0)[:, None] * Z
            return moves
        return _GRADIENTS[self.name](self, X, Z, S, R)


def _checked(
    function: Callable[..., np.ndarray],
    word: str,
    arguments: tuple[np.ndarray, ...],
    shape: tuple[int, ...],
) -> np.ndarray:
    """Call a user's function and check what it returns; its arguments are read-only."""
    name = getattr(function, "__qualname__", type(function).__qualname__)
    views = [argument.view() for argument in arguments]
    for view in views:
        view.flags.writeable = False
    try:
        returned = function(*views)
    except ValueError as error:
        if "read-only" not in str(error):
            raise
        raise ValueError(
            f"{word} {name} changes its input; it must work on a copy of what it is given"
        ) from error
    out = np.array(returned, dtype=np.float64)
    if out.shape != shape:
        shapes = " and ".join(str(argument.shape) for argument in arguments)
        raise ValueError(
            f"{word} {name} returned an array of shape {out.shape} for arguments of shapes "
            f"{shapes}; expected {shape}"
        )
    if not np.isfinite(out).all():
        i, j = np.argwhere(~np.isfinite(out))[0]
        raise ValueError(
            f"{word} {name} returned {out[i, j]} at [{i}, {j}]; every value must be finite"
        )
    return out


def _centred(sim: Similarity, X: np.ndarray, Z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return (X, Z) if sim.centre is None else (X - sim.centre, Z - sim.centre)


def _rbf(sim: Similarity, X: np.ndarray, Z: np.ndarray) -> np.ndarray:
    X, Z = _centred(sim, X, Z)
    S = X @ (2.0 * sim.gamma * Z.T)
    S -= sim.gamma * np.einsum("ij,ij->i", X, X)[:, None]
    S -= sim.gamma * np.einsum("ij,ij->i", Z, Z)
    np.minimum(S, 0.0, out=S)
    return np.exp(S, out=S)


def _rbf_gradient(
    sim: Similarity, X: np.ndarray, Z: np.ndarray, S: np.ndarray, R: np.ndarray
) -> np.ndarray:
    X, Z = _centred(sim, X, Z)
    W = R * S
    out = W.T @ X
    out -= W.sum(axis=0)[:, None] * Z
    out *= 2.0 * sim.gamma
    return out


def _linear(sim: Similarity, X: np.ndarray, Z: np.ndarray) -> np.ndarray:
    return X @ Z.T


def _linear_gradient(
    sim: Similarity, X: np.ndarray, Z: np.ndarray, S: np.ndarray, R: np.ndarray
) -> np.ndarray:
    return R.T @ X


def _poly(sim: Similarity, X: np.ndarray, Z: np.ndarray) -> np.ndarray:
    return (X @ (sim.gamma * Z.T) + sim.coef0) ** sim.degree


def _poly_gradient(
    sim: Similarity, X: np.ndarray, Z: np.ndarray, S: np.ndarray, R: np.ndarray
) -> np.ndarray:
    inner = X @ (sim.gamma * Z.T) + sim.coef0
    return (sim.degree * sim.gamma) * ((R * inner ** (sim.degree - 1)).T @ X)


def _laplacian(sim: Similarity, X: np.ndarray, Z: np.ndarray) -> np.ndarray:
    S = np.empty((len(X), len(Z)))
    for j, z in enumerate(Z):
        S[:, j] = np.abs(X - z).sum(axis=1)
    S *= -sim.gamma
    return np.exp(S, out=S)


def _laplacian_gradient(
    sim: Similarity, X: np.ndarray, Z: np.ndarray, S: np.ndarray, R: np.ndarray
) -> np.ndarray:
    W = R * S
    return sim.gamma * np.array([W[:, j] @ np.sign(X - z) for j, z in enumerate(Z)])


def _chi2(sim: Similarity, X: np.ndarray, Z: np.ndarray) -> np.ndarray:
    S = np.empty((len(X), len(Z)))
    for j, z in enumerate(Z):
        S[:, j] = ((X - z) ** 2 / np.maximum(X + z, _TINY)).sum(axis=1)
    S *= -sim.gamma
    return np.exp(S, out=S)


def _chi2_gradient(
    sim: Similarity, X: np.ndarray, Z: np.ndarray, S: np.ndarray, R: np.ndarray
) -> np.ndarray:
    W = R * S
    out = np.empty(Z.shape)
    for j, z in enumerate(Z):
        # (x - z)(3x + z)/(x + z)^2, written by the share x/(x + z), which cannot overflow
        share = X / np.maximum(X + z, _TINY)
        out[j] = sim.gamma * (W[:, j] @ ((2 * share - 1) * (2 * share + 1)))
    return out


_VALUES = dict(zip(NAMES, (_rbf, _linear, _poly, _laplacian, _chi2), strict=True))
_GRADIENTS = dict(
    zip(
        NAMES,
        (_rbf_gradient, _linear_gradient, _poly_gradient, _laplacian_gradient, _chi2_gradient),
        strict=True,
    )
)


def make_similarity(
    similarity: SimilarityParameter,
    *,
    gamma: float = 1.0,
    degree: int = 3,
    coef0: float = 1.0,
    centre: np.ndarray | None = None,
    scale: np.ndarray | None = None,
) -> Similarity:
    """The similarity that the parameter `similarity` describes."""
    if callable(similarity):
        return Similarity("callable", function=similarity, scale=scale)
    if isinstance(similarity, tuple):
        function, vjp = similarity
        return Similarity("callable", function=function, vjp=vjp, scale=scale)
    if similarity != "rbf":
        centre = None
    return Similarity(
        similarity, float(gamma), int(degree), float(coef0), centre=centre, scale=scale
    )


def block_rows(n_columns: int, n_prototypes: int) -> int:
    """Rows of a block: a power of two that depends on the model alone."""
    rows = BLOCK_NBYTES // (8 * (n_columns + n_prototypes + 1))
    return min(max(1 << (max(rows, 1).bit_length() - 1), LEAST_ROWS), MOST_ROWS)


def dense_blocks(
    X: np.ndarray | Csr, n_rows: int, scale: np.ndarray | None = None
) -> Iterator[tuple[slice, np.ndarray]]:
    """Yield (rows, B): B (n_rows, p) float64 holds the rows, then zeros; it is overwritten.

    `scale` (p,) are factors of the columns.
    """
    m, p = X.shape
    buffer = np.zeros((n_rows, p))
    for a in range(0, m, n_rows):
        b = min(a + n_rows, m)
        if isinstance(X, Csr):
            buffer[:] = 0.0
            lo, hi = X.indptr[a], X.indptr[b]
            at = np.repeat(np.arange(b - a), np.diff(X.indptr[a : b + 1]))
            buffer[at, X.indices[lo:hi]] = X.data[lo:hi]
        else:
            buffer[: b - a] = X[a:b]
            buffer[b - a :] = 0.0
        if scale is not None:
            buffer *= scale
        yield slice(a, b), buffer


def dense(X: np.ndarray | Csr, scale: np.ndarray | None = None) -> np.ndarray:
    """All rows as one C-ordered float64 array, its columns times `scale` (p,)."""
    out = np.empty(X.shape)
    for rows, block in dense_blocks(X, MOST_ROWS, scale):
        out[rows] = block[: rows.stop - rows.start]
    return out
