"""The API, one table per noun. `TABLES` is all of it."""

from muster.api.routes import (
    agent,
    blobs,
    clusters,
    commands,
    events,
    health,
    nodes,
    operations,
    overview,
    provisions,
    templates,
    tokens,
)

TABLES = (
    overview.TABLE,
    provisions.TABLE,
    operations.TABLE,
    clusters.TABLE,
    commands.TABLE,
    blobs.TABLE,
    nodes.TABLE,
    templates.TABLE,
    events.TABLE,
    tokens.TABLE,
    agent.TABLE,
    health.TABLE,
)
