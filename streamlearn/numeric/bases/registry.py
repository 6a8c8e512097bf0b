"""The bases of this package, by the names that estimators take."""

from __future__ import annotations

from .basis import Basis
from .fourier import Cosine, Hermite, Trigonometric
from .splines import Cycle, Levels, Spline

KINDS: tuple[Basis, ...] = (Spline(), Levels(), Cosine(), Trigonometric(), Hermite())
"""Their places are the numbers by which kernels and saved models know them."""

SPLINE, LEVELS = 0, 1
"""Places of the two whose functions are looked up; those of the others are larger."""
CYCLE = -1
"""The number of splines that end where they begin, `Cycle`: looked up like those two."""
OWN = len(KINDS)
"""The number of a basis defined elsewhere."""
PAIR = OWN + 1
"""The number of terms of two columns, which have no breakpoints of their own."""

_CYCLE = Cycle()
BASES: dict[str, Basis] = {basis.name: basis for basis in KINDS if basis.name}


def make_basis(basis: str | Basis) -> Basis:
    """The basis of that name, or the one given."""
    return basis if isinstance(basis, Basis) else BASES[basis]


def basis_of(kind: int, own: Basis | None = None) -> Basis:
    """The basis of a number; `own` is that of `OWN`."""
    if kind == CYCLE:
        return _CYCLE
    return KINDS[kind] if own is None or kind < OWN else own


def kind_of(basis: Basis) -> int:
    """The basis's place in `KINDS`, or `OWN`."""
    return KINDS.index(basis) if basis in KINDS else OWN
