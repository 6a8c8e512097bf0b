"""scikit-learn's callbacks (experimental there, since 1.9): tasks for the fit and each record.

With an older scikit-learn estimators have no `set_callbacks`, and nothing else changes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

try:
    from sklearn.callback import CallbackSupportMixin, with_callbacks
except ImportError:

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """Stands where there are no callbacks."""

    def with_callbacks(method: Callable[..., object]) -> Callable[..., object]:
        return method


__all__ = ["CallbackSupportMixin", "Tasks", "with_callbacks"]


class Tasks:
    """Tells the callbacks of `model`, if it has any, of its fit and of each record of it."""

    def __init__(self, model: object) -> None:
        self._model, self._fit = model, None
        if hasattr(model, "_init_callback_context"):
            self._fit = model._init_callback_context(max_subtasks=None)
            self._fit.call_on_fit_task_begin(estimator=model)

    def record(self, fields: Mapping[str, object]) -> None:
        """A record of the history is a task that ends as it begins; `fields` are its metadata."""
        if self._fit is not None:
            task = self._fit.subcontext(task_name="record")
            task.call_on_fit_task_begin(estimator=self._model)
            task.call_on_fit_task_end(estimator=self._model, metadata=fields)

    def end(self) -> None:
        if self._fit is not None:
            self._fit.call_on_fit_task_end(estimator=self._model)
