"""Answers for dask collections: lazy arrays with the collection's own partitions."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..data.map_dask import map_rows
from .inputs import check_count, match_names
from .predicting import answer, empty_answer


def lazy_answer(model: Any, X: Any, what: str) -> Any:
    """The dask array of answers; columns are checked now, rows when it is computed."""
    if hasattr(X, "columns"):
        if hasattr(model, "feature_names_in_"):
            X = X[match_names(model, [str(name) for name in X.columns])]
        check_count(model, len(X.columns))
    elif hasattr(X, "shape"):
        check_count(model, X.shape[1])
    return map_rows(X, _answer_block, (model, what), empty_answer(model, what))


def _answer_block(block: Any, how: tuple[Any, str]) -> np.ndarray:
    model, what = how
    X = np.vstack(block) if isinstance(block, list) and block else block
    return answer(model, X, what) if len(block) else empty_answer(model, what)
