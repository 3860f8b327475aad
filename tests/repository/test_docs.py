import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_tests_that_the_threat_model_names_are_there() -> None:
    named = re.findall(r"`(tests/[^`]+)`", (ROOT / "SECURITY.md").read_text(encoding="utf-8"))
    assert len(named) > 20
    assert [path for path in named if not (ROOT / path).exists()] == []


def test_the_links_between_the_pages_lead_somewhere() -> None:
    pages = [*ROOT.glob("docs/*.md"), *ROOT.glob("docs/adr/*.md"), *ROOT.glob("*.md")]
    broken = [
        f"{page.name}: {link}"
        for page in pages
        for link in re.findall(r"\]\((?!https?:)([^)\s]+)\)", page.read_text(encoding="utf-8"))
        if not _leads(page, *link.partition("#")[::2])
    ]
    assert broken == []


def test_decisions_are_numbered_one_by_one_and_titled_by_their_number() -> None:
    decisions = sorted(ROOT.glob("docs/adr/*.md"))
    named = [int(page.name.partition("-")[0]) for page in decisions]
    titled = [page.read_text(encoding="utf-8").partition(".")[0] for page in decisions]
    assert titled == [f"# {number}" for number in named] == [f"# {each + 1}" for each in range(len(named))]


def _leads(page: Path, path: str, anchor: str) -> bool:
    target = page.parent / path if path else page
    if not anchor or not target.exists():
        return target.exists()
    text = target.read_text(encoding="utf-8")
    headings = (heading.lower().replace(" ", "-") for heading in re.findall(r"^#+ (.*)$", text, re.MULTILINE))
    return f'id="{anchor}"' in text or anchor in [re.sub(r"[^\w-]", "", each) for each in headings]
