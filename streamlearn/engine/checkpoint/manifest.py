"""The manifest of a checkpoint: the form of the JSON that names every file that counts."""

from __future__ import annotations

from typing import Any, NotRequired, TypedDict


class KeptCounters(TypedDict):
    """Sums over the reads of a fit up to some entry of its log."""

    n_passes: int
    rows_read: int
    bytes_read: int
    seconds: float
    n_served: NotRequired[int]
    """Reads that one made for another fit served; not there if none."""


class Entry(TypedDict):
    """One finished read, or one loop state."""

    kind: str
    name: str
    file: str | None
    """None for a loop state that the fit has asked for and not committed yet."""
    counters: KeptCounters


class KeptFile(TypedDict):
    """The file of a result, or of a row state that is being written."""

    file: str


class KeptRows(KeptFile):
    """One generation of a row state."""

    dtype: str
    width: int


class KeptLane(KeptFile):
    """The merged state of some lanes."""

    node: list[int]
    """Level and index of an `engine.lanes.Node`."""


class Partial(TypedDict):
    """The completed part of an unfinished read: of its lanes, or up to a segment."""

    name: str
    cut: list[int]
    """Numbers of its refs and of its lanes or segments."""
    rows: dict[str, KeptFile]
    nodes: NotRequired[list[KeptLane]]
    n_done: NotRequired[int]
    """Segments that are done, after which `file` is the state."""
    file: NotRequired[str]


class Manifest(TypedDict):
    """The keys that `Checkpoint` describes."""

    format: int
    version: str
    identity: dict[str, object]
    plan: dict[str, Any] | None
    log: list[Entry]
    partial: Partial | None
    rows: dict[str, KeptRows]
    finished: KeptFile | None
    history: list[object]
    counters: KeptCounters | None
    writer: NotRequired[dict[str, object]]
    saved: NotRequired[float]
