"""Who changed what: the events that an operator asks about first when something broke."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from muster.domain import undelivered
from muster.domain.event_titles import title_of
from muster.domain.events import Entity, Event
from muster.domain.text import counted

SHOWN = 30
TOGETHER = 60.0
"""Seconds within which the same act on several things is one change."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    id: str
    at: float
    what: str
    text: str
    who: str
    entity: Entity
    entity_id: str
    template: str | None = None
    revision: int | None = None
    detail: str = ""
    count: int = 1
    """How many things it was done to at about that time; the newest is shown."""


def changes(events: Sequence[Event]) -> tuple[Change, ...]:
    """Return the changes, newest first. One act on many nodes is one change."""
    found: list[Change] = []
    for event in events:
        change = _change(event)
        last = found[-1] if found else None
        if last is not None and _same_act(last, change):
            found[-1] = _joined(last)
        else:
            found.append(change)
    return tuple(found[:SHOWN])


def _change(event: Event) -> Change:
    template, revision = _template(event)
    return Change(
        id=event.id,
        at=event.at,
        what=title_of(event.entity, event.name),
        text=_text(event, revision),
        who=event.actor,
        entity=event.entity,
        entity_id=event.entity_id,
        template=template,
        revision=revision,
        detail=event.detail.partition("\n")[0],
    )


def _template(event: Event) -> tuple[str | None, int | None]:
    if event.entity is Entity.TEMPLATE:
        revision = event.changes.get("revision")
        return event.entity_id, revision if isinstance(revision, int) else event.version
    named = event.changes.get("template")
    return (named if isinstance(named, str) else None), None


def _text(event: Event, revision: int | None) -> str:
    named = event.changes.get("name")
    match event.name:
        case "applied":
            return f"template {event.entity_id} applied, revision {revision}"
        case "adjusted":
            return f"template {event.entity_id} adjusted: {event.detail}"
        case "paused" | "resumed":
            return f"{event.entity_id} {event.name}"
        case "acknowledged" | "unacknowledged":
            return f"finding {event.entity_id} {event.name}"
        case "limited":
            return f"cap over all templates set to {event.changes.get('max_nodes')}"
        case "token_added":
            return f"token {named} added, role {event.changes.get('role')}"
        case "token_revoked":
            return f"token {named or event.entity_id} revoked"
        case "orphans_brake":
            return f"orphans of {event.entity_id} left alone: too many"
        case "needs_attention":
            return f"node {event.entity_id} could not be terminated yet"
        case "exited" | "lost":
            return f"shell {event.entity_id} ended"
        case "counter_corrected":
            return f"counter {event.entity_id} corrected"
        case _:
            of_webhook = event.name in undelivered.NEVER_SENT
            of = f"{event.entity_id}:" if of_webhook else f"{event.entity} {event.entity_id}"
            return f"{of} {title_of(event.entity, event.name)}"


def _same_act(newer: Change, older: Change) -> bool:
    named = (newer.what, newer.who, newer.entity) == (older.what, older.who, older.entity)
    several = newer.entity in (Entity.NODE, Entity.OPERATION)
    return named and several and newer.at - older.at <= TOGETHER


def _joined(change: Change) -> Change:
    count = change.count + 1
    return replace(change, count=count, text=f"{counted(count, change.entity.value)} {change.what}")


class Acted(Protocol):
    """An event that may name who caused it, in the store's form or in the API's."""

    @property
    def name(self) -> str: ...
    @property
    def entity(self) -> str: ...
    @property
    def entity_id(self) -> str: ...
    @property
    def actor(self) -> str: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ActFilter:
    """Which acts are wanted. An empty field wants all."""

    who: str = ""
    """A part of the actor's name or token id, in any case of letters."""
    names: tuple[str, ...] = ()
    """Names of events."""
    entity: str = ""
    """A kind of thing, or the id of one."""

    def matches(self, event: Acted) -> bool:
        """Return whether an event is an act, and one of those that are wanted."""
        return (
            bool(event.actor)
            and self.who.lower() in event.actor.lower()
            and (not self.names or event.name in self.names)
            and (not self.entity or self.entity in (event.entity, event.entity_id))
        )
