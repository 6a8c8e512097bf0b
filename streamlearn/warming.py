"""Loading libraries and kernels ahead of use: for container images, workers and measurements."""

from __future__ import annotations

import gc
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np

N_ROWS = 400
"""More than the 256 values that a column is counted in a table of."""
FEW = 64
"""Enough for all else."""
ALLOCATIONS = 50_000
"""Between two searches for cycles; with Python 3.11's own 700 they are a tenth of `warm`."""


def warm(*families: str) -> None:
    """Load the libraries, and compile or load every kernel by fitting it to a few made-up rows.

    After it a fit adds only its own data to memory, and spends no time on compiling.  (Dask arrays
    and clusters bring their libraries with them.)  All families take three seconds with kernels in
    numba's cache, and two minutes without, as every solver, dtype and layout is compiled.

    Parameters
    ----------
    *families : str
        Names of families ("additive", "mixture", ...); none means all of them.

    Examples
    --------
    >>> from time import perf_counter
    >>> import numpy as np
    >>> from streamlearn import ProjectionPursuitRegressor, warm
    >>> warm("pursuit")
    >>> started, X = perf_counter(), np.linspace(0, 1, 200)[:, None]
    >>> model = ProjectionPursuitRegressor(1).fit(X, X[:, 0])  # compiles nothing
    >>> int((perf_counter() - started) // 60)  # minutes
    0
    """
    for family in families:
        if family not in FAMILIES:
            raise ValueError(f"there is no family {family!r}; there are {', '.join(FAMILIES)}")
    with _collecting_seldom():
        _load(families or tuple(FAMILIES))


@contextmanager
def _collecting_seldom() -> Iterator[None]:
    """Fewer searches for cycles: what is loaded stays.  Some, as compiling leaves 1 GB of them."""
    before = gc.get_threshold()
    gc.set_threshold(before[0] and max(before[0], ALLOCATIONS), *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)


def _load(families: tuple[str, ...]) -> None:
    import dask.threaded  # noqa: F401
    import pyarrow.parquet  # noqa: F401
    import zarr  # noqa: F401
    from sklearn.exceptions import ConvergenceWarning

    from .config import config_context
    from .data.parquet.pages.reader import load_kernels
    from .engine.blas import one_blas_thread

    load_kernels()
    # An open scratch folder or a cluster has no part in this.
    quiet = config_context(scheduler="synchronous", progress=False)
    with warnings.catch_warnings(), quiet, one_blas_thread():
        warnings.simplefilter("ignore", ConvergenceWarning)
        for family in families:
            FAMILIES[family]()
    with one_blas_thread():
        pass  # finds the libraries anew, now that all are loaded: the first fit need not


def load_newton() -> None:
    """Compile or load what Newton's method reads dense rows with, without a fit.

    Half of what the first fit of an additive model compiles: a second process may do it meanwhile.
    """
    import numpy as np

    from .additive.basis.kernels import (
        NONE,
        GramSums,
        empty_sums,
        gradient_rows,
        gram_rows,
        make_point,
    )
    from .numeric.bases.bsplines import make_bases
    from .numeric.losses import LogLoss

    X = np.random.default_rng(0).random((FEW, 2), dtype=np.float32)
    bases = make_bases([np.linspace(0, 1, 4)] * 2, [1, 1])
    M, y = bases.dim, np.ones(FEW)
    gram = GramSums(np.zeros((M, M)), np.zeros(M), np.zeros(M))
    gram_rows(X, bases, y, NONE, gram)
    for dtype in (np.float32, np.float64):
        at = make_point(np.zeros((1, M), dtype), np.zeros(1))
        gradient_rows(X, bases, LogLoss(), at, y, NONE, empty_sums(1, M))


