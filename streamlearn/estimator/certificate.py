"""The certificate: the facts that a fit can prove about its answer, and its cost."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from numbers import Integral, Real

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from ..config import format_bytes

SMALL_TOL = 1e-4
"""Tolerance that is advised where there is none."""


@dataclass(frozen=True, repr=False)
class Certificate:
    """The outcome of a fit: how good, proved how, and at what cost.

    A convex fit has ``primal``, ``dual`` and ``relative_gap = (primal - dual) / max(|primal|,
    tiny)``, an upper bound of the relative suboptimality; one-vs-rest fits have arrays of length K
    and the largest gap.  A fit without a dual has these None, and in ``objective`` the quantity its
    theory makes monotone, with the name of its stopping rule in ``criterion``.

    Examples
    --------
    >>> import numpy as np
    >>> from streamlearn import AdditiveClassifier
    >>> X = np.linspace(0, 1, 300)[:, None]
    >>> certificate = AdditiveClassifier().fit(X, X[:, 0] > 0.3).certificate_
    >>> certificate.converged, certificate.n_passes, certificate.rows_read
    (True, 2, 600)
    """

    converged: bool
    """Whether the stopping rule was met."""
    primal: float | np.ndarray | None = None
    """Objective at the solution, measured by a pass over the rows."""
    dual: float | np.ndarray | None = None
    """Best dual value seen: a lower bound of the objective."""
    relative_gap: float | None = None
    objective: float | None = None
    """The monotone quantity of a fit without a dual; else None."""
    criterion: str = "relative duality gap"
    """Name of the quantity by which the fit stopped."""
    tolerance: float | None = None
    """Value at or below which the quantity named by `criterion` ends the fit."""
    solver: str = ""
    reason: str = ""
    """Reason for which the fit stopped, in words."""
    n_passes: int = 0
    """Reads of the data, the summary included."""
    rows_read: int = 0
    bytes_read: int = 0
    """Bytes taken from stores over all passes; 0 for arrays in memory."""
    seconds: float = 0.0
    peak_memory_bytes: int = 0
    """Largest resident memory seen during the fit, in bytes; on a cluster, of any one worker.

    The libraries and what the caller holds are in it: the budget is held against what it is over
    `memory_before_bytes` (and the kernels that this fit had to compile or load)."""
    memory_before_bytes: int = 0
    """Resident memory of this process when the fit began, in bytes; 0 on a cluster."""

    def __repr__(self) -> str:
        shown = dict(vars(self))
        before = shown.pop("memory_before_bytes")
        lines = [
            f"  {name:<18} {_show(name, value)}"
            for name, value in shown.items()
            if value is not None and not (isinstance(value, str) and value == "")
        ]
        if before:
            over = format_bytes(self.peak_memory_bytes - before)
            lines[-1] += f", {over} over the {format_bytes(before)} before the fit"
        return "Certificate(\n" + "\n".join(lines) + "\n)"

    def __eq__(self, other: object) -> bool:
        """Equal fields; arrays are compared element by element."""
        if not isinstance(other, Certificate):
            return NotImplemented
        return all(
            np.array_equal(a, b) if isinstance(a, np.ndarray) else bool(np.all(a == b))
            for a, b in zip(asdict(self).values(), asdict(other).values(), strict=True)
        )

    __hash__ = None  # type: ignore[assignment]  # holds arrays


def _show(name: str, value: float | str | np.ndarray) -> str:
    if isinstance(value, np.ndarray):
        return np.array2string(value, precision=8, threshold=8)
    if isinstance(value, bool | str):
        return str(value)
    if name.endswith("_bytes") or name == "bytes_read":
        return format_bytes(value)
    if name == "seconds":
        return f"{value:.2f} s"
    return f"{value:,}" if isinstance(value, int) else f"{value:.10g}"


def more_of(parameters: Mapping[str, object]) -> dict[str, object]:
    """More reads and a larger tolerance than these parameters have: what helps in every family."""
    found: dict[str, object] = {}
    for name in ("max_passes", "n_passes"):
        if isinstance(passes := parameters.get(name), Integral):
            found[name] = 2 * int(passes)
    if isinstance(tol := parameters.get("tol"), Real):
        found["tol"] = float(f"{10 * float(tol):.1g}") if float(tol) > 0 else SMALL_TOL
    return found


def warn_unless_converged(
    name: str, certificate: Certificate, remedies: Mapping[str, object]
) -> None:
    """Say so when a fit stopped short: criterion reached, tolerance, passes.

    `remedies`: parameters to set, any of which helps.
    """
    if certificate.converged:
        return
    reached, tolerance = certificate.relative_gap, certificate.tolerance
    if reached is not None:
        at = f"at a {certificate.criterion} of {reached:.3g}"
    elif certificate.objective is not None:  # of which the criterion is a change
        at = f"at an objective of {certificate.objective:.6g} with no small {certificate.criterion}"
    else:
        at = f"at a {certificate.criterion}"
    wanted = "" if tolerance is None else f"; the tolerance is {tolerance:.3g}"
    why = f" ({certificate.reason})" if certificate.reason else ""
    advice = ", ".join(f"{parameter}={value!r}" for parameter, value in remedies.items())
    warnings.warn(
        f"{name} stopped after {certificate.n_passes} passes {at}{wanted}{why}; "
        + (f"set one of {advice}, or scale the features" if advice else "scale the features"),
        ConvergenceWarning,
        stacklevel=4,
    )
