"""Define events: append-only facts, one per write, from which every record can be rebuilt.

`changes` holds the fields that the write changed. So folding an entity's events in the order of their
versions gives its record exactly. Two things are left out: the lease of an operation, and the environment of
what a run executes. An environment may hold the caller's secrets. No other field of a record does.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from muster.domain import serialization
from muster.domain.access import ApiToken, TokenKind
from muster.domain.cluster import ClusterChange
from muster.domain.command import Command
from muster.domain.health import HEALTH_FIELDS, HealthChange
from muster.domain.ids import EventId, NodeId
from muster.domain.jobs import JobChange
from muster.domain.launch import Launch
from muster.domain.node import NodeChange
from muster.domain.operation import Operation, OperationChange, OperationEvent
from muster.domain.reasons import Reason
from muster.domain.requests import RunRequest
from muster.domain.serialization import Plain
from muster.domain.template import Template, TemplateSpec, changed_fields

LEASE_FIELDS = ("lease_owner", "lease_until", "epoch", "version")
"""Fields of an operation that move without an event: its lease, and the version that losses move too."""

SUBMITTED = OperationEvent.SUBMITTED.value
WORK = (SUBMITTED, "pending", "joined")
"""Names of events of requests for work and of apps that enrol. They are acts, but change no setting and
stop nothing."""


class Entity(StrEnum):
    NODE = "node"
    HEALTH = "health"
    """Of a node, by the node's id: its health changes apart from its record."""
    DIAGNOSIS = "diagnosis"
    """Of a node's failure, by the node's id."""
    COMMAND = "command"
    LAUNCH = "launch"
    OPERATION = "operation"
    CLUSTER = "cluster"
    JOB = "job"
    TEMPLATE = "template"
    INSTALLATION = "installation"


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """An event before the store gives it its id."""

    entity: Entity
    entity_id: str
    version: int
    name: str
    changes: Mapping[str, Plain]
    detail: str = ""
    actor: str = ""
    """Who did it; empty: no person, or unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Event(Draft):
    id: EventId
    at: float


def of_node(change: NodeChange) -> Draft:
    return Draft(
        entity=Entity.NODE,
        entity_id=change.after.id,
        version=change.after.version,
        name=change.told_as or str(change.name),
        changes=serialization.changed(change.before, change.after),
        detail=change.detail,
        actor=change.actor,
    )


def of_health(change: HealthChange) -> Draft:
    after = change.after
    return Draft(
        entity=Entity.HEALTH,
        entity_id=after.node_id,
        version=after.health_version,
        name=str(after.health),
        changes={name: serialization.to_plain(getattr(after, name)) for name in HEALTH_FIELDS[:-1]},
        detail=after.health_reason,
    )


def of_launch(before: Launch | None, after: Launch) -> Draft:
    return Draft(
        entity=Entity.LAUNCH,
        entity_id=after.id,
        version=after.version,
        name=str(after.state),
        changes=serialization.changed(before, after),
        detail=after.message,
    )


def of_operation(change: OperationChange) -> Draft:
    return _operation(str(change.name), change.before, change.after, actor=change.actor)


def of_submission(operation: Operation, *, actor: str = "") -> Draft:
    return _operation(SUBMITTED, None, _without_environment(operation), actor=actor)


def of_takeover(operation: Operation) -> Draft:
    """Describe that another replica drives the operation from now on."""
    return Draft(
        entity=Entity.OPERATION,
        entity_id=operation.id,
        version=operation.version,
        name=OperationEvent.TAKEN_OVER.value,
        changes={},
    )


def of_diagnosis(node_id: NodeId) -> Draft:
    """Describe that the evidence of a node's failure was stored."""
    return Draft(entity=Entity.DIAGNOSIS, entity_id=node_id, version=1, name="collected", changes={})


def of_installation(
    entity_id: str, name: str, changes: Mapping[str, Plain], *, detail: str = "", actor: str = ""
) -> Draft:
    """Describe an act on the installation, which has no version of its own."""
    return Draft(
        entity=Entity.INSTALLATION,
        entity_id=entity_id,
        version=0,
        name=name,
        changes=changes,
        detail=detail,
        actor=actor,
    )


