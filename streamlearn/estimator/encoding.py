"""The encoding of a fit, learned in steps: levels, target means, what is missing; and its use.

A model that has an `encoding_` sees the features that it makes; `n_features_in_` and
`feature_names_in_` stay those of the columns that the user gave.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.base import is_classifier

from ..data.column_types import CATEGORIES, TIMES
from ..data.dask.store import DaskStore
from ..data.encoding import N_PARTS, Coding, Encoding, choose_kinds
from ..engine.plan import Needs, make_plan
from ..engine.run import Run
from ..engine.scratch.materialise import fold_partitions
from ..passes import target_means
from ..passes.fold import read_all, run_fold
from ..passes.summary.levels import MOST_LEVELS, STATE_NBYTES, STEP_NBYTES_PER_ROW, levels_fold
from ..passes.summary.summary import Summary, collect_summary
from .targets import coded

Read = Callable[..., Any]


def feature_names(model: Any) -> list[str]:
    """Names of the features that a fitted model decides by, x0, x1, ... for want of any."""
    encoding = getattr(model, "encoding_", None)
    if encoding is not None:
        return list(encoding.feature_names())
    return column_names(model)


def column_names(model: Any) -> list[str]:
    """Names of the columns that a fitted model was given, x0, x1, ... for want of any."""
    names = getattr(model, "feature_names_in_", None)
    if names is None:
        return [f"x{j}" for j in range(model.n_features_in_)]
    return [str(name) for name in names]


def n_features(model: Any) -> int:
    """Features that a model decides by."""
    encoding = getattr(model, "encoding_", None)
    return int(model.n_features_in_ if encoding is None else encoding.n_features)


def column_of(model: Any) -> np.ndarray:
    """(n_features,) number of the column that each feature is made of."""
    encoding = getattr(model, "encoding_", None)
    return np.arange(model.n_features_in_) if encoding is None else encoding.column_of


def learn_levels(model: Any, dataset: Any, checkpoint: Any) -> Any:
    """The dataset with its columns of words as codes; sets ``encoding_`` as far as it is known.

    One read of each such column, and one more of those of more than `MOST_LEVELS` levels.
    """
    names = dataset.feature_names
    types = dataset.column_types
    vars(model).pop("encoding_", None)  # of an earlier fit
    kinds = choose_kinds(types, names, model.encoding, dataset.sparse)
    levels = {
        name: kind
        for name, kind in kinds.items()
        if kind != "cyclic"  # a time's features are known without a read
    }
    learned = _read_levels(model, dataset, levels, checkpoint) if levels else {}
    codings = []
    for j, name in enumerate(names):
        if name not in kinds:
            continue
        kind, found = kinds[name], learned.get(name)
        dtype = types.get(name, "float64")
        if kind == "cyclic":
            codings.append(Coding(j, kind, dtype))
        elif isinstance(found, np.ndarray):
            codings.append(Coding(j, "target", dtype, hashes=found))
        else:
            codings.append(Coding(j, "indicator", dtype, levels=tuple(found or ())))
    seed = int(getattr(model, "random_state", 0) or 0)
    model.encoding_ = Encoding(tuple(names), tuple(codings), sparse=dataset.sparse, seed=seed)
    coded_columns = dataset.with_coders(model.encoding_.coders())
    if levels and coded_columns is not dataset:
        coded_columns.store.passes_before = dataset.store.passes_before + 1
    return coded_columns


def _read_levels(
    model: Any, dataset: Any, kinds: dict[str, str | None], checkpoint: Any
) -> dict[str, Any]:
    """The words of each column (list of str), or the hashes of very many (array)."""

    def learn(read: Read) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for name, kind in kinds.items():
            column = dataset.column(name)
            if kind != "target":
                most = MOST_LEVELS if kind == "indicator" else MOST_LEVELS + 1
                words = read(levels_fold(name, most), column, name=f"levels-{name}")
                if len(words) <= MOST_LEVELS:
                    found[name] = list(words)
                    continue
            found[name] = read(target_means.hashes_fold(name), column, name=f"hashes-{name}")
        return found

    if isinstance(dataset.store, DaskStore):
        return learn(fold_partitions)
    if dataset.in_memory:
        return learn(_read_here)
    (needs,) = needs_before(list(kinds.values()))
    return _in_a_run(model, dataset, needs, "levels", checkpoint, learn)


def needs_before(kinds: list[str | None]) -> tuple[Needs, ...]:
    """What the reads of columns of words (None: of any number of them) cost before the summary."""
    if not kinds:
        return ()
    state = max(STATE_NBYTES, target_means.STATE_NBYTES)
    row = max(STEP_NBYTES_PER_ROW, target_means.STEP_NBYTES_PER_ROW)
    unknown, targets = kinds.count(None), kinds.count("target")
    most = len(kinds) + unknown + 2 * (unknown + targets > 0)
    return (Needs("levels", state, row, passes=(len(kinds) + 2 * (targets > 0), most)),)


def _read_here(fold: Any, source: Any, *, name: str) -> Any:
    return run_fold(fold, read_all(source))


def _in_a_run(
    model: Any,
    dataset: Any,
    needs: Needs,
    name: str,
    checkpoint: Any,
    learn: Callable[[Read], Any],
) -> Any:
    """What `learn` makes of reads, planned, and kept in the checkpoint's folder of that name."""
    with Run(
        dataset,
        make_plan(dataset, [needs]),
        name=f"{type(model).__name__}-{name}",
        identity={"encoding": model.encoding},
        checkpoint=None if checkpoint is None else f"{os.fspath(checkpoint)}/{name}",
    ) as run:
        if run.finished is not None:
            return run.finished
        learned = learn(run.fold)
        run.finish(learned)
        return learned


