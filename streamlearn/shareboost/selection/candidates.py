"""Candidates for selection: columns, groups of them, products, stumps and pieces.

A choice is a tuple of numbers.  A kind says which columns a choice needs, and computes the choice's
features of rows in hand; nothing else in the package knows what a choice means.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol, TypeAlias

import numpy as np

from ...numeric.checks import check_array, check_number
from .kernels import weigh_rows

Choice = tuple[float, ...]
Numbers: TypeAlias = "Sequence[int] | np.ndarray"
"""Numbers of columns, ascending."""


class Options(Protocol):
    """Parameters of the estimator, and its classes, that say what is searched."""

    classes_: np.ndarray
    candidates: str
    rule: str
    groups: object
    n_selected: int
    columns_per_pass: int | str
    n_anchors: int
    n_radii: int
    random_state: int

    def _feature_groups(self) -> np.ndarray | None:
        """(n_features,) group of each feature; None if each is alone."""


class SingleColumns(NamedTuple):
    """Choice (j,): column j; or with groups (g,): all columns of group g."""

    group_of: np.ndarray | None = None
    """(d,) group of each column."""

    def check_choice(self, choice: Choice, n_columns: int) -> None:
        """Raise ValueError unless a choice from a file is one among so many columns."""
        if self.group_of is not None:
            check_array("group_of", self.group_of, (n_columns,), "integer", low=0)
        n = n_columns if self.group_of is None else int(self.group_of.max()) + 1
        _check_numbers(choice, n)
        if not self.members(choice):
            raise ValueError(f"the group {choice} has no columns")

    def members(self, choice: Choice) -> list[int]:
        if self.group_of is None:
            return [int(choice[0])]
        return np.flatnonzero(self.group_of == int(choice[0])).tolist()

    def needed(self, choices: Sequence[Choice]) -> list[int]:
        return sorted({j for choice in choices for j in self.members(choice)})

    def width(self, choice: Choice) -> int:
        return len(self.members(choice))

    def values(self, X: np.ndarray, needed: Numbers, choices: Sequence[Choice]) -> np.ndarray:
        at = np.searchsorted(needed, [j for choice in choices for j in self.members(choice)])
        return X[:, at]

    def names(self, choices: Sequence[Choice], columns: Sequence[str]) -> list[str]:
        return [columns[j] for choice in choices for j in self.members(choice)]

    def label(self, choice: Choice) -> str:
        return f"group {int(choice[0])}"


class Products(NamedTuple):
    """Choice (i, j), i < j: the product of two columns."""

    def check_choice(self, choice: Choice, n_columns: int) -> None:
        _check_numbers(choice, n_columns, n_columns)

    def needed(self, choices: Sequence[Choice]) -> list[int]:
        return sorted({int(j) for choice in choices for j in choice})

    def width(self, choice: Choice) -> int:
        return 1

    def values(self, X: np.ndarray, needed: Numbers, choices: Sequence[Choice]) -> np.ndarray:
        i, j = np.searchsorted(needed, np.array(choices, np.int64).reshape(-1, 2).T)
        return X[:, i] * X[:, j]

    def names(self, choices: Sequence[Choice], columns: Sequence[str]) -> list[str]:
        return [f"{columns[int(i)]} * {columns[int(j)]}" for i, j in choices]


class Stumps(NamedTuple):
    """Choice (j, t): 1 where column j is at most t, else 0."""

    def check_choice(self, choice: Choice, n_columns: int) -> None:
        _check_numbers(choice[:1], n_columns)
        check_number("a stump's threshold", choice[1])
        if len(choice) != 2:
            raise ValueError(f"a stump {choice} of {len(choice)} numbers")

    def needed(self, choices: Sequence[Choice]) -> list[int]:
        return sorted({int(choice[0]) for choice in choices})

    def width(self, choice: Choice) -> int:
        return 1

    def values(self, X: np.ndarray, needed: Numbers, choices: Sequence[Choice]) -> np.ndarray:
        at = np.searchsorted(needed, [int(j) for j, _ in choices])
        return (X[:, at] <= np.array([t for _, t in choices])).astype(X.dtype)

    def names(self, choices: Sequence[Choice], columns: Sequence[str]) -> list[str]:
        return [f"{columns[int(j)]} <= {t:.6g}" for j, t in choices]


class Pieces(NamedTuple):
    """Choice (a, r): (x, 1) where x is nearer to anchor a than its radius r, else 0 (section 3.2).

    Soft pieces are weighted by 1 - |x - anchor|^2 / radius^2, so that scores are continuous.
    """

    anchors: np.ndarray
    """(n_anchors, p) in the dtype of the rows."""
    limits: np.ndarray
    """(n_anchors, n_radii) squared radii, ascending, in that dtype."""
    soft: bool = False

    def check_choice(self, choice: Choice, n_columns: int) -> None:
        check_array("anchors", self.anchors, (None, n_columns), "floating")
        check_array("limits", self.limits, (len(self.anchors), None), "floating")
        _check_numbers(choice, *self.limits.shape)

    def needed(self, choices: Sequence[Choice]) -> list[int]:
        return list(range(self.anchors.shape[1]))

    def width(self, choice: Choice) -> int:
        return self.anchors.shape[1] + 1

    def values(self, X: np.ndarray, needed: Numbers, choices: Sequence[Choice]) -> np.ndarray:
        """Weights (m, q) of the pieces; `spread_pieces` makes the features of them."""
        a, r = np.array(choices, np.int64).reshape(-1, 2).T
        weights = np.empty((len(X), len(choices)), X.dtype if self.soft else np.uint8)
        anchors, limits = self.anchors[a].astype(X.dtype), self.limits[a, r].astype(X.dtype)
        weigh_rows(np.ascontiguousarray(X), anchors, limits, self.soft, weights)
        return weights

    def names(self, choices: Sequence[Choice], columns: Sequence[str]) -> list[str]:
        """One name for each feature that `spread_pieces` makes."""
        return [
            f"{column} near {int(a)} within {float(self.limits[int(a), int(r)]) ** 0.5:.6g}"
            for a, r in choices
            for column in (*columns, "1")
        ]

    def label(self, choice: Choice) -> str:
        a, r = choice
        return f"near {int(a)} within {float(self.limits[int(a), int(r)]) ** 0.5:.3g}"


def _check_numbers(choice: Choice, *below: int) -> None:
    """Raise ValueError unless the numbers of the choice are whole and each is below its limit."""
    for number, n in zip(choice, below, strict=True):
        check_number("a number of a choice", number, 0, n - 1)
        if number != int(number):
            raise ValueError(f"the choice {choice} is not of whole numbers")


Kind = SingleColumns | Products | Stumps | Pieces

OFFERED, OFFERED_PIECES = 3, 8
"""Candidates fetched for each one that is selected when a read selects several, because some of
them will be much alike: for columns, for pieces."""
MOST_AT_ONCE = 8
"""Largest number that "auto" selects from one read."""
LOOKED_AT = 8
"""Candidates on a shortlist, at least: as many as the rule "lookahead" compares for one."""
SAME, SAME_PIECES = 0.9, 0.5
"""Largest correlation of two candidates that one read selects; for pieces, of their weights."""


def likeness(kind: Kind) -> tuple[int, float]:
    """Candidates to fetch for each one that is selected, and the largest correlation of two."""
    return (OFFERED_PIECES, SAME_PIECES) if isinstance(kind, Pieces) else (OFFERED, SAME)


def most_at_once(columns_per_pass: int | str, n_selected: int, n: int) -> int:
    """Largest number that a read selects once n of `n_selected` are."""
    auto = columns_per_pass == "auto"
    wanted = min(MOST_AT_ONCE, 1 + n // MOST_AT_ONCE) if auto else int(columns_per_pass)
    return min(wanted, n_selected - n)


def takes_first(rule: str, n: int) -> bool:
    """Whether a read that selects n takes the best by score, without comparing a shortlist."""
    return n <= 1 and rule != "lookahead"


def n_offered(for_each: int, rule: str, n: int) -> int:
    """Candidates on the shortlist of a read that selects n, if there are so many.

    `for_each`: what `likeness` says of the kind.
    """
    return max(n, 1) if takes_first(rule, n) else max(for_each * n, LOOKED_AT)


def stored_width(kind: Kind, choice: Choice) -> int:
    """Number of columns of the side store that hold a choice: its features, or a piece's weight."""
    return 1 if isinstance(kind, Pieces) else kind.width(choice)


def spread_pieces(X: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """(m, q (p + 1)) products of each weight with the row (x, 1)."""
    V = np.column_stack([X, np.ones(len(X), X.dtype)])
    return (weights[:, :, None] * V[:, None, :]).reshape(len(X), -1)


def features(kind: Kind, X: np.ndarray, needed: Numbers, choices: Sequence[Choice]) -> np.ndarray:
    """(m, width) features of the choices, made from the columns `needed` of the rows."""
    values = kind.values(X, needed, choices)
    return spread_pieces(X, values) if isinstance(kind, Pieces) else values
