"""A page for each public name: its docstring, and those of its members, for autodoc."""

import inspect
from pathlib import Path

import streamlearn as sl

PACKAGE = "streamlearn"


def names() -> list[str]:
    """Every public name that has a page; the version is a string and has none."""
    return sorted(set(sl.__all__) - {"__version__"})


def members(cls: type) -> list[tuple[str, str]]:
    """Public members that this package documents, sorted: (directive of autodoc, name).

    What scikit-learn gives to every estimator (``get_params``, ``set_output``, ...) is in its own
    documentation.
    """
    found = []
    for name in dir(cls):
        value = inspect.getattr_static(cls, name)
        wrapped = getattr(value, "fget", None) or getattr(value, "__func__", value)
        ours = (getattr(wrapped, "__module__", None) or "").startswith(PACKAGE)
        if name.startswith("_") or not ours or not inspect.getdoc(wrapped):
            continue
        kind = "autoproperty" if isinstance(value, property) else "automethod"
        found.append((kind, name))
    return found


def page(name: str) -> str:
    """The text of one page, in reStructuredText."""
    value = getattr(sl, name)
    lines = [name, "=" * len(name), "", f".. currentmodule:: {PACKAGE}", ""]
    if not inspect.isclass(value):
        return "\n".join([*lines, f".. autofunction:: {name}", ""])
    kind = "autoexception" if issubclass(value, BaseException) else "autoclass"
    lines += [f".. {kind}:: {name}", ""]
    for directive, member in members(value):
        lines += [f"   .. {directive}:: {name}.{member}", ""]
    return "\n".join(lines)


def write(folder: Path) -> None:
    """Write every page; pages that have not changed keep their time, so that a build is quick."""
    folder.mkdir(parents=True, exist_ok=True)
    texts = {f"{PACKAGE}.{name}.rst": page(name) for name in names()}
    for path in folder.iterdir():
        if path.name not in texts:
            path.unlink()
    for file, text in texts.items():
        if not (folder / file).exists() or (folder / file).read_text() != text:
            (folder / file).write_text(text)
