"""One small example of every store and of every fold: what the laws are checked on.

A new store or fold is added here; `test_sources.py` and `test_folds.py` fail until it is.
"""

from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np
from laws.laws_kit import with_lengths
from scipy import sparse

import streamlearn as sl
from streamlearn.data.open import dataset_of

N, P = 603, 5


@dataclass(frozen=True)
class Table:
    """The rows that every store below holds: a few-valued and a sparse column among others."""

    X: np.ndarray
    y: np.ndarray
    weight: np.ndarray


def table(n=N, seed=0) -> Table:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, P)).astype(np.float32)
    X[:, 1] = rng.integers(0, 4, n)
    X[:, 2] *= rng.random(n) < 0.2
    return Table(X, rng.integers(0, 3, n), rng.integers(0, 3, n).astype(float))


TABLE = table()
FEATURES = tuple(f"x{j}" for j in range(P))


def frame():
    import pandas as pd

    data = pd.DataFrame(TABLE.X, columns=list(FEATURES))
    return data.assign(y=TABLE.y, w=TABLE.weight)


def polars_frame(folder):
    import polars as pl

    return named(pl.from_pandas(frame()))


def arrow_table(folder):
    import pyarrow as pa

    return named(pa.Table.from_pandas(frame()))


def named(source, **kw):
    return sl.open_dataset(source, target="y", weight="w", **kw)


def arrays(X):
    from streamlearn.data.memory.opening import open_arrays

    store = open_arrays(X, TABLE.y, TABLE.weight)
    return dataset_of(store, "y", "sample_weight", FEATURES)


def memory_map(folder):
    np.save(folder / "X.npy", TABLE.X)
    return arrays(np.load(folder / "X.npy", mmap_mode="r"))


def parquet(folder):
    data = frame()
    (folder / "parts").mkdir()
    for k, (a, b) in enumerate([(0, 200), (200, 201), (201, 201), (201, N)]):
        data[a:b].to_parquet(folder / "parts" / f"part-{k}.parquet", row_group_size=64)
    return named(folder / "parts")


def zarr(folder, **kw):
    import zarr

    path = str(folder / "store.zarr")
    group = zarr.open_group(path, mode="w", zarr_format=3)
    for name, array in (("X", TABLE.X), ("y", TABLE.y), ("w", TABLE.weight)):
        chunks = (100, 2)[: array.ndim]
        more = {key: value[: array.ndim] for key, value in kw.items()}
        group.create_array(name, shape=array.shape, chunks=chunks, dtype=array.dtype, **more)[
            ...
        ] = array
    return sl.open_dataset(path, target="y", weight="w")


def dask_array(folder):
    import dask.array as da

    from streamlearn.data.dask.store import open_dask

    cuts = ((100, 300, N - 400), (P,))
    store = open_dask(
        da.from_array(TABLE.X, chunks=cuts),
        da.from_array(TABLE.y, chunks=cuts[:1]),
        da.from_array(TABLE.weight, chunks=cuts[:1]),
    )
    return dataset_of(store, "y", "sample_weight", FEATURES)


def dask_frame(folder):
    """A dataframe does not know its lengths: as it is after they have been counted."""
    import dask.dataframe as dd

    from streamlearn.data.dask.store import open_dask

    store = open_dask(dd.from_pandas(frame(), npartitions=4))
    lengths = [len(part.compute()) for part in dd.from_pandas(frame(), npartitions=4).partitions]
    return dataset_of(with_lengths(store, lengths), "y", "w")


def stream(folder):
    """A one-shot stream as it is after its first read: written."""
    import pyarrow as pa

    from streamlearn.data.memory.stream import open_stream, write_stream

    reader = pa.Table.from_pandas(frame()).to_reader(max_chunksize=90)
    (folder / "written").mkdir()
    return dataset_of(
        write_stream(open_stream(reader), folder / "written", 128), "y", "w", FEATURES
    )


def scratch(folder):
    from streamlearn.engine.scratch.store import Ask, ScratchStore, write_rows

    origin = arrays(TABLE.X).store
    ask = Ask(FEATURES, "y", "sample_weight", "float32", 100)
    cuts = [(0, 250), (250, N)]
    parts = [write_rows(origin, a, b, ask, str(folder)) for a, b in cuts]
    return dataset_of(ScratchStore(origin, ask, str(folder), parts), "y", "sample_weight", FEATURES)


