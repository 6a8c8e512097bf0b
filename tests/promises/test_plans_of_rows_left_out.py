"""The plan in force, of rows of which some are left out: never under the peak, near to it."""

import pytest
from promises.jobs import run, write_rows

from streamlearn.additive.costs.needs import COLD_NBYTES
from streamlearn.engine.planning import RESERVE_BYTES

CONSTANT = RESERVE_BYTES + COLD_NBYTES
"""What every process needs, as in the plans of pairs."""
RATIO = 1.5

HALF = {"duration": "x0", "cuts": [k / 10 for k in range(1, 11)]}
AT_RISK = {"loss": "poisson", "exposure": "exposure", "n_bases": 5, "tol": 0.5}
LEFT_OUT = {  # durations are even between 0 and 1
    "few steps": {"at_risk": {"duration": "x0", "cuts": [1 + k / 10 for k in range(10)]}},
    "half of the steps": {"at_risk": HALF},
    "all steps": {"at_risk": {"duration": "x0", "cuts": [k / 1e9 for k in range(1, 10)] + [2.0]}},
    "half of the steps of a third": {"at_risk": HALF, "share": 0.33},
    "a third": {"share": 0.33},
    "a filter": {"filters": [["x0", "<", 0.33]]},
}


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    path = tmp_path_factory.mktemp("rows") / "rows.parquet"
    return write_rows(path, 500_000, 12, row_group=32_768)


@pytest.mark.slow
@pytest.mark.turns(2, 0)
@pytest.mark.parametrize("left_out", LEFT_OUT)
def test_the_plan_in_force_is_near_the_peak_and_never_under_it(left_out, table):
    job = LEFT_OUT[left_out]
    parameters = AT_RISK if "at_risk" in job else {"n_bases": 5, "tol": 0.5}
    done = run(
        path=table, measure=True, estimator="AdditiveRegressor", parameters=parameters, **job
    )
    assert done["over_baseline"] <= done["planned"] <= done["planned_before"]
    assert done["planned"] <= RATIO * done["over_baseline"] + CONSTANT
