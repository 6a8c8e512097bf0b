"""Choices and orders of rows, computed from row numbers and seeds without touching the data.

Every draw is a function of its arguments alone (a hash, or Philox keyed by seed and pass), so an
interrupted fit goes on with the same rows and a split is the same on every machine.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .row_ranges import Ref

_GOLDEN = 0x9E3779B97F4A7C15
_MASK = 2**64 - 1
_BLOCK = 1 << 18
_CANDIDATES = 256


def _mix(z: np.ndarray) -> np.ndarray:
    """The finaliser of splitmix64, in place (Steele, Lea & Flood 2014)."""
    z ^= z >> np.uint64(30)
    z *= np.uint64(0xBF58476D1CE4E5B9)
    z ^= z >> np.uint64(27)
    z *= np.uint64(0x94D049BB133111EB)
    z ^= z >> np.uint64(31)
    return z


def derive_seed(seed: int, *path: int) -> int:
    """A seed for another purpose: unrelated to `seed` and to those of other paths."""
    for step in path:
        z = np.array([((seed & _MASK) * _GOLDEN + step + 1) & _MASK], np.uint64)
        seed = int(_mix(z)[0])
    return seed


def row_hash(rows: range | np.ndarray, seed: int) -> np.ndarray:
    """(m,) uint64: splitmix64 of each row number, in the stream that `seed` names."""
    if isinstance(rows, range):
        z = np.arange(rows.start, rows.stop, rows.step, dtype=np.uint64)
    else:
        z = np.array(rows, dtype=np.uint64)
    z += np.uint64(1)
    z *= np.uint64(_GOLDEN)
    # The seed is mixed first: neighbouring seeds must not give shifted copies of one stream.
    z += np.uint64(derive_seed(seed, 0))
    return _mix(z)


def row_share(rows: range | np.ndarray, seed: int) -> np.ndarray:
    """(m,) float64 in [0, 1): the top 53 bits of the row's hash."""
    return (row_hash(rows, seed) >> np.uint64(11)) * 2.0**-53


@dataclass(frozen=True)
class HashShare:
    """The rows whose share under `seed` lies in [low, high)."""

    low: float
    high: float
    seed: int

    def keeps(self, rows: range | np.ndarray) -> np.ndarray:
        share = row_share(rows, self.seed)
        return (share >= self.low) & (share < self.high)


def kept_rows(shares: Sequence[HashShare], n_rows: int) -> int:
    """Number of the rows 0 .. n_rows-1 that lie in all the shares."""
    return sum(
        len(_survivors(shares, start, min(start + _BLOCK, n_rows)))
        for start in range(0, n_rows, _BLOCK)
    )


def exact_share(shares: Sequence[HashShare], n_rows: int, wanted: int, seed: int) -> float:
    """The `high` for which exactly `wanted` of the rows in `shares` have a share below it.

    Two passes over the row numbers in blocks: counts in 65,536 bins, then the one bin it falls in.
    """
    bins = np.zeros(65536, np.int64)
    for start in range(0, n_rows, _BLOCK):
        rows = _survivors(shares, start, min(start + _BLOCK, n_rows))
        bins += np.bincount((row_share(rows, seed) * 65536).astype(np.intp), minlength=65536)
    total = np.cumsum(bins)
    if wanted >= total[-1]:
        return 1.0
    at = int(np.searchsorted(total, wanted, side="right"))
    inside = []
    for start in range(0, n_rows, _BLOCK):
        rows = _survivors(shares, start, min(start + _BLOCK, n_rows))
        share = row_share(rows, seed)
        inside.append(share[(share * 65536).astype(np.intp) == at])
    before = int(total[at - 1]) if at else 0
    return float(np.sort(np.concatenate(inside))[wanted - before])


def _survivors(shares: Sequence[HashShare], start: int, stop: int) -> np.ndarray:
    rows = np.arange(start, stop)
    for share in shares:
        rows = rows[share.keeps(rows)]
    return rows


@dataclass(frozen=True)
class Order:
    """The order of an order-sensitive pass: refs in groups, the rows of a group in blocks.

    Parameters
    ----------
    seed : int
    group : int
        Refs per group; the engine holds one group in memory.
    labels : array (n_refs, K), optional
        Label counts of each ref.  With them the refs are drawn so that the labels seen so far stay
        near the overall mix: then a group of a class-sorted file holds several classes.
    """

    seed: int
    group: int
    labels: np.ndarray | None = None

    def __post_init__(self) -> None:
        if self.group < 1:
            raise ValueError(f"group={self.group} refs; a group holds at least one")

    def groups(self, refs: Sequence[Ref], pass_index: int) -> list[list[int]]:
        """Indices into `refs`: each ref once, in groups of `group` (the last may be smaller)."""
        random = np.random.Generator(np.random.Philox(key=_key(self.seed, pass_index)))
        drawn = random.permutation(len(refs)).tolist()
        if self.labels is not None:
            if len(self.labels) != len(refs):
                raise ValueError(f"labels of {len(self.labels)} refs for {len(refs)} refs")
            drawn = _spread(drawn, np.asarray(self.labels, np.float64))
        return [drawn[i : i + self.group] for i in range(0, len(drawn), self.group)]

    def permutation(
        self, n_rows: int, pass_index: int, group_index: int, block: int = 16
    ) -> np.ndarray:
        """(n_rows,) intp: the order of a group's rows, whole blocks of neighbours permuted.

        Blocks, not rows: the passes are bound by cache misses, and blocks cost no epochs.
        """
        # The draws of `groups` start at counter 0, so that no permutation overlaps them.
        philox = np.random.Philox(key=_key(self.seed, pass_index), counter=(group_index + 1) << 192)
        n_blocks = -(-n_rows // block)
        first = np.random.Generator(philox).permutation(n_blocks) * block
        order = (first[:, None] + np.arange(block)).ravel()
        return order[order < n_rows].astype(np.intp, copy=False)


def _key(seed: int, pass_index: int) -> int:
    return ((seed & _MASK) << 64) | (pass_index & _MASK)


def _spread(drawn: list[int], labels: np.ndarray) -> list[int]:
    """The drawn refs reordered by error diffusion, so that every stretch has the overall mix.

    Greedy over the next 256 undrawn: the ref that leaves the label counts so far closest to their
    expectation.  (Nearest to the mix within each group would leave the rare class to the end.)
    """
    mix = labels.sum(axis=0) / max(labels.sum(), 1.0)
    debt = np.zeros(labels.shape[1])
    excess = labels - labels.sum(axis=1, keepdims=True) * mix
    waiting = list(drawn)
    out: list[int] = []
    while waiting:
        window = waiting[:_CANDIDATES]
        after = debt + excess[window]
        at = int(np.argmin(np.einsum("ij,ij->i", after, after))) if out else 0
        debt = after[at]
        out.append(waiting.pop(at))
    return out
