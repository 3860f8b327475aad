"""`muster webhooks`: list the webhooks of the settings, test one, and see to what was not delivered."""

import asyncio
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from muster.cli import output
from muster.cli.connection import ask, calls, open_client
from muster.cli.options import SettingsFile, find_settings_file, list_group, lists
from muster.domain.errors import InvalidRequest, MusterError, NotFound
from muster.domain.events import Entity, Event
from muster.domain.ids import EventId
from muster.domain.text import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from muster.integrations.webhooks.tables import Webhook
    from muster.wire.webhooks import Undelivered

app = list_group("List webhooks, test one, and see to what was not delivered.")
Name = Annotated[str, typer.Argument(metavar="NAME", help="A webhook of the settings.")]
Ids = Annotated[
    list[str] | None,
    typer.Argument(metavar="[ID]...", help="Messages, as `undelivered` lists them. (default: all)"),
]


@lists(app)
def listed(*, file: SettingsFile = None) -> None:
    """List the webhooks: which events go where."""
    webhooks = _webhooks(file)
    columns: output.Columns[Webhook] = (
        output.Column("NAME", lambda each: each.name, cut=True),
        output.Column("HOST", lambda each: _host(each) or "(see below)", cut=True),
        output.Column("FORM", lambda each: each.form.value, cut=True),
        output.Column("SIGNED", lambda each: "yes" if each.secret_file else "no", cut=True),
        output.Column("EVENTS", lambda each: " ".join(each.events), cut=True),
        output.Column("TEMPLATES", lambda each: " ".join(each.templates), cut=True),
    )
    document = {"items": [_plain(each) for each in webhooks]}
    nothing = "no webhooks: name them as [webhooks.NAME] in muster.toml"
    output.show_table(document, webhooks, columns, nothing=nothing)
    if not output.wants_json():
        for line in (*_unreadable(webhooks), *_troubles()):
            output.say(line)


@app.command("test")
def send_test(name: Name, *, file: SettingsFile = None) -> None:
    """Send a test message to a webhook, and say how it was answered."""
    webhook = next((each for each in _webhooks(file) if each.name == name), None)
    if webhook is None:
        raise NotFound("webhook", name)
    asyncio.run(_send(webhook))
    document = {"webhook": name, "host": webhook.host, "delivered": True}
    output.show(document, f"{webhook.host} took the test message of {name}")


@app.command()
def undelivered(
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="Only of this webhook.")] = None,
) -> None:
    """List the messages that no receiver took: those that wait, and those that were given up."""
    from muster.wire.base import PAGE_MOST

    with open_client() as client:
        found = list(
            client.items(lambda cursor: calls.undelivered(webhook=name, cursor=cursor, limit=PAGE_MOST))
        )
    columns: output.Columns[Undelivered] = (
        output.Column("MESSAGE", lambda each: each.id),
        output.Column("TYPE", lambda each: each.type, cut=True),
        output.Column("ABOUT", lambda each: each.event.entity_id),
        output.Column("STATE", _state),
        output.Column("SINCE", lambda each: output.age(each.since), right=True),
        output.Column("TRIES", lambda each: each.tries, right=True),
        output.Column("PROBLEM", lambda each: each.problem, cut=True),
    )
    nothing = "every message was delivered" if name is None else f"nothing of {name} is undelivered"
    output.show_table({"items": found}, found, columns, nothing=nothing)


def _state(message: "Undelivered") -> str:
    if message.due_at is None:
        return "given up"
    left = output.time_left(message.due_at)
    return "due now" if left == "over" else f"again in {left}"


@app.command()
def resend(name: Name, ids: Ids = None) -> None:
    """Send undelivered messages again now, also those that were given up."""
    sent = ask(calls.resend(name, ids or None))
    _tell(sent, f"{counted(len(sent), 'message')} of {name} will be sent within seconds")
    _check_found(sent, ids or [], "undelivered message", name)


@app.command()
def forget(name: Name, ids: Ids = None) -> None:
    """Forget messages that were given up."""
    forgotten = ask(calls.forget(name, ids or None))
    _tell(forgotten, f"forgot {counted(len(forgotten), 'message')} of {name}")
    _check_found(forgotten, ids or [], "message that was given up", name)


def _tell(messages: "Sequence[Undelivered]", words: str) -> None:
    output.show({"items": messages}, *([words] if messages else []))


def _check_found(messages: "Sequence[Undelivered]", ids: "Sequence[str]", what: str, webhook: str) -> None:
    """Raise NotFound for a message that was named and not found, or if nothing was found at all."""
    found = {each.id for each in messages}
    missing = next((each for each in ids if each not in found), None if found else webhook)
    if missing is not None:
        raise NotFound(what, missing)


async def _send(webhook: "Webhook") -> None:
    from muster.integrations.webhooks.messages import body_of
    from muster.integrations.webhooks.receiver import Receiver
    from muster.system import SystemClock, SystemIds

    now = SystemClock().now()
    event = Event(
        id=EventId(SystemIds().new("test")),
        at=now,
        entity=Entity.INSTALLATION,
        entity_id="test",
        version=0,
        name="test",
        changes={},
        detail="This is a test message of `muster webhooks test`. Nothing happened.",
    )
    receiver = Receiver(webhook)
    try:
        await receiver.send(event.id, body_of(webhook.form, event, None, url="", now=now), now=now)
    finally:
        await receiver.close()


def _webhooks(file: Path | None) -> "Sequence[Webhook]":
    from muster.config import load
    from muster.integrations.webhooks.tables import WEBHOOKS

    found: Sequence[Webhook] = load(find_settings_file(file), environment=os.environ).tables[WEBHOOKS]
    return found


def _host(webhook: "Webhook") -> str | None:
    """Return what may be shown of the address; None: it can't be read."""
    try:
        return webhook.host
    except InvalidRequest:
        return None


def _unreadable(webhooks: "Sequence[Webhook]") -> "Sequence[str]":
    broken = [each for each in webhooks if _host(each) is None]
    return [f"{each.name}: its address can't be read: `muster doctor` says why" for each in broken]


def _troubles() -> "Sequence[str]":
    """Return what the server says of messages that were not delivered; nothing if no server answers."""
    try:
        with open_client() as client:
            behind = client.send(calls.overview()).undelivered
    except MusterError:
        return ()
    return [
        f"{each.webhook}{' (no longer in the settings)' if each.removed else ''}: {each.waiting} waiting,"
        f" {each.given_up} given up: `muster webhooks undelivered`"
        for each in behind
    ]


def _plain(webhook: "Webhook") -> dict[str, object]:
    return {
        "name": webhook.name,
        "host": _host(webhook),
        "form": webhook.form.value,
        "signed": webhook.secret_file is not None,
        "events": list(webhook.events),
        "templates": list(webhook.templates),
    }
