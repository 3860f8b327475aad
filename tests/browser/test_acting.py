"""The brakes at hand: pausing, ending a node, and taking what is known along into an incident."""

import re

from playwright.sync_api import expect

from muster.client import calls
from tests.browser.viewing import View
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
    page.get_by_role("button", name="Acknowledge Paused: held, quick").click()
    expect(view.by("acknowledged")).to_contain_text("1 acknowledged")
    expect(view.by("acknowledged")).to_contain_text(re.compile(r"Paused: held, quick.*by an operator"))
    view.by("acknowledged").locator("summary").click()
    page.get_by_role("button", name="Show again Paused: held, quick").click()
    expect(view.by("acknowledged")).to_have_count(0)
    expect(view.by("changes")).to_contain_text(re.compile(r"quick paused\s*by an operator"))
    expect(view.by("changes").locator('[title^="tok-"]').first).to_have_text("by an operator")
    page.get_by_role("button", name="Resume quick").click()
    expect(page.get_by_role("button", name="Resume quick")).to_have_count(0)
    assert "quick" not in paused(site)


def test_a_node_is_ended_only_after_a_question(site: Site, view: View) -> None:
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
    expect(view.by("ending")).to_have_attribute("data-tone", "neutral")


def test_a_run_gets_more_time_and_its_node_is_drained_from_the_overview(site: Site, view: View) -> None:
    operation = site.provision(1, run="held-by-hand", template="quick")
    node_id = operation.members[0].node_id
    before = site.node(node_id).deadline_at
    page = view.go("/")
    mine = view.by("runs").locator('li[data-run="held-by-hand"]')
    mine.get_by_role("button", name="Extend held-by-hand").click()
    page.get_by_role("dialog").get_by_role("button", name="Extend").click()
    until(lambda: site.node(node_id).deadline_at != before, "its later deadline")
    mine.locator("summary").click()
    mine.get_by_role("button", name=f"Drain {node_id}").click()
    page.get_by_role("dialog", name="Drain this node?").get_by_role("button", name="Drain").click()
    expect(mine.get_by_role("button", name=f"Drain {node_id}")).to_have_count(0)
    assert site.node(node_id).drain and site.node(node_id).state == "running", "its run keeps it"
    expect(view.by("changes")).to_contain_text("extended")
    site.ask(calls.release(operation_id=operation.operation_id))


def test_the_incident_report_is_copied(view: View) -> None:
    view.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page = view.go("/")
    page.get_by_role("button", name="Copy as incident report").click()
    expect(page.get_by_text(re.compile("copied", re.I)).first).to_be_visible()
    report = page.evaluate("() => navigator.clipboard.readText()")
    assert report.startswith("# Muster at ") and "## Nodes" in report
