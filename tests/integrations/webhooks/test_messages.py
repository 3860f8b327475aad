"""Which events a webhook wants, what is sent of them, and how it is signed."""

import json
import time
from dataclasses import replace
from pathlib import Path

import pytest
from standardwebhooks.webhooks import Webhook as Verifier
from standardwebhooks.webhooks import WebhookVerificationError

from muster.domain.errors import InvalidRequest
from muster.domain.events import Entity, Event
from muster.domain.ids import EventId, OperationId
from muster.domain.operation import Kind, Operation, Status, Verdict
from muster.domain.reasons import ADVICE, Reason
from muster.domain.requests import ProvisionRequest
from muster.domain.undelivered import NEVER_SENT
from muster.integrations.webhooks import messages
from muster.integrations.webhooks.receiver import headers, key_of
from muster.integrations.webhooks.tables import SETTINGS, Form, Webhook, checked
from muster.wire import events as wire
from muster.wire import operations
from muster.wire.base import encode

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
NOW = 1_700_000_000.0


def event(entity: Entity = Entity.OPERATION, name: str = "ended", **changes: str) -> Event:
    return Event(
        id=EventId("ev-1"), at=NOW, entity=entity, entity_id="op-1", version=3, name=name, changes=changes
    )


def operation(template: str = "ci") -> Operation:
    return Operation(
        id=OperationId("op-1"),
        kind=Kind.PROVISION,
        request=ProvisionRequest(template=template, count=1, run="ci-42"),
        template=template,
        run="ci-42",
        status=Status.FAILED,
        created_at=NOW,
        updated_at=NOW,
        deadline_at=NOW + 60,
        deadline_source="request",
        verdict=Verdict(reason=Reason.CAPACITY, message="the zone has none"),
    )


def webhook(**given: object) -> Webhook:
    return Webhook(name="ops", url="http://127.0.0.1:1/", **given)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("wanted", "seen", "sent"),
    [
        (("operation.failed",), event(status="failed"), True),
        (("operation.failed",), event(status="succeeded"), False),
        (("operation.*",), event(status="succeeded"), True),
        (("node.condemn",), event(Entity.NODE, "condemn"), True),
        (("*",), event(Entity.TEMPLATE, "applied"), True),
        ((), event(status="failed"), False),
        *((("*",), event(Entity.INSTALLATION, name), False) for name in NEVER_SENT),
    ],
)
def test_a_webhook_wants_the_types_that_it_names(wanted: tuple[str, ...], seen: Event, sent: bool) -> None:
    assert messages.wants(webhook(events=wanted), seen) is sent


def test_a_webhook_is_about_the_templates_that_it_names() -> None:
    mine = webhook(templates=("ci*", "web"))
    assert messages.concerns(mine, operation("ci-large")) and messages.concerns(mine, operation("web"))
    assert not messages.concerns(mine, operation("other"))
    assert messages.concerns(mine, None)


WHY = "Why: capacity: the zone has none"
CAPACITY = f"{WHY}\nNext: {ADVICE[Reason.CAPACITY]}"
OWN = Verdict(reason=Reason.CAPACITY, message="the zone has none", advice="wait an hour")
LINK = "https://m.example/operations/op-1"


@pytest.mark.parametrize(
    ("told", "about", "text"),
    [
        (event(), operation(), f"❌ Muster: provision of run ci-42 (ci): failed\n{CAPACITY}\n{LINK}"),
        (
            replace(event(), actor="ada"),
            replace(operation(), verdict=OWN, run=None, template=None, status=Status.CANCELLED),
            f"⚪ Muster: provision: cancelled by ada\n{WHY}\nNext: wait an hour\n{LINK}",
        ),
        (
            replace(event(), detail="2 of 4"),
            replace(operation(), kind=Kind.CLUSTER_CREATE, verdict=None, status=Status.RUNNING),
            f"▶ Muster: cluster create of run ci-42 (ci): running\n2 of 4\n{LINK}",
        ),
        (event(Entity.NODE, "set_up"), None, "Muster: node op-1: set up"),
        (replace(event(Entity.NODE, "drained"), actor="ada"), None, "Muster: node op-1: drained by ada"),
    ],
    ids=["advice of the reason", "advice of its own", "no verdict", "no operation", "a person's act"],
)
def test_a_text_says_what_happened_why_and_what_to_do(
    told: Event, about: Operation | None, text: str
) -> None:
    assert messages.text_of(told, about, "https://m.example") == text


def test_teams_gets_a_card_with_a_block_for_each_line() -> None:
    made = json.loads(messages.body_of(Form.TEAMS, event(Entity.NODE, "(a)"), None, url="", now=NOW))
    block = {"type": "TextBlock", "text": "Muster: node op-1: \\(a\\)", "wrap": True}
    card = {"type": "AdaptiveCard", "version": "1.4", "body": [block]}
    kind = "application/vnd.microsoft.card.adaptive"
    assert made == {"type": "message", "attachments": [{"contentType": kind, "content": card}]}


@pytest.mark.parametrize("form", [Form.SLACK, Form.TEAMS, Form.DISCORD])
def test_people_read_the_verdict_and_its_advice(form: Form) -> None:
    body = messages.body_of(form, event(status="failed"), operation(), url="https://m.example", now=NOW)
    text = json.dumps(json.loads(body), ensure_ascii=False)
    assert "ci-42" in text
    assert "the zone has none" in text
    assert ADVICE[Reason.CAPACITY] in text
    assert "https://m.example/operations/op-1" in text