SOURCES = {
    "numpy": lambda folder: arrays(TABLE.X),
    "numpy by columns": lambda folder: arrays(np.asfortranarray(TABLE.X)),
    "numpy float64": lambda folder: arrays(TABLE.X.astype(np.float64)),
    "memory map": memory_map,
    "csr": lambda folder: arrays(sparse.csr_array(TABLE.X)),
    "pandas": lambda folder: named(frame()),
    "polars": polars_frame,
    "arrow": arrow_table,
    "stream": stream,
    "parquet": parquet,
    "zarr": zarr,
    "zarr shards": lambda folder: zarr(folder, shards=(200, 4)),
    "dask array": dask_array,
    "dask frame": dask_frame,
    "scratch": scratch,
}
"""Name -> f(folder) -> Dataset of `TABLE` with target and weight."""

NO_EXAMPLE = {
    "StreamStore": "has no rows before it is written; the written one is an ArrayStore",
    "RowsAtRisk": "has other rows than those below: data/risk/test_rows_at_risk.py runs the laws",
}
"""Store class that no example opens: why."""


def fold_examples(dataset: Any) -> dict[str, Any]:
    """Name of a fold's constructor (a second one after a colon) -> the fold for this dataset."""
    from streamlearn.data.levels import Coder, word_of
    from streamlearn.passes.fold import both
    from streamlearn.passes.sample import sample_fold
    from streamlearn.passes.summary.levels import levels_fold
    from streamlearn.passes.summary.reading import summary_fold
    from streamlearn.passes.target_means import hashes_fold, target_fold
    from streamlearn.solvers.kmeans import lloyd_fold

    coder = Coder("x0", [word_of(value, "x0") for value in np.unique(TABLE.X[::3, 0])])
    folds = {
        "passes.summary.reading.summary_fold": summary_fold(dataset),
        "passes.summary.reading.summary_fold:moments": summary_fold(dataset, moments_only=True),
        "passes.sample.sample_fold": sample_fold(dataset, 200, 3),
    }
    folds["passes.summary.levels.levels_fold"] = levels_fold("y")
    folds["passes.target_means.hashes_fold"] = hashes_fold("y")
    folds["passes.fold.both"] = both(*folds.values())
    centres = np.random.default_rng(0).standard_normal((4, P))
    folds["solvers.kmeans.lloyd_fold"] = lloyd_fold(centres)
    means = target_fold([coder], [False], [len(coder.words)], 3, seed=1)
    folds["passes.target_means.target_fold"] = means
    folds |= additive_folds() | mixture_folds() | pursuit_folds()
    return folds | shareboost_folds() | supersparse_folds()


def mixture_folds():
    from mixture_kit import make, rows_of

    from streamlearn.mixture import objective

    problem, at = make("rbf", "log_loss", rows_of(TABLE.X, TABLE.y), (2, 2), n_classes=3)
    point = "mixture.objective.evaluation_fold"
    return {point: objective.evaluation_fold(problem, at)} | {
        "mixture.objective.likelihood_fold": objective.likelihood_fold(problem, at)
    }


def additive_folds():
    from streamlearn.additive import objective
    from streamlearn.additive.newton import curvature
    from streamlearn.additive.pairs import density_fold
    from streamlearn.additive.screening.reading import make_layout, screening_fold
    from streamlearn.additive.smooth import moments
    from streamlearn.numeric.bases.bsplines import make_bases
    from streamlearn.numeric.bases.pairs import add_pairs
    from streamlearn.numeric.bases.roughness import (
        make_reference,
        make_roughness,
        reference_at_zero,
    )
    from streamlearn.numeric.losses import LogLoss

    knots = [np.linspace(-2, 2, 6)] * P
    knots[1] = np.arange(4.0)
    bases = make_bases(knots, [1] * P)
    roughness = make_roughness(bases, 1)
    reference = make_reference(roughness, reference_at_zero(bases))
    problem = objective.Problem(bases, roughness, reference, LogLoss(), 0.5, 1.0, 3, 0.0, False)
    theta = np.random.default_rng(0).standard_normal((3, problem.dim + 1)) / 10
    both = np.array([[0, 1], [2, 3]])
    joined, of_pairs, c = add_pairs(bases, roughness, reference.c, both, 1, "integral")
    paired = problem._replace(
        bases=joined, roughness=of_pairs, reference=make_reference(of_pairs, c)
    )
    at = "additive.objective."
    folds = {
        at + "evaluation_fold": objective.evaluation_fold(problem, theta),
        at + "loss_fold": objective.loss_fold(problem, theta),
        "additive.pairs.density_fold": density_fold(paired),
        "additive.screening.reading.screening_fold": screening_fold(
            problem, theta, make_layout(problem, theta), 3, 1.0, 5
        ),
        "additive.newton.curvature.gram_fold": curvature.gram_fold(problem, theta, 0.5, 7),
        "additive.smooth.moments.moments_fold": moments.moments_fold(
            problem, theta, np.zeros(problem.n_outputs)
        ),
        "additive.newton.curvature.mass_fold": curvature.mass_fold(problem, theta),
    }
    if has("additive.dual.descent"):
        from streamlearn.additive.dual.cached_rows import nothing_moved
        from streamlearn.additive.dual.descent import alpha_width, certificate_fold

        folds["additive.dual.descent.certificate_fold"] = certificate_fold(
            problem, theta, nothing_moved(alpha_width(problem))
        )
    if has("additive.choose.choosing"):
        folds |= folds_of_candidates(problem, theta)
    return folds


