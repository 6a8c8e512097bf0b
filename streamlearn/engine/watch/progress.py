"""Progress bars: one per read, counted in lanes; drawn only when asked."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


class Bar:
    """What a read tells of its progress; draws nothing."""

    def update(self, n: int = 1) -> object:
        return None


@contextmanager
def lane_bar(name: str, n_lanes: int, *, shown: bool) -> Iterator[Bar]:
    """A tqdm bar for one read if `shown`, else nothing."""
    if not shown:
        yield Bar()
        return
    from tqdm.auto import tqdm

    with tqdm(total=n_lanes, desc=name, unit="lane", leave=False) as bar:
        yield bar
