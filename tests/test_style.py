"""Rules of style that no linter knows."""

import ast
import re
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent.parent / "streamlearn"

MOST_PARAMETERS = 8

MANY_PARAMETERS = {
    "additive/kernel_matrix.py:additive_kernel": "public: the options of an additive estimator",
    "additive/stochastic/pegasos.py:fit_pegasos": "the solver's options, by keyword",
    "additive/training.py:fit_newton": "the solver's options, by keyword",
    "cli/inspecting.py:plan": "one parameter for each option on the command line",
    "cli/serving.py:evaluate": "one parameter for each option on the command line",
    "cli/serving.py:predict": "one parameter for each option on the command line",
    "cli/showing.py:plot": "one parameter for each option on the command line",
    "cli/training.py:compress": "one parameter for each option on the command line",
    "cli/training.py:cross_validate": "one parameter for each option on the command line",
    "cli/training.py:fit": "one parameter for each option on the command line",
    "data/parquet/pages/kernels.py:decode_mapped": "kernel: one array for each table of a page",
    "passes/summary/counts/kernels_sorted.py:bins_of_columns": "a kernel's columns and results",
    "pursuit/boosting/kernels.py:weigh_rows": "kernel: one array for each number of a row",
    "pursuit/kernels.py:place_rows": "kernel: one array for each number of a placed row",
    "pursuit/kernels.py:add_tables": "kernel: one array for each number of a placed row",
    "pursuit/regression/kernels_splines.py:places": "kernel, inlined: what a loop reads and writes",
    "pursuit/regression/kernels_splines.py:least_gcv": "kernel: the symbols of one formula",
}
"""File and function: why it takes more than `MOST_PARAMETERS`."""

MOST_ANYS = 60
"""Uses of `Any` that are left in the package.  The number may only fall."""

FRAGMENT = re.compile(
    "(Of|And|As|That|Than|Else|By|With|So|But|Then|Not|Also|At|Who|Whose"
    "|What|Where|How|Why|Which|When|If|These|Those|It|They|The one that|Whether its?) "
)
"""Beginning of a docstring that cannot be read alone."""

MOST_FILES = 15
"""Files of one room beside its `__init__`, whose docstring says what is in it."""

KERNEL_ROOMS = ("additive/basis/", "additive/dual/", "numeric/")
"""Rooms of kernels that take the arrays of a row form one by one."""


def functions(tree):
    """Every function but constructors, with the number of its parameters less self and cls."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name != "__init__":
            args = node.args
            names = [arg.arg for arg in (*args.posonlyargs, *args.args, *args.kwonlyargs)]
            yield node.name, node.lineno, len([n for n in names if n not in ("self", "cls")])


def test_functions_take_few_parameters():
    long, defended = [], set()
    for path in sorted(PACKAGE.rglob("*.py")):
        file = path.relative_to(PACKAGE).as_posix()
        for name, line, count in functions(ast.parse(path.read_text())):
            if count <= MOST_PARAMETERS or file.startswith(KERNEL_ROOMS):
                continue
            key = f"{file}:{name}"
            defended.add(key)
            if key not in MANY_PARAMETERS:
                long.append(
                    f"{file}:{line} {name} takes {count} parameters, at most {MOST_PARAMETERS}; "
                    "name what belongs together in a NamedTuple, or defend it in MANY_PARAMETERS"
                )
    assert not long, "\n".join(long)
    unused = sorted(set(MANY_PARAMETERS) - defended)
    assert not unused, f"no longer needed in MANY_PARAMETERS: {unused}"


def test_any_becomes_rarer():
    """Mypy checks nothing of what is `Any`: a protocol, a named state or `object` says more."""
    count = sum(
        isinstance(node, ast.Name) and node.id == "Any"
        for path in PACKAGE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
    )
    assert count <= MOST_ANYS, f"{count} uses of Any, there were {MOST_ANYS}; name the type"


def test_rooms_are_small():
    rooms = {path.parent for path in PACKAGE.rglob("*.py")}
    files = {room: [p for p in room.glob("*.py") if p.stem != "__init__"] for room in rooms}
    large = {str(room.relative_to(PACKAGE)): len(of) for room, of in files.items()}
    large = {room: number for room, number in large.items() if number > MOST_FILES}
    assert not large, f"rooms of more than {MOST_FILES} files; make a room inside: {large}"
    said = {
        room: ast.get_docstring(ast.parse((room / "__init__.py").read_text())) for room in rooms
    }
    assert not [str(room) for room, text in said.items() if not text]


def test_numpy_is_given_the_numbers_of_rows_as_an_array():
    """Of a range it takes them one by one, 60 ns each: `Chunk.numbers`."""
    slow = [
        f"{path.relative_to(PACKAGE)}:{node.lineno} {ast.unparse(node)}"
        for path in sorted(PACKAGE.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call)
        and ast.unparse(node.func).startswith("np.")
        and any(ast.unparse(given) in ("chunk.rows", "part.rows") for given in node.args)
    ]
    assert not slow, slow


def test_docstrings_can_be_read_alone():
    fragments = [
        f"{path.relative_to(PACKAGE)}:{node.lineno} {node.value.value[:60]!r}"
        for path in sorted(PACKAGE.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
        and FRAGMENT.match(node.value.value)
    ]
    assert not fragments, "begin with a noun or a verb:\n" + "\n".join(fragments)
