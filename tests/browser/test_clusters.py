"""Clusters on the page and in a terminal, on a simulated Azure over HTTP: made, watched, deleted, failed."""

import re
import signal
import time
from collections.abc import Iterator
from itertools import pairwise

import pytest
from playwright.sync_api import expect

from muster.client import calls
from muster.domain.access import Role
from muster.integrations.aks.error_codes import Problem
from muster_simulation.arm import Arm, Paces
from muster_simulation.arm.server import ArmServer
from muster_simulation.demo_aks import CONFIG, SCOPE, TEMPLATE
from tests.browser.conftest import Open
from tests.cli.terminal import Terminal
from tests.e2e.fork_server import ForkServer
from tests.e2e.site import Site

POLL_EVERY = 5.0
"""Between two looks at Azure, and so between two words of the server."""
WATCHED = 8
"""Changes of the bar that are waited for: more than fit between two words of the server."""
LATE = 3.0
"""Seconds that a busy machine may take for what happens once a second."""
RECORD = """(bar, most) => new Promise(resolve => {
    const moved = [];
    const look = () => {
        moved.push([performance.now(), Number(bar.dataset.percent)]);
        if (moved.length > most) resolve(moved);
    };
    look();
    new MutationObserver(look).observe(bar, {attributes: true, attributeFilter: ['data-percent']});
})"""
"""Gives when the bar moved, and where to, once it has moved so often."""
QUOTA = Problem(
    code="QuotaExceeded",
    message="Operation could not be completed as it results in exceeding approved standardESv5Family Cores"
    " quota. Additional details - Current Limit: 100, Current Usage: 16, Additional Required: 164.",
)


class Azure(Arm):
    """Its minutes pass when the test says so."""

    def __init__(self) -> None:
        self.passed = 0.0
        super().__init__(lambda: time.monotonic() + self.passed, Paces())


@pytest.fixture(scope="module")
def azure() -> Azure:
    return Azure()


@pytest.fixture(scope="module")
def site(fork_server: ForkServer, tmp_path_factory: pytest.TempPathFactory, azure: Azure) -> Iterator[Site]:
    with ArmServer(azure).in_a_thread() as endpoint:
        config = CONFIG.format(endpoint=endpoint, poll_every=POLL_EVERY, template=TEMPLATE, scope=SCOPE)
        site = Site(tmp_path_factory.mktemp("clusters"), fork_server, config=config).start()
        yield site
        site.close()


@pytest.fixture(scope="module")
def operator(site: Site) -> str:
    return site.client.send(calls.make_token("an operator", Role.OPERATOR)).secret


