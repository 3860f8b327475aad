"""What waits for a person: messages that no receiver took, and nodes that are kept for a look."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import expect

from muster.client import calls
from muster.domain.access import Role
from muster.wire.overview import HeldNode
from tests.browser.conftest import Open
from tests.browser.test_looks import RUN, WIDER
from tests.browser.test_widths import OUTSIDE
from tests.browser.viewing import AXE, PHONE
from tests.e2e.fork_server import ForkServer
from tests.e2e.site import BRISK, Site, until
from tests.integrations.webhooks.receiver import ReceiverServer

HELD = '[data-testid="held"] *, [data-testid="undelivered"] *'


@pytest.fixture(scope="module")
def receiver() -> Iterator[ReceiverServer]:
    with ReceiverServer().listening() as receiver:
        yield receiver


@pytest.fixture(scope="module")
def site(
    fork_server: ForkServer, receiver: ReceiverServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Site]:
    webhook = f'[webhooks.pager]\nurl = "{receiver.url}/pager"\ntemplates = ["told"]\n'
    site = Site(
        tmp_path_factory.mktemp("left"), fork_server, config=f"{BRISK}[process]\ncapacity = 6\n{webhook}"
    ).start()
    site.template("quick", boot_script="true")
    site.template("broken", boot_script="exit 7", max_nodes=4)
    site.template("told", boot_script="exit 7")
    until(lambda: "a webhook follows the feed" in site.words(), "the webhook to be followed")
    yield site
    site.close()


@pytest.fixture(scope="module")
def tokens(site: Site) -> dict[str, str]:
    roles = (Role.VIEWER, Role.OPERATOR)
    return {role.value: site.client.send(calls.make_token(f"an {role}", role)).secret for role in roles}


@pytest.fixture
def undelivered(site: Site, receiver: ReceiverServer) -> Iterator[None]:
    """One message that was given up, and one that waits."""
    site.client.send(calls.forget("pager"))
    receiver.answers.append((404, {}))
    site.provision(1, run="given up", template="told")
    until(lambda: site.ask(calls.undelivered()).items, "a message that is given up")
    receiver.refuses = lambda _message: True
    site.provision(1, run="waits", template="told")
    until(lambda: len(site.ask(calls.undelivered()).items) == 2, "a message that waits")
    yield
    receiver.refuses = lambda _message: False
    site.client.send(calls.resend("pager"))
    until(lambda: not site.ask(calls.undelivered()).items, "their delivery")


@pytest.fixture
def kept(site: Site) -> Iterator[list[str]]:
    """A node whose boot failed, and one whose command failed."""
    site.provision(1, run="kept-boot", template="broken", hold_on_failure=1800.0)
    site.ended(site.run("false", run="kept-run", template="quick", hold_on_failure=1800.0))

    def both() -> list[HeldNode] | None:
        held = sorted(site.ask(calls.overview()).held.items, key=lambda each: each.state)
        return held if [each.state for each in held] == ["failed", "running"] else None

    held = until(both, "both nodes to be kept, and no other")
    yield [each.node_id for each in held]
    for each in held:
        site.client.send(calls.terminate(each.node_id))


@pytest.mark.usefixtures("undelivered")
def test_messages_that_no_receiver_took_are_seen_and_settled_on_the_overview(
    site: Site, receiver: ReceiverServer, tokens: dict[str, str], open_view: Open
) -> None:
    view = open_view(site.url, tokens["operator"])
    page = view.go("/")
    block = view.by("undelivered")
    expect(block.get_by_test_id("backlog")).to_contain_text(re.compile("pager.*1 waiting.*1 given up", re.S))
    waits = block.locator('[data-state="waiting"]')
    expect(waits).to_contain_text(re.compile(r"answered 500.*tried \d.*(next try in|due now)", re.S))
    over = block.locator('[data-state="given_up"]')
    expect(over).to_contain_text(re.compile("answered 404.*given up", re.S))
    over.get_by_role("button", name="Forget").click()
    page.get_by_role("dialog", name="Forget 1 message of pager?").get_by_role("button", name="Forget").click()
    expect(over).to_have_count(0)
    receiver.refuses = lambda _message: False
    waits.get_by_role("button", name="Resend").click()
    until(lambda: not site.ask(calls.undelivered()).items, "its delivery")
    page.reload()
    expect(view.by("verdict")).to_be_visible()
    expect(block).to_have_count(0)


def test_kept_nodes_are_seen_with_their_end_given_more_time_and_ended(
    site: Site, kept: list[str], tokens: dict[str, str], open_view: Open
) -> None:
    failed, running = kept
    view = open_view(site.url, tokens["operator"])
    page = view.go("/")
    lines = view.by("held").get_by_test_id("held-node")
    expect(lines).to_have_count(2)
    mine = lines.filter(has=page.get_by_role("button", name=f"Terminate {failed}"))
    expect(mine).to_contain_text(
        re.compile(r"boot script failed.*kept by first admin.*cap of 4 .*29m \d+s left")
    )
    before = site.node(failed).deadline_at
    mine.get_by_role("button", name=f"Keep {failed}").click()
    page.get_by_label("For how many minutes from now").select_option("60")
    page.get_by_role("dialog").get_by_role("button", name="Keep").click()
    until(lambda: site.node(failed).deadline_at != before, "its later deadline")
    expect(mine).to_contain_text(re.compile(r"kept by an operator.*59m \d+s left"))
    mine.get_by_role("button", name=f"Terminate {failed}").click()
    page.get_by_role("dialog").get_by_role("button", name="Terminate").click()
    expect(mine).to_have_count(0)
    page.get_by_role("button", name=f"Release {running}").click()
    page.get_by_role("dialog").get_by_role("button", name="Release").click()
    expect(view.by("held")).to_have_count(0)
    assert site.node(running).state != "running"


@pytest.mark.usefixtures("kept", "undelivered")
@pytest.mark.parametrize("looks", [{}, {"dark": True}, {"size": PHONE}], ids=["light", "dark", "phone"])
def test_a_viewer_reads_both_without_a_barrier_and_has_no_buttons(
    site: Site, tokens: dict[str, str], open_view: Open, looks: dict[str, Any]
) -> None:
    for role, buttons in (("viewer", 0), ("operator", 9)):
        view = open_view(site.url, tokens[role], **looks)
        page = view.go("/")
        expect(view.by("held").get_by_test_id("held-node")).to_have_count(2)
        expect(view.by("undelivered").get_by_test_id("message")).to_have_count(2)
        expect(page.locator('[data-testid="held"] button, [data-testid="undelivered"] button')).to_have_count(
            buttons
        )
        assert page.evaluate(WIDER) <= 0, "it must not scroll sideways"
        assert page.evaluate(OUTSIDE, HELD) == []
        page.evaluate(AXE.read_text(encoding="utf-8"))
        assert page.evaluate(RUN) == []
