"""Every family learns as well from columns in other units, or says by name why it does not."""

import numpy as np
import pytest
from laws.cells import known, table
from laws.subjects import QUICK, Subject

from streamlearn.errors import SourceError

UNITS = {"far from 0": (1.0, 1e8), "large": (1e30, 0.0), "small": (1e-30, 0.0)}
"""Factor and offset of every column; float64 holds the values, float32 no differences of them."""
LOST = UserWarning, "which rounding loses: it may be taken for constant"
OVERFLOW = SourceError, "similarities of values beyond .* overflow: scale the column"
SAID = {
    ("ShareBoost", "far from 0"): LOST,
    ("SVMMixture", "far from 0"): LOST,
    ("SuperSparse", "far from 0"): LOST,
    ("SuperSparse", "large"): OVERFLOW,
    ("compress", "large"): OVERFLOW,
}
"""(beginning of the name, unit) -> what is said, of columns whose squares are summed up."""


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("name", QUICK)
def test_units_do_not_matter_or_are_named(name, unit):
    X, z = table(1_200)
    X, (factor, offset) = X.astype(np.float64), UNITS[unit]
    Z = factor * X + offset
    plain, other = Subject(name), Subject(name)
    # a number is in the columns' own units, as its documentation says
    y, more = plain.target(z), known(plain, ridge="auto" if "CV" not in name else ["auto"])
    more = more if name.startswith("ShareBoost") else {}
    said = [what for (start, of), what in SAID.items() if name.startswith(start) and of == unit]
    if said:
        [(kind, message)] = said
        catch = pytest.warns if issubclass(kind, Warning) else pytest.raises
        with catch(kind, match=message):
            other.fit(Z, y, **more)
        return
    a, b = plain.answer(plain.fit(X, y, **more), X), other.answer(other.fit(Z, y, **more), Z)
    if plain.classifies:
        right = [np.mean((answer > 0) == y) for answer in (a, b)]
        assert right[0] > 0.8
        assert right[1] > right[0] - 0.03
    else:
        assert np.corrcoef(a.ravel(), b.ravel())[0, 1] > 0.97
