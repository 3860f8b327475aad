"""What applying a template would change, and what that costs. Changes nothing itself."""

from dataclasses import dataclass
from enum import StrEnum

from muster.domain.errors import InvalidRequest
from muster.domain.serialization import Plain, fields_to_plain
from muster.domain.template import POOL_KEEPING, Template, TemplateSpec, applied, changed_fields


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
