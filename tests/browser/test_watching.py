"""Seeing it happen: a provision from the dialog to the end, failures with their reasons, breaks."""

import re

from playwright.sync_api import Locator, expect

from muster.client import calls
from tests.browser.viewing import View, away
from tests.e2e.site import Site

SAMPLE = """bar => {
    window.drawn = [];
    window.bar = bar;
    const look = () => { window.drawn.push(bar.getBoundingClientRect().width); requestAnimationFrame(look); };
    requestAnimationFrame(look);
}"""
"""Writes down, frame by frame, how long the bar is drawn."""
ARRIVED = """() => new Promise(resolve => {
    const whole = () => bar.parentElement.getBoundingClientRect().width;
    const look = () => { whole() - drawn.at(-1) < 1 ? resolve(drawn) : requestAnimationFrame(look); };
    look();
})"""
"""Gives what was written down once the bar is whole: it glides there after the server's last word."""


def banner(view: View, operation_id: str) -> Locator:
    return view.page.locator(f'[data-testid="operation-banner"][data-operation-id="{operation_id}"]')


def percent(banner: Locator) -> float:
    """As the bar tells it."""
    return float(banner.get_by_role("progressbar").get_attribute("data-percent") or "nan")


def test_a_cold_provision_is_asked_for_in_the_dialog_and_watched_to_its_end(site: Site, view: View) -> None:
    page = view.go("/")
    page.get_by_role("button", name="Provision", exact=True).click()
    dialog = page.get_by_role("dialog", name="Provision nodes")
    dialog.get_by_role("combobox", name="Template", exact=True).select_option("slow")
    dialog.get_by_label("Count").fill("2")
    dialog.get_by_label("Run").fill("from-the-page")
    expect(dialog.get_by_test_id("warm-now")).to_have_attribute("data-idle", "0")
    dialog.get_by_role("button", name="Start").click()

    page.wait_for_url("**/operations/op-*")
    operation_id = page.url.rpartition("/")[2]
    mine = banner(view, operation_id)
    expect(mine).to_contain_text("Step 3/5")
    expect(mine).to_contain_text("fetch the image")
    expect(mine.get_by_test_id("chip")).to_have_count(2)
    mine.get_by_role("progressbar").locator("span").evaluate(SAMPLE)
    expect(mine).to_have_attribute("data-status", "succeeded")
    expect(mine).to_have_attribute("data-percent", "100")
    drawn: list[float] = page.evaluate(ARRIVED)
    assert drawn == sorted(drawn), "the bar never goes back"
    assert len({round(width) for width in drawn}) > 5, "and it gets there in small steps"
    expect(page.get_by_role("list", name="Steps").get_by_role("listitem")).to_have_count(5)
    expect(view.by("members").get_by_role("cell", name="running")).to_have_count(2)
    expect(mine.get_by_test_id("chip")).to_have_count(0)
    site.ask(calls.release(operation_id=operation_id))


def test_a_boot_that_fails_is_shown_with_its_diagnosis(site: Site, view: View) -> None:
    end = site.provision(1, run="doomed", template="broken")
    assert end.error is not None and end.error.node_id is not None
    view.go(f"/operations/{end.operation_id}")
    expect(view.by("operation-error")).to_contain_text("Boot script failed")
    expect(view.by("diagnosis").first).to_have_attribute("data-cause", "package_install")
    expect(view.by("diagnosis").first).to_contain_text("Unable to locate package nodejs-99")

    view.go("/")
    expect(view.by("verdict")).to_contain_text(re.compile("of broken revision .* failed .*package install"))
    expect(view.by("failures").locator('li[data-cause="package_install"]')).to_have_count(0)
    view.go(f"/nodes/{end.error.node_id}")
    expect(view.by("diagnosis").first).to_contain_text("nodejs-99")


def test_a_provision_is_cancelled_from_its_banner_by_a_named_person(site: Site, view: View) -> None:
    asked = site.ask(calls.provision(site.request(1, "called-off", template="hanging")))
    view.go("/")
    mine = banner(view, asked.operation_id)
    expect(mine).to_contain_text("called-off")
    mine.get_by_role("button", name="Cancel").click()
    view.page.get_by_role("button", name="Cancel it").click()
    assert site.ended(asked).status == "cancelled"
    view.go(f"/operations/{asked.operation_id}")
    expect(mine).to_have_attribute("data-status", "cancelled")
    told = [event for event in site.feed() if event.entity_id == asked.operation_id and event.actor]
    assert [(event.name, event.actor.partition(" (")[0]) for event in told] == [
        ("submitted", "first admin"),
        ("cancel_requested", "an operator"),
    ]


def test_a_reload_and_a_server_that_dies_in_the_middle_lose_nothing(site: Site, view: View) -> None:
    view.forgiven = away
    asked = site.ask(calls.provision(site.request(1, "survivor", template="slower")))
    page = view.go(f"/operations/{asked.operation_id}")
    mine = banner(view, asked.operation_id)
    expect(mine).to_contain_text("Step 3/5")
    before = percent(mine)
    page.reload()
    expect(mine).to_contain_text("survivor")
    assert percent(mine) >= before
    expect(view.by("connection")).to_have_attribute("data-connection", "live")

    site.kill()
    expect(view.by("connection-lost")).to_contain_text("Connection lost, retrying")
    assert percent(mine) >= before, "what is known stays on the page"
    site.start()
    expect(view.by("connection-lost")).to_have_count(0)
    assert percent(mine) >= before
    expect(mine).to_have_attribute("data-status", "succeeded")
    expect(mine).to_have_attribute("data-percent", "100")
    site.ask(calls.release(operation_id=asked.operation_id))


def test_seven_windows_of_one_browser_leave_connections_for_requests(site: Site, view: View) -> None:
    """Over HTTP/1.1 it has six to a server. If all of them were streams, no request could be made."""
    view.go("/")
    windows = [view, *(View(page=view.page.context.new_page(), url=view.url) for _ in range(6))]
    for window in windows:
        window.go("/templates")
        expect(window.by("template-row").first).to_be_visible()
        expect(window.by("connection")).to_have_attribute("data-connection", "live")
    told = [window.by("connection").inner_text().strip() for window in windows]
    assert sorted(told) == ["every 10 s"] * 3 + ["live"] * 4
    windows[0].page.close()
    waiting = next(window for window, words in zip(windows, told, strict=True) if words != "live")
    expect(waiting.by("connection")).to_have_text("live")