def pursuit_folds():
    from streamlearn.pursuit import answers
    from streamlearn.pursuit.boosting import reads as boost_reads
    from streamlearn.pursuit.boosting import rows as boost_rows
    from streamlearn.pursuit.boosting.boosting import Boosted
    from streamlearn.pursuit.kernels import ScaledColumns
    from streamlearn.pursuit.regression import reads as ridge_reads
    from streamlearn.pursuit.regression.growing import LossRequest
    from streamlearn.pursuit.regression.smoothers import PSpline
    from streamlearn.pursuit.regression.supsmu import SuperSmoother
    from streamlearn.pursuit.search import Trial

    ones = np.ones(P)
    columns = ScaledColumns(-2 * ones, 3 * ones, 0.1 * ones, ones, np.zeros((P, 64)))
    columns.means[:] = -2.1 + 5 * (np.arange(64) + 0.5) / 64
    alphas = np.array([[1.0, 0, 0, 0, 0], [0.5, 0, 0, -1, 0]])
    trials = tuple(Trial(alpha, -3.5, 4.0, np.linspace(-1, 1, 16)) for alpha in alphas)
    splines, steps = PSpline(16), SuperSmoother(16)
    term = ridge_reads.Term(alphas[1], -3.0, 3.0, np.linspace(0, 1, 16), splines)
    chosen = np.array([0, 1, 3])
    ask = ridge_reads.RidgeRequest(
        (term,), 0.3, trials, chosen, None, 10.0, "scale-free", splines, True, 1.0
    )
    stepped = ask._replace(terms=(term._replace(smoother=steps),), smoother=steps)
    new = boost_rows.Learner(alphas[1], -3.0, 3.0, np.linspace(-1, 1, 12), 0.5)
    halves = boost_rows.Halves(7, np.array([0, 3]))
    trials = tuple(trial._replace(theta=np.linspace(-1, 1, 24)) for trial in trials)
    boost_ask = boost_rows.BoostRequest(
        1,
        None,
        halves,
        trials,
        chosen,
        None,
        10.0,
        "scale-free",
        12,
        True,
        True,
        1.0,
        np.ones(2),
        2.0,
    )
    boosted = Boosted(1, 10.0, (new,), 1.5, 0.2, [], True)
    at = "pursuit."
    return {
        at + "regression.reads.ridge_fold": ridge_reads.ridge_fold(columns, (ask,)),
        at + "regression.reads.ridge_fold:supsmu": ridge_reads.ridge_fold(columns, (stepped,)),
        at + "boosting.reads.boost_fold": boost_reads.boost_fold(columns, (boost_ask,), (1,), 2),
        at + "answers.loss_fold": answers.loss_fold(columns, [LossRequest((term,), 0.3)]),
        at + "answers.log_loss_fold": answers.log_loss_fold(columns, [[boosted]]),
    }