def test_a_first_create_is_asked_for_on_the_page_moves_every_second_and_leaves_no_trace(
    site: Site, operator: str, azure: Azure, open_view: Open
) -> None:
    view = open_view(site.url, operator)
    page = view.go("/clusters")
    page.get_by_role("button", name="Create a cluster").click()
    form = page.get_by_role("form", name="Create a cluster")
    form.get_by_label("Name").fill("first-")
    expect(form.get_by_role("alert")).to_contain_text("begins and ends with a letter or digit")
    expect(form.get_by_role("button", name="Create")).to_be_disabled()
    form.get_by_label("Name").fill("first")
    expect(form.get_by_test_id("will-be")).to_contain_text("blastpool · 10 nodes · Standard_E16s_v5")
    form.get_by_role("button", name="Create").click()

    page.wait_for_url("**/operations/op-*")
    banner = view.by("operation-banner")
    expect(banner).to_contain_text("Step 3/5 · Creating the AKS cluster (5–10 min)")
    steps = page.get_by_role("list", name="Steps").get_by_role("listitem")
    expect(steps.nth(3)).to_contain_text("Granting role assignments")
    expect(steps.nth(4)).to_contain_text("Cluster ready")
    bar = banner.get_by_role("progressbar")
    moved: list[tuple[float, float]] = bar.evaluate(RECORD, WATCHED)
    for (before, low), (after, high) in pairwise(moved):
        assert low < high < 60.0, "it moves, and by time alone not past its step"
        assert after - before < 1000 * LATE, "in every second"
    assert moved[0][1] >= 40.0 and moved[-1][1] - moved[0][1] < 1.0, "as fast as 450 s say: no jump"

    azure.passed += 3600.0
    expect(banner).to_have_attribute("data-status", "succeeded")

    page = view.go("/clusters")
    card = view.by("cluster")
    expect(card).to_have_attribute("data-state", "ready")
    expect(card.get_by_role("link", name="Open in the cloud console")).to_be_visible()
    card.get_by_role("button", name="Delete").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete", exact=True).click()
    page.wait_for_url("**/operations/op-*")
    expect(banner).to_contain_text("Step 3/5 · Deleting the AKS cluster")
    azure.passed += 3600.0
    expect(banner).to_have_attribute("data-status", "running")
    expect(banner).to_contain_text("Step 4/5")
    azure.passed += 3600.0
    expect(banner).to_have_attribute("data-status", "succeeded")
    view.go("/clusters/first")
    expect(card).to_have_attribute("data-state", "deleted")
    expect(view.by("chip")).to_have_count(0)
    expect(page.get_by_role("link", name="Open in the cloud console")).to_have_count(0)


def test_a_create_that_failed_stays_with_its_reason_and_what_to_do(
    site: Site, operator: str, azure: Azure, open_view: Open
) -> None:
    view = open_view(site.url, operator)
    page = view.go("/clusters")
    azure.next_problem = QUOTA
    asked = site.ask(calls.create_cluster("second", TEMPLATE))
    expect(view.by("cluster").get_by_test_id("operation-banner")).to_contain_text("Step 3/5")
    azure.passed += 3600.0
    expect(view.by("cluster")).to_contain_text("Undoing")
    azure.passed += 3600.0
    expect(view.by("cluster").get_by_test_id("operation-banner")).to_contain_text("Clearing the resource")
    azure.passed += 3600.0

    failed = view.by("failed-create")
    expect(failed).to_contain_text("second")
    expect(view.by("cluster")).to_have_count(0)
    page.reload()
    expect(failed.get_by_test_id("operation-error")).to_contain_text("quota")
    expect(failed).to_contain_text("84 left of 164 wanted")
    expect(failed).to_contain_text("What to do:")
    expect(failed.get_by_test_id("chip")).to_have_count(0)
    assert site.ended(asked).status == "failed"

    failed.get_by_role("button", name="Retry").click()
    form = page.get_by_role("form", name="Create a cluster")
    expect(form.get_by_label("Name")).to_have_value("second")
    form.get_by_role("button", name="Create").click()
    page.wait_for_url("**/operations/op-*")
    view.go("/clusters")
    expect(view.by("cluster")).to_contain_text("second")
    expect(failed).to_have_count(0)


def test_in_a_terminal_too_the_bar_of_a_create_moves_every_second(site: Site, operator: str) -> None:
    terminal = Terminal(site.root, {"MUSTER_SERVER": site.url, "MUSTER_TOKEN": operator})
    words = ("clusters", "create", "third", "-t", TEMPLATE)
    said = terminal.live(*words, until=f" · 0m {WATCHED:02d}s", sign=signal.SIGINT)
    assert "the work continues" in said.out
    second, places = 0, dict[int, str]()
    for found in re.finditer(r"Step 3/5 .* · 0m (\d\d)s|(\d+\.\d\d) %", said.out):
        if found[1] is not None:
            second = int(found[1])
        else:
            places[second] = found[2]  # the last that was drawn in that second
    places.pop(second)  # it was cut short
    moved = [place for each in sorted(places) if (place := float(places[each])) >= 40.0]
    assert len(moved) >= WATCHED // 2
    assert all(low < high < 60.0 for low, high in pairwise(moved)), places
