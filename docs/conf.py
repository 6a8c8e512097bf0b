"""Settings of the documentation site: ``python -m sphinx -W --keep-going -q -c docs . OUT``.

The source is the whole checkout, so that README, changelog and the pages beside this file are one
site and their plain relative links hold both here and where the repository is browsed.  What is
not written by hand (a page for each public name, a page for each example with what it prints and
draws) is made into ``docs/built`` when a build begins.  With ``-t no_examples`` examples are shown
and not run.
"""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import streamlearn  # noqa: E402
from docs.site import docstrings, gallery, links, reference  # noqa: E402

project = "streamlearn"
author = "streamlearn developers"
version = release = streamlearn.__version__

extensions = ["myst_parser", "numpydoc", "sphinx.ext.autodoc", "sphinx.ext.viewcode"]
root_doc = "README"
include_patterns = ["*.md", "docs/*.md", "docs/families/*.md", "docs/built/**"]
templates_path = ["site/templates"]

myst_heading_anchors = 4
default_role = "py:obj"
autodoc_member_order = "bysource"
autodoc_typehints = "none"  # the docstrings have shapes and units, which the hints lack
numpydoc_show_class_members = False  # pages of classes list their own methods
numpydoc_use_plots = False

html_theme = "furo"
html_static_path = ["site/static"]
html_css_files = ["site.css"]
html_title = f"streamlearn {version}"
html_additional_pages = {"index": "first_page.html"}
html_copy_source = False
html_show_sphinx = html_show_copyright = False


def setup(app):
    """Make what is not written by hand, and link names to their pages."""
    built = ROOT / "docs" / "built"

    def begin(app):
        reference.write(built / "reference")
        gallery.write(built / "gallery", run=not app.tags.has("no_examples"))

    app.connect("config-inited", lambda app, _: begin(app))
    app.connect("autodoc-process-docstring", docstrings.process, priority=100)  # numpydoc's is 500
    app.connect("source-read", links.add_contents)
    app.connect("doctree-read", links.link_names)
