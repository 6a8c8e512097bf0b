"""The encoding of a fit, learned in steps: levels, target means, what is missing; and its use.

A model that has an `encoding_` sees the features that it makes; `n_features_in_` and
`feature_names_in_` stay those of the columns that the user gave.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, TypedDict, TypeVar

import numpy as np
from sklearn.base import is_classifier

from ...data.column_types import CATEGORIES, TIMES
from ...data.dask.store import DaskStore
from ...data.dataset import Dataset
from ...data.encoding import Coding, Encoding
from ...data.levels import Coder, LevelCoder
from ...data.source import Source
from ...engine.plan import Needs, Plan
from ...engine.planning import make_plan
from ...engine.run import Run
from ...engine.scratch.materialise import fold_partitions
from ...errors import MemoryBudgetError
from ...passes import target_means
from ...passes.fold import Fold, Read, Result, State, nbytes_of, read_all, run_fold
from ...passes.summary.labels import Labels
from ...passes.summary.levels import MOST_LEVELS, STATE_NBYTES, STEP_NBYTES_PER_ROW, levels_fold
from ...passes.summary.reading import collect_summary, state_nbytes, step_nbytes_per_row
from ...passes.summary.summary import Summary
from .kinds import Chosen, choose_kinds, circles_of, is_period
from .targets import coded

Learned = TypeVar("Learned")
Checkpoint = str | os.PathLike[str] | None
Levels = dict[str, list[str] | np.ndarray]
"""The words of each column, or the hashes of very many."""


class HasColumns(Protocol):
    """A model that knows how many columns it was given; perhaps their names, and an encoding."""

    n_features_in_: int


class Encodes(Protocol):
    """An estimator of a family whose features its columns are made to, all or where need be."""

    encoding_: Encoding

    @property
    def encoding(self) -> Chosen | None: ...
    @property
    def _accepts_levels(self) -> bool: ...


PlanBefore = Callable[[Sequence[Needs]], Plan]
"""``plan_fit(before)``, the plan of what comes before a fit and of the fit."""


class Targets(TypedDict):
    """Result of the reads of the target by level."""

    sums: list[target_means.Sums]
    outputs: list[str]


def feature_names(model: HasColumns) -> list[str]:
    """Names of the features that a fitted model decides by, x0, x1, ... for want of any."""
    encoding = getattr(model, "encoding_", None)
    if encoding is not None:
        return list(encoding.feature_names())
    return column_names(model)


def column_names(model: HasColumns) -> list[str]:
    """Names of the columns that a fitted model was given, x0, x1, ... for want of any."""
    names = getattr(model, "feature_names_in_", None)
    if names is None:
        return [f"x{j}" for j in range(model.n_features_in_)]
    return [str(name) for name in names]


def n_features(model: HasColumns) -> int:
    """Features that a model decides by."""
    encoding = getattr(model, "encoding_", None)
    return int(model.n_features_in_ if encoding is None else encoding.n_features)


def column_of(model: HasColumns) -> np.ndarray:
    """(n_features,) number of the column that each feature is made of."""
    encoding = getattr(model, "encoding_", None)
    return np.arange(model.n_features_in_) if encoding is None else encoding.column_of


def place_of(model: object, column: int) -> int:
    """The number of the feature that a column is, by its number among the columns given."""
    encoding = getattr(model, "encoding_", None)
    if encoding is None:
        return column
    found = np.flatnonzero(encoding.column_of == column).tolist()
    if len(found) > 1:
        names = encoding.feature_names()
        raise ValueError(
            f"column {column} is {encoding.names[column]!r}, which is encoded as the features "
            f"{[names[k] for k in found]}; name one of them, or choose another encoding="
        )
    return found[0] if found else len(encoding.column_of)


def hint_of(column: object, names: Sequence[str]) -> str:
    """Names to give instead of a column that features are made of, for the end of a refusal."""
    made = [name for name in names if name.startswith(f"{column}=")]
    return f"; {column!r} is encoded as {made[:5]}, name one or choose encoding=" if made else ""


def is_encoded(model: object) -> bool:
    """Whether a model decides by features that an encoding makes of its columns."""
    return getattr(model, "encoding_", None) is not None


def kinds_of(model: Encodes, dataset: Dataset) -> dict[str, str | None]:
    """The kinds of the columns that are no plain numbers, as `choose_kinds` has them."""
    return choose_kinds(
        dataset.column_types,
        dataset.feature_names,
        model.encoding,
        sparse=dataset.sparse,
        keeps_levels=model._accepts_levels,
    )


def known_features(model: Encodes, dataset: Dataset, kinds: Mapping[str, str | None]) -> Dataset:
    """The features of a table as far as its columns' types say, for a plan; not to be read.

    Times, and categories that are to have target means, of one output; categories whose levels are
    not counted yet stay columns.
    """
    codings = []
    for j, name in enumerate(dataset.feature_names):
        dtype = dataset.column_types.get(name, "float64")
        if kinds.get(name) == "cyclic":
            codings.append(circles_of(model.encoding, model._accepts_levels, j, name, dtype))
        elif kinds.get(name) == "target":
            codings.append(Coding(j, "target", dtype, outputs=("=mean",)))
    if not codings:
        return dataset
    return dataset.with_encoding(Encoding(tuple(dataset.feature_names), tuple(codings)))


def learn_levels(
    model: Encodes, dataset: Dataset, checkpoint: Checkpoint, plan_fit: PlanBefore
) -> Dataset:
    """The dataset with its columns of words as codes; sets ``encoding_`` as far as it is known.

    One read of each such column, and one more of those of more levels than have a feature each.
    A family with levels of its own has no encoding where all columns are numbers or such levels.
    `plan_fit` is asked where the read is refused, so that the budget named is enough for the fit.
    """
    names = dataset.feature_names
    types = dataset.column_types
    vars(model).pop("encoding_", None)  # of an earlier fit
    kinds = kinds_of(model, dataset)
    if not kinds and model._accepts_levels:
        return dataset
    levels = {
        name: kind
        for name, kind in kinds.items()
        if kind != "cyclic"  # a time's features are known without a read
    }
    learned = _read_levels(model, dataset, levels, checkpoint, plan_fit) if levels else {}
    codings, words = [], {}
    for j, name in enumerate(names):
        if name not in kinds:
            continue
        kind, found = kinds[name], learned.get(name)
        dtype = types.get(name, "float64")
        if kind == "cyclic":
            codings.append(circles_of(model.encoding, model._accepts_levels, j, name, dtype))
        elif isinstance(found, np.ndarray):
            codings.append(Coding(j, "target", dtype, hashes=found))
        elif model._accepts_levels:
            words[name] = Coder(name, found or ())
        else:
            codings.append(Coding(j, "indicator", dtype, levels=tuple(found or ())))
    coders: dict[str, LevelCoder] = {**words}
    if codings or not model._accepts_levels:
        model.encoding_ = Encoding(
            tuple(names),
            tuple(codings),
            sparse=dataset.sparse,
            seed=_seed(model),
            keeps_levels=model._accepts_levels,
        )
        coders |= model.encoding_.coders()
    coded_columns = dataset.with_coders(coders)
    if levels and coded_columns is not dataset:
        coded_columns.store.passes_before = dataset.store.passes_before + 1
    return coded_columns


def _read_levels(
    model: Encodes,
    dataset: Dataset,
    kinds: dict[str, str | None],
    checkpoint: Checkpoint,
    plan_fit: PlanBefore,
) -> Levels:
    """The words of each column (list of str), or the hashes of very many (array)."""
    most = getattr(model, "max_levels", MOST_LEVELS)

    def learn(read: Read) -> Levels:
        found: Levels = {}
        for name, kind in kinds.items():
            column = dataset.column(name)
            if kind != "target":
                wanted = most + 1 if kind is None else most
                words = read(levels_fold(name, wanted), column, name=f"levels-{name}")
                if len(words) <= most:
                    found[name] = list(words)
                    continue
            found[name] = read(target_means.hashes_fold(name), column, name=f"hashes-{name}")
        return found

    if isinstance(dataset.store, DaskStore):
        return learn(fold_partitions)
    if dataset.in_memory:
        return learn(_read_here)
    (needs,) = needs_before(list(kinds.values()))
    return in_a_run(
        model, dataset, needs, checkpoint, lambda run: learn(run.fold), plan_fit=plan_fit
    )


def needs_before(kinds: list[str | None]) -> tuple[Needs, ...]:
    """Cost of the reads of columns of words (None: of any number of them) before the summary."""
    if not kinds:
        return ()
    state = max(STATE_NBYTES, target_means.STATE_NBYTES)
    row = max(STEP_NBYTES_PER_ROW, target_means.STEP_NBYTES_PER_ROW)
    unknown, targets = kinds.count(None), kinds.count("target")
    most = len(kinds) + unknown + 2 * (unknown + targets > 0)
    return (Needs("levels", state, row, passes=(len(kinds) + 2 * (targets > 0), most)),)


def _read_here(fold: Fold[State, Result], source: Source, *, name: str) -> Result:
    return run_fold(fold, read_all(source))


def in_a_run(
    model: object,
    dataset: Dataset,
    needs: Needs,
    checkpoint: Checkpoint,
    learn: Callable[[Run], Learned],
    *,
    plan_fit: PlanBefore | None = None,
) -> Learned:
    """Result of `learn`'s reads, planned, and kept in the checkpoint's folder named after them.

    `plan_fit` is asked for a plan where the reads alone are refused.
    """
    place, identity = None, {}
    if checkpoint is not None:
        place = f"{os.fspath(checkpoint)}/{needs.name}"
        identity = {
            "encoding": getattr(model, "encoding", None),
            "random_state": _seed(model),
            "data": dataset.fingerprint(),
        }
        if hasattr(model, "max_levels"):
            identity["max_levels"] = model.max_levels
    try:
        plan = make_plan(dataset, [needs])
    except MemoryBudgetError:
        if plan_fit is None:
            raise
        plan = plan_fit([needs])
    with Run(
        dataset,
        plan,
        name=f"{type(model).__name__}-{needs.name}",
        identity=identity,
        checkpoint=place,
    ) as run:
        if run.finished is not None:
            kept: Learned = run.finished
            return kept
        learned = learn(run)
        run.finish(learned)
        return learned


def _seed(model: object) -> int:
    return int(getattr(model, "random_state", 0) or 0)


def learn_targets(
    model: Encodes,
    dataset: Dataset,
    checkpoint: Checkpoint,
    classes_of: Callable[[Labels], np.ndarray],
) -> None:
    """Give ``encoding_`` the target means of the columns of very many levels, in two narrow reads.

    `classes_of(labels)` are the classes, or raises.
    """
    if not is_encoded(model):
        return
    encoding = model.encoding_
    wanted = [coding for coding in encoding.codings if coding.kind == "target"]
    if not wanted:
        return
    names = [encoding.names[coding.position] for coding in wanted]
    columns = dataset.select(names)
    coders = [coding.coder(name) for coding, name in zip(wanted, names, strict=True)]
    of_words = [coding.type in CATEGORIES for coding in wanted]
    n_levels = [0 if coding.hashes is None else len(coding.hashes) for coding in wanted]

    def learn(run: Run) -> Targets:
        classes, names = None, ["=mean"]
        if is_classifier(model):
            classes = classes_of(collect_summary(run.fold, columns, moments_only=True).target)
            if len(classes) > 2:
                names = [f"=mean of {label}" for label in classes]
        n_classes = 0 if classes is None else len(classes)
        fold = target_means.target_fold(
            coders, of_words, n_levels, n_classes, encoding.seed, columns.siblings
        )
        state = nbytes_of(fold.start())  # the driver makes as many tables of it
        row = target_means.targets_nbytes_per_row(n_classes)
        needs = Needs("targets", state, row, driver_bytes=2 * state)
        run.replan(make_plan(columns, [needs], budget=run.plan.budget))
        sums = run.fold(fold, run.planned(coded(columns, classes)), name="target-means")
        return {"sums": sums, "outputs": names}

    labels = Needs(
        "targets", state_nbytes(columns, moments_only=True), step_nbytes_per_row(columns)
    )
    learned = in_a_run(model, columns, labels, checkpoint, learn)
    tables = iter(map(target_means.tables_of, learned["sums"]))
    codings = []
    for coding in encoding.codings:
        if coding.kind == "target":
            table, apart = next(tables)
            coding = coding._replace(table=table, apart=apart, outputs=tuple(learned["outputs"]))
        codings.append(coding)
    model.encoding_ = encoding._replace(codings=tuple(codings))


def learn_missing(encoding: Encoding, summary: Summary) -> Encoding:
    """The encoding with what the summary of its features says is missing, and their means.

    Where a family has levels for what is missing, no feature says it.
    """
    columns = np.zeros(len(encoding.names), bool)
    if encoding.keeps_levels:
        return encoding._replace(missing=columns)
    columns[encoding.column_of[summary.columns.missing > 0]] = True
    return encoding.with_missing(columns, summary.columns.mean)


def refuse_encoding(model: Encodes, dataset: Dataset) -> None:
    """Refuse columns that would need an encoding where it cannot be learned from all rows."""
    kinds = kinds_of(model, dataset)
    for name, kind in kinds.items():
        dtype, said = dataset.column_types.get(name, "float64"), (model.encoding or {}).get(name)
        if is_period(said):
            remedy = f"encoding={{{name!r}: 'number'}} takes it as it is"
        elif kind == "cyclic":
            remedy = f"encoding={{{name!r}: 'number'}} takes them as seconds"
        else:
            remedy = "use fit, or give numbers"
        what = "strings" if dtype in CATEGORIES else f"{dtype} values"
        what += f" of period {said}" if is_period(said) else ""
        raise ValueError(
            f"partial_fit takes columns of numbers, but {name!r} holds {what}: what they would be "
            f"encoded as is learned from all rows; {remedy}"
        )


def begin_anew(model: Encodes) -> None:
    """Make the encoding of a fitted model ready for a fit that goes on with its features."""
    if not is_encoded(model):
        return
    if names := with_target_means(model):
        raise ValueError(
            f"warm_start=True goes on with the features of the last fit, but column {names[0]!r} "
            "is encoded by means of its targets, which rows of this fit must not see; fit anew, "
            f"or use encoding={{{names[0]!r}: 'levels'}}"
        )
    model.encoding_ = model.encoding_._replace(missing=None)  # what is held out is encoded later


def with_target_means(model: object) -> list[str]:
    """Names of the columns that a model has encoded by means of its target."""
    encoding = getattr(model, "encoding_", None)
    if encoding is None:
        return []
    return [encoding.names[one.position] for one in encoding.codings if one.kind == "target"]


def training_features(model: Encodes, columns: Dataset) -> Dataset:
    """The features that the encoding makes of training rows; the columns, if they are the same."""
    if not is_encoded(model) or model.encoding_.is_plain:
        return columns
    return columns.with_encoding(model.encoding_)


def with_coders(model: Encodes, dataset: Dataset) -> Dataset:
    """The columns of a table that a fitted model is shown, those of words as its codes."""
    encoding = model.encoding_
    types = dataset.column_types
    words = {name: Coder(name, own) for name, own in getattr(model, "levels_", {}).items()}
    coders = encoding.coders() | words
    kinds = {encoding.names[coding.position]: coding.type for coding in encoding.codings}
    kinds |= dict.fromkeys(words, CATEGORIES[0])
    for name, old in zip(dataset.feature_names, encoding.names, strict=True):
        before, now = kinds.get(old, "float64"), types.get(name, "float64")
        if (before in CATEGORIES) != (now in CATEGORIES):
            said = "strings" if now in CATEGORIES else "no strings"
            was = "categories" if before in CATEGORIES else "numbers"
            raise ValueError(
                f"column {name!r} holds {said}, but {'times' if before in TIMES else was} when "
                f"{type(model).__name__} was trained; convert it to the type it had"
            )
        # an array of numbers has times as Dataset gives them, in seconds
        if before in TIMES and now not in TIMES and dataset.is_named:
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


def encoded(model: Encodes, dataset: Dataset) -> Dataset:
    """The features that a fitted model decides by, of a table whose words are codes."""
    return dataset.with_encoding(model.encoding_.of_model())
