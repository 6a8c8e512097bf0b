"""What a tampered model file may ask for, one attack at a time: refused by name."""

import os

import pytest
from hostile.archives import put_together, take_apart
from hostile.models import STORED

import streamlearn as sl
from streamlearn.errors import ArchiveError


def rewritten(tmp_path, name, change):
    header, arrays = take_apart((STORED / f"{name}.slm").read_bytes())
    change(header, arrays)
    path = tmp_path / "model.slm"
    path.write_bytes(put_together(header, arrays))
    return path


@pytest.mark.parametrize("n", [-1, 2**40, 2**62, 2**70])
def test_lengths_that_no_file_has_allocate_nothing(tmp_path, n):
    path = tmp_path / "model.slm"
    raw = (STORED / "mixture.slm").read_bytes()
    path.write_bytes(raw[:22] + (n % 2**64).to_bytes(8, "little") + raw[30:])
    with pytest.raises(ArchiveError, match="cut short or damaged"):
        sl.load(path)


def test_coordinates_in_the_place_of_rows_are_refused(tmp_path):
    """`prepared` bases would take the rows' values as places in the arrays."""

    def change(header, arrays):
        header["tree"]["fitted"]["state"]["bases"]["of"]["prepared"] = True

    with pytest.raises(ArchiveError, match="holds what streamlearn never writes"):
        sl.load(rewritten(tmp_path, "additive-classifier", change))


def test_parameters_that_no_model_takes_are_refused(tmp_path):
    def change(header, arrays):
        header["tree"]["parameters"]["n_bases"] = -5

    with pytest.raises(ArchiveError, match="model that no fit makes.*n_bases"):
        sl.load(rewritten(tmp_path, "additive-classifier", change))


def test_what_is_no_file_is_refused_at_once(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path, kind in ((tmp_path / "pipe", "a pipe"), (tmp_path, "a folder")):
        with pytest.raises(ArchiveError, match=f"is {kind}.*expected a file"):
            sl.load(path)
