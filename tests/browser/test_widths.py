"""Between a phone and a desk: nothing is cut off, however wide the window is."""

import pytest
from playwright.sync_api import expect

from muster.client import calls
from tests.browser.conftest import Open
from tests.browser.viewing import PHONE
from tests.e2e.site import Site

WIDTHS = (390, 720, 861, 1024, 1280, 1440)
OUTSIDE = """selector => [...document.querySelectorAll(selector)]
    .filter(each => each.getClientRects().length > 0)
    .map(each => [each.textContent, each.getBoundingClientRect()])
    .filter(([, box]) => box.left < 0 || box.right > innerWidth + 1)
    .map(([text]) => text)"""
CUT = "(nav => nav.scrollWidth - nav.clientWidth)(document.querySelector('.top-nav'))"


@pytest.mark.parametrize("width", WIDTHS)
def test_every_page_and_every_column_can_be_reached(
    site: Site, tokens: dict[str, str], open_view: Open, width: int
) -> None:
    site.ask(calls.provision(site.request(1, f"as wide as {width}", template="held")))
    site.provision(1, run="wide", template="quick")
    view = open_view(site.url, tokens["operator"], size=(width, 800))
    for path, cells in (
        ("/nodes", '[data-testid="node-row"] .cell'),
        ("/operations", '[data-testid="operation-row"] td'),
        ("/templates", '[data-testid="template-row"] td'),
    ):
        page = view.go(path)
        expect(page.locator(cells).first).to_be_visible()
        assert page.evaluate(CUT) <= 0, f"a name of a page is cut off at {width} px"
        assert page.evaluate(OUTSIDE, cells) == [], f"{path} at {width} px"


def test_the_menu_of_saved_filters_fits_a_phone(site: Site, tokens: dict[str, str], open_view: Open) -> None:
    view = open_view(site.url, tokens["viewer"], size=PHONE)
    for path in ("/nodes?state=failed", "/operations?kind=run", "/events?entity=node", "/jobs?state=queued"):
        page = view.go(path)
        view.by("saved-filters").locator("summary").click()
        expect(page.get_by_label("Name of these filters")).to_be_visible()
        assert page.evaluate(OUTSIDE, ".saved-menu, .saved-menu *") == [], path
