"""Messages of webhooks that were not delivered: shown, and sent again."""

from muster.api.access import Access
from muster.api.context import CallerToken, Ctx
from muster.api.router import Route, Table
from muster.ports.store import Cursor
from muster.wire.base import Page
from muster.wire.webhooks import MessagesRequest, Undelivered, UndeliveredQuery


async def listed(ctx: Ctx, asked: UndeliveredQuery) -> Page[Undelivered]:
    """List messages that wait to be sent again, and those that were given up, by id."""
    page = await ctx.ports.messages.undelivered(
        webhook=asked.webhook,
        after=Cursor(asked.cursor) if asked.cursor is not None else None,
        limit=asked.limit,
    )
    return Page(items=tuple(Undelivered.of(each) for each in page.items), next=page.next)


async def resend(ctx: Ctx, caller: CallerToken, body: MessagesRequest) -> Page[Undelivered]:
    """Send messages again, whether they wait or were given up. Gives them as they are then.

    Those that are not kept any more are left out of the answer, so a repeat does no harm.
    """
    sent = await ctx.plane.operator.resend(body.webhook, body.ids, actor=caller.actor)
    return Page(items=tuple(Undelivered.of(each) for each in sent))


async def forget(ctx: Ctx, caller: CallerToken, body: MessagesRequest) -> Page[Undelivered]:
    """Forget messages that were given up. Gives them as they were.

    Those that are not kept any more are left out of the answer, so a repeat does no harm.
    """
    forgotten = await ctx.plane.operator.forget(body.webhook, body.ids, actor=caller.actor)
    return Page(items=tuple(Undelivered.of(each) for each in forgotten))


TABLE = Table(
    "webhooks",
    (
        Route("GET", "/webhooks/undelivered", Access.VIEWER, listed),
        Route("POST", "/webhooks/resend", Access.OPERATOR, resend),
        Route("POST", "/webhooks/forget", Access.OPERATOR, forget),
    ),
)
