"""The contract of an integration: what a package may add to Muster. See docs/adding.md.

An integration is one folder or one package on PyPI. It is found by its entry point in the group
`muster.integrations` (`muster.discovery`). All that is specific to it is inside; the core never imports it.
Importing the module that the entry point names must be cheap. It names commands and tables for `--help`, and
imports the rest inside of its methods.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, ClassVar, Self

if TYPE_CHECKING:
    from pathlib import Path

    from muster.config import Config
    from muster.config.tables import RequestTable, Table, TemplateTable
    from muster.domain.deadlines import Limits
    from muster.domain.reasons import Reason
    from muster.domain.template import TemplateSpec
    from muster.ports.clock import Clock
    from muster.ports.clusters import ClusterProvider
    from muster.ports.commits import AfterCommit
    from muster.ports.duties import Duty, DutyContext, Hook, StandingDuties
    from muster.ports.identity import Federation, IdentityVerifier
    from muster.ports.ids import Ids
    from muster.ports.provider import EndingsSource, NodeProvider, UnmetRequirement
    from muster.ports.runtime import NodeRuntime
    from muster.ports.sign_in import SignInProvider
    from muster.ports.store import Store

OPERATING, TRYING = "Operating", "Trying it out"
"""Panels of `muster --help`."""
NO_HOME = "none"
"""A server without nodes of its own machine."""


@dataclass(frozen=True, slots=True)
class Command:
    """A command of the CLI: a function of its own name in its module, or an `app` of several."""

    panel: str
    help: str
    module: str


class Level(StrEnum):
    OK = "ok"
    WARNING = "warning"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """A line of `muster doctor`."""

    subject: str
    level: Level
    words: str
    advice: str = ""

    @classmethod
    def ok(cls, subject: str, words: str, advice: str = "") -> Self:
        return cls(subject=subject, level=Level.OK, words=words, advice=advice)

    @classmethod
    def warning(cls, subject: str, words: str, advice: str = "") -> Self:
        return cls(subject=subject, level=Level.WARNING, words=words, advice=advice)

    @classmethod
    def failed(cls, subject: str, words: str, advice: str = "") -> Self:
        return cls(subject=subject, level=Level.FAILED, words=words, advice=advice)


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """The machine and the settings that a server would have here, before it runs."""

    config: Config
    data: Path
    """The data directory."""
    installation_id: str | None = None
    """None: no server answered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """What a server that starts says of itself."""

    tables: Mapping[str, Any]
    """The settings, by the name of the table."""
    limits: Limits
    installation_id: str
    urls: Sequence[str]
    """Where nodes reach the server."""
    public: bool
    """Whether an operator named these. If not, they may be of this machine alone."""
    nodes: Path
    """A directory for what runs on this machine."""
    shared: frozenset[str] = frozenset()
    """Providers whose nodes share a machine with other nodes."""
    hidden: Sequence[Path]
    """What jobs on this machine must not see."""
    store: Store
    clock: Clock
    ids: Ids
    environment: Mapping[str, str]
    watched: Callable[[str, Any], Any]
    """Wraps a port so that its calls are counted and timed under a name. Providers are wrapped already."""

    def dead_man(self, template: TemplateSpec) -> float:
        """Return for how many seconds a node of the template lives that never heard of the server."""
        from muster.domain.deadlines import first_dead_man  # noqa: PLC0415 — cheap to import

        return first_dead_man(template, self.limits)


async def _nothing() -> None:
    """Nothing to close."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What an integration adds to a server. All of it may be empty: its settings are not there."""

    providers: Sequence[NodeProvider] = ()
    cluster_providers: Sequence[ClusterProvider] = ()
    runtimes: Mapping[str, NodeRuntime] = field(default_factory=dict)
    verifiers: Mapping[str, IdentityVerifier] = field(default_factory=dict)
    """By the name of the provider whose machines prove themselves so."""
    endings: Sequence[EndingsSource] = ()
    """Of providers that can tell at once when a machine ends."""
    federation: Federation | None = None
    sign_in: SignInProvider | None = None
    """How people sign in on the page and with `muster login`, beside tokens."""
    starts_with: Mapping[str, Callable[[TemplateSpec], str]] = field(default_factory=dict)
    """By provider: the program that a node of a template starts with. Nodes with another one are outdated."""
    unisolated: Mapping[str, str] = field(default_factory=dict)
    """Providers on whose machines a run may leave something for the next one, and why."""
    lacks: Callable[[TemplateSpec], UnmetRequirement | None] = lambda _spec: None
    """What a template wants and this server doesn't have."""
    duties: Callable[[DutyContext], Sequence[Duty]] = lambda _given: ()
    """Periodic work of its own. One replica at a time performs it."""
    standing: Callable[[DutyContext], Sequence[StandingDuties]] = lambda _given: ()
    """Work of its own that goes on without end, such as a long poll. One replica at a time performs each."""
    outgoing: Sequence[str] = ()
    """Where it sends events, by the names in the settings."""
    hooks: Callable[[DutyContext], Mapping[str, Hook]] = lambda _given: {}
    """What services elsewhere may tell it, by the name in `POST /hooks/NAME`."""
    observers: Sequence[AfterCommit] = ()
    """Hear of each commit of this replica, on the hot path."""
    close: Callable[[], Awaitable[None]] = _nothing


