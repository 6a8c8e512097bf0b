"""Partitions of the rows of a dual sweep: what each minimises, and how many there are.

Partition k of L changes its own dual variables by d_k, beginning at the w of all rows,

    maximise  C sum_(i in k) s_i dual_value(alpha_i + d_i) - w'P dw_k - L/2 |dw_k|^2,
    dw_k = sum_(i in k) d_i y_i Psi_i,

and all changes are added up (CoCoA+ with gamma = 1, sigma' = L: Ma et al. 2015).  As
|sum_k dw_k|^2 <= L sum_k |dw_k|^2, the dual value of all rows rises at least by what the
partitions' values rise.  With w + L dw_k for w it is the problem of these rows with L P^-1 for P^-1
and L B^2 for B^2, which the epochs solve as they are.

What differs from the paper: the rows are dealt to the partitions anew in each read.

A step of a dual variable is L times shorter, so that rows whose variables end far up need more
visits.  Hinge, 500,000 generated rows of 20 columns, 10 bases, to 1 %, sweeps with 1, 2, 4 and 8
partitions: 4, 6, 6, 9 at C = 1; one with 1 and with 2 at C = 0.1.  With sigma' below L the dual
value fell beyond bounds (2 for 8 partitions), or the primal one stayed 15 % high (4 for 8).  Of six
rules by which sigma' follows the measured |sum_k dw_k|^2 / sum_k |dw_k|^2, five reached 1 % there
and one did not; on 60,000 digits, where a partition has one row a coefficient, the best one swung.
2,000,000 rows of 50 columns, 7 % of them cached, C = 1, took 9 reads in all with one partition, 12
with two (1.2 times the processor's seconds) and 19 with four (2.2 times).  Hence two partitions,
and only where a read is worth sharing.
"""

from __future__ import annotations

import math

from ...numeric.bases.roughness import make_reference
from ..objective import Problem

MOST = 2
"""Partitions of a large table."""
PARTITION_NBYTES = 512 << 20
"""Bytes of coordinates that a partition has at least: below, fewer sweeps of one are quicker."""


def count_partitions(nbytes: float) -> int:
    """Partitions, a power of two, of rows whose coordinates take so many bytes."""
    most = max(1, min(MOST, int(nbytes // PARTITION_NBYTES)))
    return 1 << (most.bit_length() - 1)


def local_problem(problem: Problem, n_partitions: int) -> Problem:
    """The problem that each partition solves, whose coefficients are w + L dw."""
    roughness = problem.roughness
    roughness = roughness._replace(
        P=roughness.P / n_partitions,
        L=roughness.L * n_partitions,
        R=roughness.R / math.sqrt(n_partitions),
    )
    return problem._replace(
        roughness=roughness,
        reference=make_reference(roughness, problem.reference.c),
        intercept_scaling=problem.intercept_scaling * math.sqrt(n_partitions),
    )
