"""Check webhooks for `muster doctor`: whether addresses and secrets can be read. Sends nothing."""

from collections.abc import Iterator

from muster.domain.errors import InvalidRequest
from muster.domain.events import Entity
from muster.integration import Check, Machine
from muster.integrations.webhooks.tables import WEBHOOKS, Form, Webhook

KINDS = ("*", *(f"{each.value}." for each in Entity))


def checks(machine: Machine) -> Iterator[Check]:
    for webhook in machine.config.tables[WEBHOOKS]:
        yield _check(webhook)


def _check(webhook: Webhook) -> Check:
    subject = f"webhook {webhook.name}"
    try:
        host, secret = webhook.host, webhook.secret()
    except InvalidRequest as error:
        return Check.failed(subject, str(error), "see docs/webhooks.md")
    unknown = [each for each in webhook.events if not each.startswith(KINDS)]
    if unknown:
        advice = f"a type begins with one of: {', '.join(KINDS)}"
        return Check.warning(subject, f"no event is like {unknown[0]!r}", advice)
    if not secret and webhook.form is Form.JSON:
        advice = "set secret_file, so that the receiver knows who sent a message"
        return Check.warning(subject, f"{host}: not signed", advice)
    advice = f"try it: muster webhooks test {webhook.name}"
    return Check.ok(subject, f"{', '.join(webhook.events)} to {host}", advice)
