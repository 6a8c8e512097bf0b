"""The laws of a basis: its functions, its penalty, its map, and the passes over rows.

Call `check_basis` on an instance of your own `Basis`; each law is a function of its own beside it.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable

import numpy as np

from ..additive.basis.kernels import (
    NONE,
    GramSums,
    empty_sums,
    gradient_rows,
    gram_rows,
    make_point,
    margins_rows,
)
from ..data.source import Csr
from ..numeric.bases.basis import Basis
from ..numeric.bases.bsplines import Bases, evaluate, make_bases
from ..numeric.bases.registry import OWN, SPLINE, kind_of
from ..numeric.bases.roughness import make_roughness
from ..numeric.losses import SquaredError

SIZES = (2, 3, 8)
"""Numbers of functions at which bases are looked at."""
SCALES = ("integral", "paper")
ROUNDING = 1e-9
N_ROWS = 60


def check_basis(basis: Basis) -> None:
    """All laws of a basis."""
    for law in LAWS:
        law(basis)


def check_functions(basis: Basis) -> None:
    """The functions at a value are finite, and the same whichever values are with it."""
    for n, m, degree in _grids(basis):
        u = np.linspace(0, m, 23).astype(np.float32)
        whole = basis.functions(u, n, m, degree)
        assert whole.shape == (len(u), n), f"{basis!r} of {n} functions gave {whole.shape}"
        assert np.isfinite(whole).all(), f"{basis!r} has functions that are not finite in [0, 1]"
        for rows in (slice(0, 5), slice(7, 8), slice(None, None, -2)):
            np.testing.assert_allclose(
                basis.functions(u[rows], n, m, degree), whole[rows], rtol=1e-12, atol=1e-14,
                err_msg=f"the functions of {basis!r} depend on which values are with them",
            )  # fmt: skip


def check_independent(basis: Basis) -> None:
    """No function is a sum of the others: each is needed."""
    for n, m, degree in _grids(basis):
        Phi = basis.functions(np.linspace(0, m, 200).astype(np.float32), n, m, degree)
        singular = np.linalg.svd(Phi / np.abs(Phi).max(axis=0), compute_uv=False)
        assert singular[-1] > ROUNDING * singular[0], (
            f"the {n} functions of {basis!r} are not linearly independent"
        )


def check_penalty(basis: Basis) -> None:
    """P = R'R is finite and positive definite at every order and scale."""
    for n, m, _ in _grids(basis):
        for order in basis.orders:
            for scale in SCALES:
                R = basis.factor(n, m, order, scale)
                assert R.shape == (n, n), f"the factor of {n} functions of {basis!r} is {R.shape}"
                least = np.linalg.svd(R, compute_uv=False)[-1]
                assert least > 0, (
                    f"the penalty of {basis!r} of order {order}, scale {scale!r} and {n} functions "
                    "is not positive definite"
                )
                if hasattr(basis, "penalty"):
                    P = np.asarray(basis.penalty(n, order, scale))
                    P = np.diag(P) if P.ndim == 1 else P
                    np.testing.assert_allclose(
                        R.T @ R, P, rtol=1e-9, err_msg=f"the penalty of {basis!r} is not symmetric"
                    )


def check_map(basis: Basis) -> None:
    """Uniform knots have two ends, and quantiles ascend from 0 to 1."""
    one = np.ones(1)
    low, high = basis.ends(-2 * one, 3 * one, one, 0.5 * one)
    assert (low < high).all(), f"{basis!r} maps [{low[0]}, {high[0]}] to [0, 1]"
    for n in (1, 4):
        levels = basis.levels(n)
        if levels is not None:
            assert len(levels) == n + 1, f"{basis!r} has {len(levels)} levels of {n} intervals"
            inside = (np.diff(levels) > 0).all() and levels[0] >= 0 and levels[-1] <= 1
            assert inside, f"the levels {levels} of {basis!r} do not ascend in [0, 1]"


