"""The settings [webhooks.NAME]."""

from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from urllib.parse import urlsplit

from muster.config import values
from muster.config.tables import Table
from muster.domain import checks
from muster.domain.errors import InvalidRequest

WEBHOOKS = "webhooks"
URL_MOST = 2048


class Form(StrEnum):
    """How a message is written."""

    JSON = "json"
    SLACK = "slack"
    TEAMS = "teams"
    DISCORD = "discord"


@dataclass(frozen=True, slots=True, kw_only=True)
class Webhook:
    """Which events go where. A chat service's address is a secret, so it can be in a file of its own."""

    name: str
    url: str = field(default="", repr=False)
    url_file: Path | None = None
    secret_file: Path | None = None
    """Signs each message, so that the receiver knows who sent it."""
    form: Form = Form.JSON
    events: tuple[str, ...] = ("operation.failed",)
    """Types, with `*` for any part of one."""
    templates: tuple[str, ...] = ("*",)
    """Of operations: only those of these templates, with `*` likewise."""

    def address(self) -> str:
        """Return the address. Raises InvalidRequest for a file that can't be used, and never shows it."""
        if self.url_file is None:
            return self.url
        name = f"webhooks.{self.name}.url_file"
        return checked(name, values.read_secret(name, self.url_file))

    def secret(self) -> str:
        if self.secret_file is None:
            return ""
        return values.read_secret(f"webhooks.{self.name}.secret_file", self.secret_file)

    @property
    def host(self) -> str:
        """Return what may be shown of the address."""
        return urlsplit(self.address()).hostname or ""


def checked(name: str, value: object) -> str:
    """Check an address, which may have a query and must not be shown."""
    text = checks.text(name, value, longest=URL_MOST)
    if not _usable(text):
        raise InvalidRequest(name, "…", "must be a URL like https://hooks.example.com/muster")
    return text


def _usable(url: str) -> bool:
    try:
        parts = urlsplit(url)
        found = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False
    return found and not (parts.username or parts.fragment) and url.isprintable() and " " not in url


def _patterns(name: str, value: object) -> object:
    found = values.texts(name, value)
    if not found:
        raise InvalidRequest(name, value, "must name at least one: leave it out for the default")
    return found


def _together(webhook: Webhook) -> None:
    if bool(webhook.url) is (webhook.url_file is not None):
        raise InvalidRequest("url", "…", "must be given, or url_file instead of it")


SETTINGS = Table(
    kind=Webhook,
    keys={
        "url": checked,
        "events": _patterns,
        "templates": _patterns,
    },
    private=("url_file", "secret_file"),
    named=True,
    check=_together,
)
