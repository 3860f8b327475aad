"""Warm nodes for a scenario's beginning, made through the ports alone: no replica takes part."""

from typing import TYPE_CHECKING

from muster.domain import launch as launches
from muster.domain import node as nodes
from muster.domain import operation as operations
from muster.domain.ids import NodeId, OperationId
from muster.domain.lifecycle import NodeState
from muster.domain.node import Node
from muster.domain.operation import Kind, Operation, Status
from muster.domain.requests import RefillRequest
from muster.domain.template import RESOURCE_CLASSES
from muster.operations.launcher import planned
from muster.ports.provider import LaunchRequest, Machine

if TYPE_CHECKING:
    from tests.harness.harness import Harness

LOTS = 1_000_000
BOOT_SECONDS = 720.0


async def warm(harness: "Harness", count: int, name: str) -> list[Node]:
    template = await harness.store.template(name)
    operation = await _operation(harness, name, template.revision, count)
    installation = await harness.store.installation()
    launch = planned(
        operation.id,
        1,
        installation_id=installation.id,
        template=template,
        resource_class=template.spec.resource_class,
        usage_class=template.spec.usage[0],
        instance_types=template.spec.instance_types,
        count=count,
        now=harness.now,
    )
    store, fence = harness.store, operation.fence
    await store.reserve(launch, cap=LOTS, total_cap=LOTS, fence=fence)
    called = await store.write_launch(launch, launches.calling(launch, now=harness.now), fence=fence)
    request = LaunchRequest(
        token=launch.token,
        launch_id=launch.id,
        installation_id=installation.id,
        template=template.spec,
        revision=template.revision,
        resource_class=RESOURCE_CLASSES[launch.resource_class],
        usage_class=launch.usage_class,
        instance_types=launch.instance_types,
        count=count,
    )
    answer = await harness.cloud.launch(request)
    made = [_created(harness, called, machine) for machine in answer.machines]
    settled = launches.settled(called, now=harness.now, adopted=count)
    await store.settle(called, settled, made, fence=fence, now=harness.now)
    idle = [await _pooled(harness, node.id, template.spec.idle_timeout) for node in made]
    await harness.enrolment.heartbeats.flush()
    current = await store.operation(operation.id)
    end = operations.ended(current, Status.SUCCEEDED, now=harness.now, progress=None)
    await store.write_operation(end, fence=fence)
    return idle


async def _operation(harness: "Harness", name: str, revision: int, count: int) -> Operation:
    operation = Operation(
        id=OperationId(harness.ids.new("op")),
        kind=Kind.REFILL,
        request=RefillRequest(template=name, revision=revision, count=count),
        template=name,
        run=None,
        created_at=harness.now,
        updated_at=harness.now,
        deadline_at=harness.now + BOOT_SECONDS,
        deadline_source="harness",
        lease_owner="harness",
        lease_until=harness.now + BOOT_SECONDS,
        epoch=1,
    )
    await harness.store.submit(operation)
    return operation


def _created(harness: "Harness", launch: launches.Launch, machine: Machine) -> Node:
    return Node(
        id=NodeId(harness.ids.new("node")),
        template=launch.template,
        revision=launch.revision,
        provider=launch.provider,
        resource_class=launch.resource_class,
        usage_class=machine.usage_class,
        instance_type=machine.instance_type,
        machine_id=machine.id,
        launch_id=launch.id,
        state=NodeState.CREATED,
        created_at=harness.now,
        entered_at=harness.now,
        deadline_at=harness.now + BOOT_SECONDS,
        deadline_source="harness",
        operation_id=launch.operation_id,
    )


async def _pooled(harness: "Harness", node_id: NodeId, idle_timeout: float) -> Node:
    async def has_booted() -> bool:
        return (await harness.node(node_id)).up

    await harness.until(has_booted)
    node = await harness.node(node_id)
    change = nodes.pool_in(node, now=harness.now, deadline_at=harness.now + idle_timeout)
    return await harness.store.apply(change)
