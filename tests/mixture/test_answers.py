"""Answers by one exponential each are those of the logs."""

import numpy as np
import pytest
from mixture_kit import KINDS, make, rows_of, table

from streamlearn.mixture import answers, experts
from streamlearn.mixture.objective import row_blocks, split
from streamlearn.numeric import links

SHAPES = [(g, 4) for g in KINDS] + [(g, (2, 3)) for g in KINDS if g != "generative"]


@pytest.mark.parametrize(("gate", "k"), SHAPES)
@pytest.mark.parametrize("loss", experts.LOSSES)
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("scale", [1.0, 300.0])
def test_decisions_are_sums_of_logs(gate, k, loss, n_classes, scale):
    """At scale 300 most likelihoods are below the smallest number there is."""
    X, y, _ = table(40, n_classes=n_classes)
    problem, at = make(gate, loss, rows_of(X, y), k, n_classes=n_classes)
    n = problem.tree.n_gates
    at = at._replace(rows=np.vstack([at.rows[:n], scale * at.rows[n:]]))
    ((_, _, Z, squares),) = row_blocks(problem, at, X)
    logs, _, F = split(problem, at, Z, squares)
    joint = problem.tree.to_leaves(logs)
    of_class = links.log_sum(joint[:, :, None] - experts.class_losses(loss, F), 1)[:, 0]
    got = answers.decisions(problem, at, X)
    if n_classes == 2:
        np.testing.assert_allclose(got, of_class[:, 1] - of_class[:, 0], rtol=1e-9, atol=1e-9)
    else:
        np.testing.assert_allclose(got, of_class - links.log_sum(of_class, 1), atol=1e-9)
    shares = answers.gate_shares(problem, at, X)
    np.testing.assert_allclose(shares, np.exp(joint - links.log_sum(joint, 1)), rtol=1e-9)
