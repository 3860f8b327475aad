"""Messages of webhooks that were not delivered: shown, and sent again."""

from muster.api.access import Access
from muster.api.context import CallerToken, Ctx
from muster.api.router import Route, Table
from muster.domain.undelivered import LISTED_MOST
from muster.wire.base import Page
from muster.wire.webhooks import MessagesRequest, Undelivered, UndeliveredQuery


async def listed(ctx: Ctx, asked: UndeliveredQuery) -> Page[Undelivered]:
    """List messages that wait to be sent again, and those that were given up; at most 1,000."""
    found = await ctx.ports.messages.undelivered(webhook=asked.webhook, limit=LISTED_MOST)
    return Page(items=tuple(Undelivered.of(each) for each in found))


async def resend(ctx: Ctx, caller: CallerToken, body: MessagesRequest) -> Page[Undelivered]:
    """Send messages again, whether they wait or were given up. Gives them as they are then."""
    sent = await ctx.plane.operator.resend(body.webhook, body.ids, actor=caller.actor)
    return Page(items=tuple(Undelivered.of(each) for each in sent))


async def forget(ctx: Ctx, caller: CallerToken, body: MessagesRequest) -> Page[Undelivered]:
    """Forget messages that were given up. Gives them as they were."""
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
