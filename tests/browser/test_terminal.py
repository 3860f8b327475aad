"""A terminal on the node's page: the same shell as `muster shell`, under the page's strict policy."""

import re

import pytest
from playwright.sync_api import expect

from muster.client import calls
from tests.browser.conftest import Open
from tests.browser.viewing import View
from tests.e2e.site import Site, until


def test_a_person_types_into_a_node_and_sees_what_it_says(site: Site, view: View) -> None:
    node_id = site.provision(1, run="look-inside", template="quick").members[0].node_id
    loaded: list[str] = []
    view.page.on("request", lambda request: loaded.append(request.url))
    page = view.go(f"/nodes/{node_id}")
    expect(view.by("axis-state")).to_contain_text("running")
    assert not any("/assets/terminal" in each for each in loaded), "it is loaded when it is opened"
    page.get_by_role("button", name="Terminal", exact=True).click()
    panel = page.get_by_role("dialog", name=f"Terminal on {node_id}")
    expect(panel).to_contain_text("Connected")
    rows = panel.locator(".xterm-rows")
    expect(rows).to_contain_text(re.compile("[$#]"))
    page.keyboard.type("echo he''llo $MUSTER_NODE; printf '\\033[38;2;1;200;3mtrue''colour\\033[0m\\n'\n")
    expect(rows).to_contain_text(f"hello {node_id}")
    coloured = rows.locator("span", has_text="truecolour").last
    expect(coloured).to_have_css("color", "rgb(1, 200, 3)")
    page.keyboard.press("Shift+Escape")
    expect(panel.get_by_role("button", name="Close")).to_be_focused()
    panel.get_by_role("textbox", name="Terminal input").focus()
    page.keyboard.type("echo wai''ting; sleep 1000\n")
    expect(rows).to_contain_text("waiting")
    page.keyboard.press("Control+c")
    page.keyboard.type("echo code=$?\n")
    expect(rows).to_contain_text("code=130")
    page.keyboard.type("exit 3\n")
    expect(panel).to_contain_text("Ended with exit code 3")
    panel.get_by_role("button", name="Close").click()
    expect(panel).to_have_count(0)


def test_a_terminal_that_is_closed_ends_its_shell(site: Site, view: View) -> None:
    node_id = site.provision(1, run="left-alone", template="quick").members[0].node_id
    page = view.go(f"/nodes/{node_id}")
    page.get_by_role("button", name="Terminal", exact=True).click()
    expect(view.by("terminal")).to_contain_text("Connected")
    view.by("terminal").get_by_role("button", name="Close").click()

    def over() -> bool:
        shells = site.ask(calls.commands(run="left-alone", limit=10)).items
        return bool(shells) and all(each.terminal and each.ended for each in shells)

    until(over, "the end of the shell")


@pytest.mark.parametrize("role", ["viewer"])
def test_a_viewer_is_offered_no_terminal(
    site: Site, tokens: dict[str, str], open_view: Open, role: str
) -> None:
    node_id = site.provision(1, run="only-look", template="quick").members[0].node_id
    view = open_view(site.url, tokens[role])
    page = view.go(f"/nodes/{node_id}")
    expect(view.by("axis-state")).to_contain_text("running")
    expect(page.get_by_role("button", name="Terminal", exact=True)).to_have_count(0)
