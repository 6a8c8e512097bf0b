"""Promise 1: the peak over the baseline stays within the budget, whatever the number of rows."""

import pytest
from promises.jobs import run, start, write_rows

MIB = 1 << 20
AT_LENGTH = pytest.mark.turns(1, 1)
"""Mark of a test or member that ``--runlong`` alone walks: another does most of what it does."""


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    """114 and 343 MiB decoded, 50 float32 columns: both long enough that every buffer fills."""
    folder = tmp_path_factory.mktemp("rows")
    return [
        write_rows(folder / f"{n}.parquet", n, 50, row_group=32_768) for n in (600_000, 1_800_000)
    ]


@pytest.mark.slow
@pytest.mark.turns(2, 0)
@pytest.mark.parametrize("solver", ["newton", "dual-cd"])
@pytest.mark.parametrize("budget", [64, 256])
def test_peak_stays_within_the_budget_and_does_not_grow(tables, solver, budget):
    over = [
        run(
            path=path,
            measure=True,
            config={"memory_budget": f"{budget}MiB"},
            parameters={"solver": solver, "max_passes": 4},
        )["over_baseline"]
        for path in tables
    ]
    assert max(over) <= budget * MIB
    assert over[1] <= over[0] + 32 * MIB  # no term in the number of rows: 229 MiB more data


@pytest.mark.slow
@pytest.mark.turns(2, 1)
@pytest.mark.parametrize("threads", [1, 4])
@pytest.mark.parametrize("budget", [64, 256])
def test_partitions_that_run_at_once_share_the_budget(tables, budget, threads):
    """Four partitions, of which as many run at once as their caches leave room for."""
    report = run(
        path=tables[1],
        measure=True,
        threads=threads,
        config={"memory_budget": f"{budget}MiB"},
        parameters={"solver": "dual-cd", "loss": "hinge", "max_passes": 4},
        partition_nbytes=40 * MIB,
    )
    assert report["over_baseline"] <= report["planned"] <= budget * MIB


@pytest.mark.slow
@AT_LENGTH  # test_traffic.py counts in every run what comes to the driver
def test_the_driver_of_a_cluster_never_holds_row_state(tmp_path):
    """Two dual variables a row: 9 MiB of the short table, 27 of the long one.

    What row state would add is in each run.  How many results are on their way to the driver at
    once is not, and adds 14 MiB to about every fourth: the least of three runs is compared.
    """
    parameters = {"solver": "dual-cd", "loss": "log_loss", "max_passes": 2}
    least = []
    for n in (1_200_000, 3_600_000):
        path = write_rows(tmp_path / f"{n}.parquet", n, 50, row_group=32_768)
        runs = [run(path=path, measure=True, workers=2, parameters=parameters) for _ in range(3)]
        least.append(min(report["over_baseline"] for report in runs))
    short, long = least
    assert long <= short + 9 * MIB


SPARSE = {"n_prototypes": 8, "n_passes": 3, "tol": 0.1}
SHARED = {"n_selected": 3, "columns_per_pass": 3, "tol": 1e-4}
OTHERS = [
    ("SuperSparseClassifier", SPARSE, 64),
    pytest.param("SuperSparseClassifier", SPARSE, 256, marks=AT_LENGTH),
    ("SVMMixtureClassifier", {"gate": "linear", "max_passes": 6}, 128),
    ("SVMMixtureClassifier", {"algorithm": "online-em", "max_passes": 6}, 128),
    ("ProjectionPursuitRegressor", {"n_terms": 1, "backfit": 0}, 128),
    ("JensenShannonBoostClassifier", {"n_learners": 1}, 128),
    ("ShareBoostClassifier", SHARED, 64),
    # a budget with room for the side store of both tables holds it, which grows with the rows
    pytest.param("ShareBoostClassifier", SHARED, 128, marks=AT_LENGTH),
]


@pytest.fixture(scope="module")
def shorter_tables(tmp_path_factory):
    """Half as many rows: 114 MiB lie between the two, so a term in their number still shows."""
    folder = tmp_path_factory.mktemp("fewer")
    return [
        write_rows(folder / f"{n}.parquet", n, 50, row_group=32_768) for n in (300_000, 900_000)
    ]


