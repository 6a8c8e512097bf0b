"""The pictures of a model as files: what ``streamlearn plot`` writes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import streamlearn as sl


def draw_model(
    model: Any,
    folder: str,
    features: list[str] | None = None,
    data: Any = None,
    target: str | None = None,
) -> list[str]:
    """Write ``terms.png``, ``convergence.png`` and, of `data`, ``calibration.png``; their paths.

    Whatever the model does not have is left out: terms of what is no sum, a history that is empty,
    probabilities.  Features that are named must be there.
    """
    try:
        import matplotlib
    except ImportError as error:
        raise ValueError("pictures need matplotlib: pip install 'streamlearn[plot]'") from error
    figures: dict[str, Any] = {}
    with matplotlib.rc_context({"backend": "agg"}):
        if hasattr(model, "shape_function"):
            figures["terms"] = sl.AdditiveDisplay.from_estimator(model, features=features).figure_
        elif features is not None:
            raise ValueError(f"{type(model).__name__} is no sum of terms; leave --features out")
        if model.history_:
            figures["convergence"] = sl.ConvergenceDisplay.from_estimator(model).figure_
        if data is not None:
            figures["calibration"] = _calibration(model, data, target)
        Path(folder).mkdir(parents=True, exist_ok=True)
        return [_write(figure, Path(folder) / f"{name}.png") for name, figure in figures.items()]


def _calibration(model: Any, data: Any, target: str | None) -> Any:
    """Shares of each class against its predicted probability, a line a class."""
    import matplotlib.pyplot as plt
    import numpy as np
    from sklearn.calibration import CalibrationDisplay

    if not hasattr(model, "predict_proba"):
        raise ValueError(
            f"{type(model).__name__} gives no probabilities; leave --data out, or fit it with "
            "calibration='sigmoid'"
        )
    names = getattr(model, "feature_names_in_", None)
    dataset = sl.open_dataset(data, target=target, features=None if names is None else [*names])
    probability = model.predict_proba(dataset)
    labels = np.concatenate([np.asarray(chunk.y) for chunk in dataset.iter_chunks()])
    ax = plt.subplots(figsize=(4.0, 4.0), layout="constrained")[1]
    classes = model.classes_[1:] if len(model.classes_) == 2 else model.classes_
    first = len(model.classes_) - len(classes)
    for k, label in enumerate(classes, first):
        CalibrationDisplay.from_predictions(
            labels == label,
            probability[:, k],
            n_bins=10,
            strategy="quantile",
            ax=ax,
            name=str(label),
        )
    return ax.figure


def _write(figure: Any, path: Path) -> str:
    import matplotlib.pyplot as plt

    figure.savefig(path, dpi=120)
    plt.close(figure)
    return str(path)
