"""Promise 1 for tables of words, each read and each verb in a process that ran nothing before.

What a process has freed once is there for the next verb of it: several in one hide what each takes.
"""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from promises import awkward
from promises.forks import started
from promises.test_verbs import keep_to_the_budget, measured, written
from promises.verbs import verbs

WORDS = ("distinct strings", "long strings")
"""The awkward tables of words."""
BROKE = ("cross_validate",)
"""Verbs that have been over their budget, in a process of their own, on distinct strings."""
COMMON = ("Dataset.summary", "AdditiveClassifier.fit", "AdditiveClassifier.score")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("words")


def test_the_verbs_are_there():
    assert {*BROKE, *COMMON} < set(verbs())
    assert set(WORDS) < set(awkward.TABLES)


@pytest.mark.slow
@pytest.mark.parametrize("verb", [*BROKE, *COMMON])
def test_a_million_distinct_words(verb, folder, tmp_path):
    (cell,) = cells = measured([verb], WORDS[0], written(WORDS[0], folder), tmp_path)
    keep_to_the_budget(WORDS[0], cells)
    assert cell["refused"] is None


@pytest.mark.slow
@pytest.mark.turns(40, 3)
@pytest.mark.parametrize("verb", verbs())
@pytest.mark.parametrize("name", WORDS)
def test_every_verb(name, verb, folder, tmp_path):
    """With ``--runlong`` all of them."""
    keep_to_the_budget(name, measured([verb], name, written(name, folder), tmp_path))


N_ROWS = 300_000
SLICE = 32_768
WRITINGS = {
    "full dictionary": {"row_group_size": N_ROWS},
    "no dictionary": {"row_group_size": N_ROWS, "use_dictionary": False},
    "whole row groups": {"row_group_size": 30_000},
    "cut row groups": {"row_group_size": 40_000},
    "prefixes": {
        **{"row_group_size": N_ROWS, "use_dictionary": False},
        "column_encoding": {"x": "PLAIN", "word": "DELTA_BYTE_ARRAY"},
    },
}
"""Ways in which a table of distinct words may lie in a file."""
WAYS = ("codes", "hashes", "words")
"""What a read makes of words: codes of levels known by names or by hashes, or Python's words."""


@pytest.mark.slow
@pytest.mark.turns(3, 0)
@pytest.mark.parametrize("how", WRITINGS)
@pytest.mark.parametrize("way", WAYS)
def test_a_read_takes_what_is_planned_for_it(way, how, tmp_path):
    numbers = np.random.default_rng(0).permutation(N_ROWS)
    words = [f"user {k:07d} {k * 2654435761 % 2**32:08x}" for k in numbers.tolist()]
    table = pa.table({"x": numbers.astype(np.float32), "word": words})
    small, path = tmp_path / "small.parquet", tmp_path / "a.parquet"
    pq.write_table(table.slice(0, 3_000), small, **WRITINGS[how])
    pq.write_table(table, path, **WRITINGS[how])
    process, pipe = started(read_all, way, [str(small), str(path)])
    assert pipe.poll(300)
    over_baseline, planned = pipe.recv()
    process.join()
    assert over_baseline <= planned


def read_all(way, paths, pipe):
    """Peak of a read over the baseline, and what is planned for a slice of it, to the pipe."""
    from promises.fit_job import reset_peak, resident_bytes

    from streamlearn.engine.memory import peak_resident_bytes
    from streamlearn.engine.planning import RESERVE_BYTES
    from streamlearn.numeric.malloc import return_freed_blocks, trim_heaps

    return_freed_blocks()
    for path in paths:  # the small one loads what a read needs
        source = opened(path, way)
        refs = source.refs()
        trim_heaps()
        reset_peak()
        baseline = resident_bytes()
        with source.reader() as reader:
            for ref in refs:
                reader.read(ref)
    planned = max(ref.nbytes for ref in refs) + source.overhead_nbytes + RESERVE_BYTES
    pipe.send((peak_resident_bytes() - baseline, planned))


def opened(path, way):
    import streamlearn as sl
    from streamlearn.data.levels import HashCoder

    data = sl.open_dataset(path, target=None, chunk_rows=SLICE)
    if way == "words":
        return data.column("word")
    if way == "hashes":
        return data.with_coders({"word": HashCoder("word", np.arange(9, dtype=np.uint64))})
    return data.with_levels({"word": [f"user {k:07d}" for k in range(9)]})
