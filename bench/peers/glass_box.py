"""One glass-box model with its defaults, ours from disk or a rival on a frame, on held-out rows."""

import contextlib
import threading
import time
import warnings
from pathlib import Path

MOST_OF_PYGAM = 1_000_000
"""Cells (rows x columns) that pyGAM's search is given."""
LABELS = ("label",)
"""Columns that tell the target in another way."""


def prepare(*, model, **options):
    if model.startswith("ours"):
        import streamlearn

        streamlearn.warm()
    elif model.startswith("EBM"):
        import interpret.glassbox  # noqa: F401
    elif model.startswith("LightGBM"):
        import lightgbm  # noqa: F401
    else:
        import pygam  # noqa: F401


def run(report, *, model, **options):
    make = {"o": run_ours, "E": run_rival, "L": run_rival, "p": run_rival}[model[0]]
    with watched_processes(report):
        return make(report, model=model, **options)


def features_of(path):
    import pyarrow.parquet as pq

    names = pq.ParquetFile(path).schema_arrow.names
    return [name for name in names if name not in ("target", *LABELS)]


def is_regression(path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    return pa.types.is_floating(pq.ParquetFile(path).schema_arrow.field("target").type)


def run_ours(report, *, parameters, budget, train, test, **_options):
    from sklearn.exceptions import ConvergenceWarning

    import streamlearn as sl
    from bench.peers.ours import time_reads

    kind = sl.AdditiveRegressor if is_regression(train) else sl.AdditiveClassifier
    estimator, names = kind(**parameters), features_of(train)
    reads, start = time_reads(), time.perf_counter()
    with sl.config_context(memory_budget=budget), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        estimator.fit(sl.open_dataset(train, target="target", features=names))
    report["fit_s"] = time.perf_counter() - start
    report["reads_s"] = sum(read["s"] for read in reads if not read["inside"])
    report["n_passes"] = estimator.n_passes_
    report["n_terms"] = len(estimator.term_names_)

    def score():
        import pyarrow.parquet as pq

        rows = sl.open_dataset(test, target="target", features=names)
        y = pq.read_table(test, columns=["target"])["target"].to_numpy()
        if is_regression(train):
            return losses(y, None, estimator.predict(rows))
        return losses(y, estimator.classes_, estimator.predict_proba(rows))

    return score


def run_rival(report, *, model, train, test, threads, seed, **_options):
    import pandas as pd

    names, regression = features_of(train), is_regression(train)
    frames = [pd.read_parquet(path, columns=[*names, "target"]) for path in (train, test)]
    X, X_test = (frame[names] for frame in frames)
    y, y_test = (frame["target"].to_numpy() for frame in frames)
    estimator = made(model, X, regression, threads, seed)
    start = time.perf_counter()
    if model == "pyGAM":
        X, X_test = X.to_numpy(float), X_test.to_numpy(float)
        estimator.gridsearch(X, y, progress=False)
    else:
        estimator.fit(X, y)
    report["fit_s"] = time.perf_counter() - start

    def score():
        if regression:
            return losses(y_test, None, estimator.predict(X_test))
        p = estimator.predict_proba(X_test)
        if model == "pyGAM":
            import numpy as np

            return losses(y_test, np.unique(y), np.column_stack([1 - p, p]))
        return losses(y_test, estimator.classes_, p)

    return score


@contextlib.contextmanager
def watched_processes(report):
    """The largest memory of all processes started meanwhile, as ``processes_bytes``.

    It is the sum of their proportional shares (Pss), ten times a second: pages that two of them
    share count once.
    """
    done = threading.Event()
    report["processes_bytes"] = 0

    def watch():
        while not done.wait(0.1):
            report["processes_bytes"] = max(report["processes_bytes"], processes_nbytes())

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def processes_nbytes(of="self"):
    """Sum of the proportional shares of a process's children, their children, and so on."""
    children = []
    for path in Path(f"/proc/{of}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            children += path.read_text().split()
    total = 0
    for child in children:
        with contextlib.suppress(OSError):  # it has ended meanwhile
            lines = Path(f"/proc/{child}/smaps_rollup").read_text().splitlines()
            shares = [int(line.split()[1]) for line in lines if line.startswith("Pss:")]
            total += 1024 * sum(shares) + processes_nbytes(child)
    return total


def made(model, X, regression, threads, seed):
    """A rival with nothing set but its seed, its threads and what its name says."""
    if model.startswith("EBM"):
        from interpret import glassbox

        kind = "Regressor" if regression else "Classifier"
        more = {"interactions": 0} if "no pairs" in model else {}
        ebm = getattr(glassbox, f"ExplainableBoosting{kind}")
        return ebm(n_jobs=threads, random_state=seed, **more)
    if model.startswith("LightGBM"):
        import lightgbm

        kind = lightgbm.LGBMRegressor if regression else lightgbm.LGBMClassifier
        more = {"num_leaves": 2, "n_estimators": 1_000} if "stumps" in model else {}
        return kind(n_jobs=threads, random_state=seed, verbose=-1, **more)
    import pygam

    words = [name for name in X if X[name].dtype.kind not in "iufb"]
    if words or X.size > MOST_OF_PYGAM:
        raise ValueError(
            f"pyGAM's search is given numbers alone, at most {MOST_OF_PYGAM:,} cells; here are "
            f"{X.size:,}, and {len(words)} columns of words"
        )
    return pygam.LinearGAM() if regression else pygam.LogisticGAM()


def losses(y, classes, answer):
    """Log-loss and AUC (two classes) of probabilities, 1 - R^2 of numbers."""
    import numpy as np
    from sklearn.metrics import r2_score, roc_auc_score

    from bench import data

    if classes is None:
        return {"loss": 1.0 - r2_score(y, answer)}
    auc = roc_auc_score(y == classes[1], answer[:, 1]) if len(classes) == 2 else None
    return {"loss": data.scores(y, np.asarray(classes), answer)["log_loss"], "auc": auc}
