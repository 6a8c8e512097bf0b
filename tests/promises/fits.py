"""One small fit, at least, of every public estimator, as jobs of `fit_job`."""

from promises.jobs import write_rows

ADDITIVE = {
    "newton": {"loss": "log_loss", "solver": "newton", "tol": 1e-6},
    "newton-3-classes": {"loss": "squared_hinge", "solver": "newton", "tol": 1e-5},
    "dual-cd": {"loss": "hinge", "solver": "dual-cd", "tol": 1e-3, "max_passes": 30},
    "multinomial-3-classes": {"multi_class": "multinomial", "tol": 1e-6},
    "levels": {"tol": 1e-6, "max_levels": 20},
    "cosine-dual-cd": {"basis": "cosine", "loss": "hinge", "solver": "dual-cd", "tol": 1e-2},
    "cosine": {"basis": "cosine", "tol": 1e-6},
    "pairs": {"interactions": [[0, 1], [2, 3]], "tol": 1e-6},
    "pairs-screened": {"interactions": 10, "tol": 1e-6},
    "pairs-hinge": {
        "interactions": [[0, 1]],
        "loss": "hinge",
        "solver": "dual-cd",
        "tol": 1e-2,
        "max_passes": 20,
    },
    "pegasos": {"loss": "hinge", "solver": "pegasos", "tol": 1e-2, "max_passes": 12},
    "calibrated": {"loss": "squared_hinge", "solver": "newton", "calibration": "isotonic"},
    "dual-cd-log-3-classes": {"loss": "log_loss", "solver": "dual-cd", "max_passes": 12},
}
CHOICE = {"Cs": [0.1, 10.0], "n_bases": [4, 8], "cv": 3}
MIXTURE = {"n_components": 4, "max_passes": 8, "nu": 5.0}
SPARSE = {"n_prototypes": 3, "tol": 1e-2, "n_passes": 6}
SPARSE_CV = {"n_prototypes": [2, 3], "cv": 2, "tol": 1e-2, "n_passes": 5}
FITS = {
    name: {"estimator": "AdditiveClassifier", "parameters": {"n_bases": 8, **fit}}
    for name, fit in ADDITIVE.items()
} | {
    "dual-cd-partitions": {  # four, at once where there are threads
        "estimator": "AdditiveClassifier",
        "parameters": {"n_bases": 8, **ADDITIVE["dual-cd"]},
        "config": {"memory_budget": "64MiB"},
        "partition_nbytes": 30_000,
    },
    "regressor": {"estimator": "AdditiveRegressor", "parameters": {"n_bases": 8}},
    "joint-default": {"estimator": "AdditiveClassifier", "parameters": {}},
    "joint-default-3-classes": {"estimator": "AdditiveClassifier", "parameters": {"n_bases": 8}},
    "at-risk": {
        "estimator": "AdditiveRegressor",
        "parameters": {"n_bases": 8, "loss": "poisson", "exposure": "exposure"},
        "at_risk": {"duration": "x0", "cuts": [0.1, 0.3, 0.6, 0.9]},
    },
    "quantiles": {
        "estimator": "AdditiveRegressor",
        "parameters": {
            "loss": "quantile",
            "quantile": [0.2, 0.5, 0.9],
            "n_bases": 8,
            "C": 0.01,
            "tol": 1e-2,
            "max_passes": 20,
        },
    },
    "classifier-cv": {"estimator": "AdditiveClassifierCV", "parameters": CHOICE},
    "hinge-cv": {
        "estimator": "AdditiveClassifierCV",
        "parameters": {**CHOICE, "loss": "hinge", "tol": 0.05, "max_passes": 12},
    },
    "reml-3-classes": {
        "estimator": "AdditiveClassifier",
        "parameters": {"n_bases": 8, "smoothness": "reml", "tol": 1e-6},
    },
    "reml-regressor": {
        "estimator": "AdditiveRegressor",
        "parameters": {"n_bases": 8, "smoothness": "reml"},
    },
    "regressor-cv": {"estimator": "AdditiveRegressorCV", "parameters": CHOICE},
    "mixture-linear-3-classes": {
        "estimator": "SVMMixtureClassifier",
        "parameters": {**MIXTURE, "gate": "linear", "expert_loss": "log_loss"},
    },
    "mixture-hinge": {
        "estimator": "SVMMixtureClassifier",
        "parameters": {**MIXTURE, "gate": "rbf", "expert_loss": "hinge"},
    },
    "mixture-online": {
        "estimator": "SVMMixtureClassifier",
        "parameters": {**MIXTURE, "algorithm": "online-em", "expert_loss": "squared_hinge"},
    },
    "pursuit": {
        "estimator": "ProjectionPursuitRegressor",
        "parameters": {"n_terms": 3, "tau": [10.0, 100.0]},
    },
    "boosting-3-classes": {
        "estimator": "JensenShannonBoostClassifier",
        "parameters": {"n_learners": 4},
    },
    "shareboost-3-classes": {
        "estimator": "ShareBoostClassifier",
        "parameters": {"n_selected": 5, "ridge": 1e-4, "columns_per_pass": 2, "prune": True},
    },
    "shareboost-stumps": {
        "estimator": "ShareBoostClassifier",
        "parameters": {"n_selected": 3, "ridge": 1e-4, "candidates": "stumps"},
    },
    "supersparse": {"estimator": "SuperSparseClassifier", "parameters": SPARSE},
    "supersparse-regressor": {"estimator": "SuperSparseRegressor", "parameters": SPARSE},
    "supersparse-cv-3-classes": {"estimator": "SuperSparseClassifierCV", "parameters": SPARSE_CV},
    "supersparse-regressor-cv": {"estimator": "SuperSparseRegressorCV", "parameters": SPARSE_CV},
    "compress": {"estimator": "compress", "parameters": SPARSE},
    "mixture-cv": {
        "estimator": "SVMMixtureClassifierCV",
        "parameters": {"n_components": [1, 2], "cv": 2, "max_passes": 4},
    },
    "pursuit-cv": {
        "estimator": "ProjectionPursuitRegressorCV",
        "parameters": {"n_terms": 2, "tau": [10.0, 100.0], "cv": 2},
    },
    "boosting-cv-3-classes": {
        "estimator": "JensenShannonBoostClassifierCV",
        "parameters": {"n_learners": [1, 2], "tau": [10.0], "cv": 2},
    },
    "shareboost-cv-3-classes": {
        "estimator": "ShareBoostClassifierCV",
        "parameters": {"n_selected": [1, 3], "ridge": [1e-4], "cv": 2},
    },
    "levels-weighted": {
        "estimator": "AdditiveClassifier",
        "parameters": {"n_bases": 8, **ADDITIVE["levels"], "class_weight": "balanced"},
    },
    "mixture-encoded": {
        "estimator": "SVMMixtureClassifier",
        "parameters": {**MIXTURE, "gate": "linear", "class_weight": {0: 2.0}},
    },
    "pursuit-encoded": {
        "estimator": "ProjectionPursuitRegressor",
        "parameters": {"n_terms": 2, "tau": 10.0, "encoding": {"x1": "target"}},
    },
    "shareboost-3-classes-encoded": {
        "estimator": "ShareBoostClassifier",
        "parameters": {"n_selected": 3, "ridge": 1e-4, "class_weight": "balanced"},
    },
    "supersparse-encoded": {
        "estimator": "SuperSparseClassifier",
        "parameters": {**SPARSE, "class_weight": "balanced"},
    },
}


def make_job(name, path, n_rows, group):
    """The fit called `name` to `n_rows` rows that are read `group` at a time."""
    n_classes = 3 if "classes" in name else 2
    levels = "levels" in name or "encoded" in name
    more = {"n_classes": n_classes, "levels": levels, "joint": "joint" in name}
    path = write_rows(path, n_rows, 6, row_group=group, **more)
    return {"path": path, "chunk_rows": group, **FITS[name]}
