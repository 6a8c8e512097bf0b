"""Ends that leave a whole checkpoint: a time limit, and the SIGTERM of a batch system."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic
from types import FrameType

from ...errors import TimeLimitError


class TimeLimit:
    """Gives a fit up, with what it finished kept, once it has had its seconds."""

    def __init__(
        self, name: str, max_seconds: float | None, checkpoint: str | os.PathLike[str] | None
    ) -> None:
        if max_seconds is not None and checkpoint is None:
            raise ValueError(
                f"max_seconds={max_seconds:g} without checkpoint= would throw away what {name} "
                "did until then; pass a folder or URL as checkpoint="
            )
        self._name, self._limit, self._place = name, max_seconds, checkpoint
        self._began = monotonic()

    def check(self) -> None:
        """Raise `TimeLimitError` if the time is over."""
        if self._limit is not None and monotonic() > self._began + self._limit:
            raise TimeLimitError(
                f"{self._name} stopped after max_seconds={self._limit:g}; what it finished is in "
                f"{self._place}: run the same line again and it goes on"
            )


class Terminated(BaseException):
    """SIGTERM came; unwinds like `KeyboardInterrupt` and then ends the process by that signal."""


@contextmanager
def orderly_end() -> Iterator[None]:
    """A SIGTERM inside the block unwinds it before it ends the process.

    So finished lanes get into the checkpoint and scratch is removed, as with Ctrl-C.  Only where
    the signal would end the process at once: a handler of the user's stays in force.
    """
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield
        return
    came = threading.Event()

    def unwind(number: int, frame: FrameType | None) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # a second one does not interrupt the saving
        came.set()
        raise Terminated

    signal.signal(signal.SIGTERM, unwind)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        # However the block ended: a callback from C, such as the compiler makes, drops what is
        # raised in it, and ends in an error of its own.
        if came.is_set():
            os.kill(os.getpid(), signal.SIGTERM)