def learn_targets(model: Any, dataset: Any, checkpoint: Any, classes_of: Any) -> None:
    """Give ``encoding_`` the target means of the columns of very many levels, in two narrow reads.

    `classes_of(labels)` are the classes, or raises.
    """
    encoding = model.encoding_
    wanted = [coding for coding in encoding.codings if coding.kind == "target"]
    if not wanted:
        return
    names = [encoding.names[coding.position] for coding in wanted]
    columns = dataset.select(names)
    coders = [coding.coder(name) for coding, name in zip(wanted, names, strict=True)]
    n_levels = [len(coding.hashes) for coding in wanted]

    def learn(read: Read) -> dict[str, Any]:
        classes = None
        if is_classifier(model):
            labels = collect_summary(read, columns, moments_only=True).labels
            classes = classes_of(labels)
        n_classes = 0 if classes is None else len(classes)
        of_words = [coding.type in CATEGORIES for coding in wanted]
        fold = target_means.target_fold(coders, of_words, n_levels, n_classes, encoding.seed)
        sums = read(fold, coded(columns, classes), name="target-means")
        outputs = ["=mean"] if n_classes <= 2 else [f"=mean of {label}" for label in classes]
        return {"sums": sums, "outputs": outputs}

    n_outputs = 1
    state = 8 * N_PARTS * sum(n_levels) * (n_outputs + 1)
    needs = Needs("target means", state, 200.0, driver_bytes=2 * state)
    learned = _in_a_run(model, columns, needs, "targets", checkpoint, learn)
    tables = iter(map(target_means.tables_of, learned["sums"]))
    codings = []
    for coding in encoding.codings:
        if coding.kind == "target":
            table, apart = next(tables)
            coding = coding._replace(table=table, apart=apart, outputs=tuple(learned["outputs"]))
        codings.append(coding)
    model.encoding_ = encoding._replace(codings=tuple(codings))


def learn_missing(encoding: Encoding, summary: Summary) -> Encoding:
    """The encoding with what the summary of its features says is missing, and their means."""
    missing = np.array([column.missing > 0 for column in summary.columns], bool)
    means = np.array([column.mean for column in summary.columns], np.float64)
    columns = np.zeros(len(encoding.names), bool)
    columns[encoding.column_of[missing]] = True
    return encoding.with_missing(columns, means)


def refuse_encoding(model: Any, dataset: Any) -> None:
    """Refuse columns that would need an encoding where it cannot be learned from all rows."""
    names = dataset.feature_names
    kinds = choose_kinds(dataset.column_types, names, model.encoding, dataset.sparse)
    if kinds:
        raise ValueError(
            f"partial_fit takes columns of numbers, but {next(iter(kinds))!r} is none: what it "
            "would be encoded as is learned from all rows; use fit, or give numbers"
        )


def training_features(model: Any, columns: Any) -> Any:
    """The features that the encoding makes of training rows; the columns, if they are the same."""
    encoding = model.encoding_
    return columns if encoding.is_plain else columns.with_encoding(encoding)


def with_coders(model: Any, dataset: Any) -> Any:
    """The columns of a table that a fitted model is shown, those of words as its codes."""
    encoding = model.encoding_
    types = dataset.column_types
    coders = encoding.coders()
    kinds = {coding.position: coding.type for coding in encoding.codings}
    for j, name in enumerate(dataset.feature_names):
        before, now = kinds.get(j, "float64"), types.get(name, "float64")
        if (before in CATEGORIES) != (now in CATEGORIES):
            words = now in CATEGORIES
            raise ValueError(
                f"column {name!r} holds {'strings' if words else 'no strings'}, but "
                f"{'numbers' if words else 'categories'} when {type(model).__name__} was trained; "
                "convert it to the type it had"
            )
        if before in TIMES and now not in TIMES:
            raise ValueError(
                f"column {name!r} holds {now} values, but {before} values when "
                f"{type(model).__name__} was trained; convert it to the type it had"
            )
    return dataset.with_coders(
        {
            name: coders[old]
            for name, old in zip(dataset.feature_names, encoding.names, strict=True)
            if old in coders
        }
    )


def encoded(model: Any, dataset: Any) -> Any:
    """The features that a fitted model decides by, of a table whose words are codes."""
    return dataset.with_encoding(model.encoding_.of_model())
