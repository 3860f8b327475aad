"""`muster webhooks`: list the webhooks of the settings, and send a test message from this machine."""

import asyncio
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from muster.cli.options import SettingsFile, find_settings_file
from muster.cli.output import Output

if TYPE_CHECKING:
    from collections.abc import Sequence

    from muster.integrations.webhooks.tables import Webhook

app = typer.Typer(
    help="List webhooks, or send a test message.", invoke_without_command=True, add_completion=False
)
Name = Annotated[str, typer.Argument(metavar="NAME", help="A webhook of the settings.")]


@app.callback()
def root(context: typer.Context, *, file: SettingsFile = None, _output: Output = None) -> None:
    """List webhooks, or send a test message. Without a subcommand: list."""
    if context.invoked_subcommand is None:
        _list(file)


@app.command("list")
def listed(*, file: SettingsFile = None, _output: Output = None) -> None:
    """List the webhooks: which events go where."""
    _list(file)


@app.command("test")
def send_test(name: Name, *, file: SettingsFile = None, _output: Output = None) -> None:
    """Send a test message to a webhook, and say how it was answered."""
    from muster.cli import output
    from muster.domain.errors import NotFound

    webhook = next((each for each in _webhooks(file) if each.name == name), None)
    if webhook is None:
        raise NotFound("webhook", name)
    asyncio.run(_send(webhook))
    if output.wants_json():
        output.print_json({"webhook": name, "host": webhook.host, "delivered": True})
    else:
        output.say(f"{webhook.host} took the test message of {name}")


async def _send(webhook: "Webhook") -> None:
    from muster.domain.events import Entity, Event
    from muster.domain.ids import EventId
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


def _list(file: Path | None) -> None:
    from muster.cli import output

    webhooks = _webhooks(file)
    if output.wants_json():
        output.print_json({"items": [_plain(each) for each in webhooks]})
        return
    names = ("NAME", "HOST", "FORM", "SIGNED", "EVENTS", "TEMPLATES")
    rows = [
        (
            each.name,
            each.host,
            each.form.value,
            "yes" if each.secret_file else "no",
            " ".join(each.events),
            " ".join(each.templates),
        )
        for each in webhooks
    ]
    columns = [output.Column(name, cut=True) for name in names]
    output.table(columns, rows, nothing="no webhooks: name them as [webhooks.NAME] in muster.toml")


def _plain(webhook: "Webhook") -> dict[str, object]:
    return {
        "name": webhook.name,
        "host": webhook.host,
        "form": webhook.form.value,
        "signed": webhook.secret_file is not None,
        "events": list(webhook.events),
        "templates": list(webhook.templates),
    }
