"""Every public verb that takes a dataset: how a cell of the memory promise runs it.

`verbs` enumerates them from the public names; `run` has a way for each, or raises KeyError, so a
new verb without one fails the test that walks them.
"""

import contextlib
import inspect
from pathlib import Path
from typing import ClassVar

FIRST = ("X", "data", "dataset", "source")
"""Parameters by which a verb takes a dataset."""

QUICK = {
    "AdditiveClassifier": {"max_passes": 3, "tol": 0.5, "max_levels": 20},
    "AdditiveRegressor": {"max_passes": 3, "tol": 0.5, "max_levels": 20},
    "AdditiveClassifierCV": {"Cs": [0.1, 10.0], "n_bases": [6], "cv": 2, "max_passes": 4},
    "AdditiveRegressorCV": {"Cs": [0.1, 10.0], "n_bases": [6], "cv": 2, "max_passes": 4},
    "ProjectionPursuitRegressor": {"n_terms": 1, "backfit": 0},
    "JensenShannonBoostClassifier": {"n_learners": 1},
    "ShareBoostClassifier": {"n_selected": 2, "columns_per_pass": 2, "tol": 1e-2},
    "SVMMixtureClassifier": {"n_components": 2, "gate": "linear", "max_passes": 5},
    "SuperSparseClassifier": {"n_prototypes": 4, "n_passes": 2, "tol": 0.1},
    "SuperSparseRegressor": {"n_prototypes": 4, "n_passes": 2, "tol": 0.1},
    "SuperSparseClassifierCV": {"n_prototypes": [2, 4], "n_passes": 4, "tol": 0.1, "cv": 2},
    "SuperSparseRegressorCV": {"n_prototypes": [2, 4], "n_passes": 4, "tol": 0.1, "cv": 2},
    "ProjectionPursuitRegressorCV": {"n_terms": 1, "tau": [3.0, 30.0], "backfit": 0, "cv": 2},
    "JensenShannonBoostClassifierCV": {"n_learners": [1, 2], "cv": 2},
    "ShareBoostClassifierCV": {
        **{"n_selected": [1, 2], "columns_per_pass": 2, "tol": 1e-2, "cv": 2},
    },
    "SVMMixtureClassifierCV": {
        **{"n_components": [1, 2], "gate": "linear", "max_passes": 5, "cv": 2},
    },
    "SplineEmbedding": {"n_bases": 4},
    "FourierEmbedding": {"n_bases": 4},
}
"""Parameters with which a fit is over after a few reads."""

FITTED = {
    "compress": "AdditiveClassifier",
    "cli.plot": "AdditiveClassifier",
    "WaterfallDisplay.from_estimator": "AdditiveClassifier",
    "PursuitDisplay.from_estimator": "JensenShannonBoostClassifier",
    "MixtureDisplay.from_estimator": "SVMMixtureClassifier",
    "PrototypeDisplay.plane": "SuperSparseClassifier",
}
"""Verbs of no estimator that are shown one, and which."""

MAPS = ("MixtureDisplay", "PrototypeDisplay")
"""Displays of two columns."""

LAZY = (
    *("as_bytes", "column", "iter_chunks", "map", "reader", "refs", "select", "split", "take"),
    *("through", "where_hash", "with_columns", "with_levels", "with_slice_rows", "place"),
    *("drain_nbytes", "fingerprint", "versions", "with_coders", "with_encoding", "reweighed"),
    *("at_risk", "made_of", "ordinal_steps"),
)
"""Methods of `Dataset` that give a dataset, or a reader, and read nothing themselves."""


NO_DATASET = ("additive_kernel",)
"""Functions whose X is an array in memory alone."""


def verbs():
    """Names of the public verbs that take a dataset: ``AdditiveClassifier.fit``, ``compress``."""
    import streamlearn as sl

    found = []
    for name in sl.__all__:
        value = getattr(sl, name)
        if inspect.isclass(value):
            found += [f"{name}.{method}" for method in _methods(value)]
        elif inspect.isfunction(value) and name not in NO_DATASET and _takes_data(value):
            found.append(name)
    return [*found, "cli.plot"]


def _methods(kind):
    import streamlearn as sl

    names = [name for name in dir(kind) if not name.startswith("_")]
    if kind is sl.Dataset:
        return [n for n in names if inspect.isfunction(getattr(kind, n)) and n not in LAZY]
    return [name for name in names if _takes_data(_function(kind, name))]


def _function(kind, name):
    found = inspect.getattr_static(kind, name)
    return getattr(found, "__func__", getattr(found, "fn", found))


def _takes_data(function):
    """Builtins (a class attribute that is `int`) take none, and tell no signature."""
    return inspect.isfunction(function) and any(
        name in FIRST for name in inspect.signature(function).parameters
    )


