"""Templates, limits and brakes."""

from typing import TYPE_CHECKING, Any, Self

from muster.discovery import installed
from muster.domain import template as domain
from muster.domain.errors import InvalidRequest
from muster.domain.template import Effect, Reuse, Runtime, UsageClass
from muster.domain.template import TemplatePlan as Planned
from muster.wire.base import EXAMPLE_TIME, Shape, Time, convert, shown
from muster.wire.tables import given_tables, tables_of

SPEC_EXAMPLE: dict[str, Any] = {
    "provider": "process",
    "resource_class": "small",
    "classes": [{"name": "small", "cpu": 1, "memory_mib": 2048}],
    "runtime": "exec",
    "boot_script": "python3 -m venv /tmp/venv\n",
    "usage": ["on-demand"],
    "instance_types": ["*"],
    "reuse": "same-owner",
    "max_nodes": 20,
    "min_idle": 2,
    "replacements": 0,
    "provision_timeout": None,
    "max_provision_timeout": None,
    "stall_after": None,
    "learn": True,
    "attach_timeout": None,
    "max_runtime": 1800.0,
    "idle_timeout": 360.0,
    "rescue_window": 120.0,
    "process": {"isolation": "any", "home": "read-only"},
}


if TYPE_CHECKING:
    Tables = Shape
else:
    Tables = tables_of("Tables", installed().template_tables.values())


class ResourceClass(Shape):
    name: str
    cpu: int
    memory_mib: int


class TemplateSpec(Tables):
    """A template's content. What is left out takes its default. The revision rises only with what nodes are
    made from."""

    EXAMPLE = SPEC_EXAMPLE

    provider: str
    resource_class: str = "large"
    classes: tuple[ResourceClass, ...] = ()
    """Resource classes that are another size here than usual."""
    runtime: str = Runtime.EXEC
    boot_script: str = ""
    usage: tuple[UsageClass, ...] = (UsageClass.ON_DEMAND,)
    instance_types: tuple[str, ...] = ("*",)
    reuse: Reuse = Reuse.SAME_OWNER
    max_nodes: int = 20
    min_idle: int = 0
    replacements: int = 0
    provision_timeout: float | None = None
    max_provision_timeout: float | None = None
    stall_after: float | None = None
    learn: bool = True
    attach_timeout: float | None = None
    max_runtime: float = 1800.0
    idle_timeout: float = 360.0
    rescue_window: float = 120.0

    @classmethod
    def content(cls, spec: domain.TemplateSpec) -> "TemplateSpec":
        """Everything but the name, which stands beside it."""
        return convert(TemplateSpec, spec, **_tables(spec))

    def spec(self, name: str) -> domain.TemplateSpec:
        return convert(
            domain.TemplateSpec,
            self,
            name=name,
            classes=tuple(sorted(self.classes, key=lambda each: each.name)),
            tables=given_tables(self, installed().template_tables),
        )


class Template(TemplateSpec):
    EXAMPLE = {
        "name": "ci",
        "revision": 1,
        "applied_at": EXAMPLE_TIME,
        "paused": False,
        "retired": False,
        **SPEC_EXAMPLE,
    }

    name: str
    revision: int
    applied_at: Time
    paused: bool
    retired: bool = False

    @classmethod
    def of(cls, template: domain.Template, *, paused: bool) -> Self:
        spec = template.spec
        return convert(
            cls,
            spec,
            revision=template.revision,
            applied_at=template.applied_at,
            paused=paused,
            **_tables(spec),
        )


def _tables(spec: domain.TemplateSpec) -> dict[str, Any]:
    return {name: spec.tables[name] for name in installed().template_tables if name in spec.tables}


class PlanRequest(Shape):
    EXAMPLE = {"templates": {"ci": SPEC_EXAMPLE}}

    templates: dict[str, TemplateSpec]


class FieldChange(Shape):
    field: str
    before: Any = None
    after: Any = None
    remakes: bool
    """Whether nodes are made from it: then the warm ones are replaced."""


class Refusal(Shape):
    field: str
    value: str | int | float | bool | None = None
    rule: str

    @classmethod
    def of(cls, error: InvalidRequest) -> Self:
        return cls(field=error.field, value=shown(error.value), rule=error.rule)


class TemplatePlan(Shape):
    EXAMPLE = {
        "name": "ci",
        "effect": "revision",
        "revision": 2,
        "current_revision": 1,
        "fields": [{"field": "boot_script", "before": "", "after": "true\n", "remakes": True}],
        "warm_nodes_replaced": 2,
        "boots_forgotten": 57,
        "errors": [],
    }

    name: str
    effect: Effect | None = None
    """Null: it can't be said, because of the errors."""
    revision: int | None = None
    current_revision: int | None = None
    fields: tuple[FieldChange, ...] = ()
    warm_nodes_replaced: int = 0
    boots_forgotten: int = 0
    errors: tuple[Refusal, ...] = ()

    @classmethod
    def of(cls, plan: Planned) -> Self:
        return convert(cls, plan, errors=tuple(Refusal.of(error) for error in plan.errors))

    @classmethod
    def refused(cls, name: str, error: InvalidRequest) -> Self:
        return cls(name=name, errors=(Refusal.of(error),))


class Limits(Shape):
    EXAMPLE = {"max_nodes": 100}

    max_nodes: int


class Installation(Shape):
    EXAMPLE = {"id": "inst-1hx2k9q0c7m3t8v5e0", "max_nodes": 100, "version": "0.2.0"}

    id: str
    max_nodes: int
    version: str


class Pauses(Shape):
    """What is held back: named templates, or everything."""

    EXAMPLE = {"all": False, "templates": ["ci"]}

    all: bool
    templates: tuple[str, ...]
