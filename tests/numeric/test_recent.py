"""Results kept for the arguments used last: those of a new call, for every subject and dtype."""

import gc
import weakref
from dataclasses import dataclass

import numpy as np
import pytest

from streamlearn.numeric.bases.bsplines import as_columns, make_bases
from streamlearn.numeric.bases.roughness import make_roughness, times
from streamlearn.numeric.recent import KEPT, MOST_COEFFICIENTS, kept_for_recent


@dataclass(eq=False)
class Subject:
    first: np.ndarray


def subject(n_coefficients=3):
    return Subject(np.array([0, n_coefficients]))


def counted():
    calls = []

    @kept_for_recent
    def make(subject, *more, **named):
        calls.append((subject, more, named))
        return object()

    return make, calls


def test_a_subject_is_told_by_identity_and_the_rest_by_equality():
    make, calls = counted()
    a, b = subject(), subject()
    assert make(a, np.dtype("f4")) is make(a, np.dtype("float32"))
    assert len({make(a, 1), make(b, 1), make(a, 2), make(a, n=1), make(a, n=2)}) == 5
    assert len(calls) == 6


def test_few_subjects_are_kept_and_no_large_one():
    make, calls = counted()
    large = subject(MOST_COEFFICIENTS + 1)
    assert make(large) is not make(large)
    subjects = [subject() for _ in range(KEPT + 1)]
    for one in subjects:
        make(one)
    n = len(calls)
    make(subjects[-1])
    assert len(calls) == n
    make(subjects[0])
    assert len(calls) == n + 1
    gone = weakref.ref(subjects[1])
    del subjects, one
    calls.clear()
    for _ in range(KEPT):
        make(subject())
    gc.collect()
    assert gone() is None


@pytest.mark.parametrize("missing", [False, True])
def test_maps_levels_and_products_are_those_of_the_bases_asked_for(missing):
    rng = np.random.default_rng(0)
    ends = [np.inf] if missing else []
    bases = [make_bases([[0.0, 1.0, k, *ends], [0.0, k]], [1, 1]) for k in (2.0, 3.0)]
    for _ in range(2):
        for k, one in zip((2.0, 3.0), bases, strict=True):
            for dtype in (np.float32, np.float64):
                columns = as_columns(one, np.dtype(dtype))
                assert columns.knots.dtype == dtype
                assert columns.knots[columns.at[0] + 2] == k
            assert one.has_missing.tolist() == [missing, False]
            assert as_columns(one._replace(prepared=True), np.dtype(np.float32)).prepared
            roughness = make_roughness(one, 1)
            W = rng.standard_normal((2, one.dim))
            found, start = times(roughness.P, roughness, W), 0
            for d, n in enumerate(np.diff(one.first)):
                begin, own = roughness.table[d], slice(start, start + n)
                P = roughness.P[begin : begin + n * n].reshape(n, n)
                np.testing.assert_allclose(found[:, own], W[:, own] @ P, rtol=1e-14, atol=1e-14)
                start += n
    with pytest.raises(ValueError, match="read-only"):
        bases[0].has_missing[0] = True
