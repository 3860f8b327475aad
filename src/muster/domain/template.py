"""Templates: an operator's named recipe, and the sizes it can ask for.

Owns validation of a template's content, and which part of it nodes are made from. A stored template carries
a revision, which rises when that part changes; "old" means lower than the stored current revision. The other
part says how the pool is kept: it changes in place, and no node is replaced for it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum
from typing import Any

from muster.domain import checks
from muster.domain.errors import InvalidRequest
from muster.domain.serialization import FLAT, Plain, fields_to_plain

CPU_MOST = 1024
MEMORY_LEAST = 64
MEMORY_MOST = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceClass:
    name: str
    cpu: int
    memory_mib: int

    def __post_init__(self) -> None:
        checks.whole("cpu", self.cpu, least=1, most=CPU_MOST)
        checks.whole("memory_mib", self.memory_mib, least=MEMORY_LEAST, most=MEMORY_MOST)


def _classes() -> dict[str, ResourceClass]:
    sizes = {
        "small": (1, 1024),
        "large": (2, 4096),
        "xlarge": (4, 8192),
        "2xlarge": (8, 16384),
        "4xlarge": (16, 32768),
        "8xlarge": (32, 65536),
        "12xlarge": (48, 98304),
        "16xlarge": (64, 131072),
    }
    return {name: ResourceClass(name=name, cpu=cpu, memory_mib=mib) for name, (cpu, mib) in sizes.items()}


RESOURCE_CLASSES: Mapping[str, ResourceClass] = _classes()


class UsageClass(StrEnum):
    ON_DEMAND = "on-demand"
    SPOT = "spot"


class Reuse(StrEnum):
    NEVER = "never"
    SAME_OWNER = "same-owner"
    ALWAYS = "always"


class Runtime(StrEnum):
    """The runtimes of the core. Integrations bring others, whose nodes attach with a kit."""

    EXEC = "exec"
    SERVICE = "service"


_BUILT_IN = tuple(Runtime)
RETIRED = "was retired: choose another, or bring {} back with `muster apply`"
BOOT_LEAST = 1.0
STALL_LEAST = 15.0
EXTERNAL = "external"
"""The provider of apps that enrol themselves. It makes no machines."""
CLUSTER = "cluster"
"""The table of a template that is a recipe for whole clusters. Providers of clusters read it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TemplateSpec:
    """What an operator writes. Two specs that differ in POOL_KEEPING alone are the same revision."""

    name: str
    provider: str
    resource_class: str = "large"
    classes: tuple[ResourceClass, ...] = ()
    """Sizes that are others here than usual, by name and in their order."""
    runtime: str = Runtime.EXEC
    boot_script: str = ""
    usage: tuple[UsageClass, ...] = (UsageClass.ON_DEMAND,)
    """In order of preference: `spot, then on-demand` falls back when there is no capacity."""
    instance_types: tuple[str, ...] = ("*",)
    reuse: Reuse = Reuse.SAME_OWNER
    max_nodes: int = 20
    min_idle: int = 0
    replacements: int = 0
    """How many created nodes of one provision may fail and be replaced."""
    provision_timeout: float | None = None
    max_provision_timeout: float | None = None
    stall_after: float | None = None
    learn: bool = True
    """Whether the template's own boots may lengthen its deadline."""
    attach_timeout: float | None = None
    max_runtime: float = 1800.0
    idle_timeout: float = 360.0
    rescue_window: float = 120.0
    tables: Mapping[str, Any] = field(default_factory=dict, metadata=FLAT)
    """What it says to integrations: plain data, by the name of the table. Each reads its own."""
    retired: bool = False
    """It gives out no more nodes. Its warm nodes end, being of an older revision; its runs continue."""
    outfit: str = ""
    """What the server puts on each node beside all this (its agent, addresses, a runner), as a hash. Not the
    operator's to write: nodes with another outfit are of another revision."""

    def __post_init__(self) -> None:
        checks.name("name", self.name)
        checks.name("provider", self.provider)
        checks.known("resource_class", self.resource_class, RESOURCE_CLASSES)
        self._check_classes()
        object.__setattr__(self, "runtime", str(checks.name("runtime", self.runtime)))
        checks.script("boot_script", self.boot_script)
        checks.words("usage", self.usage, UsageClass)
        checks.word("reuse", self.reuse, Reuse)
        checks.patterns("instance_types", self.instance_types)
        checks.whole("max_nodes", self.max_nodes, least=0, most=checks.MACHINES_MAX)
        checks.whole("min_idle", self.min_idle, least=0, most=checks.COUNT_MAX)
        checks.whole("replacements", self.replacements, least=0, most=checks.COUNT_MAX)
        checks.flag("learn", self.learn)
        checks.flag("retired", self.retired)
        if self.outfit != "":
            checks.text("outfit", self.outfit)
        self._check_times()
        if self.min_idle > self.max_nodes:
            raise InvalidRequest("min_idle", self.min_idle, f"must not exceed max_nodes ({self.max_nodes})")
        if self.enrols and self.runtime != Runtime.SERVICE:
            rule = f"must be {Runtime.SERVICE} for the provider {EXTERNAL}: its nodes are apps"
            raise InvalidRequest("runtime", self.runtime, rule)
        if self.min_idle and self.retired:
            raise InvalidRequest(
                "min_idle", self.min_idle, "must be 0: a retired template keeps nothing warm"
            )
        if self.min_idle and self.runtime == Runtime.SERVICE:
            raise InvalidRequest("min_idle", self.min_idle, "must be 0 for services: they are never idle")
        object.__setattr__(self, "tables", checks.tables(self.tables, taken=_DEFAULTS))
        self._check_cluster()

    def check_in_use(self) -> None:
        """Raise InvalidRequest for a retired template."""
        if self.retired:
            raise InvalidRequest("template", self.name, RETIRED.format(self.name))

    def size(self, resource_class: str) -> ResourceClass:
        own = {each.name: each for each in self.classes}
        return own.get(resource_class) or RESOURCE_CLASSES[resource_class]

    def _check_classes(self) -> None:
        given: object = self.classes
        if not isinstance(given, tuple) or not all(isinstance(each, ResourceClass) for each in given):
            raise InvalidRequest("classes", given, "must be resource classes")
        names = [checks.known("classes", each.name, RESOURCE_CLASSES) for each in self.classes]
        if names != sorted(set(names)):
            raise InvalidRequest("classes", names, "must name each class once, in order")

    def _check_cluster(self) -> None:
        if self.clusters and (self.min_idle or self.boot_script):
            wrong = "min_idle" if self.min_idle else "boot_script"
            rule = f"must be left out for the provider {self.provider}: it makes clusters, not nodes"
            raise InvalidRequest(wrong, getattr(self, wrong), rule)

    def _check_times(self) -> None:
        for name in ("provision_timeout", "max_provision_timeout", "stall_after", "attach_timeout"):
            value = getattr(self, name)
            if value is not None:
                checks.seconds(name, value)
        if self.provision_timeout is not None and self.provision_timeout < BOOT_LEAST:
            rule = f"must be at least {BOOT_LEAST:g} seconds: nothing boots faster"
            raise InvalidRequest("provision_timeout", self.provision_timeout, rule)
        if self.stall_after is not None and self.stall_after < STALL_LEAST:
            rule = f"must be at least {STALL_LEAST:g} seconds: a sign of advance comes with a heartbeat"
            raise InvalidRequest("stall_after", self.stall_after, rule)
        checks.seconds("max_runtime", self.max_runtime)
        checks.seconds("idle_timeout", self.idle_timeout)
        checks.seconds("rescue_window", self.rescue_window, zero=True)
        ceiling, deadline = self.max_provision_timeout, self.provision_timeout
        if ceiling is not None and deadline is not None and ceiling < deadline:
            rule = f"must not be below provision_timeout ({deadline:g})"
            raise InvalidRequest("max_provision_timeout", ceiling, rule)

    @property
    def kitted(self) -> bool:
        """Return whether attaching takes a kit, and a confirmation by the runtime."""
        return self.runtime not in _BUILT_IN

    @property
    def pools(self) -> bool:
        """Return whether a node of this template may serve again after a run."""
        return self.reuse is not Reuse.NEVER and not self.enrols

    @property
    def machine(self) -> "TemplateSpec":
        """Return what nodes are made from: the same content without the rules of the pool."""
        tables = {
            name: {key: each for key, each in table.items() if key not in TABLES_KEEPING}
            for name, table in self.tables.items()
        }
        return replace(self, tables=tables, **{name: _DEFAULTS[name] for name in POOL_KEEPING})

    @property
    def enrols(self) -> bool:
        """Return whether its nodes are apps that enrol themselves: Muster makes none, and gives out none."""
        return self.provider == EXTERNAL

    @property
    def clusters(self) -> bool:
        """Return whether it is a recipe for clusters: it has no nodes."""
        return CLUSTER in self.tables


