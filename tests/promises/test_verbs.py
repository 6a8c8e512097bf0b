"""Promise 1 for every public verb that takes a dataset: its peak stays within the budget."""

import re
from pathlib import Path

import pytest
from promises import awkward, verb_job
from promises.forks import started
from promises.verbs import Cell, verbs
from store_kit import BUCKET, file_system, options, serving

MIB = 1 << 20
BUDGET = 64
OPENING = 40
"""MiB that no plan counts: a footer of 12 MiB and its facts, before there is a plan."""


@pytest.mark.parametrize("verb", verbs())
def test_every_verb_has_a_cell(verb):
    """A new verb that takes a dataset must be measured: give it a way in `Cell`."""
    assert callable(Cell.way(verb))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("awkward")


def measured(some, name, paths, tmp_path, **config):
    """The cells of some verbs on the small and on the awkward table of `paths`."""
    job = {
        "verbs": some,
        **dict(zip(("small", "path"), paths, strict=True)),
        "folder": str(tmp_path),
        "features": awkward.FEATURES.get(name),
        "config": {"memory_budget": f"{BUDGET}MiB"} | config,
    }
    process, pipe = started(verb_job.main, job)
    assert pipe.poll(900)
    cells = pipe.recv()  # EOFError if the process failed: its error is on standard error
    process.join()
    assert [cell["verb"] for cell in cells] == job["verbs"]
    return cells


TOGETHER = (
    ("", "Dataset", "cli", "SplineEmbedding", "FourierEmbedding", "WaterfallDisplay"),
    ("AdditiveClassifier", "AdditiveRegressor", "AdditiveClassifierCV", "AdditiveRegressorCV"),
    ("ProjectionPursuitRegressor", "JensenShannonBoostClassifier", "PursuitDisplay"),
    ("ShareBoostClassifier", "SVMMixtureClassifier", "MixtureDisplay"),
    ("SuperSparseClassifier", "SuperSparseRegressor", "PrototypeDisplay"),
    ("SuperSparseClassifierCV", "SuperSparseRegressorCV"),
    ("ProjectionPursuitRegressorCV", "JensenShannonBoostClassifierCV"),
    ("ShareBoostClassifierCV", "SVMMixtureClassifierCV"),
)
"""Owners of all verbs, by the process that measures them."""


def test_every_owner_is_measured():
    found = {verb.rpartition(".")[0] for verb in verbs()}
    assert sorted(found) == sorted(owner for owners in TOGETHER for owner in owners)


EVERYWHERE = r"the answer alone|rows in memory"
REFUSED = {
    "one row group": EVERYWHERE,
    "tiny row groups": EVERYWHERE,
    "long strings": rf"hold strings|holds strings|takes columns of numbers|{EVERYWHERE}",
    "distinct strings": rf"hold strings|holds strings|takes columns of numbers|{EVERYWHERE}",
    "nullable": rf"Plan needs|NaN \(missing\)|partial_fit|a map of 2 columns|{EVERYWHERE}",
    "nested beside": EVERYWHERE,
    "thousand classes": rf"Plan needs|classes|{EVERYWHERE}",
    "wide csr": rf"Plan needs|[Ss]parse|{EVERYWHERE}",
    "wide dense": rf"Plan needs|{EVERYWHERE}",
}
"""Table -> what a refusal may say: an answer that is over the budget alone, a picture of one point
a row, or what the verb does not take."""


@pytest.mark.slow
@pytest.mark.turns(4, 0)
@pytest.mark.parametrize("owners", TOGETHER, ids=lambda owners: owners[-1])
def test_one_large_row_group(owners, folder, tmp_path):
    """92 MiB decoded, in one row group."""
    check("one row group", owners, folder, tmp_path)


