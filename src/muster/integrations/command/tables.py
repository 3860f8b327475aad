"""The settings [command.NAME], and the table [templates.TEMPLATE.command]."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from muster.config import values
from muster.config.tables import Table, TemplateTable
from muster.domain import checks
from muster.domain.errors import InvalidRequest

FAMILY = "command"
"""The provider of `[command.NAME]` is called command-NAME."""
_DEPTH_MOST = 8


class Dialect(StrEnum):
    MUSTER = "muster"
    """docs/provider-protocol.md."""
    GARM = "garm"
    """External providers of GARM, interface v0.1.0."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandConfig:
    """One executable that makes machines."""

    name: str
    executable: Path
    arguments: tuple[str, ...] = ()
    dialect: Dialect = Dialect.MUSTER
    environment: tuple[str, ...] = ()
    """Variables of the server that the executable gets beside PATH and LANG."""
    config: Mapping[str, Any] = field(default_factory=dict)
    """Goes to the executable inside every request (GARM: see `config_file`)."""
    config_file: Path | None = None
    """The file that a binary of GARM reads its settings from."""
    visibility_window: float | None = None
    """Seconds for which a machine that exists may be missing from an answer. None: as the executable says."""
    call_timeout: float | None = None
    """Seconds that one call may take. None: what the executable says."""
    calls_at_once: int = 4
    """Processes of the executable that may run at the same time."""

    @property
    def provider(self) -> str:
        return f"{FAMILY}-{self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandSpec:
    """What a template says about its machines. The executable knows what it means."""

    settings: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        _plain("settings", self.settings, _DEPTH_MOST)


def _plain(name: str, value: object, depth: int) -> object:
    """Check that JSON can hold the value."""
    if isinstance(value, Mapping) and depth:
        return {str(key): _plain(f"{name}.{key}", each, depth - 1) for key, each in value.items()}
    if isinstance(value, list | tuple) and depth:
        return [_plain(name, each, depth - 1) for each in value]
    if value is None or isinstance(value, str | bool | int | float):
        return value
    raise InvalidRequest(name, value, "must be text, a number, true, false, or a list or table of these")


def _table(name: str, value: object) -> object:
    if not isinstance(value, Mapping):
        raise InvalidRequest(name, value, "must be a table")
    return _plain(name, value, _DEPTH_MOST)


def _config(*, name: str, executable: Path | None = None, **content: Any) -> CommandConfig:
    if executable is None:
        raise InvalidRequest("executable", None, f"must be given under [{FAMILY}.{name}]")
    checks.name("name", f"{FAMILY}-{name}")
    if not executable.is_absolute():
        raise InvalidRequest("executable", str(executable), "must be an absolute path")
    _table("config", content.get("config", {}))
    made = CommandConfig(name=name, executable=executable, **content)
    if made.dialect is Dialect.GARM and made.config_file is None:
        rule = 'must be given for dialect = "garm": the binary reads its settings from that file'
        raise InvalidRequest("config_file", None, rule)
    return made


SETTINGS = Table(
    kind=_config,
    keys={
        "executable": values.path,
        "arguments": values.texts,
        "dialect": values.one_of(Dialect),
        "environment": values.texts,
        "config": _table,
        "config_file": values.path,
        "visibility_window": values.seconds,
        "call_timeout": values.seconds,
        "calls_at_once": values.whole(1, 64),
    },
    free=("config",),
    private=("config_file",),
    named=True,
)
TEMPLATE = TemplateTable(
    name="command",
    kind=CommandSpec,
    keys={"settings": _table},
    read=lambda content: CommandSpec(**content),
    provider=FAMILY,
)
