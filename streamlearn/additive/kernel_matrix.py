"""Kernels that additive models are linear in, as matrices: for solvers that take kernels."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.utils.validation import check_array

from ..numeric.bases.basis import Basis
from ..numeric.bases.bsplines import Bases, evaluate, make_bases
from ..numeric.bases.registry import OWN, kind_of, make_basis
from ..numeric.bases.roughness import make_roughness
from .basis.column_bases import check_basis


def additive_kernel(
    X: Any,
    Y: Any = None,
    *,
    n_bases: int = 20,
    basis: str | Basis = "bspline",
    degree: int = 1,
    penalty_order: int = 1,
    penalty_scale: str = "paper",
    low: npt.ArrayLike = 0.0,
    high: npt.ArrayLike = 1.0,
) -> np.ndarray:
    """The kernel of an additive model, K(x, y) = sum_d Phi_d(x)' P^-1 Phi_d(y) (Maji 2012, Fig. 1).

    With linear splines of order 1 it is p + M sum_d min(x_d, y_d) at the knots, x on [0, 1] and
    M = ``n_bases - 1``, and the lines between them elsewhere: the min kernel.  Space 8 n m bytes.

    Parameters
    ----------
    X : array-like of shape (n, p)
    Y : array-like of shape (m, p), optional
        Default X.
    n_bases, basis, degree, penalty_order
        As in `AdditiveClassifier`.
    penalty_scale : {"paper", "integral"}, default="paper"
    low, high : float or array of shape (p,), default=0 and 1
        The range of each column, cut at its ends; knots lie evenly between.

    Returns
    -------
    array of shape (n, m)

    Raises
    ------
    ValueError
        Rows that are not finite or not of one width, a range that is empty, a basis without this
        degree or order.

    Examples
    --------
    >>> import numpy as np
    >>> from streamlearn import additive_kernel
    >>> x = np.array([[0.0], [0.5], [1.0]])
    >>> additive_kernel(x, n_bases=3)
    array([[1., 1., 1.],
           [1., 2., 2.],
           [1., 2., 3.]])
    """
    made = make_basis(basis)
    check_basis(made, n_bases, degree, penalty_order)
    X = check_array(X, dtype=np.float64)
    Y = X if Y is None else check_array(Y, dtype=np.float64)
    if X.shape[1] != Y.shape[1]:
        raise ValueError(f"X has {X.shape[1]} columns, Y has {Y.shape[1]}; they must agree")
    bases = _even_bases(X.shape[1], n_bases, made, degree, low, high)
    roughness = make_roughness(bases, penalty_order, penalty_scale)
    K = np.zeros((len(X), len(Y)))
    for d, n in enumerate(np.diff(bases.first)):
        L = roughness.L[roughness.table[d] : roughness.table[d] + n * n].reshape(n, n)
        left = evaluate(bases, d, X[:, d]) @ L
        K += left @ (evaluate(bases, d, Y[:, d]).T)
    return K


def _even_bases(
    p: int, n_bases: int, basis: Basis, degree: int, low: npt.ArrayLike, high: npt.ArrayLike
) -> Bases:
    """The basis of every column on equal intervals of its range."""
    kind = kind_of(basis)
    steps = np.linspace(0, 1, basis.n_intervals(n_bases, degree) + 1)
    low, high = (np.broadcast_to(np.asarray(end, np.float64), p) for end in (low, high))
    if not (low < high).all():
        d = int(np.argmin(low < high))
        raise ValueError(
            f"column {d} has the empty range [{low[d]}, {high[d]}]; low must be < high"
        )
    knots = [a + (z - a) * steps for a, z in zip(low, high, strict=True)]
    return make_bases(knots, [degree] * p, [kind] * p, n_bases, basis if kind == OWN else None)
