"""Getting there: the command palette, filters under a name, the screen on a wall, a day of a pool."""

import re

from playwright.sync_api import Page, expect

from muster.client import calls
from tests.browser.conftest import Open
from tests.browser.viewing import PHONE, View
from tests.e2e.site import Site, until


def opened(page: Page) -> None:
    page.keyboard.press("Control+k")
    expect(page.get_by_role("combobox", name="Search everything")).to_be_focused()


def test_the_palette_finds_a_run_by_keyboard_alone_and_gives_the_focus_back(site: Site, view: View) -> None:
    operation = site.provision(1, run="sought-after", template="quick")
    page = view.go("/events")
    page.get_by_role("searchbox", name="Search events").focus()
    opened(page)
    page.keyboard.press("Escape")
    expect(view.by("palette")).to_have_count(0)
    expect(page.get_by_role("searchbox", name="Search events")).to_be_focused()
    opened(page)
    page.keyboard.type("sought-after")
    chosen = view.by("palette").get_by_role("option", selected=True)
    expect(chosen).to_contain_text("Provision sought-after")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(f"/operations/{operation.operation_id}$"))
    opened(page)
    page.keyboard.type(operation.members[0].node_id[-6:])
    expect(chosen).to_contain_text(operation.members[0].node_id)
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(f"/nodes/{operation.members[0].node_id}$"))
    site.ask(calls.release(operation_id=operation.operation_id))


def test_the_palette_opens_by_its_button_on_a_phone(
    site: Site, tokens: dict[str, str], open_view: Open
) -> None:
    view = open_view(site.url, tokens["viewer"], size=PHONE)
    page = view.go("/")
    page.get_by_role("button", name="Search everything").click()
    expect(page.get_by_role("option", name="Wallboard")).to_be_visible()
    expect(page.get_by_role("option", name="Provision nodes")).to_have_count(0)
    page.get_by_role("option", name="Templates").click()
    expect(page.get_by_role("heading", name="Templates")).to_be_visible()


def test_filters_are_saved_under_a_name_and_survive_a_reload(site: Site, view: View) -> None:
    page = view.go("/nodes?state=running&template=quick")
    page.get_by_text("Filters", exact=True).click()
    page.get_by_label("Name of these filters").fill("quick ones")
    page.get_by_role("button", name="Save").click()
    expect(page).to_have_url(re.compile(r"view=quick\+ones"))
    page.goto(f"{site.url}/nodes")
    page.get_by_text("Filters", exact=True).click()
    page.get_by_role("link", name="quick ones").click()
    expect(page).to_have_url(re.compile(r"\?state=running&template=quick&view=quick\+ones$"))
    expect(page.get_by_label("State")).to_have_value("running")


def test_the_wallboard_is_dark_and_without_chrome_and_the_page_is_as_before_after_it(
    site: Site, tokens: dict[str, str], open_view: Open
) -> None:
    view = open_view(site.url, tokens["viewer"])
    page = view.go("/wallboard")
    expect(view.by("wallboard")).to_contain_text("running")
    expect(page.get_by_role("navigation")).to_have_count(0)
    expect(page.get_by_role("button")).to_have_count(0)
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    page.get_by_role("link", name="Exit").click()
    expect(page.get_by_role("navigation", name="Pages")).to_be_visible()
    assert page.locator("html").get_attribute("data-theme") is None


def test_a_day_of_a_pool_is_drawn_from_its_first_sample(site: Site, view: View) -> None:
    operation = site.provision(2, run="drawn", template="quick")

    def sampled() -> bool:
        seen = site.ask(calls.pool_history(template="quick"))
        return any(point.running >= 2 for item in seen.items for point in item.points)

    until(sampled, "a sample of the pool", 120.0)
    view.go("/")
    drawn = view.by("timeline").and_(view.page.locator('[data-template="quick"]'))
    expect(drawn.get_by_role("img")).to_have_attribute("aria-label", re.compile(r"^quick: last \d+ running"))
    view.go("/templates/quick")
    expect(view.by("ready-chart")).to_contain_text("p50")
    view.go("/templates")
    row = view.by("template-row").filter(has_text="quick")
    expect(row.get_by_role("img")).to_have_attribute("aria-label", re.compile("in use in the last 24 hours"))
    site.ask(calls.release(operation_id=operation.operation_id))