def shareboost_folds():
    from dataclasses import replace

    from streamlearn.passes.fold import RowState
    from streamlearn.shareboost import curvature, reads
    from streamlearn.shareboost.design import TARGET, Layout
    from streamlearn.shareboost.path import PathPoint, path_fold
    from streamlearn.shareboost.selection import candidates, pieces, scoring, search, stumps

    rng = np.random.default_rng(0)
    side = RowState("selected-1", "float64", 4, False)
    layout = Layout((TARGET, side), (("selected-1", 0), ("selected-1", 2)), 0, "float64", "float64")
    theta = rng.standard_normal((3, 3))
    residual = scoring.residual_state("float64", 3)
    around = candidates.Pieces(
        rng.standard_normal((4, P)).astype(np.float32), np.tile(np.float32([1.0, 3.0, 8.0]), (4, 1))
    )
    cuts = [np.linspace(-1, 1, j + 1, dtype=np.float32) for j in range(P)]
    edges = stumps.make_edges(np.repeat(np.arange(P), [len(own) for own in cuts]), np.hstack(cuts))
    bins = edges.bins(np.arange(P))
    newton, blocks = (curvature.Metric(kind, ((0, 3),), 1) for kind in ("newton", "blocks"))
    shortlist = RowState("shortlist", "float64", 2)
    choices = [(1,), (3,)]

    def thin(fold, *more):
        return replace(fold, rows=(*layout.states, *more))

    means, U = np.array([0.1, 0.2]), rng.standard_normal((2, 3))
    point = PathPoint(((0,), (4,)), theta, 0.0, 0.0, 0.0)
    of = "shareboost."
    return {
        of + "selection.scoring.gradient_fold": scoring.gradient_fold(P, 3, residual),
        of + "selection.search.products_fold": search.products_fold(1, 3, P, residual),
        of + "selection.search.product_moments_fold": search.product_moments_fold(0, 2, P, 600.0),
        of + "selection.stumps.counts_fold": stumps.counts_fold(bins, residual),
        of + "selection.pieces.pieces_fold": pieces.pieces_fold(around, residual),
        of + "selection.pieces.moments_fold": pieces.moments_fold(around, 600.0),
        of + "selection.pieces.pieces_fold:soft": pieces.pieces_fold(
            around._replace(soft=True), residual
        ),
        of + "selection.pieces.moments_fold:soft": pieces.moments_fold(
            around._replace(soft=True), 600.0
        ),
        of + "path.path_fold": path_fold(candidates.SingleColumns(), [0, 4], [point]),
        of + "reads.start_fold": reads.start_fold(rng.standard_normal((3, 3)), 600.0, "f8"),
        of + "reads.fetch_fold": reads.fetch_fold(
            candidates.SingleColumns(), range(P), choices, shortlist, 600.0
        ),
        of + "reads.base_fold": reads.base_fold(RowState("base", "float64", P)),
        of + "reads.copy_fold": thin(reads.copy_fold("selected-1", [3, 1], "shortlist"), shortlist),
        of + "reads.residual_fold": thin(
            reads.residual_fold(layout, theta), residual._replace(writes=True)
        ),
        of + "curvature.lookahead_fold": thin(
            curvature.lookahead_fold(layout, theta, "shortlist", means, U), shortlist
        ),
        of + "reads.without_fold": thin(reads.without_fold(layout, theta, [(1, 2), (2, 3)])),
        of + "curvature.evaluation_fold": thin(curvature.evaluation_fold(layout, theta, False)),
        of + "curvature.curvature_fold": thin(curvature.curvature_fold(layout, theta, newton)),
        of + "curvature.squares_fold": thin(curvature.squares_fold(layout)),
        of + "curvature.curvature_fold:blocks": thin(
            curvature.curvature_fold(layout, theta, blocks)
        ),
    }


def supersparse_folds():
    from sklearn.linear_model import LogisticRegression

    from streamlearn.supersparse.answers import answers_of, counts_fold
    from streamlearn.supersparse.compress import deviation_fold
    from streamlearn.supersparse.estimators_cv import errors_fold
    from streamlearn.supersparse.logistic import log_loss_fold
    from streamlearn.supersparse.prototypes import Candidate, Problem, candidates_fold
    from streamlearn.supersparse.similarity import make_similarity

    rng = np.random.default_rng(0)
    Z, theta = rng.standard_normal((4, P)), rng.standard_normal((5, 3)) / 3
    problem = Problem(make_similarity("rbf", gamma=0.2, centre=np.ones(P)), 1e-3, 3, np.zeros(3))
    candidates = [Candidate(Z, theta), Candidate(Z[:2]), Candidate(Z + 0.1, theta, 1)]
    model = sl.SuperSparseRegressor()
    model.similarity_, model.prototypes_ = problem.similarity, Z
    model.coef_, model.intercept_ = theta[:-1, :1].T.copy(), theta[-1, :1]
    original = LogisticRegression(C=0.1, tol=0.1).fit(TABLE.X, TABLE.y)
    at = "supersparse."
    return {
        at + "prototypes.candidates_fold": candidates_fold(problem, candidates, 3, 7),
        at + "logistic.log_loss_fold": log_loss_fold(problem, Z, [theta, 2 * theta]),
        at + "estimators_cv.errors_fold": errors_fold(
            problem, [(0, Z, theta), (1, Z, -theta)], 3, 7
        ),
        at + "answers.counts_fold": counts_fold(answers_of(original), 3),
        at + "compress.deviation_fold": deviation_fold(model, classify=False),
    }


