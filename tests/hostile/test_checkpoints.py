"""Checkpoints that were tampered with: the fit is refused, or goes on; never anything else."""

import pytest
from hostile.runner import run


@pytest.mark.fault
def test_tampered_checkpoints_are_refused_or_resumed():
    counts, bad = run("checkpoints", 60)
    assert not bad
    assert counts["refused"] > 20
    assert counts["fitted"] > 5
