"""Who may see and do what: signing in, roles, tokens that end, and things that are not there."""

import re

import pytest
from playwright.sync_api import expect

from muster.client import calls
from muster.domain.access import Role
from tests.browser.conftest import Open
from tests.browser.viewing import View, refused
from tests.e2e.site import Site

ACTS = re.compile("^(Provision|Cancel|Pause|Resume|Terminate|Drain|Extend|Release)")


def test_signing_in_needs_a_token_that_is_valid_and_never_shows_it(
    site: Site, tokens: dict[str, str], open_view: Open
) -> None:
    view = open_view(site.url, None)
    view.forgiven = refused
    page = view.go("/nodes")
    page.get_by_label("Token").fill("muster_not-a-token")
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("alert").first).to_be_visible()
    page.get_by_label("Token").fill(tokens["operator"])
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("heading", name=re.compile("^Nodes"))).to_be_visible()
    assert page.url == f"{site.url}/nodes", "where one wanted to go, without the token"
    assert tokens["operator"] not in page.content()


@pytest.mark.parametrize(
    "path", ["/", "/operations", "/operations/{operation}", "/nodes/{node}", "/templates/held"]
)
def test_a_viewer_sees_all_of_it_and_no_button_that_it_may_not_use(
    site: Site, tokens: dict[str, str], open_view: Open, path: str, served: dict[str, str]
) -> None:
    there = path.format(**served)
    operator, viewer = open_view(site.url, tokens["operator"]), open_view(site.url, tokens["viewer"])
    expect(operator.go(there).get_by_role("button", name=ACTS).first).to_be_visible()
    page = viewer.go(there)
    expect(viewer.by("connection")).to_have_attribute("data-connection", "live")
    expect(page.get_by_role("heading").first).to_be_visible()
    expect(page.locator("[aria-busy=true]")).to_have_count(0)
    expect(page.get_by_role("button", name=ACTS)).to_have_count(0)


def test_the_address_of_the_provision_dialog_opens_it_only_for_who_may_provision(
    site: Site, tokens: dict[str, str], open_view: Open
) -> None:
    operator, viewer = open_view(site.url, tokens["operator"]), open_view(site.url, tokens["viewer"])
    expect(operator.go("/?provision=1").get_by_role("dialog")).to_be_visible()
    page = viewer.go("/?provision=1")
    expect(viewer.by("connection")).to_have_attribute("data-connection", "live")
    expect(page.locator("[aria-busy=true]")).to_have_count(0)
    expect(page.get_by_role("dialog")).to_have_count(0)


@pytest.fixture(scope="module")
def served(site: Site) -> dict[str, str]:
    """A run that has its nodes."""
    operation = site.provision(1, run="served", template="quick")
    return {"operation": operation.operation_id, "node": operation.members[0].node_id}


def test_a_token_that_ends_signs_out_and_says_why(site: Site, open_view: Open) -> None:
    token = site.client.send(calls.make_token("short", Role.VIEWER, expires_in=2.0))
    view = open_view(site.url, token.secret)
    view.forgiven = refused
    page = view.go("/")
    expect(view.by("sign-in")).to_contain_text("expired")
    assert str(token.secret) not in page.content()
    page.reload()
    expect(view.by("sign-in")).to_be_visible()


@pytest.mark.parametrize(
    "path", ["/operations/op-nobody", "/nodes/node-nobody", "/templates/nobody", "/no/such/page"]
)
def test_what_is_not_there_is_said_clearly(view: View, path: str) -> None:
    view.forgiven = refused
    page = view.go(path)
    expect(view.by("not-found")).to_be_visible()
    expect(view.by("not-found").get_by_role("link").first).to_be_visible()
    expect(page.get_by_role("navigation", name="Pages")).to_be_visible()


def test_the_page_lets_nothing_in_from_elsewhere(site: Site) -> None:
    with site.http() as http:
        policy = http.get("/").headers["content-security-policy"]
    assert "default-src 'none'" in policy or "default-src 'self'" in policy
    assert "unsafe-inline" not in policy.partition("script-src")[2].partition(";")[0]
    assert "unsafe-eval" not in policy
