"""The documentation as a site: complete, with links that lead somewhere, and nothing from another host."""

import json
import re
from pathlib import Path

import pytest

from muster.cli.app import commands
from tools import docs, pictures

_ABROAD = re.compile(r'<(?:link|script|img|iframe)\b[^>]*\b(?:src|href)="((?:https?:)?//[^"]+)"')


@pytest.fixture(scope="module")
def site() -> None:
    assert docs.main() == 0, "a link is broken, or a page is missing: run make docs"


@pytest.mark.usefixtures("site")
def test_every_page_is_found_by_the_search_and_asks_no_other_host() -> None:
    index = json.loads((docs.SITE / "search" / "search_index.json").read_text())
    found = {entry["location"].partition("#")[0] for entry in index["docs"]}
    pages = {page.with_suffix(".html").name for page in (docs.ROOT / "docs").glob("*.md")}
    assert pages <= found
    for page in docs.SITE.glob("*.html"):
        text = page.read_text()
        assert _ABROAD.findall(text) == []


@pytest.mark.usefixtures("site")
def test_every_page_has_its_place_in_the_navigation() -> None:
    listed = (docs.ROOT / "mkdocs.yml").read_text()
    assert [page.name for page in (docs.ROOT / "docs").glob("*.md") if f" {page.name}" not in listed] == []


@pytest.mark.parametrize("target", ["nowhere.md", "index.md#nowhere", "nowhere.png", "nowhere/"])
def test_a_link_that_leads_nowhere_fails_the_build(target: str, tmp_path: Path) -> None:
    pages = tmp_path / "build" / "docs"
    pages.mkdir(parents=True)
    settings = (docs.ROOT / "mkdocs.yml").read_text().partition("\nnav:")[0]
    (tmp_path / "mkdocs.yml").write_text(settings)
    (pages / "index.md").write_text("# Here\n\n[a page](index.md#here)\n")
    assert docs.built(tmp_path) == []
    (pages / "index.md").write_text(f"# Here\n\n[a page]({target})\n")
    assert target in "\n".join(docs.built(tmp_path))


def test_the_reference_has_every_command_and_metric() -> None:
    text = docs.cli()
    assert [name for name in commands() if f"\n## muster {name}\n" not in text] == []
    assert all(
        name in docs.metrics() for name in ("muster_nodes", "muster_store_seconds", "gha_assigned_jobs")
    )
    assert "/api/v1/provisions" in docs.api()


def test_the_picture_of_the_states_is_current() -> None:
    drawn = (pictures.IMAGES / "states.svg").read_text(encoding="utf-8")
    assert drawn == pictures.states(), "run python -m tools.pictures"
