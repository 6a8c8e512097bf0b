"""Parquet files that were changed at random: equal to what pyarrow reads of them, or refused."""

import pytest
from hostile.runner import run


@pytest.mark.fault
def test_changed_parquet_files_are_read_as_pyarrow_does_or_refused():
    counts, bad = run("parquet", 2000)
    assert not bad
    assert counts["refused"] > 500
    assert counts["equal"] > 500


@pytest.mark.fault
@pytest.mark.parametrize("how", ["NUMBA_BOUNDSCHECK", "NUMBA_DISABLE_JIT"])
def test_kernels_stay_within_the_bytes_of_changed_files(tmp_path, how):
    """Compiled with checks of every index; as Python, where copies of raw bytes are checked too."""
    counts, bad = run("parquet", 200, 5000, **{how: "1", "NUMBA_CACHE_DIR": str(tmp_path)})
    assert not bad
    assert counts["equal"] > 50
