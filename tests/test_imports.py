"""Imports go down only, families do not know one another, a store library lives in its own file.

    cli -> plotting -> demo -> warming -> families -> estimator -> solvers -> engine -> passes ->
                                                        data -> numeric -> errors, config

Walks the source by ast, so imports inside functions and under TYPE_CHECKING count too; those two
are what the short list of exceptions may allow.
"""

import ast
from functools import cache
from pathlib import Path

from quick import QUICK

PACKAGE = Path(__file__).resolve().parent.parent / "streamlearn"

FAMILIES = ("additive", "mixture", "shareboost", "pursuit", "supersparse")
PROGRAMS = ("warming", "demo", "plotting", "cli")
LEVEL = {
    "errors": 0,
    "config": 0,
    "numeric": 1,
    "data": 2,
    "passes": 3,
    "engine": 4,
    "solvers": 5,
    "estimator": 6,
    **dict.fromkeys(FAMILIES, 7),
    "testing": 8,
    "export": 8,
    **{program: 8 + i for i, program in enumerate(PROGRAMS)},
}

ONLY_IN = {
    "pyarrow": (
        "data/parquet/",
        "data/column_types.py",
        "data/memory/arrow.py",
        "data/memory/arrow_values.py",
        "data/write/sink.py",
    ),
    "zarr": ("data/zarr/", "data/write/sink.py"),
    "dask": ("data/dask/", "engine/executor.py", "engine/cluster.py"),
    "distributed": ("data/dask/", "engine/executor.py", "engine/cluster.py"),
    "anndata": (),
    "pandas": ("data/memory/",),
    "polars": ("data/memory/",),
}
"""Library: the files, or folders with a slash at the end, that may import it."""

UPWARD = {
    # Methods of the public noun whose work is a planned read: imported when they are called.
    (
        "data/dataset.py",
        "engine",
    ): "summary(), to_parquet(), to_zarr() are planned reads",
    ("data/dataset.py", "passes"): "the type of what summary() returns",
}
"""(file, room it may import from above, inside a function or for its types only): why."""

LIBRARY = {
    ("warming.py", "pyarrow"): "warm() exists to load the libraries ahead of use",
    ("warming.py", "zarr"): "warm() exists to load the libraries ahead of use",
    ("warming.py", "dask"): "warm() exists to load the libraries ahead of use",
    ("config.py", "dask"): "dask.utils.parse_bytes, so that sizes are written as dask writes them",
    ("data/zarr/bounded.py", "pyarrow"): "its zstd stream stops where it is told; no table",
    ("engine/scratch/folder.py", "dask"): "the setting temporary-directory; no collection",
}
"""(file, library it may import although it is not the library's own file): why."""

FILES = sorted(path.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*.py"))


@cache
def imports_of(file):
    """(dotted name, line, deferred) of every import; `from a import b` counts as a.b.

    Deferred: inside a function or under ``if TYPE_CHECKING``, so not run when the module loads.
    """
    package = ["streamlearn", *file.split("/")[:-1]]

    def visit(node, inside):
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.Import):
                for alias in child.names:
                    yield alias.name, child.lineno, inside
            elif isinstance(child, ast.ImportFrom):
                base = package[: len(package) - child.level + 1] if child.level else []
                stem = ".".join([*base, *filter(None, [child.module])])
                for alias in child.names:
                    yield f"{stem}.{alias.name}", child.lineno, inside
            else:
                typing = isinstance(child, ast.If) and "TYPE_CHECKING" in ast.dump(child.test)
                defers = typing or isinstance(child, ast.FunctionDef)
                yield from visit(child, inside or defers)

    return tuple(visit(ast.parse((PACKAGE / file).read_text()), False))


def room(file):
    return file.split("/")[0].removesuffix(".py")


