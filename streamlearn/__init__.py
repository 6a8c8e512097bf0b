"""Models better than linear, from data larger than memory, trained to a certified optimum.

The names below load when they are first used, so that `import streamlearn` costs next to nothing.
"""

from importlib import import_module, metadata
from typing import Any

_HOME = {
    "open_dataset": "data.open",
    "Dataset": "data.dataset",
    "AdditiveClassifier": "additive.classifier",
    "AdditiveRegressor": "additive.regressor",
    "FourierEmbedding": "additive.embeddings",
    "additive_kernel": "additive.kernel_matrix",
    "AdditiveClassifierCV": "additive.cv",
    "AdditiveRegressorCV": "additive.cv",
    "SplineEmbedding": "additive.embeddings",
    "ProjectionPursuitRegressor": "pursuit.regression.regressor",
    "JensenShannonBoostClassifier": "pursuit.boosting.classifier",
    "ProjectionPursuitRegressorCV": "pursuit.regression.cv",
    "JensenShannonBoostClassifierCV": "pursuit.boosting.cv",
    "PursuitDisplay": "pursuit.display",
    "AdditiveDisplay": "additive.inspect.display",
    "WaterfallDisplay": "additive.inspect.waterfall",
    "ShareBoostClassifier": "shareboost.estimator",
    "ShareBoostClassifierCV": "shareboost.cv",
    "ShareBoostDisplay": "shareboost.display",
    "MixtureDisplay": "mixture.display",
    "SVMMixtureClassifier": "mixture.estimator",
    "SVMMixtureClassifierCV": "mixture.cv",
    "SuperSparseClassifier": "supersparse.estimators",
    "SuperSparseRegressor": "supersparse.estimators",
    "SuperSparseClassifierCV": "supersparse.estimators_cv",
    "SuperSparseRegressorCV": "supersparse.estimators_cv",
    "PrototypeDisplay": "supersparse.display",
    "compress": "supersparse.compress",
    "ConvergenceDisplay": "estimator.convergence",
    "Certificate": "estimator.certificate",
    "plan": "estimator.planning",
    "to_dict": "export.scoring_table",
    "to_onnx": "export.onnx_file",
    "to_sql": "export.sql",
    "save": "estimator.persistence",
    "load": "estimator.persistence",
    "cross_validate": "estimator.scores.cross_validate",
    "survival_curves": "estimator.at_risk",
    "ordinal_probabilities": "estimator.at_risk",
    "config_context": "config",
    "get_config": "config",
    "warm": "warming",
    "StreamlearnError": "errors",
    "MemoryBudgetError": "errors",
    "SourceError": "errors",
    "CheckpointError": "errors",
    "ScratchError": "errors",
    "ClusterError": "errors",
    "TimeLimitError": "errors",
}
"""Public name -> the module it lives in."""

__all__ = ["__version__", *_HOME]


def __getattr__(name: str) -> Any:
    """Load a public name from its module when it is first used (PEP 562)."""
    if name == "__version__":  # of the package that is installed: no second place to forget
        return metadata.version("streamlearn")
    if name not in _HOME:
        raise AttributeError(f"module 'streamlearn' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"streamlearn.{_HOME[name]}"), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