def _warm_additive() -> None:
    """Fit and use every solver, dtype and layout of the additive family."""
    import numpy as np
    import scipy.sparse

    from .additive.basis.kernels import (
        NONE,
        GramSums,
        class_margins_rows,
        class_sums_rows,
        coordinates_rows,
        empty_sums,
        gradient_rows,
        gram_rows,
        make_point,
        margins_rows,
    )
    from .additive.basis.kernels_loss import row_losses
    from .additive.classifier import AdditiveClassifier
    from .data.open import open_dataset
    from .data.source import Chunk
    from .numeric.bases.bsplines import Coordinates
    from .numeric.losses import LogLoss
    from .passes.summary.counts.few_rows import count_rows, keep_rows
    from .passes.summary.counts.stored import (
        add_stored,
        finish_stored,
        merge_stored,
        start_stored,
    )
    from .passes.summary.reading import summary_fold

    rng = np.random.default_rng(0)
    X = rng.random((N_ROWS, 3))
    X[:, 2] = rng.integers(0, 3, N_ROWS)  # a column of few values has kernels of its own
    y, three = (X[:, 0] + X[:, 2] > 1.5).astype(np.int64), X[:, 2].astype(np.int64)
    single, double, csr = X.astype(np.float32), np.asfortranarray(X), scipy.sparse.csr_array
    for kind in (np.asarray, csr):
        model = AdditiveClassifier(n_bases=4, max_passes=2)
        model.fit(kind(single), y, None if kind is csr else np.ones(N_ROWS)).predict(kind(single))
        W, M = model.coef_, model.coef_.shape[1]
        for table in (kind(single), kind(double)):
            # In float64, too, and what only a table of many rows comes to: passes in float32, and
            # lanes that merge.
            dataset = open_dataset(table)
            fold = summary_fold(dataset)
            with dataset.reader() as reader:
                (ref,) = dataset.refs()
                rows = reader.read(ref)
                assert fold.merge is not None
                fold.merge(fold.step(fold.start(), rows), fold.step(fold.start(), rows))
                if kind is np.asarray:  # as the rows of a wide table are counted
                    list(count_rows(keep_rows([], rows), 3, False))
                for dtype in (np.float32, np.float64):
                    at = make_point(W.astype(dtype), model.intercept_)
                    sums = empty_sums(*W.shape)
                    gradient_rows(rows.X, model.bases_, LogLoss(), at, 2.0 * y - 1.0, NONE, sums)
                    margins_rows(rows.X, model.bases_, at.W, np.empty((N_ROWS, 1)))
                if kind is np.asarray:  # what the multinomial loss computes with
                    two, F = np.repeat(W, 2, axis=0), np.empty((N_ROWS, 2))
                    class_margins_rows(rows.dense, model.bases_, two, F)
                    class_sums_rows(rows.dense, model.bases_, F)
                gram = GramSums(np.zeros((M, M)), np.zeros(M), np.zeros(M))
                gram_rows(rows.X, model.bases_, np.ones(N_ROWS), NONE, gram)
                for order in "FC":
                    coordinates_rows(rows.X, model.bases_, order)
    for weight in (None, np.ones(N_ROWS)):  # sparse rows of many columns are counted by values
        wide = Chunk(rows.X, y, weight, range(N_ROWS))
        parts = [add_stored(1, start_stored(3, weight is not None), wide) for _ in range(2)]
        finish_stored(merge_stored(1, *parts))
    row_losses(LogLoss(), 2.0 * y - 1.0, np.zeros(N_ROWS), NONE)  # of a sample's moments
    for table in (single, double):  # terms of two columns have passes of their own
        AdditiveClassifier(C=1.0, n_bases=4, interactions=[(0, 1)], max_passes=3).fit(table, y)
    # and so has the search for them, of one dtype, which "auto" leaves out with so few rows
    AdditiveClassifier(C=1.0, n_bases=4, interactions=1, max_passes=4).fit(single, y)
    for table in (single, double):  # what a reader of columns does while it decodes them
        columns = [np.ascontiguousarray(column) for column in table.T]
        for column in columns:
            column.flags.writeable = False
        Coordinates(model.bases_)(columns, range(3), np.empty((3, N_ROWS), np.float32), 0)
    # epochs take coordinates of one dtype, whatever the loss; codes' coefficients may be float32
    for table, target, penalty_order, tol in (
        (single, y, 0, 1e-4),
        (csr(single), y, 2, 1e-4),
        (csr(single), y, 1, 1e-4),
        (csr(double), y, 1, 1e-2),
        (csr(single), three, 1, 1e-4),
        (csr(single), three, 1, 1e-2),
    ):
        model = AdditiveClassifier(
            "hinge", solver="dual-cd", n_bases=4, penalty_order=penalty_order
        )
        model.set_params(max_passes=3, tol=tol).fit(table, target)
    _visit_blocks(single, 2.0 * y - 1.0, n_bases=4)


