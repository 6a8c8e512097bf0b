"""One answer to a question of `bench.questions`: ours from disk, or a rival with its care."""

import time
import warnings
from functools import partial

from .defaults import names_of, quality, scaled_columns, timed, words_and_numbers

BATCH = 20_000
"""Rows of a batch of the rivals that read the file in batches; they see it twice."""
FOLDS = 3
PASSES = 2
ROWS_PREDICTED = 1_000


def prepare(*, model, **_options):
    if model.startswith("ours"):
        import streamlearn

        streamlearn.warm()
        return
    import pandas  # noqa: F401
    import sklearn.ensemble
    import sklearn.kernel_approximation
    import sklearn.linear_model
    import sklearn.model_selection
    import sklearn.svm  # noqa: F401

    if model.startswith("EBM"):
        import interpret.glassbox  # noqa: F401
    if model.startswith("LightGBM"):
        import lightgbm  # noqa: F401
    if model.startswith("Vowpal"):
        import vowpalwabbit  # noqa: F401
    if model.startswith("pyGAM"):
        import pygam  # noqa: F401


def run(report, *, model, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what did not converge has its quality in the table
        if model.startswith("ours"):
            return run_ours(report, model=model, **options)
        return run_rival(report, model=model, **options)


# Ours.

OURS = {
    "ours: additive": ("Additive", {"interactions": 0}),
    "ours: additive, pairs": ("Additive", {}),
    "ours: additive hinge": ("Additive", {"loss": "hinge"}),
    "ours: mixture": ("SVMMixtureClassifier", {}),
    "ours: boosting": ("JensenShannonBoostClassifier", {}),
    "ours: super-sparse": ("SuperSparseClassifier", {}),
    "ours: pursuit": ("ProjectionPursuitRegressor", {}),
    "ours: ShareBoost, 20 columns": ("ShareBoostClassifier", {"n_selected": 20}),
}
FEW = {
    "ours: additive": {"solver": "newton", "C": 1.0, "max_passes": 8},
    "ours: mixture": {"n_components": 4, "max_passes": 8},
    "ours: boosting": {"n_learners": 3},
    "ours: super-sparse": {"n_prototypes": 20, "n_passes": 4},
    "ours: pursuit": {"n_terms": 2, "backfit": 0},
    "ours: ShareBoost, 20 columns": {"n_selected": 5},
}
"""What makes a fit a few reads of the usual kind."""


def run_ours(report, *, model, budget, task, place="disk", few=False, **_options):
    import streamlearn as sl

    name, parameters = OURS[model]
    names = names_of(task["train"], target=task["target"])
    train, test = (
        (sl.open_dataset(task[part], target=task["target"], features=names),)
        for part in ("train", "test")
    )
    if name == "Additive":
        name += "Regressor" if is_number(task) else "Classifier"
    estimator = getattr(sl, name)(**(parameters | (FEW[model] if few else {})))
    if place == "memory":
        from bench import data

        train = data.load(task, "train")
    if few:
        from .ours import time_reads

        report["reads"] = time_reads()
    with sl.config_context(memory_budget=budget), timed(report):
        estimator.fit(*train)
    if few:
        return None
    report |= {"n_passes": estimator.n_passes_, "chosen": "nothing set"}
    report["bytes_read"] = int(estimator.certificate_.bytes_read)
    if hasattr(estimator, "choices_"):
        report["n_columns"] = len(estimator.choices_)

    def score():
        frame, y = held(task, "test", names)
        return quality(estimator, *test, y) | {"predict_us": seconds_a_row(estimator, frame)}

    return score


def is_number(task):
    import pyarrow as pa
    import pyarrow.parquet as pq

    return pa.types.is_floating(
        pq.ParquetFile(task["train"]).schema_arrow.field(task["target"]).type
    )


def held(task, part, names):
    """A part as (frame, target) in memory."""
    import pandas as pd

    frame = pd.read_parquet(task[part], columns=[*names, task["target"]])
    return frame[names], frame[task["target"]].to_numpy()


def seconds_a_row(estimator, frame):
    """Microseconds of a row of a thousand that are predicted together, the quickest of three."""
    some, found = frame.iloc[:ROWS_PREDICTED], []
    for _ in range(FOLDS):
        start = time.perf_counter()
        estimator.predict(some)
        found.append(time.perf_counter() - start)
    return 1e6 * min(found) / len(some)


# Rivals.


def run_rival(report, *, model, task, seed, threads, nothing_chosen=False, **_options):
    names = names_of(task["train"], target=task["target"])
    if model in IN_BATCHES:
        with timed(report):
            estimator = IN_BATCHES[model](report, task, names, seed)
        return lambda: scored(estimator, task, names)
    X, y = held(task, "train", names)
    estimator, grid = RIVALS[model](X, is_number(task), threads, seed)
    if model.startswith("group lasso"):
        with timed(report):
            best = group_lasso(X, y, *held(task, "test", names))
        return lambda: report.update(chosen="its path, on test rows") or best
    if grid and not nothing_chosen:
        from sklearn.model_selection import GridSearchCV

        (parameter, values) = grid
        estimator = GridSearchCV(estimator, {parameter: values}, cv=FOLDS, n_jobs=threads)
        report["chosen"] = f"{parameter.rsplit('__')[-1]} of {len(values)}, {FOLDS} folds"
    else:
        report["chosen"] = "nothing set"
    with timed(report):
        estimator.fit(X, y)
    if "20 columns" in model:
        report["n_columns"] = 20
    return lambda: scored(estimator, task, names)


def scored(estimator, task, names):
    X, y = held(task, "test", names)
    return quality(estimator, X, y) | {"predict_us": seconds_a_row(estimator, X)}


STRENGTHS = [0.01, 0.1, 1.0, 10.0, 100.0]


def behind(kind, steps=(), grid=None, **parameters):
    """A maker of a pipeline: scaled numbers and levels, `steps`, then `kind` of scikit-learn."""

    def make(X, _regression, _threads, seed):
        from sklearn.pipeline import make_pipeline

        estimator = found(kind)(**parameters)
        if "random_state" in estimator.get_params():
            estimator.set_params(random_state=seed)
        between = [found(name)(**options) for name, options in steps]
        for step in between:
            if "random_state" in step.get_params():
                step.set_params(random_state=seed)
        name = f"{kind.lower()}__{grid}"
        return make_pipeline(scaled_columns(X), *between, estimator), grid and (name, STRENGTHS)

    return make


def found(kind):
    from sklearn import kernel_approximation, linear_model, preprocessing, svm

    places = (linear_model, svm, kernel_approximation, preprocessing)
    return next(getattr(place, kind) for place in places if hasattr(place, kind))


def splines(X, regression, _threads, _seed):
    """Twenty linear splines a number, levels of words, and a ridge; its strength is chosen."""
    from sklearn.linear_model import LogisticRegression, Ridge
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import SplineTransformer

    curves = SplineTransformer(n_knots=20, degree=1, sparse_output=True)
    if regression:
        return make_pipeline(scaled_columns(X, curves), Ridge()), ("ridge__alpha", STRENGTHS)
    model = LogisticRegression(max_iter=500)
    return make_pipeline(scaled_columns(X, curves), model), ("logisticregression__C", STRENGTHS)


def glass(model):
    def make(X, regression, threads, seed):
        from . import glass_box

        estimator = glass_box.made(model, X, regression, threads, seed)
        return (Searched if model == "pyGAM" else Words)(estimator), None

    return make


class Words:
    """An estimator that takes words as pandas' categories, as boosted trees do."""

    def __init__(self, estimator):
        self.estimator = estimator

    def fit(self, X, y):
        words, _ = words_and_numbers(X)
        self.kinds = {name: X[name].astype("category").dtype for name in words}
        self.estimator.fit(X.astype(self.kinds), y)
        if hasattr(self.estimator, "predict_proba"):
            self.classes_ = self.estimator.classes_
            self.predict_proba = lambda X: self.estimator.predict_proba(X.astype(self.kinds))
        return self

    def predict(self, X):
        return self.estimator.predict(X.astype(self.kinds))


class Searched:
    """pyGAM's own search of its smoothness, on numbers: a number, or one of two classes."""

    def __init__(self, estimator):
        self.estimator = estimator

    def fit(self, X, y):
        import numpy as np

        if type(self.estimator).__name__ == "LogisticGAM":
            self.classes_ = np.unique(y)
            if len(self.classes_) > 2:
                raise ValueError(f"pyGAM takes two classes, not {len(self.classes_)}")
            y = y == self.classes_[1]
        self.estimator.gridsearch(X.to_numpy(float), y, progress=False)
        return self

    def predict(self, X):
        answer = self.estimator.predict(X.to_numpy(float))
        return self.classes_[answer.astype(int)] if hasattr(self, "classes_") else answer


def chosen_by(selector):
    """Twenty columns by a selector, and a logistic regression on them."""

    def make(X, _regression, threads, seed):
        from sklearn.feature_selection import SelectFromModel, SequentialFeatureSelector
        from sklearn.linear_model import LogisticRegression
        from sklearn.pipeline import make_pipeline

        if selector == "l1":
            # of penalties that leave more columns the twenty with the largest coefficients
            l1 = LogisticRegression(l1_ratio=1.0, C=0.1, solver="saga", random_state=seed)
            select = SelectFromModel(l1, max_features=20, threshold=-float("inf"))
        else:
            select = SequentialFeatureSelector(
                LogisticRegression(), n_features_to_select=20, cv=FOLDS, n_jobs=threads
            )
        return make_pipeline(scaled_columns(X), select, LogisticRegression()), None

    return make


def no_estimator(*_facts):
    return None, None


def group_lasso(X, y, X_test, y_test):
    """The best point with at most 20 columns of the path of the mixed norm l1 over linf."""
    import numpy as np

    from .mixed_norm import path_of

    made = scaled_columns(X)
    A, B = (np.asarray(part, float) for part in (made.fit_transform(X), made.transform(X_test)))
    one = A.shape[1]  # a column of ones makes products of single columns
    A, B = (np.column_stack([part, np.ones(len(part))]) for part in (A, B))
    pairs = np.arange(one), np.full(one, one)
    path = path_of(A, y, B, y_test, pairs=pairs)
    errors = {n: error for n, error in path.items() if 0 < n <= 20}
    if not errors:
        raise ValueError(f"no strength leaves 1 to 20 columns; they leave {sorted(path)}")
    n = min(errors, key=errors.get)
    return {"quality": 1 - errors[n], "n_columns": n}


RIVALS = {
    "LIBLINEAR": behind("LinearSVC", grid="C"),
    "RBF SVM": behind("SVC", grid="C"),
    "Nystroem": behind("LinearSVC", [("Nystroem", {"n_components": 300})], grid="C"),
    "splines": splines,
    "l1, 20 columns": chosen_by("l1"),
    "forward, 20 columns": chosen_by("forward"),
    "group lasso, 20 columns": no_estimator,
    **{name: glass(name) for name in ("EBM, no pairs", "EBM", "LightGBM stumps", "LightGBM")},
    "pyGAM": glass("pyGAM"),
}


# Rivals that read the file in batches.


def batches(task, names):
    """(frame, target) of the file, `PASSES` times."""
    import pyarrow.parquet as pq

    for _ in range(PASSES):
        file = pq.ParquetFile(task["train"])
        for batch in file.iter_batches(BATCH, columns=[*names, task["target"]]):
            frame = batch.to_pandas()
            yield frame[names], frame[task["target"]].to_numpy()


def sgd(report, task, names, seed):
    """`SGDClassifier` (hinge, averaged); scales and levels are of the first batch."""
    from sklearn.linear_model import SGDClassifier
    from sklearn.pipeline import make_pipeline

    classes = all_classes(task)
    model, columns = SGDClassifier(average=True, random_state=seed), None
    for X, y in batches(task, names):
        columns = columns or scaled_columns(X).fit(X)
        model.partial_fit(columns.transform(X), y, classes=classes)
    report["chosen"] = "nothing set"
    return make_pipeline(columns, model)


def vowpal(report, task, names, seed):
    """Vowpal Wabbit's hinge, one against all, numbers scaled by the first batch, words hashed."""
    from sklearn.preprocessing import StandardScaler
    from vowpalwabbit import Workspace

    classes, scaler = all_classes(task), None
    model = Workspace(
        f"--oaa {len(classes)} --loss_function hinge --quiet -b 20 --random_seed {seed + 1}"
    )
    words = None
    for X, y in batches(task, names):
        if scaler is None:
            words, _ = words_and_numbers(X)
            scaler = StandardScaler().fit(X.drop(columns=words))
        codes = (classes.searchsorted(y) + 1).tolist()
        for code, line in zip(codes, lines(X, words, scaler), strict=True):
            model.learn(f"{code} | {line}")
    report["chosen"] = "nothing set"
    return Vowpal(model, classes, partial(lines, words=words, scaler=scaler))


class Vowpal:
    """A trained workspace that predicts frames."""

    def __init__(self, model, classes, write):
        self.model, self.classes_, self.write = model, classes, write

    def predict(self, X):
        codes = [self.model.predict(f"| {line}") for line in self.write(X)]
        return self.classes_[[code - 1 for code in codes]]


def lines(X, words, scaler):
    import numpy as np

    numbers = np.nan_to_num(scaler.transform(X.drop(columns=words)))
    texts = X[words].astype(str).to_numpy()
    for row, of_row in zip(numbers.tolist(), texts.tolist(), strict=True):
        some = [f"{j}:{value:.6g}" for j, value in enumerate(row) if value]
        some += [f"w{j}_{hash_free(word)}" for j, word in enumerate(of_row)]
        yield " ".join(some)


def hash_free(word):
    """A word without the characters that separate features."""
    return word.replace(" ", "_").replace(":", "_").replace("|", "_")


def all_classes(task):
    import numpy as np
    import pyarrow.parquet as pq

    return np.unique(pq.read_table(task["train"], columns=[task["target"]])[0].to_numpy())


IN_BATCHES = {"SGD in batches": sgd, "Vowpal Wabbit": vowpal}
