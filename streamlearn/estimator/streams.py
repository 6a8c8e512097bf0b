"""Estimators that cannot learn from rows seen once, and the reason each gives."""

from __future__ import annotations

from typing import ClassVar, NoReturn


class WithoutStream:
    """An estimator that has no `partial_fit`; who asks for it is told why."""

    _no_stream: ClassVar[str]
    """Reason, and what to do instead: it follows "<estimator> has no partial_fit: "."""

    @property
    def partial_fit(self) -> NoReturn:
        raise AttributeError(f"{type(self).__name__} has no partial_fit: {self._no_stream}")
