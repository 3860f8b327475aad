"""The settings [docker.NAME], one per engine, and the table [templates.NAME.docker]."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from muster.config import values
from muster.config.tables import Table, TemplateTable
from muster.domain import checks
from muster.domain.errors import InvalidRequest
from muster.integrations.docker.spec import (
    DOCKER,
    HOST_NETWORK,
    PIDS_LEAST,
    PIDS_MOST,
    TMP_MOST,
    DockerSpec,
)

SOCKET = "unix:///var/run/docker.sock"
KEEP_MOST = 7 * 86_400
_NAME = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,30}[a-z0-9])?", re.ASCII)
_EXTRA_HOST = re.compile(r"[A-Za-z0-9.-]{1,253}:[A-Za-z0-9.:-]{1,253}", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineConfig:
    """One engine. All of them are one pool."""

    name: str
    host: str = SOCKET
    """`unix:///path`, or `https://host:2376` for an engine elsewhere."""
    capacity: int = 20
    """Containers of this installation that fit."""
    ca: Path | None = None
    cert: Path | None = None
    key: Path | None = None
    """For https: the trusted authority, and how Muster proves itself. Without them: those of the system."""
    network: str = ""
    """For templates that name none. Empty: the engine's default."""
    server_url: tuple[str, ...] = ()
    """How containers of this engine reach the server, if not by server.public_url."""
    extra_hosts: tuple[str, ...] = ()
    """`name:address` for containers' /etc/hosts; Docker 20.10 and Podman 4.7 know host-gateway."""
    registry_auth: Path | None = None
    """A file like Docker's config.json with credentials for registries."""
    keep: float = 3600.0
    """Seconds for which an ended container is kept for its console."""

    def __post_init__(self) -> None:
        checks.matching(
            "name", self.name, _NAME, "must be 1 to 32 lower-case letters, digits or inner hyphens"
        )

    @property
    def socket(self) -> str | None:
        """The path of the Unix socket; None if it is reached over TLS."""
        parts = urlsplit(self.host)
        return parts.path if parts.scheme == "unix" else None

    def unreachable(self, urls: Sequence[str]) -> str | None:
        """Return why its containers can't reach the server, as far as settings tell. None: they may."""
        own = [each for each in (self.server_url or urls) if urlsplit(each).hostname in values.LOOPBACK]
        if not own or (self.network == HOST_NETWORK and self.socket is not None):
            return None
        return (
            f"containers on engine {self.name} can't reach {own[0]}: it is a loopback address; "
            f'set server_url under [docker.{self.name}], or network = "host" for an engine on this machine'
        )


def _host(name: str, value: object) -> object:
    text = checks.text(name, value, longest=2048)
    parts = urlsplit(text)
    usable = parts.scheme == "unix" and not parts.netloc and parts.path.startswith("/")
    if parts.scheme == "https":
        values.url(name, value)
        usable = not parts.path.strip("/")
    if not usable:
        rule = "must be unix:///path/to/socket or https://host:2376; plain TCP lets anybody be root there"
        raise InvalidRequest(name, value, rule)
    return text.rstrip("/")


def _urls(name: str, value: object) -> object:
    given = [value] if isinstance(value, str) else value
    if not isinstance(given, list) or not given:
        raise InvalidRequest(name, value, "must be a URL, or a list of them")
    return tuple(values.url(name, each) for each in given)


def _extra_hosts(name: str, value: object) -> object:
    rule = 'must be a list of "name:address"'
    if not isinstance(value, list):
        raise InvalidRequest(name, value, rule)
    for each in value:
        checks.matching(name, each, _EXTRA_HOST, rule)
    return tuple(value)


def _go_together(config: EngineConfig) -> None:
    if config.socket is not None and (config.ca or config.cert or config.key):
        raise InvalidRequest(
            "host", config.host, "must begin with https:// for ca, cert and key to have a use"
        )
    if (config.cert is None) != (config.key is None):
        raise InvalidRequest("cert", str(config.cert), "must be given together with key")


SETTINGS = Table(
    kind=EngineConfig,
    keys={
        "host": _host,
        "capacity": values.whole(0, 10_000),
        "server_url": _urls,
        "extra_hosts": _extra_hosts,
        "keep": values.duration(most=KEEP_MOST),
    },
    named=True,
    private=("cert", "key", "registry_auth"),
    check=_go_together,
)
TEMPLATE = TemplateTable(
    name=DOCKER,
    kind=DockerSpec,
    keys={
        "user": values.text_or_number,
        "capabilities": values.strings,
        "pids": values.whole(PIDS_LEAST, PIDS_MOST),
        "tmp_mib": values.whole(1, TMP_MOST),
    },
    provider=DOCKER,
    needs=("image",),
)
