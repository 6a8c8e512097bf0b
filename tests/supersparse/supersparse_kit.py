"""Small problems, and the objective written out."""

import numpy as np

from streamlearn.data.open import dataset_of
from streamlearn.supersparse.prototypes import Problem
from streamlearn.supersparse.sample import SampleObjective
from streamlearn.supersparse.similarity import make_similarity


def rows(n=150, p=3, T=1, seed=0):
    rng = np.random.default_rng(seed)
    return (
        rng.random((n, p)) + 0.1,
        rng.standard_normal((n, T)),
        rng.integers(1, 4, n).astype(float),
    )


def problem(similarity="rbf", ridge=1e-3, T=1, **kw):
    return Problem(make_similarity(similarity, **{"gamma": 1.5, **kw}), ridge, 0, np.zeros(T))


def objective(similarity="rbf", ridge=1e-3, T=1, n=150, **kw):
    X, Y, u = rows(n, T=T)
    return SampleObjective(problem(similarity, ridge, T, **kw), X, Y, u)


def written_out(sample, Z, theta):
    """Omega at any coefficients, row by row."""
    S = sample.problem.similarity.values(sample.X, Z)
    residual = S @ theta[:-1] + theta[-1] - sample.Y
    mean = (sample.u @ residual**2).sum() / sample.u.sum()
    return mean + sample.problem.ridge * (theta[:-1] ** 2).sum()


def as_dataset(X, y, weight=None, **kw):
    from streamlearn.data.memory.opening import open_arrays

    store = open_arrays(X, y, weight)
    names = [c.name for c in store.columns if c.name not in ("y", "sample_weight")]
    return dataset_of(store, "y", None if weight is None else "sample_weight", names, **kw)
