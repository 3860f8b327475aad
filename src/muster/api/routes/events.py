"""The event feed: in pages, or as a stream that goes on."""

from starlette.responses import Response, StreamingResponse

from muster.api import streams
from muster.api.access import Access
from muster.api.context import CallerPermit, Ctx, LastEventId, RawRequest
from muster.api.router import Route, Table
from muster.domain.errors import InvalidRequest
from muster.ports.store import Cursor
from muster.wire.base import Page
from muster.wire.events import Event, EventsQuery


async def feed(
    ctx: Ctx,
    permit: CallerPermit,
    request: RawRequest,
    asked: EventsQuery,
    last_event_id: LastEventId = None,
) -> Page[Event] | Response:
    """Read the event feed: complete, at least once, in order per entity.

    JSON pages by default, or the `last` so many; with `Accept: text/event-stream` a stream that goes on. It
    starts after Last-Event-ID, else after `cursor`, else with the oldest event there is.
    """
    place = asked.cursor
    if asked.last is not None and place is not None:
        raise InvalidRequest("last", asked.last, "must not come with a cursor: use one of both")
    streamed = streams.MEDIA_TYPE in request.headers.get("accept", "")
    if streamed and last_event_id:
        place = last_event_id
    after = Cursor(place) if place is not None else None
    if streamed:
        # An unknown place is refused before the stream begins.
        await ctx.ports.store.events(after=after, limit=1, entity_id=asked.entity_id)
        body = streams.feed(ctx, permit, after=after, entity_id=asked.entity_id)
        return StreamingResponse(body, media_type=streams.MEDIA_TYPE, headers=streams.HEADERS)
    if asked.last is not None:
        page = await ctx.ports.store.last_events(limit=asked.last, entity_id=asked.entity_id)
    else:
        page = await ctx.ports.store.events(after=after, limit=asked.limit, entity_id=asked.entity_id)
    return Page(items=tuple(Event.of(event) for event in page.items), next=page.next)


TABLE = Table("events", (Route("GET", "/events", Access.VIEWER, feed),))
