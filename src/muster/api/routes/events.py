"""The event feed: in pages, or as a stream that goes on."""

from typing import Annotated

from fastapi import Query, Request, Response
from starlette.responses import JSONResponse, StreamingResponse

from muster.api import streams
from muster.api.access import Access
from muster.api.context import Here, Permitted
from muster.api.models.base import PageOut
from muster.api.models.events import EventOut, EventsAsked
from muster.api.routes.operations import LastEventId
from muster.api.routing import Raw, Route, Table
from muster.domain.errors import InvalidRequest
from muster.ports.store import Cursor


class EventPage(PageOut[EventOut]):
    pass


async def feed(
    ctx: Here,
    permit: Permitted,
    request: Request,
    asked: Annotated[EventsAsked, Query()],
    last_event_id: LastEventId = None,
) -> Response:
    """Read the event feed: complete, at least once, in order per entity.

    JSON pages by default, or the `last` so many; with `Accept: text/event-stream` a stream that goes on. It
    starts after Last-Event-ID, else after `cursor`, else with the oldest event there is.
    """
    place = asked.cursor
    if asked.last is not None and place is not None:
        raise InvalidRequest(
            "last", asked.last, "must not come with a cursor: one of both says where to begin"
        )
    streamed = streams.MEDIA_TYPE in request.headers.get("accept", "")
    if streamed and last_event_id:
        place = last_event_id
    after = Cursor(place) if place is not None else None
    if streamed:
        # A place that nobody gave is refused before the stream begins.
        await ctx.ports.store.events(after=after, limit=1, entity_id=asked.entity_id)
        body = streams.feed(ctx, permit, after=after, entity_id=asked.entity_id)
        return StreamingResponse(body, media_type=streams.MEDIA_TYPE, headers=streams.HEADERS)
    if asked.last is not None:
        page = await ctx.ports.store.last_events(limit=asked.last, entity_id=asked.entity_id)
    else:
        page = await ctx.ports.store.events(after=after, limit=asked.limit, entity_id=asked.entity_id)
    shown = EventPage(items=[EventOut.of(event) for event in page.items], next=page.next)
    return JSONResponse(shown.model_dump(mode="json"))


_EXAMPLE = Raw(
    "application/json", '{"items": [{"id": "ev-17", "entity": "node", "name": "booted"}], "next": "…"}'
)

TABLE = Table("events", (Route("GET", "/events", Access.VIEWER, feed, gives=_EXAMPLE),))