class Cell:
    """One verb, made ready by a small table: what it needs (a fitted model) comes from there."""

    def __init__(self, verb, small, folder, features=None):
        self.features = features
        self.owner, _, self.method = verb.rpartition(".")
        self.folder = Path(folder)
        self.model = None
        if self.method not in ("fit", "fit_transform", "partial_fit"):
            fitted = FITTED.get(verb, self.owner)
            if fitted in QUICK:
                self.model = self._fitted(fitted, small)

    def run(self, path, name):
        """Run the verb on a table; `name` keeps what it writes apart."""
        self.way(f"{self.owner}.{self.method}")(self, self._open(path), str(self.folder / name))

    @classmethod
    def way(cls, verb):
        """The method that runs a verb; AttributeError if there is none."""
        return getattr(cls, f"_{verb.rpartition('.')[2]}")

    _models: ClassVar = {}
    """(estimator, table, columns) -> the fitted model, for the verbs of one process."""

    def _fitted(self, name, small):
        model, data = self._new(name), self._open(small)
        key = (repr(model), small, data.feature_names)
        if key not in self._models:
            self._models[key] = model.fit(data)
        return self._models[key]

    def _new(self, name=None):
        import streamlearn as sl

        name = name or self.owner
        parameters = dict(QUICK[name])
        online = ("partial_fit", "gate_probabilities")
        if self.method in online and name == "SVMMixtureClassifier":
            parameters["algorithm"] = "online-em"
        if self.method == "partial_fit" and name == "AdditiveRegressor":
            parameters["loss"] = "epsilon_insensitive"
        if "Boost" in name or "Sparse" in name or name == "SVMMixtureClassifier":
            parameters["random_state"] = 0
        return getattr(sl, name)(**parameters)

    def _open(self, path):
        import streamlearn as sl

        data = sl.open_dataset(path, target="y", features=self.features)
        return data.select(["x0", "x1"]) if self.owner in MAPS else data

    # The verbs.

    def _fit(self, data, _out):
        self._new().fit(data)

    def _fit_transform(self, data, _out):
        self._new().fit_transform(data)

    def _partial_fit(self, data, _out):
        model = self._new()
        model.partial_fit(
            data, **({"classes": self._classes(data)} if "Class" in self.owner else {})
        )
        model.partial_fit(data, shuffle_buffer=1000)
        model.partial_fit(data, shuffle_buffer=0)  # who waited has taught

    @staticmethod
    def _classes(data):
        return data.summary().labels.classes

    def _ask(self, data, _out):
        getattr(self.model, self.method)(data)

    _predict = _predict_proba = _decision_function = _explain = _score = _ask
    _gate_probabilities = _transform = _predict_log_proba = _ask

    def _predict_interval(self, data, _out):
        import streamlearn as sl

        if self.owner.endswith("CV"):  # one that chooses C knows no covariance
            with contextlib.suppress(AttributeError):
                self.model.predict_interval(data)
        else:
            # of curves: the plans of fits that look for pairs have a test of their own
            model = sl.AdditiveRegressor(n_bases=5, covariance=True, interactions=0).fit(data)
            model.predict_interval(data)

    def _report(self, data, out):
        self.model.report(data, output=f"{out}.html")

    def _project(self, data, _out):
        self.model.project(data, 0)

    def _predict_to(self, data, out):
        self.model.predict_to(data, out)

    def _summary(self, data, _out):
        str(data.summary())

    def _to_parquet(self, data, out):
        data.to_parquet(out)

    def _to_zarr(self, data, out):
        data.to_zarr(out)

    def _open_dataset(self, data, _out):
        repr(data)

    def _plan(self, data, _out):
        import streamlearn as sl

        sl.plan(self._new("AdditiveClassifier"), data)

    def _compress(self, data, _out):
        import streamlearn as sl

        sl.compress(self.model, data, 4, n_passes=2, tol=0.1)

    def _cross_validate(self, data, _out):
        import streamlearn as sl

        sl.cross_validate(self._new(self.owner or "AdditiveClassifier"), data, cv=2)

    def _survival_curves(self, data, _out):
        import streamlearn as sl

        rows = sl.open_dataset(self._small_table(), target="y").at_risk("time", [1, 4])
        model = sl.AdditiveRegressor("poisson", exposure="exposure").fit(rows)
        sl.survival_curves(model, data, [1, 4])  # an answer of three cuts is over the budget

    def _ordinal_probabilities(self, data, _out):
        import streamlearn as sl

        rows = sl.open_dataset(self._small_table(), target="y", features=["x0", "x1"])
        model = sl.AdditiveClassifier().fit(rows.ordinal_steps([0, 1]))
        sl.ordinal_probabilities(model, data, [0, 1])

    @staticmethod
    def _small_table():
        import numpy as np

        x0, x1, time = np.random.default_rng(0).random((3, 300), dtype=np.float32)
        x0[::10] = x1[1::10] = np.nan  # tables have holes
        return {"x0": x0, "x1": x1, "time": 5 * time, "y": (time > 0.3).astype(np.int8)}

    def _plot(self, data, out):
        from streamlearn.plotting import draw_model

        draw_model(self.model, out, data=data)

    def _from_estimator(self, data, _out):
        import streamlearn as sl

        some = {"rows": [17, 0]} if self.owner == "WaterfallDisplay" else {}  # a panel each
        getattr(sl, self.owner).from_estimator(self.model, data, **some)

    def _plane(self, data, _out):
        import streamlearn as sl

        sl.PrototypeDisplay.plane(self.model, data)
