"""A fitted selection as a transformer: which columns, and their features of any rows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from sklearn.base import TransformerMixin
from sklearn.utils.validation import _check_feature_names_in, check_is_fitted

from ..data.dataset import Dataset
from ..estimator.inputs import is_dask, is_on_disk, open_features
from ..estimator.predicting import check_finite
from .candidates import Columns, features


class Selector(TransformerMixin):
    """A mixin over ``_kind``, ``choices_`` and ``support_``."""

    def _used_columns(self) -> list[int] | None:
        """Columns that decisions need; None: all."""
        used = self.support_.tolist()
        return used if 0 < len(used) < self.n_features_in_ else None

    def _needed_of(self, X: np.ndarray) -> np.ndarray:
        """The columns of use, of rows that have all columns or only these."""
        return X if X.shape[1] == len(self.support_) else X[:, self.support_]

    def _features(self, X: np.ndarray) -> np.ndarray:
        if not self.choices_:
            return np.empty((len(X), 0), X.dtype)
        return features(self._kind, self._needed_of(X), self.support_, self.choices_)

    def get_support(self, indices: bool = False) -> np.ndarray:
        """Which columns of X the model uses.

        Returns
        -------
        (d,) bool, or with `indices` their numbers, ascending
        """
        check_is_fitted(self)
        if indices:
            return self.support_.copy()
        mask = np.zeros(self.n_features_in_, bool)
        mask[self.support_] = True
        return mask

    def transform(self, X):
        """The selected features of the rows, for use before any other estimator.

        Columns come in their order in X; products, stumps and pieces in that of selection.

        Parameters
        ----------
        X : array-like, frame, path or Dataset

        Returns
        -------
        array of shape (n, width); for a path or a Dataset a Dataset, of which nothing is read yet
        """
        check_is_fitted(self)
        if is_dask(X):
            raise TypeError(
                "transform takes arrays, frames, paths and Datasets; open the dask collection with "
                "open_dataset, whose Dataset it returns with the selected features"
            )
        names = self.get_feature_names_out()
        if isinstance(X, Dataset) or is_on_disk(X):
            features = open_features(self, X)
            if isinstance(X, Dataset):
                features = replace(features, target=X.target, weight=X.weight)
            if isinstance(self._kind, Columns):
                return features
            return features.map(self._selected, [str(name) for name in names])
        parts = []
        for chunk in open_features(self, X).iter_chunks():
            check_finite(self, chunk)
            parts.append(np.array(self._selected(chunk.X)))
        return np.concatenate(parts) if parts else np.empty((0, len(names)))

    def _selected(self, X: np.ndarray) -> np.ndarray:
        return self._needed_of(X) if isinstance(self._kind, Columns) else self._features(X)

    def get_feature_names_out(self, input_features=None):
        """Names of what `transform` gives."""
        check_is_fitted(self)
        names = _check_feature_names_in(self, input_features)
        if isinstance(self._kind, Columns):
            return names[self.support_]
        return np.array(self._kind.names(self.choices_, list(names)), dtype=object)

    def _column_names(self) -> np.ndarray:
        return _check_feature_names_in(self, None)
