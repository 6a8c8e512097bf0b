"""A folder of many fits tells of the one that was begun last."""

import fsspec
import pytest

from streamlearn.engine.checkpoint.several import (
    is_of_split,
    latest_fit,
    of_all_rows,
    of_split,
)

PLACES = ("folder", "memory")


@pytest.mark.parametrize("kind", PLACES)
def test_the_fit_that_was_begun_last(kind, tmp_path):
    place = str(tmp_path / "run") if kind == "folder" else f"memory://{tmp_path.name}/run"
    fs, path = fsspec.core.url_to_fs(place)
    fs.makedirs(path)
    assert latest_fit(place) == place
    for folder in (of_split(place, 0, 0), of_split(place, 1, 8), of_split(place, 1, 9)):
        fs.makedirs(fs._strip_protocol(folder))
        assert latest_fit(place) == folder
        assert is_of_split(folder)
    fs.makedirs(fs._strip_protocol(f"{place}/levels"))  # no fit's
    assert latest_fit(place) == of_split(place, 1, 9)
    fs.makedirs(fs._strip_protocol(of_all_rows(place)))
    assert latest_fit(place) == of_all_rows(place)
    assert not is_of_split(latest_fit(place))
    assert of_split(None, 0, 0) is of_all_rows(None) is None
