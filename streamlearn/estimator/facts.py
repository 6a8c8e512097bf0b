"""The facts of a fitted model in words, and the parts of which it consists."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from html import escape
from typing import NamedTuple, Protocol

import numpy as np
from sklearn.utils import estimator_html_repr

from ..config import format_bytes
from ..engine.plan import Plan
from .certificate import Certificate

MOST_PARTS = 5
"""Parts that the facts name, at most."""
WAYS = {"ovr": "each against the rest", "multinomial": "one multinomial problem"}
"""Ways in which a family fits more than two classes, if it has several, as the facts name them."""

_EXACT = "the best possible, to rounding"
_STYLE = """<style>
.streamlearn-facts { border-collapse: collapse; margin: 0 0 0.5em; font-size: 0.9em }
.streamlearn-facts th, .streamlearn-facts td {
  text-align: left; vertical-align: top; padding: 0.15em 0.8em 0.15em 0; overflow-wrap: anywhere }
.streamlearn-facts th { font-weight: 600; white-space: nowrap }
</style>"""


class Part(NamedTuple):
    """A term, component, selected feature, direction or prototype of a fitted model."""

    name: str
    size: float
    error: float = float("nan")
    """Standard error of the size; NaN: it is not known."""


class Parts(NamedTuple):
    """The parts of a fitted model, in the order in which they are shown."""

    noun: str
    """Plural noun of the parts, such as "terms"."""
    measure: str
    """Description of the number `size` of a part."""
    parts: Sequence[Part]

    @classmethod
    def by_size(
        cls,
        noun: str,
        measure: str,
        names: Sequence[str],
        sizes: Sequence[float] | np.ndarray,
        errors: np.ndarray | None = None,
    ) -> Parts:
        """The parts with the largest first; `errors`: standard errors of their sizes."""
        order = np.argsort(-np.asarray(sizes, np.float64), kind="stable")
        known = np.full(len(order), np.nan) if errors is None else errors
        return cls(noun, measure, [Part(names[j], float(sizes[j]), float(known[j])) for j in order])


class HasFacts(Protocol):
    """A fitted model, by what its facts are made of."""

    n_features_in_: int
    certificate_: Certificate
    plan_: Plan | None

    def _parts(self) -> Parts: ...


class ShowsFacts:
    """A mixin: notebooks show the facts of a fitted estimator above scikit-learn's diagram."""

    @abstractmethod
    def _facts(self) -> list[tuple[str, str]]:
        """Label and value of what is known once the estimator is fitted."""

    @abstractmethod
    def __sklearn_is_fitted__(self) -> bool:
        """Whether there is anything to show."""

    # scikit-learn calls one or the other, by version and by what the notebook understands.

    def _repr_html_inner(self) -> str:
        table = facts_table(self._facts()) if self.__sklearn_is_fitted__() else ""
        return table + str(estimator_html_repr(self))

    def _repr_mimebundle_(self, **kwargs: object) -> dict[str, str]:
        bundle: dict[str, str] = super()._repr_mimebundle_(**kwargs)  # type: ignore[misc]
        if "text/html" in bundle:
            bundle["text/html"] = self._repr_html_inner()
        return bundle


def facts_table(facts: Sequence[tuple[str, str]]) -> str:
    """The facts as an HTML table; everything in it is escaped."""
    rows = "".join(
        f"<tr><th>{escape(label)}</th><td>{escape(value)}</td></tr>" for label, value in facts
    )
    return f'{_STYLE}<table class="streamlearn-facts"><tbody>{rows}</tbody></table>'


def facts_of(model: HasFacts) -> list[tuple[str, str]]:
    """Label and value of the facts of a fitted model."""
    certificate, plan = model.certificate_, model.plan_
    classes: np.ndarray | None = getattr(model, "classes_", None)
    encoding = getattr(model, "encoding_", None)
    columns = f"{model.n_features_in_:,}"
    if encoding is not None and encoding.n_features != model.n_features_in_:
        columns += f" as {encoding.n_features:,} features"
    facts = [("model", f"{type(model).__name__}, {_first_sentence(type(model))}")]
    if plan is not None:
        facts.append(("rows", f"{plan.n_rows:,}"))
    facts.append(("columns", columns))
    if classes is not None:
        shown = ", ".join(str(label) for label in classes[:MOST_PARTS])
        more = ", ..." if len(classes) > MOST_PARTS else ""
        way = ""
        if len(classes) > 2 and hasattr(model, "multi_class_"):
            way = "; " + WAYS[model.multi_class_]
        facts.append(("classes", f"{len(classes):,}: {shown}{more}{way}"))
    facts += [("certificate", in_words(certificate)), ("reads", reads_in_words(certificate))]
    memory = memory_in_words(certificate, plan)
    if memory:
        facts.append(("memory", memory))
    parts = model._parts()
    if parts.parts:
        facts.append((parts.noun, parts_in_words(parts)))
    return facts


def _first_sentence(kind: type) -> str:
    """The first line of a class's docstring, as the end of a sentence."""
    line = (kind.__doc__ or "").strip().splitlines()[0].rstrip(".")
    return line[:1].lower() + line[1:]


def in_words(certificate: Certificate) -> str:
    """The sentence that says what the fit proved of its answer."""
    reached, what = certificate.relative_gap, certificate.criterion
    if what.startswith("none: "):  # of a stream, that has no end
        return f"nothing to prove: {what.removeprefix('none: ')} ({certificate.reason})"
    limit = f"; the tolerance is {certificate.tolerance:.3g}" if certificate.tolerance else ""
    if reached is not None and np.isfinite(reached):
        within = f"within {reached:.2g} of the best possible, relatively"
        proof = f"the objective is proved to be {within if reached > 0 else _EXACT}"
    elif certificate.objective is not None:
        proof = f"{what}, with an objective of {certificate.objective:.6g}"
    else:
        proof = what
    said = f"{'converged' if certificate.converged else 'stopped short'}: {proof}{limit}"
    return f"{said} ({certificate.reason})" if certificate.reason else said


def reads_in_words(certificate: Certificate) -> str:
    """Reads, bytes and seconds."""
    taken = f", {format_bytes(certificate.bytes_read)}" if certificate.bytes_read else ""
    return (
        f"{certificate.n_passes:,} of the data, {certificate.rows_read:,} rows{taken} in all, "
        f"{certificate.seconds:.2f} s"
    )


def memory_in_words(certificate: Certificate, plan: Plan | None) -> str:
    """The peak over what was resident before the fit, beside the budget; "" if neither is known."""
    said = []
    if certificate.memory_before_bytes:
        over = max(certificate.peak_memory_bytes - certificate.memory_before_bytes, 0)
        before = format_bytes(certificate.memory_before_bytes)
        said.append(f"{format_bytes(over)} at the peak over the {before} before the fit")
    if plan is not None:
        said.append(f"{format_bytes(plan.peak_bytes)} planned")
        said.append(f"the budget was {format_bytes(plan.budget)}")
    return ", ".join(said)


def parts_in_words(parts: Parts) -> str:
    """The first parts with their sizes, and how many more there are."""
    shown = ", ".join(_size_in_words(part) for part in parts.parts[:MOST_PARTS])
    more = len(parts.parts) - MOST_PARTS
    rest = f", and {more:,} more" if more > 0 else ""
    return f"{shown}{rest} ({parts.measure})"


def _size_in_words(part: Part) -> str:
    """The name and size of a part, with the standard error of the size if it is known."""
    error = f" ± {part.error:.2g}" if part.error > 0 else ""
    return f"{part.name} {part.size:.3g}{error}"
