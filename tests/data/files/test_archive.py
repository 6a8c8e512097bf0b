"""Archives give back the same types and bits, and say so when they are damaged."""

import io
import math
from fractions import Fraction

import numpy as np
import pytest
from hostile.archives import put_together, take_apart
from hypothesis import given
from hypothesis import strategies as st

from streamlearn.data.files.archive import read_archive, write_archive
from streamlearn.data.row_ranges import Ref
from streamlearn.data.source import Csr
from streamlearn.errors import ArchiveError


def round_trip(tree):
    file = io.BytesIO()
    assert write_archive(file, tree) == len(file.getvalue())
    file.seek(0)
    return read_archive(file)


def test_plain_values_keep_type_and_bits():
    tree = {
        "a": [1, 2.5, -0.0, math.inf, True, None, "ä"],
        "t": (1, (2, [3])),
        3: "int key",
        "$": "dollar",
        "big": 10**30,
        "x": 0.1 + 0.2,
    }
    back = round_trip(tree)
    assert back == tree
    assert isinstance(back["t"], tuple)
    assert math.copysign(1, back["a"][2]) == -1
    assert math.isnan(round_trip(math.nan))


@pytest.mark.parametrize(
    "array",
    [
        np.arange(6, dtype=np.float32).reshape(2, 3),
        np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        np.arange(20)[::3],
        np.zeros((0, 3)),
        np.zeros((3, 0), order="F"),
        np.array(2.5),
        np.array(["a", "ünï"]),
        np.array([1, 2], dtype=[("a", "<i4"), ("b", "<f8", (2,))]),
        np.array([True, False]),
        np.array(["a", None], dtype=object),
        np.array([np.nan, np.inf]),
    ],
    ids=str,
)
def test_arrays_keep_dtype_shape_and_order(array):
    back = round_trip({"x": array})["x"]
    assert (back.dtype, back.shape) == (array.dtype, array.shape)
    np.testing.assert_array_equal(back, array)
    if array.ndim == 2:
        assert back.flags.f_contiguous == array.flags.f_contiguous
    assert back.flags.writeable


def test_numpy_scalars_stay_numpy_scalars():
    back = round_trip([np.float64(0.1), np.int32(3), np.str_("a")])
    assert [type(x) for x in back] == [np.float64, np.int32, np.str_]
    assert back == [0.1, 3, "a"]


def test_records_of_this_package():
    csr = round_trip([Csr(np.ones(1), np.zeros(1, int), np.arange(2), 4)])[0]
    assert isinstance(csr, Csr)
    assert csr.n_columns == 4


def test_a_record_without_an_entry_is_named():
    with pytest.raises(
        TypeError, match=r"tree is a streamlearn\.data\.row_ranges\.Ref.*records\.py"
    ):
        round_trip(Ref(0, 1, 2))


def test_what_cannot_be_kept_is_named():
    with pytest.raises(TypeError, match=r"tree\.a\[1\] is a builtins.set"):
        round_trip({"a": [1, {2}]})
    with pytest.raises(TypeError, match="fractions.Fraction"):
        round_trip(Fraction(1, 2))


@pytest.mark.parametrize(
    "place",
    [
        *("subprocess:Popen", "streamlearn.__main__:x", "streamlearn.data.source:Ref"),
        *("streamlearn.nowhere:Bases", "Csr", ""),
    ],
)
def test_only_records_of_the_table_are_made(place):
    file = io.BytesIO()
    write_archive(file, Csr(np.ones(1), np.zeros(1, int), np.arange(2), 4))
    header, arrays = take_apart(file.getvalue())
    assert header["tree"]["type"] == "data.Csr"
    header["tree"]["type"] = place
    with pytest.raises(ArchiveError, match="not known to this version.*train again"):
        read_archive(io.BytesIO(put_together(header, arrays)))


def test_a_record_needs_its_fields_and_takes_no_others():
    file = io.BytesIO()
    write_archive(file, Csr(np.ones(1), np.zeros(1, int), np.arange(2), 4))
    header, arrays = take_apart(file.getvalue())
    fields = header["tree"]["of"]
    for changed in ({**fields, "more": 1}, {"data": fields["data"]}):
        header["tree"]["of"] = changed
        with pytest.raises(ArchiveError, match=r"'data\.Csr' with the fields data.*not known"):
            read_archive(io.BytesIO(put_together(header, arrays)))


@given(st.data())
def test_any_damage_is_noticed(data):
    file = io.BytesIO()
    write_archive(file, {"x": np.arange(40.0), "y": "text"})
    raw = bytearray(file.getvalue())
    if data.draw(st.booleans()):
        raw = raw[: data.draw(st.integers(0, 300))]
    else:
        at = data.draw(st.integers(len(raw) - 320, len(raw) - 1))
        raw[at] ^= 1 << data.draw(st.integers(0, 7))
    with pytest.raises(ArchiveError, match="cut short or damaged|not a file this version"):
        read_archive(io.BytesIO(bytes(raw)))


def test_a_file_is_whole_or_not_there(tmp_path):
    path = tmp_path / "a.slm"
    write_archive(path, [1])
    with pytest.raises(TypeError, match=r"tree\[0\] is a builtins\.object"):
        write_archive(path, [object()])
    assert read_archive(path) == [1]
    assert [p.name for p in tmp_path.iterdir()] == ["a.slm"]


def test_urls():
    write_archive("memory://archive-test/a.slm", {"x": np.arange(3)})
    np.testing.assert_array_equal(read_archive("memory://archive-test/a.slm")["x"], [0, 1, 2])
