"""The documentation site: every public name, page and example is in it, and it builds silently."""

import importlib.util
import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import streamlearn as sl
from docs.site import docstrings, gallery, reference

ROOT = Path(__file__).resolve().parent.parent
needs_sphinx = pytest.mark.skipif(
    importlib.util.find_spec("sphinx") is None, reason="the extra docs is not installed"
)


def test_every_public_name_has_a_page_with_its_own_methods(tmp_path):
    reference.write(tmp_path)
    written = {path.stem.partition(".")[2] for path in tmp_path.iterdir()}
    assert written == set(sl.__all__) - {"__version__"}
    for name in written:
        value, text = getattr(sl, name), (tmp_path / f"streamlearn.{name}.rst").read_text()
        for method, function in inspect.getmembers(value, inspect.isfunction):
            ours = function.__module__.startswith("streamlearn") and inspect.getdoc(function)
            shown = f":: {name}.{method}\n" in text
            assert shown == bool(ours and not method.startswith("_")), f"{name}.{method}"


def test_pages_of_names_that_are_gone_go_too(tmp_path):
    (tmp_path / "streamlearn.Gone.rst").write_text("Gone")
    reference.write(tmp_path)
    assert not (tmp_path / "streamlearn.Gone.rst").exists()


@needs_sphinx
def test_every_page_is_in_the_contents():
    from docs.site import links

    listed = {
        page for parts in links.CONTENTS.values() for pages in parts.values() for page in pages
    }
    written = [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("docs/families/*.md")]
    names = {path.relative_to(ROOT).with_suffix("").as_posix() for path in written}
    assert names - {"README"} == {page for page in listed if "/built/" not in page}


@needs_sphinx
@pytest.mark.parametrize(
    "code, name",
    [
        ("AdditiveClassifier", "AdditiveClassifier"),
        ("AdditiveClassifier(n_bases=8)", "AdditiveClassifier"),
        ("sl.compress(model, rows, m)", "compress"),
        ("streamlearn.plan", "plan"),
        ("plan", None),  # any other word
        ("save(model, path)", None),
        ("sl.nothing", None),
        ("Run.commit", None),
    ],
)
def test_names_in_sentences_become_links(code, name):
    from docs.site import links

    assert links.public_name(code) == name


DOCSTRING = """Sum of |x|.

    minimise  |w|^2 + a_ b
      + c

    and d | e
Then coef_ and `coef_` and ``|x|``.

Parameters
----------
x : float
    The |x| of coef_.

Examples
--------
>>> abs_(1) | 2
3"""

RST = r"""Sum of \|x\|.

.. code-block:: text

    minimise  |w|^2 + a_ b
      + c

    and d | e
Then coef\_ and `coef_` and ``|x|``.

Parameters
----------
x : float
    The \|x\| of coef\_.

Examples
--------
>>> abs_(1) | 2
3"""


def test_mathematics_of_docstrings_is_kept_as_it_is():
    assert docstrings.to_rst(DOCSTRING.splitlines()) == RST.splitlines()


def test_a_page_shows_code_print_and_picture(tmp_path):
    pytest.importorskip("matplotlib")
    script = tmp_path / "draws.py"
    script.write_text(
        '"""Draws: two\nlines.\n\nMore."""\n'
        "import matplotlib.pyplot as plt\nplt.plot([1, 2])\nprint('done')\n"
    )
    shown = gallery.example(script, tmp_path, run=True)
    assert shown.title == "Draws: two lines"
    assert shown.pictures == ("draws-1.svg",)
    assert (tmp_path / "draws-1.svg").read_text().startswith("<?xml")
    page = gallery.page(shown)
    for part in ("# Draws: two lines\n", "plt.plot([1, 2])", "```text\ndone\n```", "(draws-1.svg)"):
        assert part in page
    assert "## [Draws](draws.md)" in gallery.index([shown])


def test_an_example_that_fails_fails_the_build(tmp_path):
    pytest.importorskip("matplotlib")
    script = tmp_path / "fails.py"
    script.write_text('"""Fails."""\nraise SystemExit(3)\n')
    with pytest.raises(RuntimeError, match=r"fails\.py ended with exit code 3"):
        gallery.example(script, tmp_path, run=True)


@needs_sphinx
@pytest.mark.slow
def test_the_site_builds_without_a_warning(tmp_path):
    """Links and names that lead nowhere are warnings; the examples are run by their own tests."""
    done = subprocess.run(
        [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-t", "no_examples"]
        + ["-c", "docs", ".", tmp_path],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    first = (tmp_path / "README.html").read_text()
    assert "docs/built/reference/streamlearn.AdditiveClassifier.html" in first
    assert "README.html" in (tmp_path / "index.html").read_text()
