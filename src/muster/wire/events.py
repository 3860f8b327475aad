"""Events in the form of the API.

Owns the one translation from stored changes to the public feed: fields have the names, words and times of the
API's resources. A node's first event holds the whole node; folding its later ones into it gives the node.

The stored form stays as it is. The translation goes field by field and decodes no record, so events that an
older version stored are read as well.
"""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Annotated, Any, Self

import msgspec
from msgspec import Meta

from muster.domain.codes import help_for
from muster.domain.command import CommandState, exit_status_of
from muster.domain.event_titles import title_of
from muster.domain.events import Entity
from muster.domain.events import Event as StoredEvent
from muster.domain.operation import ENDED
from muster.domain.reasons import ADVICE
from muster.wire.base import EXAMPLE_TIME, Query, Shape, Time, convert
from muster.wire.tables import SHAPES

FEED_MOST = 1000
TAIL_MOST = 10_000
Fields = dict[str, Any]
_INNER: Mapping[Entity, frozenset[str]] = {
    Entity.NODE: frozenset({"boot_id", "left_at"}),
    Entity.LAUNCH: frozenset({"token"}),
    Entity.COMMAND: frozenset({"deadline_at"}),
    Entity.OPERATION: frozenset({"warm", "errors", "trace"}),
    Entity.CLUSTER: frozenset(
        {"stage", "stage_at", "group_asked_at", "asked_at", "answered", "principal", "kubelet", "roles_left"}
    ),
    Entity.JOB: frozenset({"assignment_id"}),
    Entity.TEMPLATE: frozenset({"version", "outfit"}),
}
"""Fields of records that the API's resources don't have."""
_NO_VITALS = {
    "last_seen_at": None,
    "health": None,
    "health_reason": "",
    "health_source": None,
    "health_since": None,
}
_NO_PROGRESS: Fields = {
    **dict.fromkeys(("phase", "label", "step", "total_steps", "percent", "motion", "eta_seconds")),
    "message": "",
    "parts": [],
}
_OVER = (CommandState.EXITED, CommandState.LOST)


class Event(Shape):
    EXAMPLE = {
        "id": "ev-17",
        "at": EXAMPLE_TIME,
        "entity": "node",
        "entity_id": "node-1hx2k9q0c7m3t8v5e2",
        "version": 3,
        "name": "booted",
        "title": "booted",
        "changes": {"version": 3, "booted_at": EXAMPLE_TIME},
        "detail": "",
        "actor": "",
    }

    id: str
    at: Time
    entity: Annotated[str, Meta(extra_json_schema={"enum": [*Entity]})]
    entity_id: str
    version: int
    name: str
    changes: dict[str, Any]
    """The fields that the write changed, with the names and words of the API's resource. The resource is a
    Node for node and health events, else an Operation, Command, Cluster, Job or Template."""
    detail: str = ""
    actor: str = ""
    """Who did it; empty: it isn't known, or Muster did it by itself."""
    title: str = ""
    """The name in words, in the past tense: `handed over` for `hand_over`."""

    @classmethod
    def of(cls, event: StoredEvent) -> Self:
        return convert(cls, event, changes=changes_of(event), title=title_of(event.entity, event.name))


class EventsQuery(Query):
    cursor: str | None = None
    limit: Annotated[int, Meta(ge=1, le=FEED_MOST)] = 100
    entity_id: str | None = None
    last: Annotated[int, Meta(ge=1, le=TAIL_MOST)] | None = None
    """The last so many, instead of a page from `cursor` on; `next` is the end of the feed."""


class AuditQuery(Query):
    since: Time | None = None
    until: Time | None = None
    who: str | None = None
    """A part of the actor's name or token id, in any case of letters."""
    action: tuple[str, ...] = ()
    """Names of events, such as `applied`, `submitted` or `token_added`."""
    entity: str | None = None
    """A kind of thing, such as `node`, or the id of one."""
    cursor: str | None = None
    limit: Annotated[int, Meta(ge=1, le=FEED_MOST)] = 200


def changes_of(event: StoredEvent) -> Fields:
    """Return what the event changed, as fields of the API's resource."""
    translate = _TRANSLATIONS.get(event.entity)
    changes = dict(event.changes) if translate is None else translate(event)
    inner = _INNER.get(event.entity, ())
    return _fields({name: value for name, value in changes.items() if name not in inner})


