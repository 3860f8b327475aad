"""Say which type an event has, whether a webhook wants it, and what is sent of it. Pure."""

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from typing import Any

import msgspec

from muster.domain.events import Event
from muster.domain.operation import Operation, Status
from muster.domain.reasons import ADVICE
from muster.domain.undelivered import NEVER_SENT, type_of
from muster.integrations.webhooks.tables import Form, Webhook
from muster.wire import events as wire
from muster.wire import operations
from muster.wire.base import encode

TEXT_MOST = 1500
DISCORD_MOST = 2000
"""Characters that Discord takes."""
_MARKDOWN = re.compile(r"[\\*_\[\]()]")
"""What Teams and Discord take for links and other markup. Names in the text come from others."""
_MARKS = {Status.SUCCEEDED: "✅", Status.FAILED: "❌", Status.CANCELLED: "⚪"}


def wants(webhook: Webhook, event: Event) -> bool:
    """Return whether the webhook is for events of this type. It never is for events about its messages."""
    kind = type_of(event)
    return event.name not in NEVER_SENT and any(fnmatchcase(kind, each) for each in webhook.events)


def concerns(webhook: Webhook, operation: Operation | None) -> bool:
    """Return whether the operation is of a template that the webhook is for."""
    template = None if operation is None else operation.template
    return template is None or any(fnmatchcase(template, each) for each in webhook.templates)


def body_of(form: Form, event: Event, operation: Operation | None, *, url: str, now: float) -> bytes:
    """Return what is sent. `url`: where a person sees more."""
    text = text_of(event, operation, url)
    match form:
        case Form.SLACK:
            return msgspec.json.encode({"text": _without_markup(text)})
        case Form.DISCORD:
            content = _escaped(text)[:DISCORD_MOST]
            return msgspec.json.encode({"content": content, "allowed_mentions": {"parse": []}})
        case Form.TEAMS:
            return msgspec.json.encode(_card(text))
        case Form.JSON:
            return msgspec.json.encode(_plain(event, operation, now))


def _without_markup(text: str) -> str:
    """Escape what Slack takes for links and mentions: names in the text come from others."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _escaped(text: str) -> str:
    return _MARKDOWN.sub(r"\\\g<0>", text)


def _plain(event: Event, operation: Operation | None, now: float) -> dict[str, Any]:
    whole = None if operation is None else operations.Operation.of(operation, now=now)
    return {
        "type": type_of(event),
        "timestamp": datetime.fromtimestamp(event.at, UTC).isoformat().replace("+00:00", "Z"),
        "data": {
            "event": msgspec.Raw(encode(wire.Event.of(event))),
            "operation": None if whole is None else msgspec.Raw(encode(whole)),
        },
    }


def text_of(event: Event, operation: Operation | None, url: str) -> str:
    """Return a few lines for people: what happened, why, and what to do."""
    lines = [_first(event, operation)]
    verdict = operation.verdict if operation is not None else None
    if verdict is not None:
        lines.append(f"Why: {verdict.reason.value}: {verdict.message}")
        advice = verdict.advice or ADVICE.get(verdict.reason, "")
        lines += [f"Next: {advice}"] if advice else []
    elif event.detail:
        lines.append(event.detail)
    if operation is not None:
        lines.append(f"{url}/operations/{operation.id}")
    return "\n".join(lines)[:TEXT_MOST]


def _first(event: Event, operation: Operation | None) -> str:
    by = f" by {event.actor}" if event.actor else ""
    if operation is None:
        return f"Muster: {event.entity.value} {event.entity_id}: {event.name.replace('_', ' ')}{by}"
    mark = _MARKS.get(operation.status, "▶")
    run = f" of run {operation.run}" if operation.run else ""
    where = f" ({operation.template})" if operation.template else ""
    return (
        f"{mark} Muster: {operation.kind.value.replace('_', ' ')}{run}{where}: {operation.status.value}{by}"
    )


def _card(text: str) -> Mapping[str, Any]:
    """Return an Adaptive Card, which is what Teams' workflows take."""
    blocks = [{"type": "TextBlock", "text": line, "wrap": True} for line in _escaped(text).splitlines()]
    card = {"type": "AdaptiveCard", "version": "1.4", "body": blocks}
    kind = "application/vnd.microsoft.card.adaptive"
    return {"type": "message", "attachments": [{"contentType": kind, "content": card}]}
