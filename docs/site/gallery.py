"""A page for each script of ``examples/``: its code, what it prints, and the pictures it draws."""

import ast
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"

RUN = """
import runpy, sys
import matplotlib
matplotlib.use("svg")
import matplotlib.pyplot as plt
plt.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "streamlearn"})
runpy.run_path(sys.argv[1], run_name="__main__")
for number in plt.get_fignums():
    plt.figure(number).savefig(f"{sys.argv[2]}-{number}.svg", metadata={"Date": None})
"""
"""A script that runs an example as a user does, and then saves every figure it left open."""


class Example(NamedTuple):
    """One script and what came of it."""

    name: str
    title: str
    """The docstring's first sentence, without its full stop."""
    code: str
    printed: str
    pictures: tuple[str, ...]
    """Names of files in the gallery's folder."""


def scripts() -> list[Path]:
    """Every example, by name."""
    return sorted(EXAMPLES.glob("*.py"))


def example(script: Path, folder: Path, run: bool) -> Example:
    """What there is to show of a script; its pictures are written to the folder."""
    code = script.read_text()
    title = (ast.get_docstring(ast.parse(code)) or "").partition("\n\n")[0].rstrip(".")
    printed = _run(script, folder / script.stem) if run else ""
    pictures = sorted(path.name for path in folder.glob(f"{script.stem}-*.svg")) if run else ()
    return Example(script.stem, " ".join(title.split()), code, printed, tuple(pictures))


def _run(script: Path, pictures: Path) -> str:
    """What a script prints, in a folder of its own; one that fails or warns fails the build."""
    for old in pictures.parent.glob(f"{pictures.name}-*.svg"):
        old.unlink()
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, "-W", "error::UserWarning", "-c", RUN, script, pictures],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
        )
    if done.returncode:
        raise RuntimeError(f"{script} ended with exit code {done.returncode}:\n{done.stderr}")
    return done.stdout


def page(example: Example) -> str:
    """The text of one page, in Markdown."""
    lines = [f"# {example.title}", "", f"`examples/{example.name}.py`", ""]
    for picture in example.pictures:
        lines += [f"![What {example.name}.py draws]({picture})", ""]
    lines += ["```python", example.code.rstrip(), "```", ""]
    if example.printed.strip():
        lines += ["It prints:", "", "```text", example.printed.rstrip(), "```", ""]
    return "\n".join(lines)


def heading(name: str) -> str:
    """The name of a script as a heading."""
    return name.replace("_", " ").capitalize()


def index(examples: list[Example]) -> str:
    """The first page: a sentence and, where there is one, a picture of each."""
    lines = ["# Gallery", ""]
    lines += ["Short scripts, run when this site was built: what each prints and draws.", ""]
    for example in examples:
        lines += [f"## [{heading(example.name)}]({example.name}.md)", "", f"{example.title}.", ""]
        if example.pictures:
            lines += [f"[![{example.title}]({example.pictures[0]})]({example.name}.md)", ""]
    names = "\n".join(f"{heading(example.name)} <{example.name}>" for example in examples)
    return "\n".join([*lines, "```{toctree}", ":hidden:", "", names, "```", ""])


def write(folder: Path, run: bool = True) -> None:
    """Write every page and picture; without `run` the pages have the code alone."""
    folder.mkdir(parents=True, exist_ok=True)
    examples = [example(script, folder, run) for script in scripts()]
    texts = {"index.md": index(examples)} | {f"{e.name}.md": page(e) for e in examples}
    for file, text in texts.items():
        (folder / file).write_text(text)
    kept = {*texts, *(picture for e in examples for picture in e.pictures)}
    for path in folder.iterdir():
        if path.name not in kept:
            path.unlink()
