"""Model files that were tampered with are refused, or decide: never a crash, a hang, another error.

Any number of them: ``python -m bench hostile --only models --files N``.
"""

from hostile.runner import run


def test_tampered_models_are_refused_or_decide():
    counts, bad = run("models", 300)
    assert not bad
    assert counts["refused"] > 100
    assert counts["answered"] > 20
