"""Hooks of integrations: a service elsewhere tells what happened, and proves itself in its own way."""

import asyncio

from starlette.responses import JSONResponse, Response

from muster.api.access import Access
from muster.api.context import Ctx, RawRequest
from muster.api.router import Raw, Route, Table
from muster.domain.errors import NotFound, StoreUnavailable
from muster.ports.duties import Delivery

ANSWER_WITHIN = 9.0
"""Seconds. Senders give up after ten, and most of them don't try again."""


async def take(ctx: Ctx, request: RawRequest, hook: str) -> Response:
    """Take a delivery for the hook of an integration. No token is needed: the sender signs the body."""
    found = ctx.plane.hooks.get(hook)
    if found is None:
        raise NotFound("hook", hook)
    headers = {name.lower(): value for name, value in request.headers.items()}
    delivery = Delivery(headers=headers, body=await request.whole())
    try:
        async with asyncio.timeout(ANSWER_WITHIN):
            answer = await found.take(delivery)
    except TimeoutError as error:
        why = f"the delivery took more than {ANSWER_WITHIN:g} s"
        raise StoreUnavailable(f"cannot take the delivery: {why}", why=why) from error
    return JSONResponse({"message": answer.words}, status_code=answer.status)


TABLE = Table(
    "hooks",
    (
        Route(
            "POST",
            "/hooks/{hook}",
            Access.PUBLIC,
            take,
            takes=Raw("application/json", '{"action": "queued"}'),
            gives=Raw("application/json", '{"message": "job github-29679449 is queued"}'),
        ),
    ),
    root="",
)