def of_token_made(token: ApiToken, *, actor: str) -> Draft:
    """Describe that a token was made; for a session or login, that a person signed in."""
    changes = {"name": token.name, "role": token.role.value, "template": token.template}
    if token.kind is not TokenKind.TOKEN:
        changes["kind"] = token.kind.value
    name = "token_added" if token.kind is TokenKind.TOKEN else "signed_in"
    return of_installation(token.id, name, changes, actor=actor)


def of_token_revoked(token: ApiToken, *, actor: str) -> Draft:
    """Describe that a token was revoked; by its own person, that they signed out."""
    own = token.kind is not TokenKind.TOKEN and actor == token.actor
    name = "signed_out" if own else "token_revoked"
    return of_installation(token.id, name, {"name": token.name}, actor=actor)


def of_note(entity_id: str, name: str, *, reason: Reason | None, detail: str, actor: str = "") -> Draft:
    """Describe a fact that no record shows."""
    changes = {} if reason is None else {"reason": reason.value}
    return of_installation(entity_id, name, changes, detail=detail, actor=actor)


def of_correction(scope: str, *, counted: int, stored: int) -> Draft:
    """Describe that a wrong counter was corrected."""
    return of_installation(scope, "counter_corrected", {"used": counted}, detail=f"the counter said {stored}")


def _without_environment(operation: Operation) -> Operation:
    request = operation.request
    if not isinstance(request, RunRequest):
        return operation
    execution = replace(request.execution, env=())
    return replace(operation, request=replace(request, execution=execution))


def of_command(before: Command | None, after: Command, *, actor: str = "") -> Draft:
    """Describe a change of a command, without its environment, which may hold the caller's secrets."""
    changes = serialization.changed(before, after)
    changes.pop("execution", None)
    cancelled = before is not None and before.cancel_requested_at != after.cancel_requested_at
    shell = after.execution.terminal is not None
    if before is None:
        changes["terminal"] = shell
    return Draft(
        entity=Entity.COMMAND,
        entity_id=after.id,
        version=after.version,
        name="cancel_requested" if cancelled else str(after.state),
        changes=changes,
        detail=after.detail,
        actor=actor or (after.actor if shell and after.ended else ""),
    )


def of_cluster(change: ClusterChange) -> Draft:
    """Describe a change of a cluster, named by its new state, else by the stage of the work."""
    before, after = change.before, change.after
    moved = before is not None and before.state is after.state
    return Draft(
        entity=Entity.CLUSTER,
        entity_id=after.id,
        version=after.version,
        name=SUBMITTED if before is None else str(after.stage if moved else after.state),
        changes=serialization.changed(before, after),
        detail=after.detail,
        actor=change.actor,
    )


def of_job(change: JobChange) -> Draft:
    """Describe a change of a job, named by the state that was seen or by what Muster did."""
    return Draft(
        entity=Entity.JOB,
        entity_id=change.after.id,
        version=change.after.version,
        name=change.name,
        changes=serialization.changed(change.before, change.after),
        detail=change.detail,
    )


def of_template(before: Template | None, after: Template, *, actor: str = "") -> Draft:
    """Describe a change of a template. `applied`: a new revision. `adjusted`: only its pool's
    rules changed."""
    adjusted = before is not None and before.revision == after.revision
    return Draft(
        entity=Entity.TEMPLATE,
        entity_id=after.name,
        version=after.version,
        name="adjusted" if adjusted else "applied",
        changes=serialization.fields_to_plain(after),
        detail=_adjustments(before.spec, after.spec) if before is not None and adjusted else "",
        actor=actor,
    )


def _adjustments(before: TemplateSpec, after: TemplateSpec) -> str:
    old, new = serialization.fields_to_plain(before), serialization.fields_to_plain(after)
    return ", ".join(f"{name} {old.get(name)} → {new.get(name)}" for name in changed_fields(before, after))


def _operation(name: str, before: Operation | None, after: Operation, *, actor: str = "") -> Draft:
    changes = serialization.changed(before, after)
    for field in LEASE_FIELDS:
        changes.pop(field, None)
    return Draft(
        entity=Entity.OPERATION,
        entity_id=after.id,
        version=after.version,
        name=name,
        changes=changes,
        actor=actor,
    )