POOL_KEEPING = (
    "max_nodes",
    "min_idle",
    "replacements",
    "provision_timeout",
    "max_provision_timeout",
    "stall_after",
    "learn",
    "attach_timeout",
    "max_runtime",
    "idle_timeout",
    "rescue_window",
)
"""How nodes are kept, counted and judged: nothing of it is on a node, so a change makes no node old."""
TABLES_KEEPING = ("max_runners", "min_idle")
"""Keys of integrations' tables that say the same: how many, not of what kind."""
_DEFAULTS: Mapping[str, Any] = {each.name: each.default for each in fields(TemplateSpec)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Template:
    spec: TemplateSpec
    revision: int
    """Of what its nodes are made from."""
    version: int = 1
    """Rises with every change, also of how the pool is kept."""
    applied_at: float

    @property
    def name(self) -> str:
        return self.spec.name


def changed_fields(before: TemplateSpec, after: TemplateSpec) -> tuple[str, ...]:
    """Name the fields and tables in which two contents differ, in the order in which they are declared."""
    old, new = fields_to_plain(before), fields_to_plain(after)
    return tuple(name for name in {**new, **old} if old.get(name) != new.get(name))


def applied(before: Template | None, spec: TemplateSpec, *, now: float) -> Template:
    """Return the template with this content: `before` itself if it is equal, else the next version of it.

    The revision rises only if something changed that nodes are made from.
    """
    if before is None:
        return Template(spec=spec, revision=1, version=1, applied_at=now)
    if before.spec == spec:
        return before
    return replace(
        before,
        spec=spec,
        revision=before.revision + (before.spec.machine != spec.machine),
        version=before.version + 1,
        applied_at=now,
    )


class Effect(StrEnum):
    NEW = "new"
    REVISION = "revision"
    """Nodes are made differently from now on: the warm ones are replaced."""
    ADJUSTED = "adjusted"
    """The pool is kept differently: no node is replaced."""
    NONE = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldChange:
    field: str
    before: Plain
    after: Plain
    remakes: bool
    """Whether nodes are made from it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TemplatePlan:
    name: str
    effect: Effect
    revision: int
    """After it is applied."""
    current_revision: int | None
    fields: tuple[FieldChange, ...] = ()
    warm_nodes_replaced: int = 0
    boots_forgotten: int = 0
    """Past boots that deadlines no longer learn from."""
    errors: tuple[InvalidRequest, ...] = ()
    """Why it would be refused."""


def planned(
    before: Template | None,
    spec: TemplateSpec,
    *,
    warm: int,
    boots: int,
    errors: tuple[InvalidRequest, ...] = (),
) -> TemplatePlan:
    """Plan an apply. `warm` and `boots`: idle nodes of the template, and boots of its current revision."""
    after = applied(before, spec, now=0.0)
    if before is None:
        return TemplatePlan(
            name=spec.name, effect=Effect.NEW, revision=after.revision, current_revision=None, errors=errors
        )
    remakes = after.revision != before.revision
    old, new = fields_to_plain(before.spec), fields_to_plain(spec)
    effect = Effect.REVISION if remakes else Effect.NONE if after is before else Effect.ADJUSTED
    return TemplatePlan(
        name=spec.name,
        effect=effect,
        revision=after.revision,
        current_revision=before.revision,
        fields=tuple(
            FieldChange(
                field=name,
                before=old.get(name),
                after=new.get(name),
                remakes=name not in POOL_KEEPING,
            )
            for name in changed_fields(before.spec, spec)
        ),
        warm_nodes_replaced=warm if remakes else 0,
        boots_forgotten=boots if remakes else 0,
        errors=errors,
    )
