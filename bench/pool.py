"""A warm pool for benchmarks: idle nodes written through the port, as refills would leave them."""

import asyncio

from muster.domain import launch as launches
from muster.domain import node as lifecycle
from muster.domain.ids import NodeId, OperationId, launch_id
from muster.domain.launch import Launch
from muster.domain.lifecycle import NodeState
from muster.domain.node import Node
from muster.domain.operation import Kind, Operation
from muster.domain.requests import RefillRequest
from muster.domain.template import UsageClass
from muster.ports.store import Beat, Store

AT_ONCE = 1000


async def fill(store: Store, template: str, count: int, *, provider: str, now: float, until: float) -> None:
    """Create `count` idle nodes of a template's first revision, last seen `now`, that may stay idle
    `until`."""
    for start in range(0, count, AT_ONCE):
        await _fill(
            store,
            template,
            start=start,
            count=min(AT_ONCE, count - start),
            provider=provider,
            now=now,
            until=until,
        )


async def _fill(
    store: Store, template: str, *, start: int, count: int, provider: str, now: float, until: float
) -> None:
    operation = Operation(
        id=OperationId(f"op-refill-{template}-{start:07d}"),
        kind=Kind.REFILL,
        request=RefillRequest(template=template, revision=1, count=count),
        template=template,
        run=None,
        created_at=now,
        updated_at=now,
        deadline_at=until,
        deadline_source="default",
        lease_owner="bench",
        lease_until=until,
        epoch=1,
    )
    await store.submit(operation)
    planned = Launch(
        id=launch_id(operation.id, 1),
        operation_id=operation.id,
        token=f"token-{template}-{start}",
        template=template,
        revision=1,
        provider=provider,
        resource_class="large",
        usage_class=UsageClass.ON_DEMAND,
        instance_types=("*",),
        count=count,
        created_at=now,
    )
    fence = operation.fence
    await store.limit_installation(10**6, now=now)
    await store.reserve(planned, cap=10**6, total_cap=10**6, fence=fence)
    calling = await store.write_launch(planned, launches.calling(planned, now=now), fence=fence)
    nodes = [_node(planned, number, now, until) for number in range(start, start + count)]
    settled = launches.settled(calling, now=now, adopted=count)
    await store.settle(calling, settled, nodes, fence=fence, now=now)
    await asyncio.gather(*(_pool(store, node, now, until) for node in nodes))
    await store.record_beats([Beat(node_id=node.id, seen_at=now) for node in nodes])


async def _pool(store: Store, node: Node, now: float, until: float) -> None:
    booted = await store.apply(lifecycle.booted(node, now=now, deadline_at=until))
    await store.apply(lifecycle.pool_in(booted, now=now, deadline_at=until))


def _node(launch: Launch, number: int, now: float, until: float) -> Node:
    return Node(
        id=NodeId(f"node-{launch.template}-{number:07d}"),
        template=launch.template,
        revision=launch.revision,
        provider=launch.provider,
        resource_class=launch.resource_class,
        usage_class=launch.usage_class,
        instance_type="m5.large",
        machine_id=f"machine-{launch.template}-{number:07d}",
        launch_id=launch.id,
        state=NodeState.CREATED,
        created_at=now,
        entered_at=now,
        deadline_at=until,
        operation_id=launch.operation_id,
    )
