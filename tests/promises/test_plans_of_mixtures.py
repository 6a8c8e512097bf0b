"""The plans of a mixture, its streams and its choices: never under the peak, and near to it."""

import pytest
from promises import verb_job
from promises.forks import started
from promises.jobs import write_rows

from streamlearn.additive.costs.needs import COLD_NBYTES
from streamlearn.engine.planning import RESERVE_BYTES

CONSTANT = RESERVE_BYTES + COLD_NBYTES
"""Memory that every process needs, as in the plans of pairs."""
RATIO = 1.5
SHAPES = {"long": (400_000, 20, 2), "short": (60_000, 8, 2), "six classes": (200_000, 12, 6)}
"""Rows, columns, classes."""
NEAR = ("long",)
"""Shapes whose plan is near the peak.  A short table's peak is less than the buffers that plans
count for a reader of any table, and lanes that score six classes seldom need most at once."""
VERBS = (
    "SVMMixtureClassifier.fit",
    "SVMMixtureClassifier.partial_fit",
    "SVMMixtureClassifier.cross_validate",
    "SVMMixtureClassifierCV.fit",
)


@pytest.mark.slow
@pytest.mark.turns(2, 1)
@pytest.mark.parametrize("shape", SHAPES)
def test_the_plan_is_near_the_peak_and_never_under_it(shape, tmp_path):
    n_rows, n_columns, n_classes = SHAPES[shape]
    small, path = (
        write_rows(tmp_path / f"{n}.parquet", n, n_columns, row_group=32_768, n_classes=n_classes)
        for n in (3_000, n_rows)
    )
    job = {
        **{"verbs": VERBS, "small": small, "path": path},
        **{"folder": str(tmp_path), "features": None, "config": {}},
    }
    process, pipe = started(verb_job.main, job)
    assert pipe.poll(600)
    cells = pipe.recv()  # EOFError if the process failed: its error is on standard error
    process.join()
    assert [cell["verb"] for cell in cells] == list(VERBS)
    for cell in cells:
        assert cell["refused"] is None
        assert cell["over_baseline"] <= cell["planned"], cell
        if shape in NEAR:
            assert cell["planned"] <= RATIO * cell["over_baseline"] + CONSTANT, cell
