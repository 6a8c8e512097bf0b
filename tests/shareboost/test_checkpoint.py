"""A fit killed before any of its reads, and run again, ends at the same bits."""

import numpy as np
import pytest
from shareboost_kit import as_dataset, planted

import streamlearn as sl
from streamlearn.engine.run import Run
from streamlearn.shareboost import needs


class Killed(Exception):
    pass


def fit(folder, X, y, candidates):
    model = sl.ShareBoostClassifier(
        4, candidates=candidates, ridge=1e-3, columns_per_pass=2, n_anchors=4, n_radii=2, prune=True
    )
    return model.fit(as_dataset(X, y, rows=100), checkpoint=folder)


@pytest.mark.parametrize("in_memory", [True, False])
@pytest.mark.parametrize("candidates", ["columns", "stumps", "pieces", "soft-pieces"])
def test_killed_before_every_few_reads(tmp_path, monkeypatch, candidates, in_memory):
    monkeypatch.setattr(needs, "fits_in_memory", lambda plan: in_memory)
    X, y, _ = planted(300, 6, columns=(1, 4))
    expected = fit(None, X, y, candidates)
    left = [0]
    fold = Run.fold

    def mortal(self, *args, **kw):
        left[0] -= 1
        if left[0] < 0:
            raise Killed
        return fold(self, *args, **kw)

    monkeypatch.setattr(Run, "fold", mortal)
    n_killed, model = 0, None
    while model is None:
        left[0] = 7 + 40 * n_killed  # replayed reads count too
        try:
            model = fit(tmp_path / "run", X, y, candidates)
        except Killed:
            n_killed += 1
    assert n_killed >= 1
    assert model.choices_ == expected.choices_
    np.testing.assert_array_equal(model.coef_, expected.coef_)
    assert model.n_passes_ == expected.n_passes_
