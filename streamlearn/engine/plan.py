"""The plan of a fit: what its phases need, and its cost before the first row is read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from ..config import format_bytes


@dataclass(frozen=True)
class Needs:
    """Memory and disk that one phase of a fit (reads of the same kind) needs, in bytes."""

    name: str
    state_bytes: int
    """One state of its fold."""
    step_bytes_per_row: float = 0
    """Temporaries of a step, per row of the chunk."""
    driver_bytes: int = 0
    """Bytes that Python holds at most between the phase's reads: factorisations, samples."""
    model_bytes: int = 0
    """Parameters the fold carries, once a process."""
    facts_bytes: int = 0
    """Facts of the columns, which the driver holds from the summary to the end of the fit."""
    row_state_bytes: float = 0
    """Row-aligned state, per row."""
    group: int = 0
    """Refs in a group of an order-sensitive read; 0 = mergeable."""
    partitions: int = 1
    """Parts in which an order-sensitive read may run at once, by data and parameters alone."""
    scratch_bytes_per_row: float = 0
    passes: tuple[int, int] = (1, 1)
    """Fewest and most reads."""
    step_bytes: int = 0
    """Temporaries of a step, whatever its rows."""
    cached_bytes_per_row: float = 0
    """Rows that stay in memory between its reads, if what else it takes leaves room for all."""
    cached_bytes: int = 0
    """The same of rows however many are left out."""
    chosen_bytes_per_row: float = 0
    """Rows of the fold's choice that stay in memory, as many as what else it takes leaves room for;
    or what the phase holds of each of them.  Each partition has its equal share of these rows."""
    carried_bytes_per_row: float = 0
    """Bytes of each of these rows that travel from read to read, once a process."""
    in_order: bool = False
    """Reads go through the rows in their order, so that one task runs at a time."""
    on_driver: bool = False
    """Whether the phase is work between reads, during which no slice is in memory."""
    note: str = ""
    """Sentence on what only the data will tell, and how it is counted until then; else empty."""
    decided: str = ""
    """Sentence on what the parameters left open, and how it was decided; else empty."""


class Term(NamedTuple):
    """One summand of a phase's memory."""

    label: str
    n: int
    each_bytes: int

    @property
    def total_bytes(self) -> int:
        return self.n * self.each_bytes

    def __str__(self) -> str:
        times = f"{self.n} x " if self.n != 1 else ""
        return f"{times}{format_bytes(self.each_bytes)} {self.label}"


@dataclass(frozen=True)
class Plan:
    """The cost of a fit; prints as a table."""

    n_rows: int
    n_lanes: int
    lanes_in_flight: int
    """Tasks a process runs at once."""
    slice_rows: int | None
    """Rows of the largest chunk that is read at once; None if the source cannot be cut finer."""
    peak_bytes: int
    """Memory each process adds at most."""
    budget: int
    terms: tuple[tuple[str, tuple[Term, ...]], ...]
    """For each phase, the summands of its peak."""
    bytes_per_pass: int
    """Bytes one read takes from the store."""
    disk_bytes: int
    """Scratch and row state at most."""
    passes: tuple[int, int]
    slices_halved: int = 0
    """Number of times that slices were halved to fit the budget."""
    keeps_rows: bool = False
    """Whether rows stay in memory between reads; it changes neither slices nor results."""
    chosen_rows: int = 0
    """Rows that a fold may choose to keep in memory, by the data, the parameters and the budget."""
    partitions: int = 1
    """Parts of an order-sensitive read that may run at once, by data, parameters and budget."""
    partitions_at_once: int = 1
    """Number of them that a process runs at once; it changes no bits."""
    note: str = ""
    """Sentence on what is not known yet, and how it is counted until then."""
    decided: str = ""
    """Sentence on what the parameters left open, and how it was decided."""

    def after(self, phase: str, before: Plan) -> Plan:
        """The same plan behind the phases that are done: those of `before` up to `phase`."""
        names = [name for name, _ in before.terms]
        done = before.terms[: names.index(phase) + 1] if phase in names else ()
        terms = (*done, *self.terms)
        return replace(
            self,
            terms=terms,
            peak_bytes=max((total_nbytes(part) for _, part in terms), default=0),
            passes=before.passes,
            slices_halved=before.slices_halved + self.slices_halved,
        )

    def __str__(self) -> str:
        fewest, most = self.passes
        reads = f"{fewest}" if fewest == most else f"{fewest} to {most}"
        slices = "as stored" if self.slice_rows is None else f"{self.slice_rows:,}"
        if self.slices_halved:
            slices += f" (halved {self.slices_halved} times to fit)"
        peak, budget = format_bytes(self.peak_bytes), format_bytes(self.budget)
        lines = [
            f"rows             {self.n_rows:,}",
            f"lanes            {self.n_lanes:,}, {self.lanes_in_flight} at once",
            f"rows in a slice  {slices}",
            f"reads            {reads} of {format_bytes(self.bytes_per_pass)} each",
            f"disk             {format_bytes(self.disk_bytes)}",
            f"memory           {peak} of a budget of {budget}",
        ]
        if self.note:
            lines.append(f"not known yet    {self.note}")
        if self.decided:
            lines.append(f"decided          {self.decided}")
        if self.partitions > 1:
            lines.insert(
                2,
                f"partitions       {self.partitions} of {self.n_rows // self.partitions:,} rows, "
                f"{self.partitions_at_once} at once; so many by the size of the table",
            )
        for phase, terms in self.terms:
            lines.append(f"  {phase:<22} {format_bytes(total_nbytes(terms)):>10}")
            lines += [
                f"    {term.label:<20} {format_bytes(term.total_bytes):>10}"
                + (f"  ({term.n} x {format_bytes(term.each_bytes)})" if term.n != 1 else "")
                for term in terms
                if term.total_bytes
            ]
        return "\n".join(lines)


def total_nbytes(terms: Sequence[Term]) -> int:
    """Bytes of the summands of a phase together."""
    return sum(term.total_bytes for term in terms)
