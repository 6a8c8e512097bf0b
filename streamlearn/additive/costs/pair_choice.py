"""The decision of ``interactions="auto"``: whether a fit looks for pairs, and why it does not.

Pairs are sought where they can be and where what they cost is known to be small beside the fit:
parameters and the table say it, before a row is read, so that the plan that is shown is the one
that is run.  The summary, which counts classes and levels, may still find that the budget does not
hold them.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...config import format_bytes, get_config
from ...data.source import Source
from ...engine.plan import Needs
from ...engine.planning import make_plan
from ...errors import MemoryBudgetError
from ..pairs import excluding
from ..smooth.costs import LEAST_ROWS, MOMENTS_NBYTES, moments_nbytes
from . import sizes
from .solver_choice import DUAL, NEWTON_DIM, PEGASOS, Choice

LEAST_PASSES = 4
"""Reads of a fit that screens: summary, screening, solver, and the rows at the pairs' nodes."""
SAMPLE_SHARE = 4
"""Times that the sample, while it is put together, must fit in the budget."""
NONE_FOUND = "none promises more than noise may"
SPLIT_PAIRS = (
    "candidates are compared on the same splits, each of which would find pairs of its own"
)
ROWS_ONCE = "partial_fit looks at each row once"
"""Reasons of a fit that has screened, of one that chooses C by splits, and of one of a stream."""


def no_pairs(why: str) -> str:
    """Sentence of plans and certificates on a fit that was free to have pairs."""
    return f"no pairs as {why}"


def why_excluded(model: sizes.HasSize, dataset: Source) -> str:
    """Reason by parameters and shape for which no pairs are sought; empty: there is none."""
    rows, loss = dataset.n_physical_rows, model._loss
    if rows < LEAST_ROWS:
        return f"{rows:,} rows are fewer than {LEAST_ROWS:,}"
    for got, _ in excluding(model, dataset, LEAST_PASSES):
        return f"they do not go with {got}"
    if not loss.has("curvature"):
        return f"loss={loss.name!r} is not smooth"
    has_offset = any(getattr(model, name, None) is not None for name in ("offset", "exposure"))
    if dataset.n_features - has_offset < 2:
        return "there is one column"
    return ""


def why_slow(size: sizes.Size, choice: Choice) -> str:
    """Reason for which curves alone, of this size and solver, are enough to fit; else empty."""
    if size.dim > NEWTON_DIM:
        return f"up to {size.dim} coefficients of curves are over {NEWTON_DIM}"
    if choice.solver in (DUAL, PEGASOS):
        said = choice.reason or f"solver={choice.solver!r}"
        return f"visits of single rows would write their functions out: {said}"
    return ""


def why_uncounted(size: sizes.Size) -> str:
    """Reason for which the curvature of all rows, of this size, is not summed up; else empty."""
    state = moments_nbytes(size)
    if state <= MOMENTS_NBYTES:
        return ""
    return (
        f"the curvature of all rows, which covariance=True takes, would be {format_bytes(state)} "
        f"with them, over {format_bytes(MOMENTS_NBYTES)}"
    )


def why_joint(why_apart: str) -> str:
    """Reason of classes that are one problem without pairs, and not with them."""
    return f"they would part the classes, which are one problem without them: {why_apart}"


def why_unheld(needs: Sequence[Needs], sample_nbytes: int, dataset: Source) -> str:
    """Reason for which the budget does not hold a fit with pairs; empty: it does.

    `needs` are those of its reads; `sample_nbytes`: of the sample that the summary draws.  Slices
    stay as they are cut.
    """
    budget = get_config().memory_budget or sizes.UNSET_BUDGET
    if sample_nbytes > budget // SAMPLE_SHARE:
        return (
            f"their sample takes {format_bytes(sample_nbytes)}, over a quarter of the budget, "
            f"{format_bytes(budget)}"
        )
    unread = set(dataset.categorical) - set(dataset.levels)
    guess = " of as many levels as max_levels allows, until they are read" if unread else ""
    try:
        halved = make_plan(dataset, needs, budget=budget, threads=1).slices_halved
    except MemoryBudgetError:
        return f"a budget of {format_bytes(budget)} does not hold a fit with them{guess}"
    if halved:
        return f"a budget of {format_bytes(budget)} holds them in smaller slices alone{guess}"
    return ""
