"""Every example runs as a user runs it, and so does every Python block of the README."""

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
    assert run([path], tmp_path).strip(), "an example prints something"


def readme(language):
    text = (ROOT / "README.md").read_text()
    blocks = re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    assert blocks, f"no {language} block in README.md"
    return blocks


@pytest.mark.slow
def test_readme(tmp_path):
    """The README's Python blocks, one after another, and then its shell lines."""
    data, *_ = blocks = readme("python")
    script = tmp_path / "readme.py"
    script.write_text("\n".join(blocks))
    run([script], tmp_path)

    shell = tmp_path / "shell"
    shell.mkdir()
    script.write_text(data)
    run([script], shell)
    for line in "".join(readme("sh")).splitlines():
        program, *arguments = line.split()
        assert run(["-m", program, *arguments], shell).strip(), line


def test_examples_are_short():
    assert EXAMPLES
    assert all(len(path.read_text().splitlines()) <= 70 for path in EXAMPLES)
