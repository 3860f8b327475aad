"""Templates, limits and brakes."""

from dataclasses import MISSING, fields, is_dataclass
from typing import TYPE_CHECKING, Any, Self, get_args, get_origin, get_type_hints

import msgspec

from muster.discovery import installed
from muster.domain import template as domain
from muster.domain.errors import InvalidRequest
from muster.domain.template import Reuse, Runtime, UsageClass
from muster.domain.template_plan import Effect
from muster.domain.template_plan import TemplatePlan as Planned
from muster.wire.base import EXAMPLE_TIME, Shape, Time, convert
from muster.wire.problems import shown

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
    "ec2": None,
    "process": {"isolation": "any", "home": "read-only"},
    "runner": {"scope": "", "group": "", "labels": [], "ephemeral": None},
    "cluster": None,
}


def _tables() -> type[Shape]:
    """Return a shape with a field for each template table of an installed integration."""
    types: dict[str, Any] = {}
    defaults: dict[str, Any] = {}
    for table in installed().template_tables.values():
        shape = SHAPES[table.name]
        types[table.name] = shape if table.always else shape | None
        defaults[table.name] = msgspec.field(default_factory=shape) if table.always else None
    return _made("Tables", types, defaults)


def _shape(kind: type) -> type[Shape]:
    """Return the shape of a table: the fields of the dataclass that reads it."""
    types = {name: _typed(hint) for name, hint in get_type_hints(kind).items()}
    defaults: dict[str, Any] = {}
    for each in fields(kind):
        if each.default is not MISSING:
            defaults[each.name] = each.default
        elif each.default_factory is not MISSING:
            defaults[each.name] = msgspec.field(default_factory=each.default_factory)
    return _made(kind.__name__.removesuffix("Spec"), types, defaults, __doc__=kind.__doc__)


def _typed(hint: Any) -> Any:
    """Replace dataclasses in a type by shapes, so that unknown fields are refused there too."""
    if is_dataclass(hint):
        return _shape(hint)  # type: ignore[arg-type]  # a class, not an instance
    if get_origin(hint) is not tuple:
        return hint
    inner: Any = _typed(get_args(hint)[0])
    return tuple[inner, ...]


def _made(name: str, types: dict[str, Any], defaults: dict[str, Any], **more: Any) -> type[Shape]:
    make: Any = type(Shape)
    made: type[Shape] = make(
        name, (Shape,), {"__annotations__": types, "__module__": __name__, **defaults, **more}
    )
    return made


SHAPES: dict[str, type[Shape]] = {
    each.name: _shape(each.kind) for each in installed().template_tables.values()
}
if TYPE_CHECKING:
    Tables = Shape
else:
    Tables = _tables()


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

    def spec(self, name: str) -> domain.TemplateSpec:
        return convert(
            domain.TemplateSpec,
            self,
            name=name,
            classes=tuple(sorted(self.classes, key=lambda each: each.name)),
            tables={name: msgspec.to_builtins(getattr(self, name)) for name in installed().template_tables},
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
            **{name: spec.tables[name] for name in installed().template_tables if name in spec.tables},
        )


class Templates(Shape):
    items: tuple[Template, ...]


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


class Plan(Shape):
    EXAMPLE = {
        "items": [
            {
                "name": "ci",
                "effect": "revision",
                "revision": 2,
                "current_revision": 1,
                "fields": [{"field": "boot_script", "before": "", "after": "true\n", "remakes": True}],
                "warm_nodes_replaced": 2,
                "boots_forgotten": 57,
                "errors": [],
            }
        ]
    }

    items: tuple[TemplatePlan, ...]


class Limits(Shape):
    EXAMPLE = {"max_nodes": 100}

    max_nodes: int


class Installation(Shape):
    EXAMPLE = {"id": "inst-1hx2k9q0c7m3t8v5e0", "max_nodes": 100, "version": "0.1.0"}

    id: str
    max_nodes: int
    version: str


class Pauses(Shape):
    """What is held back: named templates, or everything."""

    EXAMPLE = {"all": False, "templates": ["ci"]}

    all: bool
    templates: tuple[str, ...]
