"""Records for the contract suite, made only through the port."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import count

from muster.domain import launch as launches
from muster.domain import node as lifecycle
from muster.domain import operation as operations
from muster.domain.command import Execution, Variable
from muster.domain.ids import AssignmentId, ClusterId, NodeId, OperationId, launch_id
from muster.domain.launch import Launch
from muster.domain.lifecycle import NodeState
from muster.domain.matching import Demand
from muster.domain.node import Binding, Node
from muster.domain.operation import Fence, Kind, Operation
from muster.domain.progress import Progress
from muster.domain.requests import (
    ClusterCreateRequest,
    ClusterDeleteRequest,
    ProvisionRequest,
    RefillRequest,
    ReleaseRequest,
    Request,
    RunRequest,
)
from muster.domain.template import Reuse, UsageClass
from muster.ports.store import Beat, Store

EVERY_STATE = tuple(NodeState)
DEMAND = Demand(
    template="web",
    revision=1,
    resource_class="large",
    usage=(UsageClass.ON_DEMAND,),
    instance_types=("*",),
    reuse=Reuse.SAME_OWNER,
    owner="acme",
)
_REQUESTS: dict[Kind, Request] = {
    Kind.PROVISION: ProvisionRequest(template="web", count=2, run="run-1", owner="acme"),
    Kind.RELEASE: ReleaseRequest(operation_id=OperationId("op-0")),
    Kind.RUN: RunRequest(
        provision=ProvisionRequest(template="web", count=1, run="run-1"),
        execution=Execution(argv=("make", "test"), env=(Variable(name="CI", value="1"),)),
    ),
    Kind.REFILL: RefillRequest(template="web", revision=1, count=2),
    Kind.CLUSTER_CREATE: ClusterCreateRequest(name="c1", template="batch"),
    Kind.CLUSTER_DELETE: ClusterDeleteRequest(cluster_id=ClusterId("cl-1")),
}


class Records:
    """A store with what a test needs already in it."""

    def __init__(self, store: Store, *, numbers: Iterator[int] | None = None) -> None:
        self.store = store
        self._numbers = numbers or count(1)

    def draft(
        self,
        *,
        kind: Kind = Kind.PROVISION,
        request: Request | None = None,
        key: str | None = None,
        run: str | None = "run-1",
        now: float = 1.0,
    ) -> Operation:
        return Operation(
            id=OperationId(f"op-{next(self._numbers):04d}"),
            kind=kind,
            request=request or _REQUESTS[kind],
            template="web",
            run=run,
            idempotency_key=key,
            created_at=now,
            updated_at=now,
            deadline_at=now + 900.0,
            deadline_source="default",
        )

    async def submitted(self, *, kind: Kind = Kind.PROVISION, now: float = 1.0) -> Operation:
        operation, _ = await self.store.submit(self.draft(kind=kind, now=now))
        return operation

    async def leased(self, *, owner: str = "replica-a", now: float = 1.0, until: float = 1e6) -> Operation:
        """A new operation under its first lease, as a submission may bring along."""
        draft = self.draft(now=now)
        draft = replace(draft, lease_owner=owner, lease_until=until, epoch=1)
        operation, _ = await self.store.submit(draft)
        return operation

    async def queued(self, operation: Operation) -> Operation:
        """In its template's queue, holding nothing."""
        progress = Progress(step=1, total_steps=5, phase="selecting", label="Selecting", percent=0.0)
        change = operations.queued(operation, progress, now=operation.created_at)
        return await self.store.write_operation(change, fence=operation.fence)

    async def taken_over(self, *, now: float = 1.0) -> tuple[Operation, Fence]:
        """A leased operation, and the fence of its earlier driver, which is worth nothing any more."""
        operation = await self.leased(now=now, until=now)
        (taken,) = await self.store.lease("replica-b", now=now, until=1e6, limit=1)
        assert taken.id == operation.id
        return taken, operation.fence

    def plan(
        self,
        operation: Operation,
        *,
        ordinal: int = 1,
        size: int = 1,
        template: str = "web",
        now: float = 1.0,
        usage: UsageClass = UsageClass.ON_DEMAND,
    ) -> Launch:
        name = launch_id(operation.id, ordinal)
        return Launch(
            id=name,
            operation_id=operation.id,
            token=f"inst/{name}",
            template=template,
            revision=1,
            provider="simulated",
            resource_class="large",
            usage_class=usage,
            instance_types=("*",),
            count=size,
            created_at=now,
        )

    async def called(self, launch: Launch, fence: Fence, *, cap: int = 10_000) -> Launch:
        if launch.count > (await self.store.installation()).max_nodes:
            await self.store.limit_installation(cap, now=launch.created_at)
        planned = await self.store.reserve(launch, cap=cap, total_cap=cap, fence=fence)
        after = launches.calling(planned, now=launch.created_at)
        return await self.store.write_launch(planned, after, fence=fence)

    def machine(
        self,
        launch: Launch | None,
        *,
        state: NodeState = NodeState.CREATED,
        machine_id: str | None = None,
        bound: bool = True,
        now: float = 2.0,
        deadline_at: float | None = 500.0,
        revision: int = 1,
        resource_class: str = "large",
        instance_type: str = "m5.large",
    ) -> Node:
        number = next(self._numbers)
        return Node(
            id=NodeId(f"node-{number:04d}"),
            template="web" if launch is None else launch.template,
            revision=revision,
            provider="simulated",
            resource_class=resource_class,
            usage_class=UsageClass.ON_DEMAND if launch is None else launch.usage_class,
            instance_type=instance_type,
            machine_id=machine_id or f"m-{number:04d}",
            launch_id=None if launch is None else launch.id,
            state=state,
            created_at=now,
            entered_at=now,
            deadline_at=deadline_at if state is NodeState.CREATED else None,
            operation_id=launch.operation_id if launch and bound else None,
            assignment_id=AssignmentId(f"as-{number:04d}") if launch and bound else None,
            run="run-1" if launch and bound else None,
            owner="acme" if launch and bound else None,
        )

    async def adopted(self, launch: Launch, nodes: Sequence[Node], *, fence: Fence | None = None) -> Launch:
        after = launches.settled(launch, now=2.0, adopted=len(nodes))
        return await self.store.settle(launch, after, nodes, fence=fence, now=2.0)

    async def created(self, operation: Operation, size: int, *, ordinal: int = 1) -> list[Node]:
        launch = await self.called(self.plan(operation, size=size, ordinal=ordinal), operation.fence)
        nodes = [self.machine(launch) for _ in range(size)]
        await self.adopted(launch, nodes, fence=operation.fence)
        return nodes

    async def idle(
        self,
        size: int,
        *,
        seen_at: float | None = 100.0,
        entered_at: float = 4.0,
        deadline_at: float = 500.0,
        usage: UsageClass = UsageClass.ON_DEMAND,
        revision: int = 1,
        resource_class: str = "large",
        instance_type: str = "m5.large",
    ) -> list[Node]:
        operation = await self.leased()
        launch = await self.called(self.plan(operation, size=size, usage=usage), operation.fence)
        made = [
            self.machine(
                launch,
                bound=False,
                revision=revision,
                resource_class=resource_class,
                instance_type=instance_type,
            )
            for _ in range(size)
        ]
        await self.adopted(launch, made, fence=operation.fence)
        idle = []
        for node in made:
            up = await self.store.apply(lifecycle.booted(node, now=3.0, deadline_at=deadline_at))
            change = lifecycle.pool_in(up, now=entered_at, deadline_at=deadline_at)
            idle.append(await self.store.apply(change))
        if seen_at is not None:
            await self.store.record_beats([Beat(node_id=node.id, seen_at=seen_at) for node in idle])
        return idle

    async def served(self, owner: str, *, entered_at: float = 4.0) -> Node:
        """An idle node that was a run's of that owner before."""
        operation = await self.leased()
        (node,) = await self.created(operation, 1)
        up = await self.store.apply(lifecycle.booted(node, now=3.0, deadline_at=500.0))
        bound = await self.store.apply(lifecycle.attached(up, now=3.0, deadline_at=500.0))
        given = await self.store.apply(lifecycle.release(bound, now=3.0, deadline_at=500.0))
        idle = await self.store.apply(lifecycle.clean(given, now=entered_at, deadline_at=500.0))
        await self.store.record_beats([Beat(node_id=idle.id, seen_at=100.0)])
        assert idle.last_owner == "acme"
        return idle if owner == "acme" else await self._reowned(idle, owner, entered_at)

    async def _reowned(self, node: Node, owner: str, entered_at: float) -> Node:
        operation = await self.leased()
        demand = replace(DEMAND, owner=owner, reuse=Reuse.ALWAYS)
        binding = Binding(
            operation_id=operation.id, assignment_id=AssignmentId(f"as-{owner}"), run="r", owner=owner
        )
        (claimed,) = await self.store.claim(
            demand, [binding], fence=operation.fence, seen_since=0.0, now=4.0, deadline_at=500.0
        )
        assert claimed.id == node.id, "serve nodes of other owners first"
        bound = await self.store.apply(lifecycle.attached(claimed, now=4.0, deadline_at=500.0))
        given = await self.store.apply(lifecycle.release(bound, now=4.0, deadline_at=500.0))
        return await self.store.apply(lifecycle.clean(given, now=entered_at, deadline_at=500.0))

    def bindings(self, operation: Operation, size: int) -> list[Binding]:
        return [
            Binding(
                operation_id=operation.id,
                assignment_id=AssignmentId(f"as-{next(self._numbers):04d}"),
                run="run-1",
                owner="acme",
            )
            for _ in range(size)
        ]

    async def claim(
        self,
        operation: Operation,
        size: int,
        *,
        demand: Demand = DEMAND,
        seen_since: float = 90.0,
        now: float = 100.0,
    ) -> Sequence[Node]:
        return await self.store.claim(
            demand,
            self.bindings(operation, size),
            fence=operation.fence,
            seen_since=seen_since,
            now=now,
            deadline_at=now + 30.0,
        )
