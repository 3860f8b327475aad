"""10,000 nodes, and 10,000 events at once: the page stays quick; its frames are counted in the browser."""

from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import expect

from tests.browser import crowd
from tests.browser.conftest import Open
from tests.browser.viewing import View, away
from tests.e2e.fork_server import ForkServer
from tests.e2e.site import Site

Record = Callable[[str, object], None]
NODES = 10_000
EVENTS = 10_000
FROZEN = 1000.0
"""Milliseconds without a frame that a person calls frozen. Usual are less than a tenth of it; the rest is for
machines that do other work as well."""
FRAMES = """() => {
    window.frames_ = []; let last = performance.now();
    const look = now => { window.frames_.push(now - last); last = now; requestAnimationFrame(look); };
    requestAnimationFrame(look);
}"""


@pytest.fixture(scope="module")
def crowded(fork_server: ForkServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    site = Site(tmp_path_factory.mktemp("crowd"), fork_server)
    site.data.mkdir(mode=0o700)
    crowd.filled(site.data / "muster.db", nodes=NODES)
    yield site.start()
    site.close()


@pytest.fixture(scope="module")
def admin(crowded: Site) -> str:
    return (crowded.data / "admin.token").read_text().strip()


@pytest.fixture
def view(crowded: Site, admin: str, open_view: Open) -> View:
    return open_view(crowded.url, admin)


def frames(view: View) -> tuple[float, float, int]:
    """The longest and the usual time between two frames, in milliseconds, and how many there were."""
    took = sorted(view.page.evaluate("window.frames_.splice(0)"))
    return took[-1], took[len(took) * 95 // 100], len(took)


def test_a_table_of_ten_thousand_nodes_is_filtered_sorted_searched_and_scrolled(
    view: View, record_property: Record
) -> None:
    page = view.go("/nodes")
    page.evaluate(FRAMES)
    count = view.by("node-count")
    expect(count).to_have_attribute("data-whole", "true")
    expect(count).to_have_attribute("data-shown", str(NODES))
    expect(page.get_by_role("table", name="Nodes")).to_have_attribute("aria-rowcount", str(NODES + 1))
    assert view.by("node-row").count() < 100, "only those in sight exist"

    page.locator(".table-scroll").evaluate("each => each.scrollTo(0, each.scrollHeight)")
    expect(page.get_by_text("node-09999")).to_be_visible()
    page.get_by_role("combobox", name="Template", exact=True).select_option("shop")
    expect(count).to_have_attribute("data-shown", str(NODES // 2))
    page.get_by_role("searchbox").or_(page.get_by_label("Search nodes")).first.fill("app-04242")
    expect(count).to_have_attribute("data-shown", "1")
    longest, usual, counted = frames(view)
    record_property("frames", f"{counted}, p95 {usual:.0f} ms, longest {longest:.0f} ms")
    assert longest < FROZEN
    assert "q=app-04242" in page.url and "template=shop" in page.url, "what is chosen is in the address"
    page.goto(f"{view.url}/nodes?template=search&q=app-0424&sort=-id")
    expect(count).to_have_attribute("data-shown", "5")
    expect(view.by("node-row").first).to_contain_text("node-04249")


SHOWN = {
    "/": '[data-testid="pool"][data-template="search"] >> text=paused',
    "/nodes?sort=-id": f'[data-testid="node-row"] >> text=node-{crowd.LATE}',
    "/events": '[data-testid="event-row"] >> text=paused',
}
"""What is on each page once it knows of the last of them."""


def test_a_burst_of_ten_thousand_events_freezes_no_page(
    crowded: Site, admin: str, open_view: Open, record_property: Record
) -> None:
    """All three at once, beside the server that tells them: as bad as it gets on one machine."""
    views = {path: open_view(crowded.url, admin) for path in SHOWN}
    for path, view in views.items():
        view.forgiven = away
        view.go(path)
        expect(view.by("connection")).to_have_attribute("data-connection", "live")
    expect(views["/nodes?sort=-id"].by("node-count")).to_have_attribute("data-shown", str(NODES))
    crowded.stop()
    for view in views.values():
        expect(view.by("connection-lost")).to_be_visible()
    crowd.burst(crowded.data / "muster.db", events=EVENTS)
    for view in views.values():
        view.page.evaluate(FRAMES)
    crowded.start()
    for path, view in views.items():
        expect(view.page.locator(SHOWN[path]).first).to_be_visible()
    counts = {path: frames(view) for path, view in views.items()}
    for path, (longest, usual, counted) in counts.items():
        record_property(f"frames of {path}", f"{counted}, p95 {usual:.0f} ms, longest {longest:.0f} ms")
    assert {path: longest for path, (longest, _, _) in counts.items() if longest >= FROZEN} == {}
