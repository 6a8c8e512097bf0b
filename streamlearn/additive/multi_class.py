"""The way to more than two classes where it is left open: one problem of all, or one of each."""

from __future__ import annotations

from ..config import format_bytes
from .costs import needs, sizes, solver_choice
from .costs.solver_choice import LBFGS
from .smooth.model import Parameters, why_moments

AUTO_CLASSES, APART, JOINT = "auto", "ovr", "multinomial"
"""Values of `multi_class`: left open, one class against the rest, one multinomial problem."""

OPEN_NOTE = (
    "more than two classes are one multinomial problem by lbfgs, where they do not each have a "
    "smoothness of their own; the summary counts them, and the plan is made anew"
)
"""Sentence of a plan on classes that are not counted yet."""


def why_apart(
    model: Parameters, size: sizes.Size, criterion: str | None, *, weighs_curves: bool
) -> str:
    """Reason for which ``multi_class="auto"`` is one class against the rest; empty: it is not.

    One problem of all classes has the better probabilities, so it is taken wherever it is offered.
    `size` is that of the fit or, before the summary has counted the classes, of one of them.
    `criterion`: what chooses the smoothness; `weighs_curves`: whether it is that of curves beside
    interactions.
    """
    if not size.loss.multinomial:
        return f"loss={size.loss.name!r} is of one class at a time"
    if model.solver not in ("auto", LBFGS):
        return f"solver={model.solver!r} takes one class at a time"
    if why := why_moments(model, criterion):
        return f"{why} takes one class at a time"
    if weighs_curves:
        return "curves beside interactions are smoothed for one class at a time"
    if (calibration := getattr(model, "calibration", None)) is not None:
        return f"calibration={calibration!r} is of one class at a time"
    (phase,) = needs.needs_of(LBFGS, size, model.max_passes)
    taken, room = phase.state_bytes + phase.driver_bytes, solver_choice.room_of_matrices()
    if taken > room:
        return (
            f"one problem of all classes holds {format_bytes(taken)}, over half of the budget, "
            f"{format_bytes(room)}"
        )
    return ""
