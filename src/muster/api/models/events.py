"""The event feed over the wire."""

from datetime import datetime
from typing import Any, Self

from pydantic import Field

from muster.api.models.base import EXAMPLE_TIME, Asked, Out, at, example
from muster.api.models.operations import without_environment
from muster.domain.events import Entity, Event

FEED_MOST = 1000
TAIL_MOST = 10_000


class EventOut(Out):
    model_config = example(
        {
            "id": "ev-17",
            "at": EXAMPLE_TIME,
            "entity": "node",
            "entity_id": "node-1hx2k9q0c7m3t8v5e2",
            "version": 3,
            "name": "booted",
            "changes": {"booted_at": 1777887000.0},
            "detail": "",
            "actor": "",
        }
    )

    id: str
    at: datetime
    entity: Entity
    entity_id: str
    version: int
    name: str
    changes: dict[str, Any]
    detail: str
    actor: str
    """Who did it; empty: nobody did, or it isn't known."""

    @classmethod
    def of(cls, event: Event) -> Self:
        return cls(
            id=event.id,
            at=at(event.at),
            entity=event.entity,
            entity_id=event.entity_id,
            version=event.version,
            name=event.name,
            changes=_shown(dict(event.changes)),
            detail=event.detail,
            actor=event.actor,
        )


class EventsAsked(Asked):
    cursor: str | None = None
    limit: int = Field(default=100, ge=1, le=FEED_MOST)
    entity_id: str | None = None
    last: int | None = Field(default=None, ge=1, le=TAIL_MOST)
    """The last so many, instead of a page from `cursor` on; `next` is the end of the feed."""


def _shown(changes: dict[str, Any]) -> dict[str, Any]:
    request = changes.get("request")
    return {**changes, "request": without_environment(request)} if isinstance(request, dict) else changes
