"""Who did what: the events that name an actor, for admins, filtered.

The event feed is the audit trail. This module reads it by the index of acts and keeps no record of its own.
"""

from math import inf

from muster.api.access import Access
from muster.api.context import Ctx
from muster.api.router import Route, Table
from muster.domain.events import Event as Act
from muster.domain.recent_changes import ActFilter
from muster.ports.store import Cursor
from muster.wire.base import Page
from muster.wire.events import AuditQuery, Event

EXAMINED_MOST = 10
"""Pages that one request may read to find a match. An answer without items may still say where to go on."""


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


TABLE = Table("audit", (Route("GET", "/audit", Access.ADMIN, audit),))
