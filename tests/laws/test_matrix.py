"""The matrix: every public estimator, every kind of table, every promise; and its page.

A new public estimator, and a new column, has cells here without a new test.
"""

import pytest
from laws import matrix
from laws.subjects import QUICK, names

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

CELLS = [
    pytest.param(
        name,
        column,
        marks=[pytest.mark.slow, pytest.mark.turns(4, 0)] if column in matrix.SLOW else [],
    )
    for column in matrix.COLUMNS
    for name in names()
]


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    with matrix.Tools(tmp_path_factory.mktemp("matrix")) as tools:
        yield tools


@pytest.mark.parametrize(("name", "column"), CELLS)
def test_cell(name, column, shared, tmp_path):
    """It runs, or is refused by name; and the page says which, and why."""
    shared.folder = tmp_path
    assert matrix.run(name, column, shared) == matrix.written()[name, column]


def test_every_public_estimator_has_a_quick_fit():
    assert sorted(names()) == sorted(QUICK)


def test_the_page_is_what_the_cells_give():
    assert matrix.page(matrix.written()) == matrix.PAGE.read_text()


def test_every_refusal_is_of_a_cell():
    for pattern, column in matrix.REFUSALS:
        assert column in matrix.COLUMNS
        assert any(matrix.re.fullmatch(pattern, name) for name in names()), pattern
