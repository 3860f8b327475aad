"""Every page in light and dark: for screen readers and keyboards (axe), and on a phone."""

from typing import Any

import pytest
from playwright.sync_api import expect

from muster.client import calls
from tests.browser.conftest import Open
from tests.browser.viewing import AXE, PHONE, refused
from tests.e2e.site import Site

NOWHERE = "/no/such/page"
PAGES = (
    "/",
    "/operations",
    "/operations/{operation}",
    "/operations/{failed}",
    "/nodes",
    "/nodes/{node}",
    "/templates",
    "/templates/quick",
    "/clusters",
    "/events",
    "/jobs",
    "/wallboard",
    "/api#operations_show",
    "/?provision=quick",
    NOWHERE,
)
RUN = """async () => {
    const found = await axe.run(document, {resultTypes: ['violations']});
    return found.violations.filter(each => ['serious', 'critical'].includes(each.impact))
        .map(each => `${each.id}: ${each.help}: ${each.nodes.slice(0, 3).map(node => node.html).join(' ')}`);
}"""
ROWS = "[...document.querySelectorAll('.plain-table tbody tr')].map(row => row.offsetHeight)"
WIDER = "document.documentElement.scrollWidth - document.documentElement.clientWidth"


@pytest.fixture(scope="module")
def things(site: Site) -> dict[str, str]:
    """One of each kind to look at: something that runs, that failed, and that waits."""
    ready = site.provision(2, run="looked-at", template="quick")
    failed = site.provision(1, run="looked-at-too", template="broken")
    site.ask(calls.provision(site.request(1, "waits", template="held")))
    return {
        "operation": ready.operation_id,
        "failed": failed.operation_id,
        "node": ready.members[0].node_id,
    }


@pytest.mark.parametrize("looks", [{}, {"dark": True}, {"size": PHONE}], ids=["light", "dark", "phone"])
def test_no_page_has_a_serious_barrier_or_scrolls_sideways(
    site: Site, tokens: dict[str, str], open_view: Open, things: dict[str, str], looks: dict[str, Any]
) -> None:
    axe = AXE.read_text(encoding="utf-8")
    view = open_view(site.url, tokens["operator"], **looks)
    view.forgiven = lambda words: refused(words) and NOWHERE in words
    found: dict[str, Any] = {}
    for path in PAGES:
        page = view.go(path.format(**things))
        expect(view.by("connection")).to_have_attribute("data-connection", "live")
        expect(page.locator("[aria-busy=true]")).to_have_count(0)
        assert page.evaluate(WIDER) <= 0, f"{path} must not scroll sideways"
        page.evaluate(axe)
        found[path] = page.evaluate(RUN)
    assert {path: each for path, each in found.items() if each} == {}


def test_no_row_of_a_table_wraps(
    site: Site, tokens: dict[str, str], open_view: Open, things: dict[str, str]
) -> None:
    """On a phone and on a desk: a row is one line, however long what it tells is."""
    for looks in ({}, {"size": PHONE}):
        view = open_view(site.url, tokens["operator"], **looks)
        for path in ("/operations", "/templates", f"/operations/{things['failed']}"):
            page = view.go(path)
            expect(page.locator(".plain-table tbody tr").first).to_be_visible()
            heights: list[float] = page.evaluate(ROWS)
            assert max(heights) < 2 * 1.5 * 14 + 16, (path, heights)


def test_the_whole_page_works_by_keyboard(site: Site, tokens: dict[str, str], open_view: Open) -> None:
    view = open_view(site.url, tokens["operator"])
    page = view.go("/")
    expect(page.get_by_role("button", name="Provision", exact=True)).to_be_visible()
    page.get_by_role("button", name="Provision", exact=True).focus()
    page.keyboard.press("Enter")
    dialog = page.get_by_role("dialog", name="Provision nodes")
    expect(dialog).to_be_visible()
    assert page.evaluate("document.querySelector('dialog, [role=dialog]').contains(document.activeElement)")
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    expect(page.get_by_role("button", name="Provision", exact=True)).to_be_focused()
