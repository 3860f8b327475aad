"""What can be set, what it is by default, and how each value is checked."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from ipaddress import ip_network
from pathlib import Path
from urllib.parse import urlsplit

from muster.domain import checks
from muster.domain.access import Role
from muster.domain.deadlines import Limits
from muster.domain.ec2 import DISK_MOST, HOPS_MOST, PERCENT_MOST, Architecture
from muster.domain.errors import InvalidRequest
from muster.domain.template import (
    CPU_MOST,
    MEMORY_LEAST,
    MEMORY_MOST,
    Reuse,
    Runtime,
    TemplateSpec,
    UsageClass,
)
from muster.domain.trust import REPOSITORY_ID_MOST, Trust

Check = Callable[[str, object], object]
"""Gives the value to use, or raises InvalidRequest naming the field."""
PORT = 8420
PRIVATE = ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7")
"""Where services are probed unless somebody says otherwise. Not link-local: that is where clouds keep their
instance metadata; where they keep it in the middle of these, the prober refuses it."""
THIS_MACHINE = ("127.0.0.0/8", "::1/128")
"""Probed too while the server listens to this machine alone: whoever enrols from elsewhere must not make it
knock at its neighbours' doors."""
_SHA256 = re.compile(r"[0-9a-fA-F]{64}")
LOOPBACK = ("127.0.0.1", "::1", "localhost")


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
    files_dir: Path | None = None
    """Where archives and artifacts are kept; replicas share it. None: in the data directory."""
    log_format: LogFormat = LogFormat.TEXT
    log_level: str = "info"

    @property
    def loopback(self) -> bool:
        return self.host in LOOPBACK


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessConfig:
    capacity: int = 20
    """Nodes that fit on this machine. Beyond it the provider says so, as a cloud would. 0: there is no such
    provider, as it must be for replicas on several machines."""
    directory: Path | None = None
    """Where they are kept; replicas on this machine share it. None: in the data directory."""
    isolation: str = "auto"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ec2Config:
    """Where machines of the provider `ec2` come from. Without a region there is no such provider."""

    region: str = ""
    account: str = ""
    """The account whose machines may join; empty: that of the server's own credentials."""
    endpoint_url: str | None = None
    """Only for an EC2 that isn't AWS's."""
    visibility_window: float = 300.0
    """Seconds for which AWS may not show a machine that it made."""
    certificates: Mapping[str, str] = field(default_factory=dict)
    """By region: the certificate, as PEM or as a file of it, that AWS signs identity documents with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbesConfig:
    allowed: tuple[str, ...] = (*THIS_MACHINE, *PRIVATE)
    """Where services may ask to be probed: their addresses come from themselves."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AksConfig:
    """Who we are to Azure, and where it is. Secrets come from the environment, never from here."""

    endpoint: str = "https://management.azure.com"
    credential: str = "auto"
    poll_every: float = 20.0
    """Seconds between two looks at a cluster in the making."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GitHubConfig:
    """How to speak to GitHub. Without credentials there is no runtime `github`."""

    url: str = "https://github.com"
    """Of GitHub Enterprise Server: where people see it."""
    api_url: str | None = None
    """None: what belongs to `url`."""
    token: str = field(default="", repr=False)
    """A personal access token; only from the environment. In a file: see `token_file`."""
    token_file: Path | None = None
    app_id: str = ""
    private_key_file: Path | None = None
    runner_path: str = ""
    """Where nodes' images have the runner; empty: nodes fetch it."""
    runner_version: str = ""
    runner_sha256: tuple[str, ...] = ()
    """Of the packages of that version, one per platform that nodes have."""
    runner_url: str | None = None
    """A mirror, with {version}, {os} and {arch} in it."""
    issuer: str | None = None
    """Of the tokens with which workflows sign in; None: what belongs to `url`."""
    audience: str = ""
    """What these tokens must be meant for; empty: one of the server's own addresses, so that a token for
    another server is worth nothing here."""

    @property
    def configured(self) -> bool:
        return bool(self.token or self.token_file or self.app_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    path: Path | None = None
    max_nodes: int | None = None
    """The cap over all templates; None: as it is in the store."""
    server: ServerConfig = field(default_factory=ServerConfig)
    limits: Limits = field(default_factory=Limits)
    process: ProcessConfig = field(default_factory=ProcessConfig)
    ec2: Ec2Config = field(default_factory=Ec2Config)
    probes: ProbesConfig = field(default_factory=ProbesConfig)
    github: GitHubConfig = field(default_factory=GitHubConfig)
    trust: tuple[Trust, ...] = ()
    """Which workflows may sign in by themselves."""
    aks: AksConfig = field(default_factory=AksConfig)
    templates: tuple[TemplateSpec, ...] = ()


def _whole(least: int, most: int) -> Check:
    return lambda name, value: checks.whole(name, value, least=least, most=most)


def _seconds(name: str, value: object) -> object:
    return checks.seconds(name, value)


def _maybe_zero(name: str, value: object) -> object:
    return checks.seconds(name, value, zero=True)


def _one_of(kind: type[StrEnum]) -> Check:
    return lambda name, value: kind(checks.known(name, value, tuple(kind)))


def _known(*words: str) -> Check:
    return lambda name, value: checks.known(name, value, words)


def _text(name: str, value: object) -> object:
    return checks.text(name, value)


def _text_or_number(name: str, value: object) -> object:
    return checks.text(name, str(value) if type(value) is int else value)


def _path(name: str, value: object) -> object:
    return Path(checks.text(name, value, longest=4096)).expanduser()


def _url(name: str, value: object) -> object:
    parts = urlsplit(checks.text(name, value, longest=2048))
    try:
        usable = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        usable = False
    if not usable or parts.query or parts.fragment or parts.username:
        raise InvalidRequest(name, value, "must be a URL like https://muster.example.com:8420")
    return str(value).rstrip("/")


def _urls(name: str, value: object) -> object:
    given = value.split(",") if isinstance(value, str) else value
    if not isinstance(given, list) or not given:
        raise InvalidRequest(name, value, "must be a URL like https://muster.example.com:8420, or several")
    return tuple(dict.fromkeys(str(_url(name, each)) for each in given))


def _store(name: str, value: object) -> object:
    """The address is a secret: what is wrong with it is said without it."""
    text = checks.text(name, value, longest=2048) if isinstance(value, str) else ""
    scheme, found, _ = text.partition("://")
    if not found or scheme not in ("postgresql", "postgres", DYNAMODB):
        rule = "must be like postgresql://USER@HOST:5432/DATABASE or dynamodb://TABLE?region=REGION"
        raise InvalidRequest(name, "…", rule)
    return text


def _azure(name: str, value: object) -> object:
    url = str(_url(name, value))
    parts = urlsplit(url)
    if parts.scheme != "https" and parts.hostname not in LOOPBACK:
        raise InvalidRequest(
            name, value, "must be https, unless it is on this machine: a token is sent there"
        )
    return url


def _usage(name: str, value: object) -> object:
    words = value if isinstance(value, list) else [value]
    found = tuple(UsageClass(checks.known(name, word, tuple(UsageClass))) for word in words)
    checks.words(name, found, UsageClass)
    return found


def _patterns(name: str, value: object) -> object:
    return checks.patterns(name, tuple(value) if isinstance(value, list) else (value,))


def _strings(name: str, value: object) -> object:
    if not isinstance(value, list):
        raise InvalidRequest(name, value, "must be a list")
    return tuple(value)


def _pem(name: str, value: object) -> object:
    """Its text, or the name of a file that holds it."""
    if isinstance(value, str) and "BEGIN CERTIFICATE" in value:
        return value
    try:
        return Path(checks.text(name, value, longest=4096)).expanduser().read_text(encoding="ascii")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidRequest(
            name, value, f"must be a certificate in PEM, or a file of it ({error})"
        ) from error


def _networks(name: str, value: object) -> object:
    rule = "must be a list of networks like '10.0.0.0/8'"
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise InvalidRequest(name, value, rule)
    try:
        return tuple(str(ip_network(each)) for each in value)
    except ValueError as error:
        raise InvalidRequest(name, value, f"{rule} ({error})") from error


def _texts(name: str, value: object) -> object:
    if not isinstance(value, list):
        raise InvalidRequest(name, value, "must be a list of texts")
    return tuple(checks.text(name, each) for each in value)


def _hashes(name: str, value: object) -> object:
    rule = "must be a SHA-256 in hexadecimal, or a list of them"
    found = value if isinstance(value, list) else [value]
    for each in found:
        if not isinstance(each, str) or not _SHA256.fullmatch(each):
            raise InvalidRequest(name, value, rule)
    return tuple(str(each).lower() for each in found)


def _package_url(name: str, value: object) -> object:
    text = checks.text(name, value, longest=2048)
    if "{version}" not in text or not text.startswith(("http://", "https://")):
        raise InvalidRequest(name, value, "must be a URL with {version} in it, and {os} and {arch}")
    return text


def _no_secret(name: str, value: object) -> object:
    """From the environment alone: files are copied, shown and kept in histories."""
    return checks.text(name, value, longest=4096)


def _script(name: str, value: object) -> object:
    return checks.script(name, value)


def _name(name: str, value: object) -> object:
    return checks.name(name, value)


_MACHINES = _whole(0, checks.MACHINES_MAX)
SECTIONS: Mapping[str, Mapping[str, Check]] = {
    "installation": {"max_nodes": _MACHINES},
    "server": {
        "host": _text,
        "port": _whole(0, 65535),
        "public_url": _urls,
        "data_dir": _path,
        "store": _store,
        "store_connections": _whole(2, 1000),
        "files_dir": _path,
        "log_format": _one_of(LogFormat),
        "log_level": _known("debug", "info", "warning", "error"),
    },
    "limits": {each.name: _seconds for each in fields(Limits)},
    "probes": {"allowed": _networks},
    "ec2": {
        "region": _text,
        "account": _text,
        "endpoint_url": _url,
        "visibility_window": _seconds,
        "certificates": _pem,
    },
    "aks": {
        "endpoint": _azure,
        "credential": _known("auto", "environment", "managed-identity", "cli"),
        "poll_every": _seconds,
    },
    "process": {
        "capacity": _whole(0, 10_000),
        "isolation": _known("auto", "sandbox", "none"),
        "directory": _path,
    },
    "github": {
        "url": _url,
        "api_url": _url,
        "token": _no_secret,
        "token_file": _path,
        "app_id": _text_or_number,
        "private_key_file": _path,
        "runner_path": _text,
        "runner_version": _text,
        "runner_sha256": _hashes,
        "runner_url": _package_url,
        "issuer": _url,
        "audience": _text,
    },
}
MAPS = (("ec2", "certificates"),)
"""Settings that are tables with free names; the check is for each of their values."""
TEMPLATES = "templates"
CLASSES = "classes"
CLASS: Mapping[str, Check] = {"cpu": _whole(1, CPU_MOST), "memory_mib": _whole(MEMORY_LEAST, MEMORY_MOST)}
"""The table [classes.NAME]: what is left out stays as it is."""
TEMPLATE_EC2: Mapping[str, Check] = {
    "image": _text,
    "subnets": _strings,
    "security_groups": _strings,
    "instance_profile": _text,
    "architecture": _one_of(Architecture),
    "disk_gib": _whole(1, DISK_MOST),
    "price_protection": _whole(1, PERCENT_MOST),
    "hop_limit": _whole(1, HOPS_MOST),
}
TRUST = "trust"
TRUST_RULE: Mapping[str, Check] = {
    "repository": _text,
    "repository_id": _whole(1, REPOSITORY_ID_MOST),
    "refs": _texts,
    "workflows": _texts,
    "events": _texts,
    "environment": _text,
    "role": _one_of(Role),
    "templates": _texts,
    "resource_classes": _texts,
    "instance_types": _texts,
}
RUNNER = "runner"
TEMPLATE_RUNNER: Mapping[str, Check] = {
    "scope": _text,
    "group": _text,
    "labels": _texts,
    "ephemeral": checks.flag,
}
"""The table [templates.NAME.runner]."""
CLUSTER = "cluster"
"""A template's table of tables: read as a whole."""
TEMPLATE: Mapping[str, Check] = {
    "provider": _name,
    "resource_class": _text,
    "runtime": _one_of(Runtime),
    "boot_script": _script,
    "usage": _usage,
    "instance_types": _patterns,
    "reuse": _one_of(Reuse),
    "max_nodes": _MACHINES,
    "min_idle": _whole(0, checks.COUNT_MAX),
    "replacements": _whole(0, checks.COUNT_MAX),
    "provision_timeout": _seconds,
    "max_provision_timeout": _seconds,
    "stall_after": _seconds,
    "learn": checks.flag,
    "attach_timeout": _seconds,
    "max_runtime": _seconds,
    "idle_timeout": _seconds,
    "rescue_window": _maybe_zero,
}
