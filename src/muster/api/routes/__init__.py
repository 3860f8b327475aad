"""The API, one table per noun. `TABLES` is all of it."""

from functools import cache

from starlette.responses import Response

from muster.api.access import Access
from muster.api.openapi import document
from muster.api.router import JSON, Raw, Route, Table
from muster.api.routes import (
    agent,
    clusters,
    commands,
    events,
    health,
    hooks,
    jobs,
    nodes,
    operations,
    overview,
    provisions,
    sign_in,
    templates,
    tokens,
    webhooks,
)
from muster.wire.base import encode


async def openapi() -> Response:
    """Describe this API: the OpenAPI 3.1 document."""
    return Response(described(), media_type=JSON)


@cache
def described() -> bytes:
    return encode(document(TABLES))


TABLES = (
    overview.TABLE,
    provisions.TABLE,
    operations.TABLE,
    clusters.TABLE,
    jobs.TABLE,
    commands.TABLE,
    commands.BLOBS,
    nodes.TABLE,
    templates.TABLE,
    events.TABLE,
    events.AUDIT,
    tokens.TABLE,
    sign_in.TABLE,
    agent.TABLE,
    health.TABLE,
    hooks.TABLE,
    webhooks.TABLE,
    Table(
        "description",
        (Route("GET", "/openapi.json", Access.PUBLIC, openapi, gives=Raw(JSON, '{"openapi": "3.1.0"}')),),
    ),
)
