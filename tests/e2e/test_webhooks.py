"""Outgoing webhooks as their receivers see them, from a real server."""

from collections.abc import Callable, Iterator

import pytest
from standardwebhooks.webhooks import Webhook as Verifier

from muster.wire.operations import Operation
from tests.cli.terminal import Terminal
from tests.e2e.site import BRISK, Site, until
from tests.integrations.webhooks.receiver import Message, ReceiverServer

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
FAILED = "operation.failed"


@pytest.fixture
def receiver() -> Iterator[ReceiverServer]:
    with ReceiverServer().listening() as receiver:
        yield receiver


@pytest.fixture
def site(make_site: Callable[..., Site], receiver: ReceiverServer) -> Site:
    site = make_site()
    secret = site.root / "secret"
    secret.write_text(SECRET)
    site.reconfigure(
        f"{BRISK}[process]\ncapacity = 4\n"
        f'[webhooks.ops]\nurl = "{receiver.url}/hidden-path"\nsecret_file = "{secret}"\n'
    )
    site.start()
    site.template("bad", boot_script="exit 7")
    until(lambda: "a webhook follows the feed" in site.words(), "the webhook to be followed")
    return site


def fails(site: Site, run: str = "run") -> Operation:
    operation = site.provision(1, run, template="bad")
    assert operation.status == "failed"
    return operation


def told(receiver: ReceiverServer, operation: Operation) -> Message:
    def look() -> Message | None:
        found = (each for each in receiver.typed(FAILED) if about(each) == operation.operation_id)
        return next(found, None)

    return until(look, f"the message about {operation.operation_id}")


def about(message: Message) -> str:
    found: str = message.content["data"]["operation"]["operation_id"]
    return found


def test_a_failed_operation_is_told_with_its_reason_and_a_signature(
    site: Site, receiver: ReceiverServer
) -> None:
    operation = fails(site)
    message = told(receiver, operation)
    Verifier(SECRET).verify(message.body, dict(message.headers))
    assert message.content["data"]["operation"]["error"]["reason"] == "boot_script_failed"
    assert message.content["data"]["event"]["id"] == message.id
    assert {each.content["type"] for each in receiver.messages} == {FAILED}
    assert "hidden-path" not in site.words()


def test_a_receiver_that_is_away_gets_all_later_and_each_under_one_id(
    site: Site, receiver: ReceiverServer
) -> None:
    receiver.answers += [(503, {}), (429, {"Retry-After": "1"}), (500, {})]
    first, second = fails(site, "first"), fails(site, "second")
    for operation in (first, second):
        told(receiver, operation)
    until(lambda: not receiver.answers and "no message waits" in site.words(), "the deliveries to end")
    by_id = {each.id: about(each) for each in receiver.messages}
    assert sorted(by_id.values()) == sorted([first.operation_id, second.operation_id])


def test_no_message_is_lost_with_a_killed_server(site: Site, receiver: ReceiverServer) -> None:
    receiver.answers += [(503, {})] * 50
    operation = fails(site)
    until(lambda: receiver.messages, "the first try")
    site.kill()
    receiver.answers.clear()
    receiver.messages.clear()
    site.start()
    assert told(receiver, operation).content["type"] == FAILED


def test_a_redirect_is_not_followed_and_an_event_says_so(site: Site, receiver: ReceiverServer) -> None:
    receiver.answers.append((302, {"Location": f"{receiver.url}/private"}))
    operation = fails(site)

    def dropped() -> str | None:
        return next((each.detail for each in site.feed() if each.name == "webhook_dropped"), None)

    detail = until(dropped, "the event")
    assert operation.operation_id in detail
    assert "redirects elsewhere" in detail
    after = fails(site, "after")
    told(receiver, after)
    assert {each.path for each in receiver.messages} == {"/hidden-path"}
    assert [about(each) for each in receiver.messages] == [operation.operation_id, after.operation_id]


class OperationRefusal:
    """Makes a receiver refuse all messages about the first operation that it hears of."""

    def __init__(self, receiver: ReceiverServer) -> None:
        self.operation = ""
        self.tries = 0
        receiver.refuses = self.refuses

    def refuses(self, message: Message) -> bool:
        self.operation = self.operation or about(message)
        self.tries += about(message) == self.operation
        return about(message) == self.operation


def test_a_message_that_always_gets_a_500_holds_up_no_other_and_is_sent_again_by_hand(
    site: Site, receiver: ReceiverServer
) -> None:
    refusal = OperationRefusal(receiver)
    first = fails(site, "first")
    until(lambda: refusal.operation == first.operation_id, "the first try")
    for run in ("second", "third"):
        told(receiver, fails(site, run))
    until(lambda: refusal.tries > 2, "its next tries")
    person = Terminal(site.root, {"MUSTER_DATA_DIR": str(site.data)})
    listed = person.muster("webhooks", "-f", str(site.root / "muster.toml")).out
    assert "ops: 1 waiting, 0 given up: `muster webhooks undelivered`" in listed
    (waits,) = person.muster("webhooks", "undelivered", "--output", "json").json["items"]
    assert (waits["webhook"], waits["state"]) == ("ops", "waiting")
    assert waits["event"]["entity_id"] == first.operation_id and waits["tries"] >= 2
    shown = person.muster("webhooks", "undelivered").out
    assert waits["id"] in shown and "127.0.0.1 answered 500" in shown
    refused = person.muster("webhooks", "forget", "ops")
    assert refused.code == 2 and "see `muster webhooks undelivered`" in refused.err
    refused = person.muster("webhooks", "resend", "ops", "ops.ev-none")
    assert (refused.code, refused.out) == (2, "") and "ops.ev-none" in refused.err
    receiver.messages.clear()
    receiver.refuses = lambda _message: False
    sent = person.muster("webhooks", "resend", "ops", waits["id"])
    assert sent.out == "1 message of ops will be sent within seconds\n"
    told(receiver, first)
    until(lambda: person.muster("webhooks", "undelivered").out == "every message was delivered\n", "the end")
