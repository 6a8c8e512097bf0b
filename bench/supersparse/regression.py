"""Table I's form: error and prototypes of learned and of selected prototypes, within and across.

Ridge and LASSO on similarities to many rows; on few prototypes chosen before the regression (at
random, at the border, spanning, medians of clusters); and ours: on the targets, with the number
chosen by cross-validation, and on the two machines' answers, as the paper's S-Ridge and S-LASSO.
"Across": tested on rows drawn elsewhere (the paper's other data base): the other half of
California, other corners of the generated cubes.  Ours reads all rows from disk, ``--rows`` says
how many (10 M); the rivals take 5,000 of the same kind in memory.
"""

import warnings

import numpy as np
from sklearn.exceptions import ConvergenceWarning

import streamlearn as sl
from bench import data
from bench.run import say

FEW, MANY = 5, 500
SIZES, TRADEOFF = (1, 2, 3, 5, 7, 10), 1e-3
"""What is chosen from, and the share of the targets' variance that one prototype more must save."""
TRAIN_ROWS, GENERATED_ROWS = 5_000, 10_000_000


def run(session):
    rng = np.random.default_rng(session.options.seed)
    for name, make in tasks(session.options).items():
        if not session.wants(f"regression: {name}"):
            continue
        say(f"regression: {name}")
        X, y, tests, source = make(rng)
        for method, (predict, m) in methods(X, y, source, rng).items():
            errors = {
                f"MAE {where}": float(np.mean(np.abs(predict(A) - b)))
                for where, (A, b) in tests.items()
            }
            session.add({"table": "regression", "data": name, "method": method, "m": m, **errors})


def tasks(options):
    size = 5_000 if options.tiny else options.rows or GENERATED_ROWS
    generated = {
        "smooth": lambda X: np.sin(4 * X[:, 0]) + X[:, 1] * X[:, 2],
        "bumps": lambda X: np.exp(-8 * ((X - 0.3) ** 2).sum(axis=1)) + X[:, 0],
    }
    found = {
        f"generated {name}, {size:,} rows": lambda rng, f=f, name=name: drawn(
            options, name, f, size, rng
        )
        for name, f in generated.items()
    }
    if not options.tiny:
        halves = {
            f"california_housing, {half}": lambda rng, half=half: california(half, rng)
            for half in ("north", "south")
        }
        found = halves | found
    return found


def california(half, rng):
    """House values in 100,000 USD; trained on three quarters of one half of the latitudes."""
    path = data.shared_folder() / "california_housing" / "cal_housing.parquet"
    names, columns, y = data.read_table(path)
    X = np.stack(columns, axis=1).astype(np.float64)
    X[:, 2:] = np.log1p(np.abs(X[:, 2:]))
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    y = y.astype(np.float64) / 1e5
    latitude = X[:, names.index("latitude")]
    here = (latitude > np.median(latitude)) == (half == "north")
    rows = rng.permutation(np.flatnonzero(here))
    cut = len(rows) * 3 // 4
    train, within = rows[:cut], rows[cut:]
    across = np.flatnonzero(~here)
    tests = {"within": (X[within], y[within]), "across": (X[across], y[across])}
    return X[train], y[train], tests, (X[train], y[train])


def drawn(options, name, f, n_rows, rng):
    """Uniform rows of [0, 0.8]^4 on disk; across: [0.2, 1]^4."""
    path = options.data / f"supersparse-{name}-{n_rows}.parquet"
    if not path.exists():
        blocks = (
            labelled(f, np.random.default_rng([options.seed, k]), m, 0.0)
            for k, m in enumerate(cut(n_rows))
        )
        data.write_parquet(path, blocks, n_rows, 4, dictionary=False)
    X, y = labelled(f, rng, TRAIN_ROWS, 0.0)
    tests = {"within": labelled(f, rng, 20_000, 0.0), "across": labelled(f, rng, 20_000, 0.2)}
    return X, y, tests, (sl.open_dataset(str(path), target="y"), None)


def cut(n_rows):
    return [min(data.ROW_GROUP, n_rows - a) for a in range(0, n_rows, data.ROW_GROUP)]


def labelled(f, rng, m, low):
    X = (low + 0.8 * rng.random((m, 4), dtype=np.float32)).astype(np.float32)
    return X, f(X.astype(np.float64)) + 0.1 * rng.standard_normal(m)


def methods(X, y, source, rng):
    """Name -> (rows -> predictions, prototypes that are compared with)."""
    gamma = 1.0 / (X.shape[1] * X.var())
    few = X[rng.permutation(len(X))[: min(len(X), 2_000)]]
    machines = {name: machine(few[:MANY], name, gamma).fit(X, y) for name in ("ridge", "LASSO")}
    found = {name: used(fitted) for name, fitted in machines.items()}
    for choice, choose in CHOICES.items():
        chosen = choose(few, FEW, gamma, rng)
        for name in machines:
            found[f"{choice}, {name}"] = used(machine(chosen, name, gamma).fit(X, y))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # of CV's many searches, all are used
        for m in (FEW, 2 * FEW):
            model = sl.SuperSparseRegressor(m, gamma=gamma).fit(*source)
            found["super-sparse" + ("" if m == FEW else " of twice as many")] = model.predict, m
        model = sl.SuperSparseRegressorCV(SIZES, gamma=gamma, tradeoff=TRADEOFF * y.var())
        model.fit(*source)
        found["super-sparse, number chosen"] = model.predict, model.n_prototypes_
        for name, fitted in machines.items():
            model = sl.compress(fitted, source[0], FEW, gamma=gamma)
            found[f"super-sparse {name}"] = model.predict, FEW
    return found


def machine(prototypes, regression, gamma):
    """Similarities to prototypes, then ridge or LASSO with the strength cross-validated."""
    from sklearn.linear_model import LassoCV, RidgeCV
    from sklearn.metrics.pairwise import rbf_kernel
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import FunctionTransformer

    compare = FunctionTransformer(rbf_kernel, kw_args={"Y": prototypes, "gamma": gamma})
    if regression == "ridge":
        return make_pipeline(compare, RidgeCV(np.logspace(-6, 2, 9)))
    alphas = np.logspace(-4, 0, 8)
    return make_pipeline(compare, LassoCV(alphas=alphas, cv=3, max_iter=3000, tol=1e-2))


def used(fitted):
    """Its predictions, and the prototypes whose coefficients are not 0."""
    return fitted.predict, int(np.count_nonzero(fitted[-1].coef_))


def at_random(X, m, gamma, rng):
    return X[rng.permutation(len(X))[:m]]


def border(X, m, gamma, rng):
    """The rows farthest from the set's median row."""
    return X[np.argsort(-distances(X, median(X)[None])[:, 0])[:m]]


def spanning(X, m, gamma, rng):
    """The median row, then always the row farthest from those chosen."""
    chosen = [median(X)]
    while len(chosen) < m:
        chosen.append(X[distances(X, np.array(chosen)).min(axis=1).argmax()])
    return np.array(chosen)


def k_medians(X, m, gamma, rng):
    """The median rows of k-means clusters."""
    from sklearn.cluster import KMeans

    label = KMeans(m, n_init=3, random_state=0).fit_predict(X)
    return np.array([median(X[label == k]) for k in range(m)])


CHOICES = {"random": at_random, "border": border, "spanning": spanning, "k-medians": k_medians}


def median(X):
    """The row whose distances to the others sum to least."""
    return X[distances(X, X).sum(axis=1).argmin()]


def distances(X, Z):
    from sklearn.metrics import pairwise_distances

    return pairwise_distances(X, Z)
