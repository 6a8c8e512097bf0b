"""The dual of a loss, as coordinate descent sees it: one rule for the losses that have one.

The dual of  C sum_i s_i l(y_i, f_i) + 1/2 |w|^2  in the forces v_i (at the optimum v = -slope) is

    D(v) = C sum_i s_i dual_value(y_i, v_i) - 1/2 |C sum_i s_i v_i Psi_i|^2,

dual_value(y, v) = min_f [l(y, f) + v f].  With v = y alpha / C these are the usual sums: hinge
alpha, squared hinge alpha - alpha^2/(4C), logistic -C [u log u + (1-u) log(1-u)].
"""

from __future__ import annotations

import math
from typing import NamedTuple

from numba.extending import register_jitable


class DualRule(NamedTuple):
    """A loss as its dual variables see it: dual value and interval of a row's force.

    The dual value is  t u - epsilon |u| - quadratic/2 u^2:  for classes of u = y v, t = 1 and
    0 <= u <= bound; for numbers of u = v, t = y and |u - centre| <= bound, which holds 0.  Or,
    `logistic`, the entropy -u log u - (1 - u) log(1 - u) of u = y v in [0, 1].
    """

    logistic: bool = False
    both_signs: bool = False
    """Whether targets are numbers: the dual variable is the row's force, of either sign."""
    epsilon: float = 0.0
    quadratic: float = 0.0
    """Coefficient of -u^2/2; 0 for a loss that is piecewise linear."""
    bound: float = math.inf
    """Largest |u - centre|; infinite for a loss whose slope is not bounded."""
    centre: float = 0.0
    """Middle of the interval of u, for numbers: other than 0 where the slopes of either sign differ
    in their bounds."""

    @property
    def n_variables(self) -> int:
        """Numbers kept per row and output: u and 1 - u if logistic, for their precision."""
        return 2 if self.logistic else 1


@register_jitable
def dual_value(rule: DualRule, y: float, v: float) -> float:
    """min_f [l(y, f) + v f] of the loss with this `DualRule`, for a force v in its interval."""
    if rule.logistic:
        u = y * v
        rest = 1.0 - u
        total = -u * math.log(u) if u > 0 else 0.0
        return total - (rest * math.log(rest) if rest > 0 else 0.0)
    target, u = (y, v) if rule.both_signs else (1.0, y * v)
    return target * u - rule.epsilon * abs(u) - 0.5 * rule.quadratic * u * u