def _visit_blocks(X: np.ndarray, y: np.ndarray, n_bases: int) -> None:
    """Visit rows as epochs do whose coefficients outgrow the caches."""
    import numpy as np

    from .additive.basis.kernels import NONE, DualProblem, coordinates_rows
    from .additive.dual.epochs import DualEpochs, DualState
    from .numeric.bases.bsplines import make_bases
    from .numeric.bases.roughness import make_reference, make_roughness
    from .numeric.losses import Hinge

    p = X.shape[1]
    bases = make_bases([np.linspace(0, 1, n_bases)] * p, [1] * p)
    roughness = make_roughness(bases, 1)
    c = np.zeros(bases.dim)
    problem = DualProblem(roughness, make_reference(roughness, c), 1.0, 1.0)
    state = DualState(np.zeros((len(X), 1), np.float32), np.zeros((1, bases.dim)), np.zeros(1))
    U, bases = coordinates_rows(X, bases, "C"), bases._replace(prepared=True)
    epochs = DualEpochs(U, bases, Hinge(), problem, y, NONE, state, wide_nbytes=0)
    epochs.visit([np.arange(len(X))])


def _warm_pursuit() -> None:
    """Fit both estimators of projection pursuit to columns of both dtypes, and both smoothers."""
    import numpy as np

    from .pursuit.boosting.classifier import JensenShannonBoostClassifier
    from .pursuit.regression.regressor import ProjectionPursuitRegressor

    rng = np.random.default_rng(0)
    X = rng.random((FEW, 2))
    product = X[:, 0] * X[:, 1]
    for n_terms, table in ((1, X), (2, X.astype(np.float32))):
        JensenShannonBoostClassifier(n_learners=1).fit(table, X[:, 0] > 0.5)
        model = ProjectionPursuitRegressor(n_terms, n_bases=8, backfit=0, stop=None, tol=0.1)
        model.fit(table, product)
    for table in (X, X.astype(np.float32)):
        model.set_params(smoother="supsmu").fit(table, product)


def _warm_shareboost() -> None:
    """Fit and use every kind of candidate that has kernels."""
    import numpy as np
    from scipy.sparse import csr_array

    from .shareboost.design import Dense
    from .shareboost.estimator import ShareBoostClassifier

    zeros, pairs = np.zeros((1, 1, 1, 1)), np.zeros(1, np.intp)
    for dtype in (np.float32, np.float64):  # of features that are mostly 0
        features = Dense(np.zeros((1, 1), dtype, order="F"))
        features.add_products(zeros[0, 0], pairs, pairs, zeros)
    X = np.random.default_rng(0).random((N_ROWS, 2))
    y = (X[:, 0] + X[:, 1] > 1.0).astype(np.int64)
    for table in (X.astype(np.float32), X):
        for candidates in ("columns", "products"):  # of sparse rows; of dense ones BLAS does it
            model = ShareBoostClassifier(1, candidates=candidates, ridge=1e-2, tol=1e-3)
            model.fit(csr_array(table[:FEW]), y[:FEW])
        # Only stumps need more values than are counted in a table.
        for candidates, m in (("stumps", N_ROWS), ("pieces", FEW), ("soft-pieces", FEW)):
            model = ShareBoostClassifier(
                1, candidates=candidates, n_anchors=2, n_radii=2, ridge=1e-2, tol=1e-3
            )
            model.fit(table[:m], y[:m]).predict(table[:m])


def _warm_mixture() -> None:
    """Fit and use hinge experts, the only ones with a kernel."""
    import numpy as np

    from .mixture.estimator import SVMMixtureClassifier

    X = np.random.default_rng(0).random((FEW, 3), dtype=np.float32)
    y = X[:, 0] > 0.5
    SVMMixtureClassifier(2, expert_loss="hinge", max_passes=2, tol=1e-2).fit(X, y).predict(X)


def _warm_supersparse() -> None:
    """No kernels: its modules, and the libraries that come with them."""
    from .supersparse import estimators  # noqa: F401


FAMILIES = {
    "additive": _warm_additive,
    "mixture": _warm_mixture,
    "pursuit": _warm_pursuit,
    "shareboost": _warm_shareboost,
    "supersparse": _warm_supersparse,
}
