"""The settings [ssh] and [hosts.NAME], and the table [templates.NAME.ssh]."""

import re
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from muster.config import values
from muster.config.tables import Table, TemplateTable
from muster.domain import checks
from muster.domain.errors import InvalidRequest
from muster.domain.template import RESOURCE_CLASSES
from muster.integrations.ssh.scopes import AUTO, RLIMITS

LABELS_MOST = 20
SLOTS_MOST = 1000
PORTS = 65535
_ADDRESS = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:%-]{0,252}", re.ASCII)
_USER = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,63}\$?", re.ASCII)
_COMMAND = re.compile(r"[A-Za-z0-9_./+-]{1,255}", re.ASCII)
_DIRECTORY = re.compile(r"(~|/)[A-Za-z0-9_./+@-]{0,254}", re.ASCII)


class HostArchitecture(StrEnum):
    X86_64 = "x86_64"
    AARCH64 = "aarch64"
    ANY = "any"


@dataclass(frozen=True, slots=True, kw_only=True)
class SshSpec:
    labels: tuple[str, ...] = ()
    """Labels that a host must have, all of them."""
    architecture: HostArchitecture = HostArchitecture.ANY

    def __post_init__(self) -> None:
        labels("ssh.labels", self.labels)
        checks.word("ssh.architecture", self.architecture, HostArchitecture)


def labels(name: str, value: object) -> tuple[str, ...]:
    if not isinstance(value, tuple | list) or len(value) > LABELS_MOST:
        raise InvalidRequest(name, value, f"must be a list of at most {LABELS_MOST} labels")
    return tuple(checks.name(name, each) for each in value)


class Place(StrEnum):
    SPREAD = "spread"
    """Nodes of one launch on as many hosts as possible."""
    PACKED = "packed"
    """As few hosts as possible: the fullest first, so that others stay empty."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SshConfig:
    user: str = ""
    """The user on hosts that name none; empty: as ssh chooses."""
    key: Path | None = None
    """The private key for hosts that name none; None: as ssh chooses."""
    place: Place = Place.SPREAD
    known_hosts: Path | None = None
    """The keys of the hosts. None: `known_hosts` in the data directory."""
    config: Path | None = None
    """A configuration of ssh. None: the user's own."""
    connect_timeout: float = 8.0
    """Seconds after which a host that doesn't answer is away."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostConfig:
    """One host, or with `members` a group of hosts that differ in name and address alone."""

    name: str
    members: tuple[str, ...] = ()
    """NAME or NAME=ADDRESS."""
    address: str = ""
    """Empty: the name."""
    user: str = ""
    port: int | None = None
    key: Path | None = None
    jump: str = ""
    """The host that ssh goes through. It may have slots = 0."""
    slots: int = 1
    resource_class: str = ""
    """The class that the slots are for; empty: any."""
    labels: tuple[str, ...] = ()
    architecture: HostArchitecture = HostArchitecture.ANY
    python: str = "python3"
    directory: str = "~/.muster"
    limits: str = AUTO
    tunnel: int | None = None
    """A port of the host's loopback that leads to the server, for a host that can't reach it."""

    def __post_init__(self) -> None:
        checks.name("name", self.name)
        if self.members and self.address:
            raise InvalidRequest("address", self.address, "must be left out of a group: its members have one")


def _matched(pattern: re.Pattern[str], rule: str) -> values.Check:
    return lambda name, value: checks.matching(name, value, pattern, rule)


def _members(name: str, value: object) -> object:
    if not isinstance(value, list) or not value:
        raise InvalidRequest(name, value, "must be a list of NAME or NAME=ADDRESS")
    for each in value:
        member, given, address = each.partition("=") if isinstance(each, str) else ("", "", "")
        checks.name(name, member)
        if given:
            _address(name, address)
    return tuple(value)


_address = _matched(_ADDRESS, "must be a host name or an IP address")
_user = _matched(_USER, "must be the name of a user")
SETTINGS = Table(
    kind=SshConfig,
    keys={
        "user": _user,
        "connect_timeout": values.duration(most=20.0),
    },
    environment=("user", "key", "known_hosts", "config"),
    private=("key",),
)
HOSTS = Table(
    kind=HostConfig,
    keys={
        "members": _members,
        "address": _address,
        "user": _user,
        "port": values.whole(1, PORTS),
        "jump": values.identifier,
        "slots": values.whole(0, SLOTS_MOST),
        "resource_class": values.known(*RESOURCE_CLASSES),
        "labels": labels,
        "python": _matched(_COMMAND, "must be a program like python3 or /usr/bin/python3.11"),
        "directory": _matched(_DIRECTORY, "must be a path that begins with / or ~, without blanks"),
        "limits": values.known(AUTO, RLIMITS),
        "tunnel": values.whole(1024, PORTS),
    },
    named=True,
)
TEMPLATE = TemplateTable(
    name="ssh",
    kind=SshSpec,
    keys={"labels": labels},
    provider="ssh",
)
