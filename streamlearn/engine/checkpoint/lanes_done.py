"""The completed part of an unfinished read, stored in the checkpoint at a bounded cost."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from typing import Generic

from ...passes.fold import State
from ..driver import Coming
from ..lanes import LaneState, MergeTree, Node
from ..scratch.row_state import RowFile
from ..watch.progress import Bar
from .manifest import KeptFile, Partial
from .store import Checkpoint

SHARE = 1 / 20
"""Largest share of a read's time that saving its parts may take."""


class Pace:
    """Says when to save again, so that saving takes at most `SHARE` of the time."""

    def __init__(self) -> None:
        self._next = 0.0

    def is_due(self) -> bool:
        return time.monotonic() >= self._next

    def saved(self, began: float) -> None:
        now = time.monotonic()
        self._next = now + (now - began) * (1 / SHARE - 1)


class CompletedLanes(Generic[State]):
    """Stores the merged states of completed lanes while a mergeable read goes on."""

    def __init__(
        self,
        checkpoint: Checkpoint | None,
        partial: Partial | None,
        name: str,
        cut: list[int],
        files: tuple[RowFile, ...],
        bar: Bar,
        result: Callable[[Coming], LaneState],
    ) -> None:
        self._checkpoint, self._bar, self._result = checkpoint, bar, result
        self._tree = MergeTree(cut[-1])
        self._pace = Pace()
        self._partial: Partial = {"name": name, "cut": cut, "rows": written(files)}
        self._files: dict[Node, str] = {}
        self.finished: dict[Node, LaneState[State]] = {}
        if checkpoint is not None and partial is not None:
            for stored in partial["nodes"]:
                level, index = stored["node"]
                self._files[level, index] = stored["file"]
                self.finished[level, index] = LaneState(checkpoint.read(stored["file"]))
        self._bar.update(sum(len(self._tree.lanes_below(node)) for node in self.finished))

    def __call__(
        self,
        nodes: Mapping[Node, Coming],
        n_lanes: int,
        closing: bool,
        of: int | None = None,
    ) -> None:
        """Lanes have ended: show it, and save their states when it is time.

        `of`: which of the states, where a read serves several folds.
        """
        self._bar.update(n_lanes)
        self.finished = {}
        new = [node for node in nodes if node not in self._files]
        if self._checkpoint is None or not new or not (closing or self._pace.is_due()):
            return
        began = time.monotonic()
        for node in new:
            state = self._result(nodes[node]).state
            self._files[node] = self._checkpoint.write("node", state if of is None else state[of])
        for node in [n for n in self._files if self._is_covered(n)]:
            del self._files[node]
        self._partial["nodes"] = [
            {"node": list(node), "file": file} for node, file in sorted(self._files.items())
        ]
        self._checkpoint.manifest["partial"] = self._partial
        self._checkpoint.commit()
        self._pace.saved(began)

    def _is_covered(self, node: Node) -> bool:
        """Whether a stored node above this one covers its lanes too."""
        while node != self._tree.root:
            node = self._tree.above(node)
            if node in self._files:
                return True
        return False


class CompletedSegments(Generic[State]):
    """Stores the state after the last completed segment while an order-sensitive read goes on."""

    def __init__(
        self,
        checkpoint: Checkpoint | None,
        partial: Partial | None,
        name: str,
        cut: list[int],
        files: tuple[RowFile, ...],
        bar: Bar,
        stored: Callable[[State], object] | None,
    ) -> None:
        self._checkpoint, self._bar, self._stored = checkpoint, bar, stored
        self._partial: Partial = {"name": name, "cut": cut, "rows": written(files)}
        self.n_done = 0
        self.state: LaneState[State] | None = None
        if checkpoint is not None and partial is not None:
            self.n_done = partial["n_done"]
            self.state = LaneState(checkpoint.read(partial["file"]))
        self._bar.update(self.n_done)

    def __call__(self, state: LaneState[State], n_done: int) -> None:
        """A segment has ended: show it, and save its state, which the next one will change."""
        self._bar.update()
        self.state = None
        if self._checkpoint is not None:
            kept = state.state if self._stored is None else self._stored(state.state)
            file = self._checkpoint.write("segment", kept)
            self._checkpoint.manifest["partial"] = {**self._partial, "n_done": n_done, "file": file}
            self._checkpoint.commit()


def written(files: tuple[RowFile, ...]) -> dict[str, KeptFile]:
    """The row-state files of the generation being written, as the manifest names them."""
    return {
        file.name: {"file": os.path.basename(file.write_path)}
        for file in files
        if file.write_path is not None
    }
