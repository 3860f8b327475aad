"""The reference of the API at /api: open to all, an address for each route, loaded only when it is wanted."""

import re

from playwright.sync_api import expect

from tests.browser.conftest import Open
from tests.e2e.site import Site


def test_a_reader_without_a_token_finds_a_route_and_its_curl_line(site: Site, open_view: Open) -> None:
    view = open_view(site.url, None)
    page = view.go("/")
    page.get_by_role("link", name="API reference").click()
    page.get_by_role("searchbox").fill("drain")
    route = view.by("route")
    expect(route).to_have_count(1)
    route.locator("summary").first.click()
    expect(page).to_have_url(re.compile(r"/api\?q=drain#nodes_drain$"))
    expect(route).to_contain_text(f'curl -sS -X POST "{site.url}/api/v1/nodes/NODE_ID/drain"')
    expect(route).to_contain_text("Bearer $MUSTER_TOKEN")


def test_a_shared_address_opens_its_route_in_view(
    site: Site, tokens: dict[str, str], open_view: Open
) -> None:
    view = open_view(site.url, tokens["viewer"])
    page = view.go("/api#tokens_create")
    opened = page.locator("details.route[open]")
    expect(opened).to_have_count(1)
    expect(opened).to_have_id("tokens_create")
    expect(opened.locator("summary").first).to_be_in_viewport()
    expect(page.get_by_role("navigation", name="Pages").get_by_role("link", name="API")).to_have_attribute(
        "aria-current", "page"
    )


def test_the_reference_is_no_part_of_the_first_load(
    site: Site, tokens: dict[str, str], open_view: Open
) -> None:
    view = open_view(site.url, tokens["viewer"])
    loaded: list[str] = []
    view.page.on("request", lambda request: loaded.append(request.url))
    view.go("/nodes")
    expect(view.by("connection")).to_have_attribute("data-connection", "live")
    assert not any("reference" in url for url in loaded)
    view.page.get_by_role("link", name="API", exact=True).click()
    expect(view.by("route").first).to_be_visible()
    assert any("reference" in url for url in loaded)
