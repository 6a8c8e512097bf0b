"""Models in files: a versioned tree of parameters and arrays, without pickle."""

from __future__ import annotations

import importlib
import os
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ..data.files.archive import read_archive, write_archive
from ..errors import ArchiveError
from ..solvers.calibration import Calibration

FORMAT = 1
KIND = "streamlearn model"


def save(model: Any, path: str | os.PathLike[str]) -> None:
    """Write a fitted model to one file; whole or not at all.

    Parameters
    ----------
    model : fitted estimator
    path : path or URL
        By custom ``*.slm``.  A file of that name is replaced.
    """
    check_is_fitted(model)
    tree = {
        "kind": KIND,
        "format": FORMAT,
        "class": class_name(type(model)),
        "parameters": model.get_params(deep=False),
        "fitted": fitted_tree(model),
    }
    try:
        write_archive(path, tree)
    except TypeError as error:
        raise TypeError(
            f"{type(model).__name__} cannot be saved: {error}; set the parameter to a plain value "
            "(random_state to an integer)"
        ) from error


def load(path: str | os.PathLike[str]) -> Any:
    """The model that `save` wrote.

    Nothing in the file is executed: it names a public estimator of this package, its parameters and
    its arrays.
    """
    tree = read_archive(path)
    if not isinstance(tree, dict) or tree.get("kind") != KIND:
        raise ArchiveError(f"{path} holds no model; expected a file written by streamlearn.save")
    if tree["format"] != FORMAT:
        raise ArchiveError(
            f"{path} has model format {tree['format']}, this version of streamlearn reads "
            f"{FORMAT}; load it with the version that wrote it, or train again"
        )
    cls = find_class(tree["class"], path)
    unknown = sorted(set(tree["parameters"]) - set(cls().get_params(deep=False)))
    if unknown:
        raise ArchiveError(
            f"{path} holds a {tree['class']} with parameters this version of streamlearn does not "
            f"know: {', '.join(unknown)}; load it with the version that wrote it, or train again"
        )
    model = cls(**tree["parameters"])
    restore_fitted(model, tree["fitted"])
    return model


def class_name(cls: type) -> str:
    """The public name of an estimator, or ``module:name`` of one defined elsewhere."""
    package, name = __name__.partition(".")[0], cls.__qualname__
    return name if cls.__module__.partition(".")[0] == package else f"{cls.__module__}:{name}"


def find_class(name: str, path: Any) -> type:
    """The estimator of that name: one of the package's public names, or one already imported."""
    from .base import StreamEstimator

    package = importlib.import_module(__name__.partition(".")[0])
    if ":" not in name and name in package.__all__:
        return getattr(package, name)
    for cls in _subclasses(StreamEstimator):
        if class_name(cls) == name:
            return cls
    hint = f"import {name.partition(':')[0]} first" if ":" in name else "upgrade streamlearn"
    raise ArchiveError(f"{path} holds a {name}, which is not known here; {hint}")


def _subclasses(cls: type) -> list[type]:
    found = []
    for child in cls.__subclasses__():
        found += [child, *_subclasses(child)]
    return found


def fitted_tree(model: Any) -> dict[str, Any]:
    """What `fit` made, as a plain tree."""
    names = getattr(model, "feature_names_in_", None)
    return {
        "classes": getattr(model, "classes_", None),
        "feature_names": None if names is None else [str(name) for name in names],
        "n_features": model.n_features_in_,
        "levels": model.levels_,
        "certificate": model.certificate_,
        "history": model.history_,
        "n_passes": model.n_passes_,
        "plan": model.plan_,
        "calibration": getattr(model, "calibration_", None),
        "state": model._state(),
    }


def restore_fitted(model: Any, tree: dict[str, Any]) -> None:
    """Make `model` what it was when `fitted_tree` was taken."""
    if tree["classes"] is not None:
        model.classes_ = tree["classes"]
    if tree["feature_names"] is not None:
        model.feature_names_in_ = np.array(tree["feature_names"], dtype=object)
    model.n_features_in_ = tree["n_features"]
    model.levels_ = {name: list(words) for name, words in tree["levels"].items()}
    model.certificate_ = tree["certificate"]
    model.history_ = tree["history"]
    model.n_passes_ = tree["n_passes"]
    model.plan_ = tree["plan"]
    if tree.get("calibration") is not None:
        model.calibration_ = Calibration(*tree["calibration"])
    model._restore(tree["state"])
