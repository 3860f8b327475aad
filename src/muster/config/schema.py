"""What can be set, what it is by default, and how each value is checked."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from ipaddress import ip_network
from pathlib import Path
from typing import Any

from muster.config import values
from muster.config.values import LOOPBACK, Check
from muster.domain import checks
from muster.domain.deadlines import Limits
from muster.domain.errors import InvalidRequest
from muster.domain.template import (
    CPU_MOST,
    MEMORY_LEAST,
    MEMORY_MOST,
    TemplateSpec,
    UsageClass,
)
from muster.domain.terminal import ShellRules

PORT = 8420
PRIVATE = ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7")
"""Where services are probed by default. Link-local ranges are left out: clouds keep instance metadata
there. The prober also refuses metadata addresses inside of these ranges.
"""
THIS_MACHINE = ("127.0.0.0/8", "::1/128")
"""Also probed while the server listens on loopback alone: an app from elsewhere must not make the server
reach its neighbours."""


class LogFormat(StrEnum):
    TEXT = "text"
    JSON = "json"


DYNAMODB = "dynamodb"
"""The scheme of a store whose heartbeats have a price."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerConfig:
    host: str = "127.0.0.1"
    port: int = PORT
    """0: any that is free."""
    public_url: tuple[str, ...] = ()
    """What nodes are told; several: they go on with another if one doesn't answer. None: the address that is
    listened on."""
    data_dir: Path | None = None
    """None: the platform's place for user data."""
    store: str | None = None
    """None: SQLite in the data directory. Has a password in it, perhaps."""
    store_connections: int = 16
    """To a store that is shared. One writes or reads at a time on each; a database has room for about 100."""
    store_cache_mib: int = 64
    """What a server may keep of SQLite's file in memory. Its connections share it."""
    files_dir: Path | None = None
    """Where archives and artifacts are kept; replicas share it. None: in the data directory."""
    log_format: LogFormat = LogFormat.TEXT
    log_level: str = "info"

    @property
    def loopback(self) -> bool:
        return self.host in LOOPBACK


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbesConfig:
    allowed: tuple[str, ...] = (*THIS_MACHINE, *PRIVATE)
    """Where services may ask to be probed: their addresses come from themselves."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    path: Path | None = None
    max_nodes: int | None = None
    """The cap over all templates; None: as it is in the store."""
    server: ServerConfig = field(default_factory=ServerConfig)
    limits: Limits = field(default_factory=Limits)
    probes: ProbesConfig = field(default_factory=ProbesConfig)
    shells: ShellRules = field(default_factory=ShellRules)
    tables: Mapping[str, Any] = field(default_factory=dict)
    """What each integration was told, by the name of its table."""
    private: tuple[Path, ...] = ()
    """Files and directories that it names and that jobs on this machine must not see."""
    templates: tuple[TemplateSpec, ...] = ()


def _store(name: str, value: object) -> object:
    """Check a store's address. The address is a secret, so the error does not show it."""
    text = checks.text(name, value, longest=2048) if isinstance(value, str) else ""
    scheme, found, _ = text.partition("://")
    if not found or scheme not in ("postgresql", "postgres", DYNAMODB):
        rule = "must be like postgresql://USER@HOST:5432/DATABASE or dynamodb://TABLE?region=REGION"
        raise InvalidRequest(name, "…", rule)
    return text


def _usage(name: str, value: object) -> object:
    words = value if isinstance(value, list) else [value]
    found = tuple(UsageClass(checks.known(name, word, tuple(UsageClass))) for word in words)
    checks.words(name, found, UsageClass)
    return found


def _patterns(name: str, value: object) -> object:
    return checks.patterns(name, tuple(value) if isinstance(value, list) else (value,))


def _networks(name: str, value: object) -> object:
    rule = "must be a list of networks like '10.0.0.0/8'"
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise InvalidRequest(name, value, rule)
    try:
        return tuple(str(ip_network(each)) for each in value)
    except ValueError as error:
        raise InvalidRequest(name, value, f"{rule} ({error})") from error


def _urls(name: str, value: object) -> object:
    given = value.split(",") if isinstance(value, str) else value
    if not isinstance(given, list) or not given:
        raise InvalidRequest(name, value, "must be a URL like https://muster.example.com:8420, or several")
    return tuple(dict.fromkeys(str(values.url(name, each)) for each in given))


_MACHINES = values.whole(0, checks.MACHINES_MAX)
SECTIONS: Mapping[str, Mapping[str, Check]] = {
    "installation": {"max_nodes": _MACHINES},
    "server": values.of_fields(
        ServerConfig,
        {
            "port": values.whole(0, 65535),
            "public_url": _urls,
            "store": _store,
            "store_connections": values.whole(2, 1000),
            "store_cache_mib": values.whole(2, 65536),
            "log_level": values.known("debug", "info", "warning", "error"),
        },
    ),
    "limits": {
        **{each.name: values.seconds for each in fields(Limits) if not each.name.endswith("_runtimes")},
        "queued_per_owner": values.whole(1, checks.MACHINES_MAX),
        "beats_per_second": values.whole(1, checks.MACHINES_MAX),
    },
    "probes": {"allowed": _networks},
    "shells": values.of_fields(
        ShellRules, {"per_node": values.whole(1, 100), "per_server": values.whole(1, 10_000)}
    ),
}
TEMPLATES = "templates"
DEFAULT_PROVIDER = "process"
"""Of a template that names none."""
CLASSES = "classes"
CLASS: Mapping[str, Check] = {
    "cpu": values.whole(1, CPU_MOST),
    "memory_mib": values.whole(MEMORY_LEAST, MEMORY_MOST),
}
"""The table [classes.NAME]: what is left out stays as it is."""
TEMPLATE: Mapping[str, Check] = values.of_fields(
    TemplateSpec,
    {
        "provider": values.identifier,
        "runtime": values.identifier,
        "boot_script": values.script,
        "usage": _usage,
        "instance_types": _patterns,
        "max_nodes": _MACHINES,
        "min_idle": values.whole(0, checks.COUNT_MAX),
        "replacements": values.whole(0, checks.COUNT_MAX),
        "rescue_window": values.duration(zero=True),
    },
    *("name", "classes", "tables", "retired", "outfit"),
)
