"""The number of components: mixing coefficients under a prior that prunes small ones.

The prior prod xi^-nu (Fu 2010, eq. 18) is improper: the objective grows without bound as any xi
goes to 0.  So eq. 20's max(0, S_j - nu) is a rule of pruning, not a maximiser (Figueiredo &
Jain 2002): a component that holds no more than nu rows is pruned, and the others get
xi_j = (S_j - nu) / sum (S - nu), which is the maximiser among those that stay.
"""

from __future__ import annotations

import numpy as np

from ..objective import EStep, Parameters, Problem


def message_length(n_columns: int, n_outputs: int) -> float:
    """nu by minimum message length: half the number of parameters of a centre and an expert."""
    return 0.5 * (n_columns + n_outputs * (n_columns + 1))


NOTHING = 1e-9
"""Share of the rows below which a component is pruned whatever nu is."""


def leaf_to_prune(problem: Problem, mass: np.ndarray) -> int | None:
    """The smallest leaf, if it holds at most nu rows and is not the last; otherwise None."""
    leaves = mass[problem.tree.n_branches :]
    if len(leaves) == 1 or not leaves.min() <= max(problem.nu, NOTHING * leaves.sum()):
        return None
    return int(leaves.argmin())


def without(problem: Problem, at: Parameters, leaf: int) -> tuple[Problem, Parameters]:
    """The mixture without a leaf, whose mixing coefficient the others share."""
    tree, keep = problem.tree.without(leaf)
    of_experts = np.arange(problem.n_experts) // problem.n_outputs != leaf
    log_mix = at.log_mix[keep]
    if problem.has_centres:
        for part in tree.contests():
            log_mix[part] -= np.log(np.exp(log_mix[part]).sum())
    names = np.delete(problem.names, leaf)
    return problem._replace(tree=tree, names=names), Parameters(
        at.rows[np.r_[keep, of_experts]], log_mix
    )


def mixing(problem: Problem, point: EStep) -> np.ndarray:
    """(n_gates,) logarithms of the next mixing coefficients (eq. 12 and 20).

    A leaf that no longer holds nu rows, but cannot be pruned yet or is the last, gets a little.
    """
    tree = problem.tree
    leaves = point.mass[tree.n_branches :]
    excess = np.maximum(leaves - problem.nu, 1e-3 * np.maximum(leaves, 1e-6))
    mass = tree.to_gates(excess[None])[0]
    log_mix = np.empty_like(mass)
    for part in tree.contests():
        log_mix[part] = np.log(mass[part] / mass[part].sum())
    return log_mix
