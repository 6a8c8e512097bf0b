"""Parquet files that were changed at random: equal to what pyarrow reads of them, or refused."""

import pytest
from hostile.runner import run


@pytest.mark.fault
def test_changed_parquet_files_are_read_as_pyarrow_does_or_refused():
    counts, bad = run("parquet", 2000)
    assert not bad
    assert counts["refused"] > 500
    assert counts["equal"] > 500
