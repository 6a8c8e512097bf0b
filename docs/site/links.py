"""What makes one site of pages that are written for any reader of Markdown."""

import re

from docutils import nodes
from sphinx.addnodes import pending_xref

from . import reference

FAMILIES = ("additive", "mixture", "shareboost", "pursuit", "supersparse")

CONTENTS = {
    "README": {
        "Start": ("docs/tutorial", "docs/howto", "docs/built/gallery/index"),
        "Families": (
            "docs/families",
            *(f"docs/families/{name}" for name in FAMILIES),
            "docs/matrix",
        ),
        "Reference": ("docs/reference", "docs/measured", "CHANGELOG", "SECURITY"),
        "Contributing": ("CONTRIBUTING", "docs/architecture", "docs/extending", "docs/glossary"),
    },
    "docs/reference": {
        "Names": tuple(f"docs/built/reference/streamlearn.{name}" for name in reference.names()),
    },
}
"""Page: headings of the contents beside it, and the pages under each."""

NAMED = re.compile(r"(?:sl\.|streamlearn\.)?(\w+)(?:\(.*\))?")
"""A name in code, perhaps called: ``sl.plan``, ``AdditiveClassifier(n_bases=8)``."""


def add_contents(app, page, source):
    """Contents after the text of the pages that have some; the files themselves stay plain."""
    for caption, pages in CONTENTS.get(page, {}).items():
        listed = "\n".join(f"/{name}" for name in pages)
        source[0] += f"\n```{{toctree}}\n:hidden:\n:caption: {caption}\n\n{listed}\n```\n"


def public_name(code):
    """The public name that a piece of code in a sentence is about, or None.

    A bare word in lower case (``plan``, ``load``) may be any other word, so it needs its prefix.
    """
    found = NAMED.fullmatch(code)
    if found is None or found[1] not in reference.names():
        return None
    return found[1] if "." in code.partition("(")[0] or found[1][0].isupper() else None


def link_names(app, tree):
    """Make a link of every public name that a sentence writes as code."""
    for literal in list(tree.findall(nodes.literal)):
        name = public_name(literal.astext())
        if name is None or isinstance(literal.parent, (nodes.reference, pending_xref, nodes.title)):
            continue
        link = pending_xref(
            "", refdomain="py", reftype="obj", reftarget=f"streamlearn.{name}", refexplicit=True,
            refdoc=app.env.current_document.docname, refwarn=True,
        )  # fmt: skip
        literal.replace_self(link)
        link += literal
