"""Models in files: a versioned tree of parameters and arrays, without pickle."""

from __future__ import annotations

import importlib
import os

from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from ..data.files.archive import MALFORMED, read_archive, write_archive
from ..data.files.regular import refuse_unwritable
from ..data.files.remote import is_url
from ..errors import ArchiveError
from ..numeric.parametric import class_name, subclasses
from .base import StreamEstimator
from .fitting import fitted_tree, restore_fitted
from .model import Estimator

FORMAT = 1
KIND = "streamlearn model"


def save(model: Estimator, path: str | os.PathLike[str]) -> None:
    """Write a fitted model to one file; whole or not at all.

    Parameters
    ----------
    model : fitted estimator
    path : path or URL
        By custom ``*.slm``.  A file of that name is replaced.

    Examples
    --------
    >>> import numpy as np
    >>> from streamlearn import AdditiveRegressor, load, save
    >>> X = np.linspace(0, 1, 100)[:, None]
    >>> save(AdditiveRegressor().fit(X, 2 * X[:, 0]), "model.slm")
    >>> load("model.slm").predict([[0.5]]).round(2)
    array([1.])
    """
    check_is_fitted(model)
    refuse_unwritable(path)
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


def load(path: str | os.PathLike[str]) -> BaseEstimator:
    """The model that `save` wrote.

    Nothing in the file is executed: it names a public estimator of this package, its parameters and
    its arrays.

    Parameters
    ----------
    path : path or URL

    Raises
    ------
    ArchiveError
        The file is damaged, or holds what no fit makes.

    Examples
    --------
    >>> import numpy as np
    >>> from streamlearn import AdditiveClassifier, load, save
    >>> X = np.linspace(0, 1, 100)[:, None]
    >>> save(AdditiveClassifier().fit(X, X[:, 0] > 0.3), "model.slm")
    >>> load("model.slm").predict([[0.1], [0.9]]), load("model.slm").certificate_.n_passes
    (array([False,  True]), 2)
    """
    try:
        tree = read_archive(path)
    except OSError as error:
        if is_url(os.fspath(path)):
            raise  # it says which address
        if not isinstance(error, FileNotFoundError | NotADirectoryError):
            raise OSError(
                f"the model file {path} cannot be read: {error.strerror}; pass a file that you "
                "may read"
            ) from error
        raise FileNotFoundError(
            f"no model file {os.path.abspath(path)}; pass the file that sl.save, or fit on the "
            "command line, has written"
        ) from None
    try:
        return _model_of(tree, path)
    except ArchiveError:
        raise
    except MALFORMED as error:
        raise ArchiveError(
            f"{path} holds a model that no fit makes ({type(error).__name__}: {error}); do not "
            "trust it: train again, or take the file from where it was written"
        ) from error


def _model_of(tree: object, path: object) -> BaseEstimator:
    if not isinstance(tree, dict) or tree.get("kind") != KIND:
        raise ArchiveError(f"{path} holds no model; expected a file written by streamlearn.save")
    if tree["format"] != FORMAT:
        raise ArchiveError(
            f"{path} has model format {tree['format']}, this version of streamlearn reads "
            f"{FORMAT}; load it with the version that wrote it, or train again"
        )
    cls = find_class(tree["class"], path)
    known = set(cls().get_params(deep=False))
    unknown = sorted(set(tree["parameters"]) - known)
    if unknown:
        raise ArchiveError(
            f"{path} holds a {tree['class']} with parameters this version of streamlearn does not "
            f"know: {', '.join(unknown)}; load it with the version that wrote it, or train again"
        )
    # a file does not say what came after it, and meant what asks for nothing, not today's default
    later = getattr(cls, "_later_parameters", {})  # an embedding has none
    model = cls(**{k: v for k, v in later.items() if k in known} | tree["parameters"])
    if hasattr(model, "_validate_params"):
        model._validate_params()
    restore_fitted(model, tree["fitted"])
    return model


def find_class(name: str, path: object) -> type[BaseEstimator]:
    """The public estimator of that name, or one defined elsewhere that is already imported."""
    package = importlib.import_module(__name__.partition(".")[0])
    if ":" in name:
        for cls in subclasses(StreamEstimator):
            if class_name(cls) == name:
                return cls
    elif name in package.__all__:
        found = getattr(package, name)  # loaded by being asked for
        if isinstance(found, type) and issubclass(found, BaseEstimator):
            return found
    hint = f"import {name.partition(':')[0]} first" if ":" in name else "upgrade streamlearn"
    raise ArchiveError(f"{path} holds a {name}, which is no estimator that is known here; {hint}")
