"""What README and docs name exists, what they show runs, and banned words do not come back."""

import ast
import inspect
import os
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

import streamlearn as sl
from bench.__main__ import NAMES

ROOT = Path(__file__).resolve().parent.parent
PAGES = sorted(
    [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), *(ROOT / "docs" / "families").glob("*.md")]
)
EXTENDING = ROOT / "docs" / "extending.md"
PREFIXES = ("streamlearn/", "tests/", "bench/", "docs/", "examples/", ".ci/", ".github/")
MADE_BY_RUNS = ("bench/results",)
"""Folders that a page names and that git does not hold."""

STEMS = {
    "settl": 20,
    "spool": 0,
    "lesson": 0,
    "taught": 1,
    "bend": 39,
    "creep": 2,
    "annihilat": 7,
    "doomed": 4,
    "keeping": 3,
}
"""Beginning of a word that is not used: uses that are still there.  The counts may only fall."""


def anchors(text):
    """What GitHub makes of the headings."""
    heads = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


@pytest.fixture(params=PAGES, ids=lambda path: path.name)
def page(request):
    return request.param


def test_relative_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
        if target.startswith(("http://", "https://")):
            continue
        path, _, anchor = target.partition("#")
        linked = page.parent / path if path else page
        assert linked.exists(), f"{page.name}: {target}"
        assert not anchor or anchor in anchors(linked.read_text()), f"{page.name}: {target}"


def test_files_that_are_named_exist(page):
    if page.name == "CHANGELOG.md":
        return  # it names what there was
    for name in re.findall(r"`([\w./-]+)`", page.read_text()):
        if name.startswith(PREFIXES) and not name.startswith(MADE_BY_RUNS):
            assert (ROOT / name).exists(), f"{page.name}: {name}"


def test_benches_that_are_named_exist(page):
    for name in re.findall(r"python -m bench ([\w-]+)", page.read_text()):
        assert name in NAMES, f"{page.name}: python -m bench {name}"


def test_symbols_beside_files_are_in_them():
    """`Pace` in `streamlearn/...py`: where a change belongs."""
    text = (ROOT / "docs" / "architecture.md").read_text()
    named = re.findall(r"`(\w+)` (?:in|of) `(streamlearn/[\w/]+\.py)`", text)
    named += re.findall(r"^\| `(\w+)` \| `(streamlearn/[\w/]+\.py)` \|", text, re.MULTILINE)
    assert len(named) > 8
    for symbol, file in named:
        defined = rf"^(?:class {symbol}\b|def {symbol}\b|{symbol}\b.*=)"
        assert re.search(defined, (ROOT / file).read_text(), re.MULTILINE), f"{symbol}: {file}"


def test_every_public_name_is_in_the_reference():
    text = (ROOT / "docs" / "reference.md").read_text()
    listed = dict(re.findall(r"^\| `streamlearn\.(\w+)` \| (.*) \|$", text, re.MULTILINE))
    assert sorted(listed) == sorted(set(sl.__all__) - {"__version__"})
    for name, told in listed.items():  # in the words of its docstring
        first = inspect.getdoc(getattr(sl, name)).partition("\n\n")[0]
        assert told.split() == first.split(), name


def test_the_readme_is_short():
    assert len((ROOT / "README.md").read_text().splitlines()) <= 200


def blocks():
    """(file the block is a part of, or "", its text)."""
    pattern = r"(?:^<!-- from (\S+) -->\n)?^```python\n(.*?)^```"
    return re.findall(pattern, EXTENDING.read_text(), re.MULTILINE | re.DOTALL)


def test_shown_code_is_the_code():
    shown = [(file, text) for file, text in blocks() if file]
    assert shown
    for file, text in shown:
        assert text in (ROOT / file).read_text(), f"{file} no longer holds:\n{text}"


@pytest.mark.slow
def test_code_of_extending_runs(tmp_path):
    script = tmp_path / "extending.py"
    script.write_text("\n".join(text for file, text in blocks() if not file))
    done = subprocess.run(
        [sys.executable, script],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr


@cache
def words():
    """Identifiers and docstrings of the package, in lower case, by file."""
    return list(each_word())


def each_word():
    for path in sorted((ROOT / "streamlearn").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            match node:
                case ast.Name(id=text) | ast.Attribute(attr=text) | ast.arg(arg=text):
                    yield path, text.lower()
                case ast.keyword(arg=str(text)):
                    yield path, text.lower()
                case ast.FunctionDef(name=text) | ast.ClassDef(name=text):
                    yield path, text.lower()
                case ast.Expr(value=ast.Constant(value=str(text))):
                    yield path, text.lower()


@pytest.mark.parametrize("stem", STEMS)
def test_banned_words_do_not_come_back(stem):
    uses = [str(path) for path, text in words() if re.search(rf"(?<![a-z]){stem}", text)]
    assert len(uses) <= STEMS[stem], (
        f"{stem}...: {len(uses)} uses, at most {STEMS[stem]}; docs/glossary.md says what to write: "
        f"{sorted(set(uses))}"
    )


def test_every_banned_word_is_in_the_glossary():
    text = (ROOT / "docs" / "glossary.md").read_text()
    for stem in STEMS:
        assert re.search(rf"^\| .*\b{stem}", text, re.MULTILINE), stem


def test_citation_and_changelog_name_the_version():
    version = re.search(r'^version = "(.*)"', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    number = version.group(1)
    assert f"\nversion: {number}\n" in (ROOT / "CITATION.cff").read_text()
    assert f"\n## {number} " in (ROOT / "CHANGELOG.md").read_text()
