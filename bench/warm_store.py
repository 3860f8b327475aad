"""A data directory with warm nodes in it, each with a token that speaks for it: as if agents had joined."""

import asyncio
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import muster.agent
from bench.pool import fill
from muster.discovery import installed
from muster.domain import node as lifecycle
from muster.domain.access import hashed
from muster.domain.lifecycle import NodeState
from muster.domain.node import Node
from muster.domain.template import TemplateSpec
from muster.ports.runtime import NodeRuntime
from muster.ports.store import Cursor, Store
from muster.serve import outfit
from muster.stores.dynamodb import DynamoStore
from muster.stores.sql import SqlStore, open_sqlite
from muster.system import SystemIds

DAY = 86_400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Warm:
    token: str
    version: int
    """Of the node's record, as its agent knows it."""


async def warm(data: Path, count: int, **given: Any) -> list[Warm]:
    """Prepare a warm store. `given`: as for `warmed`."""
    return await warmed(open_sqlite(data / "muster.db", ids=SystemIds()), count, **given)


async def warmed(
    store: SqlStore | DynamoStore,
    count: int,
    *,
    template: str = "warm",
    serves: NodeRuntime | None = None,
    **fields: Any,
) -> list[Warm]:
    """Create warm nodes and close the store. `fields`: of the template.

    The template has the tables and the nodes have the outfit of the server that will start, or it would
    retire them.
    """
    now = time.time()
    await store.limit_installation(10**5, now=now)
    spec = TemplateSpec(name=template, provider="process", max_nodes=10**5, idle_timeout=DAY, **fields)
    parts = installed().template_tables.values()
    tables = {part.name: whole for part in parts if (whole := part.whole(spec)) is not None}
    spec = replace(spec, tables=tables, outfit=outfit(spec, lambda _spec: muster.agent.source(), serves))
    await store.apply_template(spec, now=now)
    await fill(store, template, count, provider="process", now=now, until=now + DAY)
    found: list[Warm] = []
    cursor: Cursor | None = None
    while True:
        page = await store.nodes(states=(NodeState.IDLE,), template=template, after=cursor, limit=500)
        found += await asyncio.gather(*(_admitted(store, node, now) for node in page.items))
        cursor = page.next
        if cursor is None:
            break
    await store.close()
    assert len(found) == count
    return found


async def _admitted(store: Store, node: Node, now: float) -> Warm:
    token = f"a-token-as-long-as-a-real-one-is-{node.id}"
    change = lifecycle.joined(node, boot_id="boot-1", now=now)
    await store.admit(change, node.id, key_hash=hashed(node.id), token_hash=hashed(token))
    return Warm(token=token, version=change.after.version)
