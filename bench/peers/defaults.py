"""One model with nothing set, ours from disk or a rival on a frame, on held-out rows."""

import time
import warnings


def prepare(*, model, **_options):
    import sklearn.ensemble
    import sklearn.linear_model
    import sklearn.svm  # noqa: F401

    import streamlearn

    if hasattr(streamlearn, model):
        streamlearn.warm()


def run(report, *, model, **options):
    import streamlearn as sl

    return (run_ours if hasattr(sl, model) else run_rival)(report, model=model, **options)


def names_of(path, numbers_alone=False, target="target"):
    import pyarrow as pa
    import pyarrow.parquet as pq

    plain = (pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean)
    return [
        field.name
        for field in pq.ParquetFile(path).schema_arrow
        if field.name != target
        and (not numbers_alone or any(is_kind(field.type) for is_kind in plain))
    ]


def run_ours(report, *, model, budget, train, test, numbers_alone=False, **_options):
    from sklearn.exceptions import ConvergenceWarning

    import streamlearn as sl

    estimator, names = getattr(sl, model)(), names_of(train, numbers_alone)
    with sl.config_context(memory_budget=budget), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        with timed(report):
            estimator.fit(sl.open_dataset(train, target="target", features=names))
    certificate = estimator.certificate_
    report |= {"n_passes": estimator.n_passes_, "converged": bool(certificate.converged)}
    report["reason"] = certificate.reason

    def score():
        import pyarrow.parquet as pq

        rows = sl.open_dataset(test, target="target", features=names)
        y = pq.read_table(test, columns=["target"])["target"].to_numpy()
        return quality(estimator, rows, y)

    return score


def run_rival(report, *, model, train, test, seed, **_options):
    import pandas as pd
    from sklearn.exceptions import ConvergenceWarning

    frames = [pd.read_parquet(path) for path in (train, test)]
    X, X_test = (frame[names_of(train)] for frame in frames)
    y, y_test = (frame["target"].to_numpy() for frame in frames)
    estimator = made(model, X, seed)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        with timed(report):
            estimator.fit(X, y)
    report["converged"] = not any(w.category is ConvergenceWarning for w in told)
    return lambda: quality(estimator, X_test, y_test)


class timed:
    """Seconds of the clock and of the processor that a block takes, into a report."""

    def __init__(self, report):
        self.report = report

    def __enter__(self):
        self.start = time.perf_counter(), time.process_time()

    def __exit__(self, *_exc):
        self.report["fit_s"] = time.perf_counter() - self.start[0]
        self.report["fit_user_s"] = time.process_time() - self.start[1]


def made(model, X, seed):
    """A rival with nothing set but its seed, behind columns that are numbers it can take."""
    from sklearn import ensemble, linear_model, svm
    from sklearn.compose import make_column_transformer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OrdinalEncoder

    kind = next(getattr(m, model) for m in (linear_model, svm, ensemble) if hasattr(m, model))
    if model.startswith("Hist"):
        words, numbers = words_and_numbers(X)
        levels = OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1)
        columns = make_column_transformer((levels, words), ("passthrough", numbers))
        estimator = kind(random_state=seed, categorical_features=list(range(len(words))) or None)
    else:
        columns, estimator = scaled_columns(X), kind(random_state=seed)
    return make_pipeline(columns, estimator)


def words_and_numbers(X):
    """Names of a frame's columns that are no numbers, and of those that are."""
    words = [name for name in X if X[name].dtype.kind not in "iufb"]
    return words, [name for name in X if name not in words]


def scaled_columns(X, *more):
    """Levels of a frame's words, and its numbers: holes filled by means, scaled, then `more`."""
    from sklearn.compose import make_column_transformer
    from sklearn.impute import SimpleImputer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    words, numbers = words_and_numbers(X)
    scaled = make_pipeline(SimpleImputer(), StandardScaler(), *more)
    return make_column_transformer(
        (OneHotEncoder(handle_unknown="ignore"), words), (scaled, numbers)
    )


def quality(estimator, X, y):
    """Held-out quality and its standard error; the log-loss where there are probabilities."""
    import numpy as np

    from bench import data

    if not hasattr(estimator, "classes_"):
        loss = (y.astype(float) - estimator.predict(X)) ** 2
        spread = np.var(y.astype(float))
        return {
            "quality": float(1 - loss.mean() / spread),
            "standard_error": float(loss.std() / spread / np.sqrt(len(y))),
        }
    right = np.asarray(estimator.predict(X)) == y
    answer = {
        "quality": float(right.mean()),
        "standard_error": float(right.std() / np.sqrt(len(y))),
        "log_loss": None,
    }
    if hasattr(estimator, "predict_proba"):
        p = np.asarray(estimator.predict_proba(X))
        answer["log_loss"] = data.scores(y, np.asarray(estimator.classes_), p)["log_loss"]
    return answer
