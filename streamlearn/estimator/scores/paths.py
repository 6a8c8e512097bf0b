"""Paths: fits that give the models of several values of a parameter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from numbers import Real
from typing import Any, ClassVar, Self

Candidate = dict[str, Any]
"""Parameters of an estimator, by name."""


class FitsPaths:
    """A mixin of estimators: what one of their fits gives beside the model of its parameters."""

    _same_in_one_fit: ClassVar[Mapping[str, float]] = {}
    """Parameter -> of how many values one fit gives the models, bit for bit those of own fits."""

    @classmethod
    def _joint(cls, candidates: Sequence[Candidate]) -> Candidate:
        """The parameters of the fit that gives the models of all of them."""
        return candidates[0]

    def _models_of(self, candidates: Sequence[Candidate]) -> list[Self]:
        """The candidates' models, from that fit."""
        return [self] * len(candidates)


def fits_of(model: object, candidates: Sequence[Candidate]) -> list[list[int]]:
    """Numbers of the candidates of each fit: those whose models one gives, bit for bit.

    They differ in the parameters of a path alone.
    """
    limits: Mapping[str, float] = getattr(model, "_same_in_one_fit", {})
    fits: dict[object, list[int]] = {}
    for k, candidate in enumerate(candidates):
        single = all(isinstance(candidate.get(name, 0), Real) for name in limits)
        # in all combinations of one grid a value is the same object
        apart = frozenset((name, id(v)) for name, v in candidate.items() if name not in limits)
        given = frozenset(name for name in candidate if name in limits)
        fits.setdefault((apart, given) if given and single else k, []).append(k)
    groups = list(fits.values())
    for name, most in limits.items():
        groups = [part for group in groups for part in _parts(group, candidates, name, most)]
    return groups


def _parts(
    group: list[int], candidates: Sequence[Candidate], name: str, most: float
) -> list[list[int]]:
    """A group, in parts that have at most so many values of the parameter."""
    if len(group) == 1:
        return [group]
    values = dict.fromkeys(candidates[k].get(name) for k in group)
    part_of = {value: n // most for n, value in enumerate(values)}
    parts: dict[float, list[int]] = {}
    for k in group:
        parts.setdefault(part_of[candidates[k].get(name)], []).append(k)
    return list(parts.values())
