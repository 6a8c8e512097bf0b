"""The choice of a solver: which ones may serve a loss, and the seconds that each would take."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...config import format_bytes, get_config
from ...numeric.losses import LOSSES, Loss, make_loss
from . import sizes

NEWTON_DIM = 8000
"""Largest number of coefficients for which "auto" solves with matrices."""
GRAM_SECONDS, SOLVE_SECONDS = 5e-10, 8e-11
"""Seconds of one product that Newton adds up in the sample's Gram of linear splines, and of one
multiplication of its Cholesky factors.  Like the three that follow from fits of 2,000 to 100,000
generated rows of 20 to 400 columns; constants, so that every machine chooses the same solver."""
NEWTON_STEPS, MORE_STEPS = 6, 3
"""Grams and factors of a fit, and more of them where the sample is not all rows."""
DUAL_SECONDS: dict[str, float] = {"log_loss": 4e-7}
"""Seconds of all visits of dual CD to one value of rows in memory, for each smooth loss that was
measured, to `DUAL_TOL` with C up to `DUAL_C`."""
DUAL_TOL, DUAL_C, DUAL_ROUNDS = 1e-4, 1.0, 30
"""Smallest tolerance, largest C and fewest reads allowed with which "auto" takes it."""
TIMES_FASTER, LEAST_SECONDS = 2.5, 1.0
"""Least gain in predicted time for which "auto" leaves Newton, which ends at the optimum itself: a
ratio, and seconds that Newton would take."""
GRAM_NBYTES = 16 << 20
"""Largest state of a read that sums up a Gram for squared error; else Newton reads more often."""
NEWTON, DUAL, LBFGS, PEGASOS = "newton", "dual-cd", "lbfgs", "pegasos"
METHODS: dict[str, str] = {
    NEWTON: "curvature",
    DUAL: "dual_rule",
    LBFGS: "curvature",
    PEGASOS: "slope_bound",
}
"""The method of a loss that each solver needs, beside ``value`` and ``slope``.  Of the solvers that
may serve a loss the first is for small problems, the second for large ones."""
WHY_NOT = {
    NEWTON: "needs a smooth loss of one output at a time",
    LBFGS: "needs a smooth loss",
    DUAL: "needs a loss whose dual variables can be minimised one at a time",
    PEGASOS: "needs a loss of bounded slope and one output at a time",
}


class Choice(NamedTuple):
    """A solver and why it was taken."""

    solver: str
    """One of `METHODS`, or "gram"."""
    reason: str

    def because(self, why: str) -> Choice:
        """The same solver, with one more fact of this fit that the certificate states."""
        return self._replace(reason="; ".join(filter(None, (self.reason, why))))


def solvers_of(loss: Loss, joint: bool = False) -> tuple[str, ...]:
    """The solvers that may serve a loss; `joint`: as the multinomial loss of K classes."""
    if joint:
        return (LBFGS,)
    return tuple(solver for solver, method in METHODS.items() if loss.has(method))


def solver_table() -> dict[str, tuple[str, ...]]:
    """Name of each loss of this package -> its solvers: the table of the documentation."""
    made = {name: make_loss(name) for name in LOSSES}
    joint = {f"multinomial {n}": solvers_of(x, True) for n, x in made.items() if x.multinomial}
    return {name: solvers_of(loss) for name, loss in made.items()} | joint


def require_offered(loss: Loss, solver: str, joint: bool) -> tuple[str, ...]:
    """The solvers of a loss; refuses one that is none of them."""
    offered = solvers_of(loss, joint)
    if not offered:
        raise ValueError(
            f"no solver may serve loss={loss!r}, which has none of the methods "
            f"{', '.join(sorted(set(METHODS.values())))}; write one of them"
        )
    if solver not in ("auto", *offered):
        lacks = "" if loss.has(METHODS[solver]) else f", which has no method {METHODS[solver]}"
        raise ValueError(
            f"solver={solver!r} {WHY_NOT[solver]}, got loss={loss.name!r}{lacks}"
            + (" with multi_class='multinomial'" if joint else "")
            + f"; use solver={' or '.join(map(repr, offered))}"
        )
    return offered


def choose(
    loss: Loss, solver: str, size: sizes.Size, joint: bool = False, easy: bool = False
) -> Choice:
    """The solver to use; `joint`: of the multinomial loss.

    `easy`: whether the parameters are among those for which dual CD has been measured.
    """
    offered = require_offered(loss, solver, joint)
    matrix = 8 * size.dim**2
    if loss.quadratic and solver in ("auto", NEWTON) and matrix <= GRAM_NBYTES:
        name = loss.name.replace("_", " ")
        return Choice("gram", f"{name}: one Gram of all rows is exact")
    if solver != "auto":
        return Choice(solver, "")
    # a gradient looks up what a row meets of a pair; a dual epoch writes its functions out
    by_size = (LBFGS, DUAL) if size.pair_dim else (DUAL, LBFGS)
    large = next((one for one in by_size if one in offered), PEGASOS)
    if NEWTON not in offered:
        why = "the classes are one multinomial problem" if joint else f"{loss.name} is not smooth"
        return Choice(large, f"{large} as {why}")
    room = room_of_matrices()
    if size.dim > NEWTON_DIM:
        return Choice(large, f"{large} as up to {size.dim} coefficients are over {NEWTON_DIM}")
    if matrix > room:
        return Choice(
            large, f"{large} as a matrix of {format_bytes(matrix)} is over half of the budget"
        )
    newton, dual = newton_seconds(size), dual_seconds(loss, size)
    if DUAL in offered and easy and newton > max(TIMES_FASTER * dual, LEAST_SECONDS):
        return Choice(
            DUAL,
            f"{DUAL} as it is predicted to take {dual:.2g} s for up to {size.dim} coefficients, "
            f"{NEWTON} {newton:.2g} s",
        )
    return Choice(NEWTON, f"newton as {loss.name} is smooth, with at most {size.dim} coefficients")


def room_of_matrices() -> int:
    """Largest matrix with which "auto" solves: half of the budget set."""
    return (get_config().memory_budget or sizes.UNSET_BUDGET) // 2


def newton_seconds(size: sizes.Size) -> float:
    """Seconds of Newton's steps on a sample of dense rows, without the reads."""
    rows = min(size.n_rows, sizes.sample_rows(size))
    steps = NEWTON_STEPS + (MORE_STEPS if rows < size.n_rows else 0)
    products = 2.0 * rows * size.n_columns**2
    return steps * (GRAM_SECONDS * products + SOLVE_SECONDS * size.dim**3 / 3)


def dual_seconds(loss: Loss, size: sizes.Size) -> float:
    """Seconds of dual CD for a smooth loss; infinite where no measurement says it."""
    if size.sparse or not sizes.holds_rows(size):
        return np.inf
    return DUAL_SECONDS.get(loss.name, np.inf) * size.n_rows * size.n_columns