class Integration:
    """Subclass it and name what yours is. `name` is also that of its table of settings.

    The files of its folder are found by their names and imported when they are needed:

        tables.py   SETTINGS, a table of muster.toml; TEMPLATE, a table of templates; ADVICE, by reason
        parts.py    async def connect(site: Site) -> Parts
        doctor.py   def checks(machine: Machine) -> Iterator[Check]

    Override a method to add what these files can't say.
    """

    name: str
    providers: Sequence[str] = ()
    """Names for `provider = "…"` of a template."""
    family: str = ""
    """The first part of providers that settings name: `command` of `provider = "command-NAME"`."""
    runtimes: Sequence[str] = ()
    """Names for `runtime = "…"` of a template."""
    attach_timeouts: ClassVar[Mapping[str, float]] = {}
    """By runtime: seconds that an attach may take, if not as long as usual."""
    setup: str = ""
    """What an operator does to have it: "set region under [hetzner]: see its README"."""
    local: bool = False
    """Whether it is about the machine that the server runs on."""
    shared: bool = False
    """Whether its nodes share a machine with others. A runtime changes no users of such a machine."""
    commands: ClassVar[Mapping[str, Command]] = {}

    def tables(self) -> Mapping[str, Table]:
        """Tables of muster.toml, by name."""
        settings: Table | None = self._found("tables", "SETTINGS")
        return {} if settings is None else {self.name: settings}

    def template_tables(self) -> Sequence[TemplateTable[Any]]:
        """Tables of a template."""
        template: TemplateTable[Any] | None = self._found("tables", "TEMPLATE")
        return () if template is None else (template,)

    def request_tables(self) -> Sequence[RequestTable[Any]]:
        """Tables of a provision request."""
        return ()

    def advice(self) -> Mapping[Reason, str]:
        """By reason: what to do if its nodes can't be had or fail, where the usual advice is of no use."""
        advice: Mapping[Reason, str] | None = self._found("tables", "ADVICE")
        return advice or {}

    def used(self, tables: Mapping[str, Any]) -> bool:
        """Whether the settings ask for it: then it is connected. Else its parts are not even imported."""
        return bool(tables.get(self.name, True))

    async def connect(self, site: Site) -> Parts:
        """The adapters for a server that starts. Raises MusterError for settings that can't be used."""
        connect: Callable[[Site], Awaitable[Parts]] | None = None
        if self.used(site.tables):
            connect = self._found("parts", "connect")
        return Parts() if connect is None else await connect(site)

    def doctor(self, machine: Machine) -> Iterator[Check]:
        """What `muster doctor` says about it; nothing if neither settings nor templates name it."""
        checks: Callable[[Machine], Iterator[Check]] | None = self._found("doctor", "checks")
        return iter(()) if checks is None else checks(machine)

    def running(self, nodes: Path, tables: Mapping[str, Any]) -> Mapping[str, int]:
        """How many nodes run on this machine, by installation. A server doesn't start over another's."""
        return {}

    def home(self, nodes: Path, tables: Mapping[str, Any], ids: Ids) -> str | None:
        """Where its nodes are, if all replicas must have them in one place. NO_HOME: nowhere. None: that
        doesn't matter."""
        return None

    def _found(self, file: str, name: str) -> Any:
        """Return what a file of its folder has under a name; None if there is no such file or name."""
        folder = type(self).__module__.rpartition(".")[0]
        if not folder or find_spec(f"{folder}.{file}") is None:
            return None
        return getattr(import_module(f"{folder}.{file}"), name, None)
