"""Answers for dask collections: lazy arrays with the collection's own partitions, or parts on disk.

A partition is used where it lies, by the task that depends on it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..config import get_config
from ..data.dask.map import map_rows
from ..data.dask.store import open_collection
from ..engine.executor import count_threads, open_engine
from ..engine.scratch.materialise import map_partitions
from .inputs import check_count, match_names
from .predicting import answer, empty_answer, write_values


def lazy_answer(model: Any, X: Any, what: str) -> Any:
    """The dask array of answers; columns are checked now, rows when it is computed."""
    return map_rows(matched(model, X), _answer_block, (model, what), empty_answer(model, what))


def matched(model: Any, X: Any) -> Any:
    """The collection with the columns the model was trained on, in that order."""
    if hasattr(X, "columns"):
        if hasattr(model, "feature_names_in_"):
            X = X[match_names(model, [str(name) for name in X.columns])]
        check_count(model, len(X.columns))
    elif hasattr(X, "shape"):
        check_count(model, X.shape[1])
    return X


def write_blocks(model: Any, X: Any, what: str, sink: Any, names: list[str]) -> int:
    """Each partition's answers to a part of its own, by the task that has it; rows written."""
    _, blocks, *_ = open_collection(X)
    scheduler = get_config().scheduler
    engine = open_engine(scheduler, count_threads(scheduler))
    try:
        how = engine.share((model, what))
        return sum(map_partitions(engine, blocks, "predict-to", _write_block, how, sink, names))
    finally:
        engine.close()


def _write_block(block: Any, number: int, how: tuple[Any, str], sink: Any, names: list[str]) -> int:
    values = _answer_block(block, how)
    if len(values):
        write_values(sink, number, names, values)
    return len(values)


def _answer_block(block: Any, how: tuple[Any, str]) -> np.ndarray:
    model, what = how
    X = np.vstack(block) if isinstance(block, list) and block else block
    n_rows = X.shape[0] if hasattr(X, "shape") else len(X)
    return answer(model, X, what) if n_rows else empty_answer(model, what)