def without_environment(request: Fields) -> Fields:
    """Leave out a run's environment: it may hold secrets of its caller."""
    execution = request.get("execution")
    if not isinstance(execution, dict):
        return request
    return {**request, "execution": {key: value for key, value in execution.items() if key != "env"}}


def _fields(stored: Mapping[str, Any]) -> Fields:
    """Return the same fields, with times as text."""
    return {
        name: _time(value) if name.endswith(("_at", "since")) and isinstance(value, int | float) else value
        for name, value in stored.items()
    }


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat().replace("+00:00", "Z")


def _node(event: StoredEvent) -> Fields:
    return {**event.changes, **(_NO_VITALS if "id" in event.changes else {})}


def _health(event: StoredEvent) -> Fields:
    return {**event.changes, "health_since": event.changes.get("health_since") or None}


def _command(event: StoredEvent) -> Fields:
    changes: Fields = dict(event.changes)
    if "truncated_at" in changes:
        changes["kept"] = changes.pop("truncated_at")
        changes["truncated"] = changes["kept"] is not None
    if changes.get("state") in _OVER:
        changes["exit_status"] = exit_status_of(
            changes["state"], changes.get("reason"), changes.get("exit_code"), changes.get("signal")
        )
    return changes


def _operation(event: StoredEvent) -> Fields:
    changes: Fields = {**event.changes, "version": event.version}
    for stored, shown in (("id", "operation_id"), ("created_at", "started_at")):
        if stored in changes:
            changes[shown] = changes.pop(stored)
    if "request" in changes:
        changes["request"] = without_environment(changes["request"])
    if "progress" in changes:
        changes |= _progress(changes.pop("progress"), event.at)
    if "verdict" in changes:
        changes["error"] = _error(changes.pop("verdict"))
    if changes.get("status") in ENDED:
        changes |= {"motion": None, "eta_seconds": None}
    return changes


def _progress(stored: Fields | None, at: float) -> Fields:
    if stored is None:
        return _NO_PROGRESS
    same = {name: stored.get(name, absent) for name, absent in _NO_PROGRESS.items()}
    motion, expected = stored.get("motion"), stored.get("expected_at")
    return {
        **same,
        "motion": motion and _motion(motion),
        "eta_seconds": round(expected - at, 1) if expected is not None and expected > at else None,
        "parts": [_fields(part) for part in stored.get("parts", ())],
    }


def _motion(stored: Fields) -> Fields:
    return {
        "from_percent": stored["low"],
        "to_percent": stored["high"],
        "since": _time(stored["since"]),
        "expected_seconds": stored["expected"],
    }


def _error(verdict: Fields | None) -> Fields | None:
    """Return the error without code and diagnosis, which the verdict alone does not hold."""
    if verdict is None:
        return None
    reason = verdict["reason"]
    return {
        "reason": reason,
        "message": verdict["message"],
        "advice": verdict.get("advice") or ADVICE.get(reason, ""),
        "help": help_for(reason),
        "node_id": verdict.get("node_id"),
    }


def _template(event: StoredEvent) -> Fields:
    changes: Fields = dict(event.changes)
    spec = changes.pop("spec", {})
    cluster = spec.get("cluster")
    tables = {**spec, **({"cluster": _cluster_spec(cluster)} if cluster else {})}
    return {**{name: _table(name, value) for name, value in tables.items()}, **changes}


def _table(name: str, stored: Any) -> Any:
    """Fill in what an integration's table doesn't store: fields that have their default."""
    shape = SHAPES.get(name)
    if shape is None or stored is None:
        return stored
    try:
        return msgspec.to_builtins(msgspec.convert(stored, shape))
    except msgspec.ValidationError:
        return stored  # of an earlier version, whose table was another


def _cluster_spec(spec: Fields) -> Fields:
    pools = [{**pool, "labels": _pairs(pool.get("labels", ()))} for pool in spec["pools"]]
    return {**spec, "tags": _pairs(spec.get("tags", ())), "pools": pools}


def _pairs(stored: Any) -> Any:
    """Read pairs, also from the list of names and values that earlier versions stored."""
    return {pair["name"]: pair["value"] for pair in stored} if isinstance(stored, list | tuple) else stored


_TRANSLATIONS: Mapping[Entity, Callable[[StoredEvent], Fields]] = {
    Entity.NODE: _node,
    Entity.HEALTH: _health,
    Entity.COMMAND: _command,
    Entity.OPERATION: _operation,
    Entity.TEMPLATE: _template,
}
