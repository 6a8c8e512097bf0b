"""Every example runs as a user runs it, and so does every Python block of README and docs."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))


def run(arguments, folder):
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env={**os.environ, "HOME": str(folder)},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example(path, tmp_path):
    printed = run(["-W", "error::UserWarning", path], tmp_path)
    assert printed.strip(), "an example prints something"


def readme(language):
    text = (ROOT / "README.md").read_text()
    blocks = re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    assert blocks, f"no {language} block in README.md"
    return blocks


@pytest.mark.slow
def test_readme(tmp_path):
    """The README: Python blocks, then shell lines, and all once more, as nothing is in the way."""
    script = tmp_path / "readme.py"
    script.write_text("\n".join(readme("python")))
    for _ in range(2):
        run([script], tmp_path)
        for line in "".join(readme("sh")).splitlines():
            program, *arguments = line.split()
            assert run(["-m", program, *arguments], tmp_path).strip(), line


PAGES = sorted(
    page for page in [*(ROOT / "docs").glob("*.md"), *(ROOT / "docs" / "families").glob("*.md")]
    if "```python\n" in page.read_text() and page.name != "extending.md"  # has a test of its own
)  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_page(page, tmp_path):
    """The Python blocks of a page of the documentation, one after another."""
    blocks = re.findall(r"^```python\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)
    script = tmp_path / "page.py"
    script.write_text("\n".join(blocks))
    assert run([script], tmp_path).strip()


def test_examples_are_short():
    assert EXAMPLES
    assert all(len(path.read_text().splitlines()) <= 60 for path in EXAMPLES)
