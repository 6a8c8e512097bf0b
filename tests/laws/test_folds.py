"""Laws of every fold, checked on one small example of each."""

import ast
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from laws.examples import (
    DENSE,
    GROWS,
    NO_FOLD_EXAMPLE,
    ROW_STATE,
    ROWS_THEMSELVES,
    TABLE,
    N,
    arrays,
    fold_examples,
)

import streamlearn
from streamlearn.passes.fold import both, nbytes_of, read_all, run_fold
from streamlearn.testing.folds import LAWS, check_cuts, finish, state_of
from streamlearn.testing.rows import as_csr, cut, read_whole, rows_of, same

PACKAGE = Path(streamlearn.__file__).parent


@cache
def dataset():
    return arrays(TABLE.X).with_slice_rows(64)


@cache
def whole():
    """All rows as one chunk, with float64 targets as the solvers see them."""
    chunk = read_whole(dataset())
    chunk.y = chunk.y.astype(np.float64)
    chunk.rows = range(N)
    return chunk


@cache
def folds():
    return fold_examples(dataset())


NAMES = sorted(fold_examples(dataset()))


def set_apart(names):
    return [name for name in NAMES if name not in names]


@pytest.fixture(params=NAMES)
def fold(request):
    return folds()[request.param]


def constructors():
    """Every public function of the package whose result is annotated as a Fold."""
    for path in sorted(PACKAGE.rglob("*.py")):
        module = ".".join(path.relative_to(PACKAGE).with_suffix("").parts)
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
                if node.returns is not None and ast.unparse(node.returns).startswith("Fold"):
                    yield f"{module}.{node.name}"


def test_every_fold_has_an_example():
    missing = set(constructors()) - set(NAMES) - NO_FOLD_EXAMPLE.keys()
    assert not missing, f"add {sorted(missing)} to tests/laws/examples.py"


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.__name__)
def test_laws(fold, law):
    law(fold, whole())


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=8)
@given(cuts=st.lists(st.integers(0, N), max_size=5), halves=st.integers(0, 5))
def test_the_answer_does_not_depend_on_chunking(name, cuts, halves):
    check_cuts(folds()[name], whole(), cuts, halves)


@pytest.mark.parametrize("name", set_apart(GROWS))
def test_a_state_is_as_large_at_the_end_as_at_its_start(name):
    """Plans take the size of a state from what the fold starts with."""
    fold = folds()[name]
    a, b = cut(whole(), [200])
    assert nbytes_of(fold.merge(state_of(fold, a), state_of(fold, b))) == nbytes_of(fold.start())


@pytest.mark.parametrize("layout", ["F", "read-only F", "float64", "csr"])
@pytest.mark.parametrize("name", set_apart(ROWS_THEMSELVES))
def test_layouts_give_one_answer(name, layout):
    fold = folds()[name]
    chunk = rows_of(whole(), np.arange(N))
    if layout == "csr":
        chunk.X = as_csr(chunk.X)
        if name in DENSE:
            # Its estimator refuses such rows by name; that they give no answer is asserted here.
            with pytest.raises(TypeError, match="sparse rows where only dense ones can come"):
                state_of(fold, chunk)
            return
    else:
        chunk.X = np.asarray(chunk.X, np.float64 if layout == "float64" else None, order="F")
        chunk.X.flags.writeable = not layout.startswith("read-only")
    # float32 rows may be summed in float32 tiles: the answers differ by that much
    same(finish(fold, state_of(fold, chunk)), finish(fold, state_of(fold, whole())), rtol=2e-6)


def test_weight_zero_is_absent(fold):
    chunk = whole()
    kept = rows_of(chunk, np.flatnonzero(chunk.weight > 0))
    same_but_rows(finish(fold, state_of(fold, chunk)), finish(fold, state_of(fold, kept)))


@pytest.mark.parametrize("name", set_apart((*ROWS_THEMSELVES, *ROW_STATE)))
def test_weight_k_is_k_copies(name):
    fold = folds()[name]
    chunk = whole()
    copies = rows_of(chunk, np.repeat(np.arange(N), chunk.weight.astype(int)))
    copies.weight[:] = 1
    same_but_rows(finish(fold, state_of(fold, chunk)), finish(fold, state_of(fold, copies)))


def same_but_rows(a, b):
    """Equal, except for how many rows were read."""
    if hasattr(a, "n_rows"):
        a, b = replace(a, n_rows=0, n_absent=0), replace(b, n_rows=0, n_absent=0)
    elif type(a) is tuple:
        for x, y in zip(a, b, strict=True):
            same_but_rows(x, y)
        return
    same(a, b, rtol=2e-6 if _single(a) else 1e-11)


def _single(answer):
    return not type(answer).__module__.startswith("streamlearn.passes")


def test_both_gives_what_each_gives(fold):
    pair = both(fold, folds()["passes.summary.reading.summary_fold"])
    first, second = finish(pair, state_of(pair, whole()))
    same(first, finish(fold, state_of(fold, whole())), rtol=0)
    same(second, run_fold(folds()["passes.summary.reading.summary_fold"], [whole()]), rtol=0)


def test_a_dataset_is_read_through():
    """The example chunks above are those of a real dataset."""
    summary = run_fold(folds()["passes.summary.reading.summary_fold"], read_all(dataset()))
    expected = run_fold(folds()["passes.summary.reading.summary_fold"], [whole()])
    same(summary.columns, expected.columns)