def test_imports_go_down():
    bad = []
    for file in FILES:
        here = room(file)
        if file in ("__init__.py", "__main__.py"):
            continue
        assert here in LEVEL, f"{file}: a room without a level; give {here!r} its place in LEVEL"
        for name, line, inside in imports_of(file):
            if name.split(".")[0] != "streamlearn":
                continue
            there = (name.split(".") + [""])[1]
            if there not in LEVEL:  # the package itself or one of its lazy names
                if here not in PROGRAMS and there != "__version__":
                    bad.append(f"{file}:{line} imports {name}; import it from its own room")
            elif there != here and LEVEL[there] >= LEVEL[here]:
                if not (inside and (file, there) in UPWARD):
                    bad.append(f"{file}:{line} imports {name}: {there} is not below {here}")
    assert not bad, "\n".join(bad)


def test_store_libraries_stay_in_their_files():
    bad = [
        f"{file}:{line} imports {name}; {library} belongs in {', '.join(own) or 'tests only'}"
        for file in FILES
        for name, line, _ in imports_of(file)
        for library, own in ONLY_IN.items()
        if name.split(".")[0] == library
        and not any(file == one or one.endswith("/") and file.startswith(one) for one in own)
        and (file, library) not in LIBRARY
    ]
    assert not bad, "\n".join(bad)


def test_importing_the_package_loads_no_library():
    """`import streamlearn` is quick because its names load lazily (promise: at most 0.5 s)."""
    heavy = {*ONLY_IN, "numba", "numpy", "scipy", "sklearn", "click", "tqdm", "matplotlib"}
    at_import = {
        (name + ".").split(".")[0] for name, _, inside in imports_of("__init__.py") if not inside
    }
    assert not at_import & heavy


def test_exceptions_are_still_needed():
    """An exception nobody uses any more is a hole in the wall."""
    used = set()
    for file in FILES:
        for name, *_ in imports_of(file):
            used.add((file, name.split(".")[0]))
            used.add((file, (name.split(".") + [""])[1]))
    assert not [key for key in (*UPWARD, *LIBRARY) if key[0] in FILES and key not in used]


def test_the_quick_tests_visit_every_room():
    tests = PACKAGE.parent / "tests"
    assert [file for file in QUICK if not (tests / file).is_file()] == []
    rooms = {folder.name for folder in tests.iterdir() if any(folder.glob("**/test_*.py"))}
    assert rooms - {file.split("/")[0] for file in QUICK} == set()


def test_no_circle_of_imports():
    """Imports inside functions and under TYPE_CHECKING count: a circle is one large file."""
    modules = {
        file.removesuffix(".py").removesuffix("/__init__").replace("/", "."): file for file in FILES
    }
    below = {}
    for here, file in modules.items():
        below[here] = set()
        for name, *_ in imports_of(file):
            if not name.startswith("streamlearn."):
                continue
            name = name.removeprefix("streamlearn.")
            while name and name not in modules:
                name = name.rpartition(".")[0]
            below[here] |= {name} - {"", here}

    def reached(start):
        seen, waiting = set(), [*below[start]]
        while waiting:
            name = waiting.pop()
            if name not in seen:
                seen.add(name)
                waiting += below[name]
        return seen

    above = {name: reached(name) for name in below}
    circles = {frozenset(b for b in above[a] if a in above[b]) for a in above if a in above[a]}
    assert not circles, f"circles of imports: {list(map(sorted, circles))}"


PROBED = {
    "data/files/archive.py": "the name of an open file, which not every file has",
    "engine/checkpoint/store.py": "parameters of estimators, functions and records of any kind",
}
"""Files below the solvers that may ask an object whether it has an attribute: why."""


def test_data_passes_and_engine_do_not_probe():
    """What is asked of a source, a part or a store is declared; nothing is found out by name."""
    bad = set()
    for file in FILES:
        if room(file) not in ("data", "passes", "engine"):
            continue
        for node in ast.walk(ast.parse((PACKAGE / file).read_text())):
            called = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id
            probes = called == "hasattr" or (called == "getattr" and len(node.args) == 3)
            forwards = isinstance(node, ast.FunctionDef) and node.name == "__getattr__"
            if probes or forwards:
                bad.add(file)
    assert bad == PROBED.keys(), "declare the member with a default, in Source, Store or Part"
