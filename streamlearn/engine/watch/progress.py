"""One progress bar for all reads of a run, counted in lanes; drawn only when asked."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tqdm.auto import tqdm


class Bar:
    """A progress bar that draws nothing, with the methods that a read calls."""

    def update(self, n: int = 1) -> object:
        return None


class Progress:
    """The bar of a run: one line, which each read takes over with its name and number."""

    def __init__(self, *, shown: bool) -> None:
        self._shown = shown
        self._n_reads = 0
        self._line: tqdm | None = None

    @contextmanager
    def read(self, name: str, n_lanes: int) -> Iterator[Bar]:
        """The bar for a read of `n_lanes` lanes (parts of the rows that are read side by side)."""
        if not self._shown:
            yield Bar()
            return
        self._n_reads += 1
        if self._line is None:
            from tqdm.auto import tqdm

            self._line = tqdm(unit="lane", leave=True)
        self._line.set_description(f"{name}, read {self._n_reads}", refresh=False)
        self._line.reset(n_lanes)
        yield self._line
        self._line.refresh()

    def close(self) -> None:
        """Leave the line as it is, and end it."""
        if self._line is not None:
            self._line.close()
