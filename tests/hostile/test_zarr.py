"""zarr stores that were changed at random: equal to what zarr-python reads of them, or refused."""

import pytest
from hostile.runner import run


@pytest.mark.fault
def test_changed_zarr_stores_are_read_as_zarr_does_or_refused():
    counts, bad = run("zarr_stores", 300)
    assert not bad
    assert counts["refused"] > 100
    assert counts["equal"] > 30
