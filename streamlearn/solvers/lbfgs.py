"""What steps teach of the curvature: the two-loop recursion of L-BFGS, around any first matrix.

    H_0^-1 is what `solve` applies; each lesson (a step s and the change y of the gradient over it)
    corrects it so that H^-1 y = s          (Nocedal & Wright 2006, algorithm 7.4)

The first matrix need not be a multiple of the identity: the penalty, or the penalty and a sample's
curvature, makes the few lessons go far.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

PAIRS = 10
"""Lessons that are kept."""


class Lesson(NamedTuple):
    """What a step taught: it changed the gradient by `change`."""

    step: np.ndarray
    change: np.ndarray
    curvature: float
    """step . change."""


def learn(lessons: list[Lesson], step: np.ndarray, change: np.ndarray) -> list[Lesson]:
    """The last lessons with this one, if it saw curvature at all."""
    curvature = float(step @ change)
    if not curvature > 1e-14 * np.linalg.norm(step) * np.linalg.norm(change):
        return lessons
    return [*lessons[1 - PAIRS :], Lesson(step, change, curvature)]


def direction(
    solve: Callable[[np.ndarray], np.ndarray], g: np.ndarray, lessons: list[Lesson]
) -> np.ndarray:
    """-H^-1 g, the H that `solve` inverts corrected so that it agrees with the last lesson."""
    g = g.copy()
    shares = []
    for lesson in reversed(lessons):
        shares.append(lesson.step @ g / lesson.curvature)
        g -= shares[-1] * lesson.change
    d = solve(g)
    for lesson, share in zip(lessons, reversed(shares), strict=True):
        d += (share - lesson.change @ d / lesson.curvature) * lesson.step
    return -d
