"""The brakes at hand: pausing, ending a node, and taking what is known along into an incident."""

import re

from playwright.sync_api import expect

from muster.client import calls
from tests.browser.viewing import View, refused
from tests.e2e.site import Site, until


def paused(site: Site) -> tuple[str, ...]:
    return tuple(pool.template for pool in site.ask(calls.pools()).items if pool.paused)


def test_a_template_is_paused_after_a_question_and_resumed(site: Site, view: View) -> None:
    page = view.go("/templates/quick")
    page.get_by_role("button", name="Pause quick").click()
    page.get_by_role("dialog").get_by_role("button", name="Pause", exact=True).click()
    expect(page.get_by_role("button", name="Resume quick")).to_be_visible()
    assert "quick" in paused(site)
    view.go("/")
    expect(view.by("verdict")).to_contain_text("quick")
    expect(view.by("changes")).to_contain_text(re.compile(r"quick paused.*an operator \(tok-", re.I | re.S))
    page.get_by_role("button", name="Resume quick").click()
    expect(page.get_by_role("button", name="Resume quick")).to_have_count(0)
    assert "quick" not in paused(site)


def test_a_node_is_ended_only_after_a_question(site: Site, view: View) -> None:
    view.forgiven = refused  # the page asks for a diagnosis, and there is none of a node that did not fail
    node_id = site.provision(1, run="ended-by-hand", template="quick").members[0].node_id
    page = view.go(f"/nodes/{node_id}")
    expect(view.by("axis-state")).to_contain_text("running")
    expect(view.by("axis-deadline")).to_contain_text("max runtime")
    expect(page.locator("time[title]").first).to_be_visible()
    page.get_by_role("button", name="Terminate").click()
    question = page.get_by_role("dialog", name="Terminate this node?")
    page.keyboard.press("Escape")
    expect(question).to_have_count(0)
    assert site.node(node_id).state == "running", "no answer is no"
    page.get_by_role("button", name="Terminate").click()
    question.get_by_role("button", name="Terminate").click()
    expect(view.by("axis-state")).to_contain_text(re.compile("terminat"))
    until(lambda: site.node(node_id).state == "terminated", "its end")


def test_the_incident_report_is_copied(view: View) -> None:
    view.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page = view.go("/")
    page.get_by_role("button", name="Copy as incident report").click()
    expect(page.get_by_text(re.compile("copied", re.I)).first).to_be_visible()
    report = page.evaluate("() => navigator.clipboard.readText()")
    assert report.startswith("# Muster at ") and "## Nodes" in report