@pytest.mark.slow
@pytest.mark.parametrize("estimator, parameters, budget", OTHERS)
def test_every_other_family_stays_within_its_budget(shorter_tables, estimator, parameters, budget):
    over = [
        run(
            path=path,
            measure=True,
            estimator=estimator,
            config={"memory_budget": f"{budget}MiB"},
            parameters=parameters,
        )["over_baseline"]
        for path in shorter_tables
    ]
    assert max(over) <= budget * MIB
    assert over[1] <= over[0] + 32 * MIB


@pytest.mark.slow
@pytest.mark.parametrize("workers", [None, 2])
def test_rows_at_risk_stay_within_the_budget(tmp_path, workers):
    """About 3.3 M rows of 13 columns, 164 MiB that are never written, from 27 MiB."""
    report = run(
        path=write_rows(tmp_path / "rows.parquet", 600_000, 12, row_group=32_768),
        measure=True,
        workers=workers,
        estimator="AdditiveRegressor",
        at_risk={"duration": "x0", "cuts": [k / 10 for k in range(1, 11)]},
        config={"memory_budget": "64MiB"},
        parameters={"loss": "poisson", "exposure": "exposure", "n_bases": 5, "tol": 0.5},
    )
    assert report["over_baseline"] <= report["planned"] <= 64 * MIB


@pytest.fixture(scope="module")
def table_of_levels(tmp_path_factory):
    """120 MiB decoded: 20 columns, one of words and one with missing values."""
    path = tmp_path_factory.mktemp("levels") / "rows.parquet"
    return write_rows(path, 1_500_000, 20, row_group=32_768, levels=True)


@pytest.mark.slow
@pytest.mark.parametrize(
    "parameters",
    [
        {"solver": "newton"},
        {"basis": "cosine"},
        {"interactions": [[0, 2], [1, 3]], "encoding": {"x1": "levels"}},
    ],
)
def test_levels_and_other_bases_stay_within_the_budget(table_of_levels, parameters):
    report = run(
        path=table_of_levels,
        measure=True,
        config={"memory_budget": "96MiB"},
        parameters={"max_passes": 3, "tol": 0.5, "max_levels": 50} | parameters,
    )
    assert report["over_baseline"] <= 96 * MIB


@pytest.mark.slow
@pytest.mark.parametrize("solver", ["dual-cd", "pegasos"])
def test_several_quantiles_stay_within_the_budget(solver, tmp_path):
    """Five outputs, which copy dual variables and decisions in turns; 31 MiB decoded."""
    path = write_rows(tmp_path / "rows.parquet", 400_000, 20, row_group=32_768)
    quantiles = {"loss": "quantile", "quantile": [0.1, 0.25, 0.5, 0.75, 0.9], "C": 1e-4}
    report = run(
        path=path,
        measure=True,
        estimator="AdditiveRegressor",
        config={"memory_budget": "40MiB"},
        parameters={**quantiles, "solver": solver, "max_passes": 4, "tol": 0.5},
    )
    assert report["over_baseline"] <= report["planned"] <= 40 * MIB


@pytest.mark.slow
@pytest.mark.parametrize("estimator", ["AdditiveClassifierCV", "AdditiveRegressorCV"])
def test_choosing_stays_within_the_budget(tables, estimator):
    """Two values of C, two of n_bases and three folds; the Grams of one are read at a time."""
    done = run(
        path=tables[1],
        measure=True,
        estimator=estimator,
        config={"memory_budget": "128MiB"},
        parameters={"Cs": [0.1, 10.0], "n_bases": [6, 10], "cv": 3, "max_passes": 6},
    )
    assert done["over_baseline"] <= 128 * MIB


@pytest.mark.slow
@pytest.mark.parametrize("budget", [64, pytest.param(128, marks=AT_LENGTH)])
def test_choosing_by_dual_cd_stays_within_the_budget(tables, budget):
    """Two values of C and three folds, whose dual variables and cached rows lie side by side."""
    done = run(
        path=tables[1],
        measure=True,
        estimator="AdditiveClassifierCV",
        config={"memory_budget": f"{budget}MiB"},
        parameters={"loss": "hinge", "Cs": [0.1, 10.0], "n_bases": 8, "cv": 3, "max_passes": 3},
    )
    assert done["over_baseline"] <= done["planned"] <= budget * MIB


def test_a_budget_that_is_too_small_is_refused_before_the_first_read(tmp_path):
    path = write_rows(tmp_path / "a.parquet", 4_000, 8)
    done = start(path=path, config={"memory_budget": "2MiB"})
    assert done.returncode == 1
    assert "MemoryBudgetError" in done.stderr
    assert "budget is 2.0 MiB" in done.stderr
