"""Small tables and problems of the additive tests."""

import numpy as np
import pandas as pd

from streamlearn.additive.basis.column_bases import Shape, fit_bases, reference_vector
from streamlearn.additive.objective import Problem
from streamlearn.estimator.rows.inputs import open_pair
from streamlearn.numeric.bases.registry import BASES
from streamlearn.numeric.bases.roughness import make_reference, make_roughness
from streamlearn.numeric.losses import make_loss


def table(n=400, seed=0, n_classes=2):
    """(X, y): smooth columns, one of three values, one constant, one mostly 0."""
    rng = np.random.default_rng(seed)
    X = rng.random((n, 5))
    X[:, 2] = rng.integers(0, 3, n)
    X[:, 3] = 4.0
    X[:, 4] *= rng.random(n) < 0.2
    f = 3 * np.sin(6 * X[:, 0]) + 4 * (X[:, 1] - 0.5) + X[:, 2] - 1
    if n_classes == 2:
        return X, (rng.random(n) < 1 / (1 + np.exp(-f))).astype(int)
    return X, np.digitize(
        f + rng.normal(0, 1, n), np.quantile(f, np.arange(1, n_classes) / n_classes)
    )


def make_problem(
    dataset, loss, *, n_bases=6, degree=1, order=1, C=0.5, B=1.0, basis="bspline", **changes
):
    """A `Problem` and its summary."""
    summary = dataset.summary()
    bases = fit_bases(summary, Shape(n_bases, degree, "quantile", BASES[basis]), dataset.dtype)
    roughness = make_roughness(bases, order)
    c = reference_vector(summary, bases, dataset.sparse)
    reference = make_reference(roughness, c)
    problem = Problem(bases, roughness, reference, make_loss(loss), C, B, 1, 0.0, False)
    return problem._replace(**changes), summary


def as_dataset(X, y=None, weight=None, rows=None):
    """Arrays as a dataset, in chunks of `rows`."""
    y = None if y is None else np.asarray(y, float)  # coded, as a fit's chunks are
    dataset = open_pair(X, y, weight)
    return dataset if rows is None else dataset.with_slice_rows(rows)


def mixed(n=600):
    """(frame, y): numbers, few values, words, missing values, and what two columns do together."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "many": rng.random(n),
            "few": np.floor(3 * rng.random(n)),
            "word": np.array(["red", "green", "blue"], object)[rng.integers(0, 3, n)],
            "gaps": np.where(rng.random(n) < 0.2, np.nan, rng.random(n)),
            "flat": np.full(n, 7.0),
        }
    )
    f = 3 * frame["many"] + frame["few"] + (frame["word"] == "red") + frame["gaps"].fillna(2.0)
    return frame, f + 2 * (frame["many"] > 0.5) * (frame["few"] == 1)
