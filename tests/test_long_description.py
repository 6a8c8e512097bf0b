"""The long description that package indexes show."""

import importlib.util
import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()


@pytest.fixture(scope="module")
def hook():
    pytest.importorskip("hatchling", reason="builds the package; pip install hatchling")
    spec = importlib.util.spec_from_file_location("hatch_build", ROOT / "hatch_build.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_picture_and_link_is_absolute(hook):
    text = hook.with_absolute_links(README, "https://example.org/a/b/")
    links = re.findall(r"(!?)\[[^\]]*\]\(([^)]*)\)", text)
    assert len(links) == len(re.findall(r"\]\(", README))
    base = "https://example.org/a/b/"
    for picture, link in links:
        assert link.startswith(("https:", "#"))
        if link.startswith(base):
            kind, at, path = link.removeprefix(base).split("/", 2)
            assert (kind, at) == ("raw" if picture else "blob", "HEAD")
            assert (ROOT / path.partition("#")[0]).exists()
    assert f"{base}raw/HEAD/docs/pictures/curves.svg" in text


def test_without_a_repository_pictures_are_their_words(hook):
    text = hook.with_absolute_links(README, None)
    assert "](docs" not in text
    assert "*Four curves of an additive model" in text


def test_the_hook_is_what_builds_the_readme(hook):
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["dynamic"] == ["readme"]
    hook.LongDescription(str(ROOT), {}).update(project)
    assert project["readme"]["content-type"] == "text/markdown"
    assert project["readme"]["text"].startswith("# streamlearn")