SLOW = ("thousand classes", "wide csr", "wide dense")
"""Tables on which a family's fits take minutes, for they grow with classes times columns: walked
by the verbs of the package, of `Dataset` and of the additive classifier alone."""
AWKWARD = [name for name in awkward.TABLES if name != "one row group"]
ON_ALL = (TOGETHER[0], ("AdditiveClassifier",))
ON_OTHERS = (
    ("AdditiveRegressor",),
    ("ProjectionPursuitRegressor",),
    ("JensenShannonBoostClassifier", "PursuitDisplay"),
    ("ShareBoostClassifier",),
    ("SVMMixtureClassifier", "MixtureDisplay"),
    ("SuperSparseClassifier", "PrototypeDisplay"),
    ("SuperSparseRegressor",),
    *TOGETHER[5:],
)


def test_every_owner_is_walked_over_the_other_tables():
    found = {owner for owners in TOGETHER for owner in owners}
    found -= {"AdditiveClassifierCV", "AdditiveRegressorCV"}  # one row group alone
    assert found == {owner for owners in (*ON_ALL, *ON_OTHERS) for owner in owners}
    assert set(SLOW) < set(AWKWARD)


@pytest.mark.slow
@pytest.mark.turns(8, 1)
@pytest.mark.parametrize("owners", ON_ALL, ids=lambda owners: owners[-1])
@pytest.mark.parametrize("name", AWKWARD)
def test_other_awkward_tables(name, owners, folder, tmp_path):
    """Each larger, decoded, than the budget, or with more row groups, words or classes."""
    check(name, owners, folder, tmp_path)


@pytest.mark.slow
@pytest.mark.turns(20, 12)
@pytest.mark.parametrize("owners", ON_OTHERS, ids=lambda owners: owners[-1])
@pytest.mark.parametrize("name", [name for name in AWKWARD if name not in SLOW])
def test_each_family_on_one_of_them(name, owners, folder, tmp_path):
    """All that read through a dataset read alike; with ``--runlong`` each family on each table."""
    check(name, owners, folder, tmp_path)


def test_every_table_says_what_may_be_refused():
    assert REFUSED.keys() == awkward.TABLES.keys()


def written(name, folder):
    """Paths of the small and of the awkward table."""
    return [awkward.write(name, folder, small=small) for small in (True, False)]


BEHIND_URLS, URL_BUDGET = ("nullable", "wide csr"), 128
"""Tables read from an object store too, whose readers are others: streams of pages, ranges of
bytes fetched ahead, chunks of arrays by asynchronous requests.  Behind a URL the plan counts a
column's largest chunk more, so that 64 MiB are refused for one large row group."""


@pytest.fixture(scope="module")
def port():
    with serving() as port:
        yield port


@pytest.mark.slow
@pytest.mark.turns(2, 0)
@pytest.mark.parametrize("name", BEHIND_URLS)
def test_fit_and_predict_to_behind_a_url(name, folder, port, tmp_path):
    urls = []
    for path in written(name, folder):
        urls.append(f"s3://{BUCKET}/{Path(path).name}")
        file_system(port).put(path, urls[-1], recursive=Path(path).is_dir())
    some = ["AdditiveClassifier.fit", "AdditiveClassifier.predict_to"]
    config = {"memory_budget": f"{URL_BUDGET}MiB", "storage_options": options(port)}
    cells = measured(some, name, urls, tmp_path, **config)
    keep_to_the_budget(name, cells, URL_BUDGET)
    assert [cell["refused"] for cell in cells] == [None, None]


def check(name, owners, folder, tmp_path):
    some = [verb for verb in verbs() if verb.rpartition(".")[0] in owners]
    keep_to_the_budget(name, measured(some, name, written(name, folder), tmp_path))


def keep_to_the_budget(name, cells, budget=BUDGET):
    for cell in cells:
        assert cell["over_baseline"] <= budget * MIB, cell
        said = cell["refused"]
        if said is None:
            assert cell["over_baseline"] <= max(cell["planned"], OPENING * MIB), cell
        assert said is None or re.search(REFUSED[name], said), cell
