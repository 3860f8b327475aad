"""The event feed, in pages or as a stream that goes on; and who did what, for admins."""

from math import inf

from starlette.responses import Response, StreamingResponse

from muster.api import streams
from muster.api.access import Access
from muster.api.context import CallerPermit, Ctx, LastEventId, RawRequest
from muster.api.router import Route, Table
from muster.domain.errors import InvalidRequest
from muster.domain.events import Event as Act
from muster.domain.recent_changes import ActFilter
from muster.ports.store import Cursor
from muster.wire.base import Page
from muster.wire.events import AuditQuery, Event, EventsQuery

EXAMINED_MOST = 10
"""Pages that one request may read to find a match. An answer without items may still say where to go on."""


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


async def audit(ctx: Ctx, asked: AuditQuery) -> Page[Event]:
    """List what people and programs did, oldest first. Follow `next` to the end, also after an empty page."""
    wanted = ActFilter(who=asked.who or "", names=asked.action, entity=asked.entity or "")
    until = inf if asked.until is None else asked.until.timestamp()
    since = 0.0 if asked.since is None else asked.since.timestamp()
    after = None if asked.cursor is None else Cursor(asked.cursor)
    found: list[Act] = []
    for _ in range(EXAMINED_MOST):
        page = await ctx.ports.overview.acts(since=since, after=after, limit=asked.limit)
        found = [act for act in page.items if act.at < until and wanted.matches(act)]
        over = bool(page.items) and page.items[-1].at >= until
        after = None if over else page.next
        if found or after is None:
            break
    return Page(items=tuple(Event.of(act) for act in found), next=after)


AUDIT = Table("audit", (Route("GET", "/audit", Access.ADMIN, audit),))