def check_missing(basis: Basis) -> None:
    """A missing value has one function of its own, which no other value meets."""
    bases = columns_of(basis, missing=True)
    phi = evaluate(bases, 0, np.array([0.1, np.nan, 0.9]))
    met = np.abs(phi) > ROUNDING
    assert not met[[0, 2], -1].any(), f"values meet the missing level of {basis!r}"
    assert not met[1, : phi.shape[1] - bases.degree[0]].any(), (
        f"a missing value meets the functions of {basis!r}"
    )
    make_roughness(bases, basis.orders[-1])


def check_passes(basis: Basis) -> None:
    """Margins, gradients and Grams of dense and sparse rows are those of the functions."""
    rng = np.random.default_rng(0)
    for missing in (False, True):
        bases, X = columns_of(basis, missing=missing), rng.random((N_ROWS, 2))
        X[rng.random(X.shape) < 0.5] = 0.0
        if missing:
            X[::7, 0] = np.nan
        Phi = np.hstack([evaluate(bases, d, X[:, d]) for d in range(2)])
        W, y, s = rng.normal(size=(1, bases.dim)), rng.normal(size=N_ROWS), rng.random(N_ROWS)
        f = (Phi @ W.T)[:, 0]
        r = s * 2.0 * (f - y)
        for rows in (X, np.asfortranarray(X), _stored(X)):
            sums, out = empty_sums(1, bases.dim), np.empty((N_ROWS, 1))
            margins_rows(rows, bases, W, out)
            gradient_rows(rows, bases, SquaredError(), make_point(W, np.zeros(1)), y, s, sums)
            zeros = np.zeros(bases.dim)
            gram = GramSums(np.zeros((bases.dim, bases.dim)), zeros, zeros.copy())
            gram_rows(rows, bases, s, NONE, gram)
            for got, expected in (
                (out[:, 0], f),
                (sums.value, s @ (f - y) ** 2),
                (sums.gradient[0], r @ Phi),
                (np.triu(gram.H), np.triu(Phi.T @ (s[:, None] * Phi))),
                (gram.g, s @ Phi),
            ):
                np.testing.assert_allclose(
                    got, expected, rtol=1e-6, atol=1e-6 * max(1.0, float(np.abs(Phi).max()) ** 2),
                    err_msg=f"a pass over {type(rows).__name__} rows of {basis!r}",
                )  # fmt: skip


def check_value_object(basis: Basis) -> None:
    """A basis equals its copy and no other class's, and shows its parameters."""
    assert basis == type(basis)(*basis)
    assert hash(basis) == hash(type(basis)(*basis))
    assert basis != tuple(basis)
    assert repr(basis).startswith(type(basis).__name__)
    if "<" not in type(basis).__qualname__:  # a class inside a function cannot be found by name
        assert pickle.loads(pickle.dumps(basis)) == basis


LAWS: tuple[Callable[[Basis], None], ...] = (
    check_functions,
    check_independent,
    check_penalty,
    check_map,
    check_missing,
    check_passes,
    check_value_object,
)


def columns_of(basis: Basis, *, missing: bool = False) -> Bases:
    """A column of 6 functions or more of the basis on [0, 1], and one of a few splines."""
    kind, degree = kind_of(basis), basis.degrees[-1]
    knots = np.linspace(0, 1, basis.n_intervals(6, degree) + 1)
    if missing:
        knots = np.append(knots, np.full(degree, np.inf))
    own = basis if kind == OWN else None
    return make_bases([knots, np.array([0.0, 0.5, 1.0])], [degree, 1], [kind, SPLINE], 6, own)


def _grids(basis: Basis) -> list[tuple[int, int, int]]:
    """(functions, intervals, degree) to look at."""
    if not basis.local:
        return [(n, 3, 1) for n in SIZES]
    return [(m + degree, m, degree) for degree in basis.degrees for m in (1, 5)]


def _stored(X: np.ndarray) -> Csr:
    """The values that are not 0."""
    rows, columns = np.nonzero(X)
    indptr = np.searchsorted(rows, np.arange(len(X) + 1)).astype(np.int64)
    return Csr(X[rows, columns], columns.astype(np.int32), indptr, X.shape[1])
