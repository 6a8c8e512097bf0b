"""The long description on package indexes: README.md, with links that hold outside the repository.

Pictures and pages are named by their place in the repository, ``[project.urls] Repository`` in
pyproject.toml.  Where it names none, a picture is its description, and a page its name.
"""

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

LINK = re.compile(r"(!?)\[([^\]]*)\]\((?!https?:|#|mailto:)([^)\s]+)\)")
"""A link or a picture of the repository."""


class LongDescription(MetadataHookInterface):
    """Hatchling's hook: the readme of the project's metadata."""

    def update(self, metadata: dict[str, Any]) -> None:
        text = Path(self.root, "README.md").read_text(encoding="utf-8")
        url = metadata.get("urls", {}).get("Repository")
        metadata["readme"] = {
            "content-type": "text/markdown",
            "text": with_absolute_links(text, url),
        }


def with_absolute_links(text: str, url: str | None) -> str:
    """The text with links into the repository at `url`; without one, their words alone."""

    def absolute(link: re.Match[str]) -> str:
        picture, words, path = link.groups()
        if url is None:
            return f"*{words}*" if picture else words
        kind = "raw" if picture else "blob"
        return f"{picture}[{words}]({url.rstrip('/')}/{kind}/HEAD/{path})"

    return LINK.sub(absolute, text)
