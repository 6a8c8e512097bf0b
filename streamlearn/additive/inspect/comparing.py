"""Two fitted models over the same columns: their curves side by side, and how far apart they are.

    distance of a term = sqrt( mean over the rows of (f(x) - g(x))^2 )

by the density of the rows of the first model (where it has no curve, of the second): no read.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ...estimator.restored import output_labels
from ...estimator.rows.encoding import feature_names
from .densities import Density, points_of
from .figures import MOST_PANELS, Shares, decision_unit, grid_of, is_category
from .heat_maps import HasPairs
from .summary_table import SummaryTable


class Compared(HasPairs, Protocol):
    """A fitted additive model, by what is compared of it."""

    intercept_: np.ndarray

    @property
    def term_names_(self) -> list[str]: ...
    def _column(self, column: int | str) -> int: ...
    def _values(self, d: int, grid: object) -> np.ndarray: ...
    def _pair_values(self, columns: tuple[int | str, ...], grid: object) -> np.ndarray: ...


class Side(NamedTuple):
    """One of the two models, with what is asked of every column of it, found once."""

    model: Compared
    has_curve: list[bool]
    has_missing: list[bool]
    """Whether rows without a value in the column can be decided."""
    densities: Sequence[Shares]

    @classmethod
    def of(cls, model: Compared) -> Side:
        """The model as a side."""
        has_curve = [len(own) > 0 for own in model.knots_]
        return cls(model, has_curve, model.bases_.has_missing.tolist(), model.densities_)


Sides = tuple[Side, Side]


class Together(NamedTuple):
    """The curves of one column of two models."""

    name: str
    grid: np.ndarray
    """(m,) values, or numbers of words; last NaN if both know missing values."""
    curves: np.ndarray
    """(m, K, 2) both curves."""
    density: Shares
    words: list[str] | None
    """Words of a column of categories."""


def sides_of(first: Compared, second: Compared) -> Sides:
    """Both models, checked: their curves are of the same columns, classes and units."""
    check_is_fitted(first)
    check_is_fitted(second)
    check_alike(first, second)
    return Side.of(first), Side.of(second)


def columns_to_draw(
    sides: Sides, table: SummaryTable, features: Sequence[int | str] | None
) -> list[int]:
    """The columns that were named, or those of largest distance in the order of the table."""
    first, names = sides[0].model, feature_names(sides[0].model)
    every = with_curves(sides)
    if not every:
        raise ValueError("every column was constant in both trainings: there is no curve to draw")
    if features is None:
        place = {str(name): at for at, name in enumerate(table.columns["term"])}
        return sorted(sorted(every, key=lambda d: place[names[d]])[:MOST_PANELS])
    columns = [first._column(one) for one in features]
    constant = [names[d] for d in columns if d not in every]
    if constant or not columns:
        raise ValueError(
            f"features={list(features)!r}: name one column or more; {constant} were constant in "
            "both trainings and have no curve"
        )
    return columns


def with_curves(sides: Sides) -> list[int]:
    """The columns that have a curve in either model."""
    both = zip(sides[0].has_curve, sides[1].has_curve, strict=True)
    return [d for d, has_curve in enumerate(both) if any(has_curve)]


def check_alike(first: Compared, second: Compared) -> None:
    """Refuse models whose curves are of different columns, classes or units."""
    facts = [
        (feature_names(model),
         output_labels(model) or np.asarray(getattr(model, "classes_", ())).tolist(),
         decision_unit(model))
        for model in (first, second)
    ]  # fmt: skip
    for what, one, other in zip(("columns", "classes", "decisions"), *facts, strict=True):
        if one != other:
            shown = [value[:10] if isinstance(value, list) else value for value in (one, other)]
            raise ValueError(
                f"the {what} of the two models are {shown[0]} and {shown[1]}; compare models of "
                "the same ones"
            )
    for d, name in enumerate(feature_names(first)):
        if is_category(first, d) != is_category(second, d):
            raise ValueError(
                f"column {name!r} holds categories for one of the models, numbers for the other; "
                "compare models of the same columns"
            )


def both_curves(sides: Sides, d: int) -> Together:
    """Both curves of column d, where either of them may turn."""
    name, owner = feature_names(sides[0].model)[d], _owner(sides, d)
    density = owner.densities[d]
    if not is_category(owner.model, d):
        grids = [grid_of(side.model, d) for side in sides if side.has_curve[d]]
        grid = np.unique(np.concatenate(grids))
        grid = grid[np.isfinite(grid)]
        grid = np.append(grid, np.nan) if _both_miss(sides, d) else grid
        return Together(name, grid, _values(sides, d, grid), density, None)
    known = [side.model.levels_.get(name, []) for side in (owner, *sides)]
    words = list(dict.fromkeys(word for own in known for word in own))  # the owner's come first
    share = np.zeros(len(words))
    share[: len(density.share)] = density.share
    grid = np.append(np.arange(len(words), dtype=np.float64), np.nan)
    values = _values(sides, d, np.array([*words, None], object))
    return Together(name, grid, values, Density(grid[:-1], share, density.missing), words)


def _owner(sides: Sides, d: int) -> Side:
    """The side whose rows are counted along column d."""
    return sides[0] if sides[0].has_curve[d] else sides[1]


def _both_miss(sides: Sides, d: int) -> bool:
    """Whether every model that has a curve of column d has a level for missing values in it."""
    return all(side.has_missing[d] for side in sides if side.has_curve[d])


def _values(sides: Sides, d: int, at: np.ndarray) -> np.ndarray:
    """(m, K, 2) the curves of column d at numbers or words; 0 where it is constant."""
    curves = [
        side.model._curve(d, side.model._values(d, at)).reshape(len(at), -1) for side in sides
    ]
    return np.stack(curves, axis=2)


def distances(sides: Sides) -> SummaryTable:
    """The table of the distances of all terms, largest first, and of the intercepts."""
    first, second = (side.model for side in sides)
    names, columns = feature_names(first), with_curves(sides)
    pairs = list(dict.fromkeys((*_pairs(first), *_pairs(second))))
    terms = [names[d] for d in columns] + pairs
    found = [_of_column(sides, d, names[d]) for d in columns]
    found += [_of_pair(sides, name) for name in pairs]
    sizes = np.array(found).reshape(-1, 3)
    order = np.argsort(-sizes[:, 0], kind="stable")
    gap = float(np.sqrt(np.mean((first.intercept_ - second.intercept_) ** 2)))
    return SummaryTable(
        {"distance of the intercepts": gap},
        {
            "term": [terms[j] for j in order],
            "distance": sizes[order, 0].tolist(),
            "size, first": sizes[order, 1].tolist(),
            "size, second": sizes[order, 2].tolist(),
        },
    )


def _of_column(sides: Sides, d: int, name: str) -> np.ndarray:
    """(3,) distance of both curves of a column, and the sizes of each."""
    owner = _owner(sides, d)
    density = owner.densities[d]
    at, share = points_of(density)
    if is_category(owner.model, d):
        at = np.array(owner.model.levels_[name], object)
    if _both_miss(sides, d):
        at, share = np.append(at, np.array([np.nan], at.dtype)), np.append(share, density.missing)
    return _root_mean_squares(_values(sides, d, at), share)


def _root_mean_squares(values: np.ndarray, share: np.ndarray) -> np.ndarray:
    """(3,) of the difference of (m, K, 2) values, and of both, over shares (m,) and outputs."""
    f, g = values[:, :, 0], values[:, :, 1]
    total = float(share.sum()) or 1.0
    return np.array([np.sqrt(share @ (v**2).mean(axis=1) / total) for v in (f - g, f, g)])


def _pairs(model: Compared) -> list[str]:
    return model.term_names_[model.bases_.n_columns :]


def _of_pair(sides: Sides, name: str) -> np.ndarray:
    """(3,) distance of both terms of a pair at the nodes of one of them, and the sizes of each."""
    models = [side.model for side in sides]
    owner = next(model for model in models if name in _pairs(model))
    table = owner.pair_tables_[_pairs(owner).index(name)]
    names, share = feature_names(owner), table.density.copy()
    axes = []
    for axis, (d, nodes) in enumerate(zip(table.columns, table.nodes, strict=True)):
        if is_category(owner, d):
            axes.append(np.array([*owner.levels_[names[d]], None], object)[: len(nodes)])
            continue
        axes.append(nodes)
        if not _both_miss(sides, d):  # one of them cannot decide such rows
            np.moveaxis(share, axis, 0)[np.isnan(nodes)] = 0.0
    grids = [np.repeat(axes[0], len(axes[1])), np.tile(axes[1], len(axes[0]))]
    values = np.zeros((share.size, len(owner.intercept_), 2))
    for k, model in enumerate(models):
        if name in _pairs(model):
            values[:, :, k] = model._pair_values(table.columns, grids).reshape(share.size, -1)
    return _root_mean_squares(values, share.ravel())
