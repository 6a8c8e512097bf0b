"""Classes that are their numbers: losses and bases, which users may add to by subclassing."""

from __future__ import annotations

from collections import namedtuple
from inspect import get_annotations
from typing import TYPE_CHECKING, ClassVar, dataclass_transform

PARTS = ("__new__", "_fields", "_field_defaults", "_make", "_asdict", "_replace", "__getnewargs__")
_PACKAGE = __name__.partition(".")[0]


@dataclass_transform(frozen_default=True)
class Parametric(tuple[float, ...]):
    """A value whose annotated names are its parameters, each a number, as in a NamedTuple."""

    name: ClassVar[str] = ""
    """Word that estimators take for the value; a class without one is given as an instance."""
    _fields: ClassVar[tuple[str, ...]] = ()

    if TYPE_CHECKING:

        def _asdict(self) -> dict[str, float]: ...

    def __init_subclass__(cls) -> None:
        fields = [n for n, kind in get_annotations(cls).items() if "ClassVar" not in str(kind)]
        defaults = [vars(cls)[name] for name in fields if name in vars(cls)]
        if fields or not cls._fields:
            made = namedtuple(cls.__name__, fields, defaults=defaults)  # type: ignore[misc]
            for part in (*PARTS, *fields):
                setattr(cls, part, vars(made)[part])
        if "name" not in vars(cls):
            cls.name = cls.__name__

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and tuple.__eq__(self, other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash((type(self), *self))

    def __repr__(self) -> str:
        given = ", ".join(f"{n}={v!r}" for n, v in zip(self._fields, self, strict=True))
        return f"{type(self).__name__}({given})"

    def has(self, *methods: str) -> bool:
        """Whether the value's class defines all of these methods."""
        return all(callable(getattr(self, method, None)) for method in methods)


def class_name(cls: type) -> str:
    """The name of a class of this package, or ``module:name`` of one defined elsewhere."""
    name = cls.__qualname__
    return name if cls.__module__.partition(".")[0] == _PACKAGE else f"{cls.__module__}:{name}"


def parametric_of(name: str, numbers: list[float]) -> Parametric | None:
    """The value of the class of that `class_name`; None if no module that is loaded defines it.

    Nothing is imported by a name that a file gives.
    """
    for cls in subclasses(Parametric):
        if class_name(cls) == name:
            return cls(*numbers)
    return None


def subclasses(cls: type) -> list[type]:
    """All classes below `cls` that are loaded."""
    below: list[type] = cls.__subclasses__()
    return below + [found for child in below for found in subclasses(child)]
