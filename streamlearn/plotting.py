"""The pictures of a model as files: what ``streamlearn plot`` writes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

import streamlearn as sl

from .data.files.regular import refuse_unwritable
from .data.source import Chunk
from .estimator.model import Estimator, Model
from .estimator.predicting import answer_chunk, run
from .estimator.report.measures import grouped
from .estimator.row_size import NUMBER_BYTES, RowSize, probability_bytes
from .estimator.rows.inputs import open_scored, used_columns
from .estimator.rows.targets import code_targets
from .solvers.calibration import score_fold

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from .additive.inspect.summary_table import SummaryTable

PICTURES = {
    "path": ("choices_", "ShareBoostDisplay"),
    "projections": ("pieces_", "PursuitDisplay"),
    "experts": ("gate_probabilities", "MixtureDisplay"),
    "prototypes": ("prototypes_", "PrototypeDisplay"),
}
"""Name of the file -> (what a model with this picture has, the public display that draws it)."""


def draw_model(
    model: Estimator,
    folder: str,
    features: list[str] | None = None,
    data: object = None,
    target: str | None = None,
    rows: Sequence[int] | None = None,
) -> list[str]:
    """Write ``terms.png``, of `PICTURES`, ``errors.png``, ``convergence.png``, ``calibration.png``.

    Rows of `data` that are named go to ``rows.png``.  Returns all paths.  Whatever the model
    does not have is left out: terms of what is no sum, a history that is empty, probabilities.
    Features and rows that are named must be there; with `rows` and no `target` nothing is
    calibrated.
    """
    if not hasattr(model, "history_"):
        raise ValueError(
            f"{type(model).__name__} has nothing to draw: it makes features and is fitted to no "
            "target; plot the model that learns from them"
        )
    refuse_unwritable(folder, folder=True)
    figures: dict[str, Figure] = {}
    with _drawing():
        if hasattr(model, "shape_function"):
            figures["terms"] = sl.AdditiveDisplay.from_estimator(model, features=features).figure_
        elif features is not None:
            raise ValueError(f"{type(model).__name__} is no sum of terms; leave --features out")
        if rows is not None:
            if not hasattr(model, "shape_function"):
                raise ValueError(f"{type(model).__name__} is no sum of terms; leave --rows out")
            figures["rows"] = sl.WaterfallDisplay.from_estimator(model, data, rows=rows).figure_
        for name, (attribute, display) in PICTURES.items():
            if hasattr(model, attribute):
                kind = getattr(sl, display)  # loaded by being asked for
                figures[name] = kind.from_estimator(model).figure_
        if hasattr(model, "curve_"):
            figures["errors"] = sl.PrototypeDisplay.curve(model).figure
        if sl.ConvergenceDisplay(model.history_).has_panels:
            figures["convergence"] = sl.ConvergenceDisplay.from_estimator(model).figure_
        if data is not None and (rows is None or target is not None):
            figures["calibration"] = _calibration(model, data, target)
        Path(folder).mkdir(parents=True, exist_ok=True)
        return [_write(figure, Path(folder) / f"{name}.png") for name, figure in figures.items()]


def draw_comparison(
    files: tuple[str, str], folder: str, features: list[str] | None = None
) -> tuple[str, SummaryTable]:
    """Write ``comparison.png``, the curves of the models in two files; its path and the distances.

    The legend has the names of the files, with their folders if these alone tell them apart.
    """
    refuse_unwritable(folder, folder=True)
    models = [sl.load(file) for file in files]
    for file, model in zip(files, models, strict=True):
        if not hasattr(model, "shape_function"):
            raise ValueError(
                f"{file} holds a {type(model).__name__}, which is no sum of terms; compare two "
                "additive models"
            )
    names = [Path(file).stem for file in files]
    labels = names if names[0] != names[1] else list(files)
    with _drawing():
        display = sl.AdditiveDisplay.compare(
            *models, labels=(labels[0], labels[1]), features=features
        )
        Path(folder).mkdir(parents=True, exist_ok=True)
        return _write(display.figure_, Path(folder) / "comparison.png"), display.distances_


@contextmanager
def _drawing() -> Iterator[None]:
    """A context in which matplotlib needs no screen; refused where it is not installed."""
    try:
        import matplotlib
    except ImportError as error:
        raise ValueError("pictures need matplotlib: pip install 'streamlearn[plot]'") from error
    with matplotlib.rc_context({"backend": "agg"}):
        yield


def _calibration(model: Model, data: object, target: str | None) -> Figure:
    """Shares of each class against its predicted probability, a line a class; one read."""
    import matplotlib.pyplot as plt

    if not hasattr(model, "predict_proba"):
        raise ValueError(
            f"{type(model).__name__} gives no probabilities; leave --target out, or fit it with "
            "calibration='sigmoid'"
        )
    classes = model.classes_[1:] if len(model.classes_) == 2 else model.classes_
    dataset = used_columns(model, open_scored(model, data, target, None))
    fold = score_fold(partial(_probabilities, model), len(classes))
    fold = replace(fold, step=partial(_step_of_codes, fold.step, model.classes_))
    histograms = run(
        model,
        dataset,
        fold,
        name="calibration",
        row=RowSize(probability_bytes(model) + 2 * NUMBER_BYTES),  # bins, and what is added there
    )
    figure, ax = plt.subplots(figsize=(4.0, 4.0), layout="constrained")
    ax.plot([0, 1], [0, 1], "k:", label="calibrated")
    for label, histogram in zip(classes, histograms, strict=True):
        ax.plot(*reliability(histogram), "s-", label=str(label))
    ax.set(xlabel="mean predicted probability", ylabel="share of the class", title="Calibration")
    ax.legend()
    return figure


def _step_of_codes(
    step: Callable[[np.ndarray, Chunk], np.ndarray],
    classes: np.ndarray,
    state: np.ndarray,
    chunk: Chunk,
) -> np.ndarray:
    """The fold's step on a chunk whose labels are codes of classes."""
    return step(state, code_targets(classes, False, chunk))


def _probabilities(model: Model, chunk: Chunk) -> np.ndarray:
    """(m,) of the positive class, or (m, K)."""
    probability = answer_chunk(model, chunk, "probability")
    return probability[:, 1] if probability.shape[1] == 2 else probability


def reliability(histogram: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean predicted probability and share of positive rows, in ten groups of about equal weight.

    `histogram` is one of `score_fold`'s, (3, B): of each bin of predicted probabilities the weight,
    the weight of the positive rows and the weighted sum of the probabilities.  A group is whole
    bins, so that all rows of one probability are in one group.
    """
    weight, positive, total = grouped(histogram, 10)
    return total / weight, positive / weight


def _write(figure: Figure, path: Path) -> str:
    import matplotlib.pyplot as plt

    figure.savefig(path, dpi=120)
    plt.close(figure)
    return str(path)