def test_a_program_gets_type_time_event_and_operation_as_the_api_gives_them() -> None:
    told, ended = event(status="failed"), operation()
    made = json.loads(messages.body_of(Form.JSON, told, ended, url="https://m.example", now=NOW))
    assert made == {
        "type": "operation.failed",
        "timestamp": "2023-11-14T22:13:20Z",
        "data": {
            "event": json.loads(encode(wire.Event.of(told))),
            "operation": json.loads(encode(operations.Operation.of(ended, now=NOW))),
        },
    }
    alone = json.loads(messages.body_of(Form.JSON, event(Entity.NODE, "booted"), None, url="", now=NOW))
    assert (alone["type"], alone["data"]["operation"]) == ("node.booted", None)


def test_a_name_mentions_no_one_on_discord_and_a_long_message_is_cut() -> None:
    long = Verdict(reason=Reason.CAPACITY, message="@everyone ()[]" * 1000)
    made = messages.body_of(
        Form.DISCORD, event(status="failed"), replace(operation(), verdict=long), url="", now=NOW
    )
    content = json.loads(made)
    assert content["allowed_mentions"] == {"parse": []}
    assert len(content["content"]) <= 2000


def test_an_independent_library_accepts_the_signature_and_no_other() -> None:
    body = b'{"type":"operation.failed"}'
    now = time.time()  # the library compares with the machine's clock
    said = headers(SECRET, "ev-1", body, now=now)
    assert Verifier(SECRET).verify(body, said) == json.loads(body)
    for wrong in ({**said, "webhook-id": "ev-2"}, {**said, "webhook-timestamp": str(int(now) - 60)}):
        with pytest.raises(WebhookVerificationError):
            Verifier(SECRET).verify(body, wrong)
    with pytest.raises(WebhookVerificationError):
        Verifier(SECRET).verify(body + b" ", said)


def test_a_secret_is_base64_after_its_prefix_and_else_the_key_itself() -> None:
    assert key_of("whsec_a2V5") == b"key"
    assert key_of("whsec_a2V5!") == b"whsec_a2V5!"
    assert key_of("a2V5") == b"a2V5"
    assert "webhook-signature" not in headers("", "ev-1", b"{}", now=NOW)


@pytest.mark.parametrize("url", ["http://example.com", "https://example.com:8443/a?key=1"])
def test_an_address_of_either_scheme_is_taken(url: str) -> None:
    assert checked("url", url) == url


@pytest.mark.parametrize(
    "url",
    [
        *("ftp://example.com", "https://", "https://me@example.com", "http://a b", "http://x:0/", "", 7),
        *("http://[::1", "https://example.com/#part", "https://example.com/\u200b"),
    ],
)
def test_an_address_that_cannot_be_used_is_refused_without_being_shown(url: object) -> None:
    with pytest.raises(InvalidRequest) as refused:
        checked("url", url)
    assert "me@" not in str(refused.value)


def test_files_with_address_and_secret_are_read_and_their_content_is_not_shown(tmp_path: Path) -> None:
    place = tmp_path / "address"
    place.write_text("https://hooks.example.com/T0/secret-part\n")
    mine = Webhook(name="chat", url_file=place)
    assert mine.address().endswith("secret-part")
    assert "secret-part" not in repr(mine)
    assert mine.host == "hooks.example.com"
    place.write_text("")
    with pytest.raises(InvalidRequest, match="must not be empty"):
        mine.address()
    with pytest.raises(InvalidRequest, match="can be read"):
        Webhook(name="chat", url_file=tmp_path / "absent").address()
    place.write_text("a secret\n")
    assert webhook(secret_file=place).secret() == "a secret"
    assert webhook().secret() == ""


def test_a_webhook_has_an_address_or_a_file_with_it() -> None:
    assert SETTINGS.check is not None
    for wrong in (Webhook(name="ops"), webhook(url_file=Path("address"))):
        with pytest.raises(InvalidRequest, match="url_file instead"):
            SETTINGS.check(wrong)
    SETTINGS.check(webhook())
    SETTINGS.check(Webhook(name="ops", url_file=Path("address")))


def test_names_of_others_are_no_markup_in_chats() -> None:
    bad = replace(operation(), run="<!channel> <https://evil.example|click> [click](https://evil.example)")
    slack = json.loads(messages.body_of(Form.SLACK, event(status="failed"), bad, url="", now=NOW))
    assert "<!channel>" not in slack["text"]
    assert "&lt;!channel&gt;" in slack["text"]
    plain = replace(operation(), run="a & <b>")
    slack = json.loads(messages.body_of(Form.SLACK, event(status="failed"), plain, url="", now=NOW))
    assert slack["text"].startswith("❌ Muster: provision of run a &amp; &lt;b&gt; (ci): failed\n")
    teams = json.loads(messages.body_of(Form.TEAMS, event(status="failed"), bad, url="", now=NOW))
    (first, *_) = teams["attachments"][0]["content"]["body"]
    assert "[click](" not in first["text"]
    discord = json.loads(messages.body_of(Form.DISCORD, event(status="failed"), bad, url="", now=NOW))
    assert "[click](" not in discord["content"]


@pytest.mark.parametrize("key", ["events", "templates"])
def test_a_webhook_without_events_or_templates_is_refused(key: str) -> None:
    with pytest.raises(InvalidRequest, match="at least one"):
        SETTINGS.keys[key](key, [])
    assert SETTINGS.keys[key](key, ["a*"]) == ("a*",)
