"""Laws of every fold, checked on one small example of each."""

import ast
import io
import pickle
from copy import deepcopy
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
from laws.laws_kit import as_csr, cut, read_whole, rows_of, same

import streamlearn
from streamlearn.data.files.archive import read_archive, write_archive
from streamlearn.data.order import row_share
from streamlearn.passes.fold import both, nbytes_of, read_all, run_fold

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


def state_of(fold, *chunks, start=None):
    state = fold.start() if start is None else start
    for chunk in chunks:
        for row in fold.rows:  # any values that belong to the rows; absent rows never get any
            share = row_share(chunk.rows, 1)[:, None] / np.arange(2, row.width + 2)
            share *= chunk.weight[:, None] > 0
            chunk.state[row.name] = share.astype(row.dtype)
        state = fold.step(state, chunk)
    return state


def finish(fold, state):
    return fold.finish(deepcopy(state))


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


def test_start_is_the_identity_of_merge(fold):
    a, b = cut(whole(), [200])
    expected = finish(fold, state_of(fold, a, b))
    left = fold.merge(fold.start(), state_of(fold, a, b))
    right = fold.merge(state_of(fold, a, b), fold.start())
    same(finish(fold, left), expected, rtol=0)
    same(finish(fold, right), expected, rtol=0)


def test_merge_is_associative(fold):
    parts = cut(whole(), [100, 417])
    a, b, c = (state_of(fold, part) for part in parts)
    left = fold.merge(fold.merge(deepcopy(a), deepcopy(b)), deepcopy(c))
    right = fold.merge(a, fold.merge(b, c))
    same(finish(fold, left), finish(fold, right))


def test_start_makes_a_new_state(fold):
    a = state_of(fold, whole())
    same(finish(fold, fold.start()), finish(fold, fold.start()), rtol=0)
    same(finish(fold, state_of(fold, whole())), finish(fold, a), rtol=0)


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=8)
@given(cuts=st.lists(st.integers(0, N), max_size=5), halves=st.integers(0, 5))
def test_the_answer_does_not_depend_on_chunking(name, cuts, halves):
    fold = folds()[name]
    pieces = cut(whole(), cuts)
    answer = fold.merge(state_of(fold, *pieces[:halves]), state_of(fold, *pieces[halves:]))
    same(finish(fold, answer), finish(fold, state_of(fold, whole())))


def test_empty_and_one_row_chunks(fold):
    first, empty, one, rest = cut(whole(), [50, 50, 51])
    assert (empty.n_rows, one.n_rows) == (0, 1)
    state = state_of(fold, empty, first, one, empty, rest, empty)
    same(finish(fold, state), finish(fold, state_of(fold, whole())))


@pytest.mark.parametrize("name", set_apart(GROWS))
def test_a_state_is_as_large_at_the_end_as_at_its_start(name):
    """Plans take the size of a state from what the fold starts with."""
    fold = folds()[name]
    a, b = cut(whole(), [200])
    assert nbytes_of(fold.merge(state_of(fold, a), state_of(fold, b))) == nbytes_of(fold.start())


def test_a_state_keeps_nothing_of_the_chunk(fold):
    chunk = rows_of(whole(), np.arange(N))
    state = state_of(fold, chunk)
    chunk.X[:] = np.nan
    chunk.y[:] = -5
    chunk.weight[:] = 1e9
    same(finish(fold, state), finish(fold, state_of(fold, whole())), rtol=0)


def test_a_step_changes_nothing_of_the_chunk(fold):
    chunk = rows_of(whole(), np.arange(N))
    for array in (chunk.X, chunk.y, chunk.weight):
        array.flags.writeable = False
    same(finish(fold, state_of(fold, chunk)), finish(fold, state_of(fold, whole())), rtol=0)


def test_folds_and_states_travel(fold):
    copy = pickle.loads(pickle.dumps(fold))
    a, b = cut(whole(), [300])
    state = state_of(copy, b, start=pickle.loads(pickle.dumps(state_of(copy, a))))
    same(finish(copy, state), finish(fold, state_of(fold, a, b)), rtol=0)


def test_states_and_answers_are_plain_trees(fold):
    state = state_of(fold, whole())
    for tree in (state, finish(fold, state)):
        file = io.BytesIO()
        write_archive(file, tree)
        file.seek(0)
        same(read_archive(file), tree, rtol=0)


@pytest.mark.parametrize("layout", ["F", "read-only F", "float64", "csr"])
@pytest.mark.parametrize("name", set_apart(ROWS_THEMSELVES))
def test_layouts_give_one_answer(name, layout):
    fold = folds()[name]
    chunk = rows_of(whole(), np.arange(N))
    if layout == "csr":
        chunk.X = as_csr(chunk.X)
        if name in DENSE:
            # Its estimator refuses such rows by name; that they give no answer is asserted here.
            text = "tuple indices must be|'Csr' object has no|array element with a sequence"
            with pytest.raises((AttributeError, TypeError, ValueError), match=text):
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
        a, b = replace(a, n_rows=0), replace(b, n_rows=0)
    elif type(a) is tuple:
        for x, y in zip(a, b, strict=True):
            same_but_rows(x, y)
        return
    same(a, b, rtol=2e-6 if _single(a) else 1e-11)


def _single(answer):
    return not type(answer).__module__.startswith("streamlearn.passes")


def test_both_gives_what_each_gives(fold):
    pair = both(fold, folds()["passes.summary.summary.summary_fold"])
    first, second = finish(pair, state_of(pair, whole()))
    same(first, finish(fold, state_of(fold, whole())), rtol=0)
    same(second, run_fold(folds()["passes.summary.summary.summary_fold"], [whole()]), rtol=0)


def test_a_dataset_is_read_through():
    """The example chunks above are those of a real dataset."""
    summary = run_fold(folds()["passes.summary.summary.summary_fold"], read_all(dataset()))
    expected = run_fold(folds()["passes.summary.summary.summary_fold"], [whole()])
    same(summary.columns, expected.columns)