def folds_of_candidates(problem, theta):
    """Of cross-validation and calibration; one fold, as folds are by row number."""
    from streamlearn.additive.choose import gram as fold_gram
    from streamlearn.additive.choose import judging
    from streamlearn.additive.choose import newton as fold_newton
    from streamlearn.additive.classifier import AdditiveClassifier
    from streamlearn.numeric.losses import SquaredError
    from streamlearn.solvers.calibration import score_fold

    split = fold_newton.Splits(1, 0)
    models = [fold_newton.SplitModel(problem, fold_newton.NO_SPLIT)] * 2
    model = AdditiveClassifier()
    model.n_features_in_ = P
    model.classes_ = np.arange(3.0)
    model._keep(problem, theta, np.zeros(problem.dim))
    squared = problem._replace(loss=SquaredError(), n_outputs=1)
    return {
        "additive.choose.newton.evaluations_fold": fold_newton.evaluations_fold(
            models, [theta, theta / 2], split
        ),
        "additive.choose.gram.moments_fold": fold_gram.moments_fold([squared], split),
        "additive.choose.judging.scores_fold": judging.scores_fold(
            [[model, model]], split, "accuracy"
        ),
        "solvers.calibration.score_fold": score_fold(model._decision_chunk, 3),
    }


def has(module):
    """Whether the package has the module; one that has landed is never left out."""
    return find_spec(f"streamlearn.{module}") is not None


ROWS_THEMSELVES = ("passes.sample.sample_fold", "passes.fold.both")
"""Folds whose answer holds rows: as they are stored, and drawn whatever their weight."""

GROWS = (
    *ROWS_THEMSELVES,
    "passes.summary.reading.summary_fold",
    "passes.summary.reading.summary_fold:moments",
    "passes.summary.levels.levels_fold",
    "passes.target_means.hashes_fold",
    "additive.choose.judging.scores_fold",
)
"""Folds whose states hold what was found: rows, bins, labels, words, and metrics not begun."""

ROW_STATE = (
    "passes.target_means.target_fold",
    "additive.dual.descent.certificate_fold",
    "pursuit.boosting.reads.boost_fold",
    *("shareboost.selection.scoring.gradient_fold", "shareboost.selection.search.products_fold"),
    *("shareboost.selection.stumps.counts_fold", "shareboost.selection.pieces.pieces_fold"),
    "shareboost.selection.pieces.pieces_fold:soft",
    *(f"shareboost.reads.{name}_fold" for name in ("residual", "without")),
    "shareboost.curvature.lookahead_fold",
    *("shareboost.curvature.evaluation_fold", "shareboost.curvature.squares_fold"),
    *("shareboost.curvature.curvature_fold", "shareboost.curvature.curvature_fold:blocks"),
)
"""Folds that know a row by its number: a copy would need a share of its state, or of its part."""

DENSE = (
    "passes.target_means.target_fold",
    *("shareboost.selection.stumps.counts_fold", "shareboost.selection.pieces.pieces_fold"),
    "shareboost.selection.pieces.pieces_fold:soft",
    *("shareboost.selection.pieces.moments_fold", "shareboost.selection.pieces.moments_fold:soft"),
    "shareboost.reads.base_fold",
)
"""Folds of options that refuse sparse rows."""

NO_FOLD_EXAMPLE = {
    "engine.scratch.blocks.cache_fold": "its state is files; tests/engine has its tests",
    "additive.dual.descent.sweep_fold": "order-sensitive; tests/additive/dual has its tests",
    "additive.choose.dual.turns_fold": "order-sensitive; tests/additive/choose has its tests",
    "mixture.em.dual.sweep_fold": "order-sensitive; tests/mixture has its tests",
    "mixture.em.online.online_fold": "order-sensitive; tests/mixture has its tests",
    "mixture.em.stream.stream_fold": "order-sensitive; tests/estimator has its tests",
    "additive.stochastic.pegasos.pegasos_fold": "order-sensitive; tests/additive has its tests",
}
"""Constructor that no example calls: why."""
