"""A store with more in it than anybody looks at: filled through its port, before a server opens it."""

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from muster.domain.ids import AssignmentId, NodeId
from muster.domain.lifecycle import NodeState
from muster.domain.node import Node, NodeChange, advanced
from muster.domain.operation import Status, Verdict, ended
from muster.domain.reasons import Reason
from muster.domain.template import Runtime, TemplateSpec, UsageClass
from muster.stores.sql import SqlStore
from muster.system import SystemClock, SystemIds
from tests.contracts.store_contract.records import Records
from tests.stores.files import open_store

TEMPLATES = ("shop", "search")
AT_ONCE = 500
FOR_EVER = 1e7
LATE = 99_999
"""The number of the node that comes last."""


def filled(database: Path, *, nodes: int) -> None:
    """With apps as nodes: no machine has to live for one to be there."""

    async def fill(store: SqlStore, now: float) -> None:
        await store.limit_installation(2 * nodes, now=now)
        for name in TEMPLATES:
            spec = TemplateSpec(
                name=name,
                provider="external",
                resource_class="small",
                runtime=Runtime.SERVICE,
                max_nodes=nodes,
            )
            await store.apply_template(spec, now=now)
        await _in_parts(nodes, lambda n: _enrolled(store, n, now))

    _opened(database, fill)


def burst(database: Path, *, events: int) -> None:
    """So many things happen while the server is away: operations come and fail, boots move, a node comes.
    The last of them: a template is paused."""
    operations = events // 20

    async def happen(store: SqlStore, now: float) -> None:
        records = Records(store)
        await _in_parts(operations, lambda _: _failed(records, now))
        page = await store.nodes(states=(NodeState.CREATED,), template=None, after=None, limit=events)
        moves = [_moved(node, now) for node in page.items[: events - 2 * operations - 2]]
        for start in range(0, len(moves), AT_ONCE):
            await store.apply_all(moves[start : start + AT_ONCE])
        await _enrolled(store, LATE, now)
        await store.access.pause(TEMPLATES[1], paused=True, now=now, actor="the burst")

    _opened(database, happen)


async def _failed(records: Records, now: float) -> None:
    """Two events: it is submitted, and it ends."""
    operation = await records.leased(now=now, until=now + 60.0)
    verdict = Verdict(reason=Reason.CAPACITY, message="there is no room", node_id=None)
    change = ended(operation, Status.FAILED, now=now, progress=None, verdict=verdict)
    await records.store.write_operation(change, fence=operation.fence)


def _moved(node: Node, now: float) -> NodeChange:
    change = advanced(node, phase=node.phase, step="warming caches", now=now)
    assert change is not None, "its boot had not come so far"
    return change


def _opened(database: Path, act: Callable[[SqlStore, float], Awaitable[None]]) -> None:
    """In a thread of its own: the browser's driver has a loop in this one."""

    async def opened() -> None:
        store = open_store(database, ids=SystemIds())
        try:
            await act(store, SystemClock().now())
        finally:
            await store.close()

    with ThreadPoolExecutor(1) as beside:
        beside.submit(lambda: asyncio.run(opened())).result()


async def _in_parts(count: int, act: Callable[[int], Awaitable[object]]) -> None:
    for start in range(0, count, AT_ONCE):
        await asyncio.gather(*(act(n) for n in range(start, min(start + AT_ONCE, count))))


async def _enrolled(store: SqlStore, n: int, now: float) -> Node:
    node = Node(
        id=NodeId(f"node-{n:05d}"),
        template=TEMPLATES[n % len(TEMPLATES)],
        revision=1,
        provider="external",
        resource_class="small",
        usage_class=UsageClass.ON_DEMAND,
        instance_type="app",
        machine_id=f"app-{n:05d}",
        launch_id=None,
        state=NodeState.CREATED,
        created_at=now,
        entered_at=now,
        assignment_id=AssignmentId(f"as-{n:05d}"),
    )
    return await store.enrol(
        node, boot_id="boot-1", key_hash=f"key-{n}", token_hash=f"token-{n}", stale_after=FOR_EVER, now=now
    )
