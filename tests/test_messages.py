"""Messages are matched by what they must say: a pattern of a few letters matches any error."""

import ast
import re
from pathlib import Path

TESTS = Path(__file__).resolve().parent
FILES = sorted(TESTS.rglob("*.py"))
SHORTEST = 8
"""Characters of the shortest pattern; "x1" or "data" would match nearly every message."""

SILENT = {
    "IndexError": "the language's own: what iterates over a sequence stops at it",
    "Interrupt": "raised by the test itself",
    "KeyboardInterrupt": "raised by the test itself",
    "StopIteration": "raised by the test itself",
    "ZeroDivisionError": "raised by the test itself",
    "FileNotFoundError": "raised by the test itself",
    "sl.TimeLimitError": "what ends the fit; the message is matched in the tests of the limit",
}
"""Exceptions that may be expected without a message: why."""


def letters(pattern):
    """Number of characters of the shortest text that the alternatives of a pattern ask for."""
    plain = re.sub(r"\\.", "x", pattern)
    plain = re.sub(r"\(([^()]*)\)", lambda group: min(group[1].split("|"), key=len), plain)
    return min(len(one.strip(".*^$[]?+")) for one in plain.split("|"))


def expectations():
    """(place, exception, pattern or None) of every `pytest.raises` and `pytest.warns`."""
    for path in FILES:
        tree = ast.parse(path.read_text())
        for function in ast.walk(tree):
            if not isinstance(function, ast.FunctionDef):
                continue
            for call in ast.walk(function):
                if not isinstance(call, ast.Call):
                    continue
                if ast.unparse(call.func) not in ("pytest.raises", "pytest.warns"):
                    continue
                place = f"{path.relative_to(TESTS)}:{call.lineno}"
                match = {keyword.arg: keyword.value for keyword in call.keywords}.get("match")
                for pattern in patterns(match, function):
                    yield place, ast.unparse(call.args[0]), pattern


def patterns(match, function):
    """The texts that `match` may be: itself, or those that the function is parametrised with."""
    if match is None:
        return [None]
    if isinstance(match, ast.Constant):
        return [match.value]
    if isinstance(match, ast.JoinedStr):
        return ["".join(p.value if isinstance(p, ast.Constant) else "{...}" for p in match.values)]
    found = [
        node.value.value
        for node in ast.walk(function)
        if isinstance(node, ast.Assign)
        and ast.unparse(node.targets[0]) == match.id
        and isinstance(node.value, ast.Constant)
    ]
    for decorator in function.decorator_list:
        if not isinstance(decorator, ast.Call):
            continue
        if not ast.unparse(decorator.func).endswith("parametrize"):
            continue
        names = ast.literal_eval(decorator.args[0])
        names = re.split(r",\s*", names) if isinstance(names, str) else names
        if match.id in names and isinstance(decorator.args[1], ast.List | ast.Tuple):
            for case in decorator.args[1].elts:
                value = case.elts[names.index(match.id)] if len(names) > 1 else case
                found += [value.value] if isinstance(value, ast.Constant) else []
    return found


def test_patterns_say_what_the_message_must_say():
    found = list(expectations())
    assert len(found) > 300
    short = [
        f"{place}: match={pattern!r} would match too many messages"
        for place, _, pattern in found
        if pattern is not None and letters(pattern) < SHORTEST
    ]
    assert not short, "\n".join(sorted(set(short)))


def test_only_our_own_signals_are_expected_without_a_message():
    silent = {
        f"{place}: {exception} is expected whatever it says"
        for place, exception, pattern in expectations()
        if pattern is None and exception not in SILENT
    }
    assert not silent, "\n".join(sorted(silent))
