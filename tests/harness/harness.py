"""Everything that a scenario needs, and the ways to look at it. Waits in virtual time, on events."""

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import replace
from random import Random
from typing import Any, Concatenate, ParamSpec, TypeVar

from muster.discovery import installed
from muster.domain.command import Command, Execution
from muster.domain.events import Entity, Event
from muster.domain.ids import NodeId, OperationId
from muster.domain.launch import Launch
from muster.domain.lifecycle import LIVE, NodeState
from muster.domain.node import Node
from muster.domain.operation import Kind, Operation, Status
from muster.domain.requests import ProvisionRequest, ReleaseRequest, RunRequest
from muster.domain.settings import Settings
from muster.domain.template import Template, TemplateSpec
from muster.operations.watch import WatchTracker
from muster.plane import ControlPlane, Ports
from muster.ports.wakeups import EVENTS
from muster.stores.announcements import announcer
from muster.stores.sql import SqlStore, open_sqlite
from muster.stores.wakeups import LocalWakeups
from muster_simulation.arm import Arm, Paces, SimulatedClusters
from muster_simulation.ids import SeededIds
from muster_simulation.life import Life
from muster_simulation.loop import VirtualClock, run
from tests.harness import warm_nodes
from tests.harness.agents import Agents, new_enrolment
from tests.harness.cloud import Cloud, CloudProvider, CloudVerifier
from tests.harness.interceptor import (
    CallInterceptor,
    watched_cluster_store,
    watched_clusters,
    watched_commands,
    watched_jobs,
    watched_provider,
    watched_store,
)

P = ParamSpec("P")
T = TypeVar("T")

LIMIT = 86_400.0
"""Virtual seconds that a scenario may take."""
ALL = tuple(NodeState)


class Replica:
    """One control plane in its own Life. What is asked of it runs there too, so a kill cuts it off."""

    def __init__(self, name: str, ports: Ports, settings: Settings) -> None:
        self.name = name
        self.life = Life(name)
        self.interceptor = CallInterceptor()
        store = watched_store(ports.store, self.interceptor)
        providers = {
            key: watched_provider(provider, self.interceptor) for key, provider in ports.providers.items()
        }
        commands = watched_commands(ports.commands, self.interceptor)
        azures = {
            key: watched_clusters(provider, self.interceptor)
            for key, provider in ports.cluster_providers.items()
        }
        ports = replace(
            ports,
            store=store,
            commands=commands,
            clusters=watched_cluster_store(ports.clusters, self.interceptor),
            jobs=watched_jobs(ports.jobs, self.interceptor),
            providers=providers,
            cluster_providers=azures,
        )
        self.plane = ControlPlane(ports, owner=name, settings=settings)
        self._running = self.life.spawn(self.plane.run(), name=name)

    @property
    def broken(self) -> bool:
        """Whether it ended by itself."""
        return self.life.alive and self._running.done()

    async def ask(self, question: Coroutine[Any, Any, T]) -> T:
        """An answer from this replica. Raises ConnectionError if it dies first."""
        task = self.life.spawn(question)
        while not task.done():
            if not self.life.alive:
                raise ConnectionError(f"{self.name} is dead")
            await asyncio.wait({task}, timeout=1.0)
        return task.result()

    async def provision(
        self, count: int = 1, *, run: str = "run-1", key: str | None = None, template: str = "ci", **more: Any
    ) -> Operation:
        request = ProvisionRequest(template=template, count=count, run=run, **more)
        return await self.ask(self.plane.desk.provision(request, key=key))

    async def run(
        self,
        count: int = 1,
        *,
        run: str = "run-1",
        key: str | None = None,
        argv: tuple[str, ...] = ("make",),
        **more: Any,
    ) -> Operation:
        provision = ProvisionRequest(template="ci", count=count, run=run, **more)
        request = RunRequest(provision=provision, execution=Execution(argv=argv))
        return await self.ask(self.plane.desk.run(request, key=key))

    async def release(
        self, operation_id: OperationId, *assignments: Any, key: str | None = None
    ) -> Operation:
        request = ReleaseRequest(operation_id=operation_id, assignment_ids=tuple(assignments) or None)
        return await self.ask(self.plane.desk.release(request, key=key))

    async def cancel(self, operation_id: OperationId) -> Operation:
        return await self.ask(self.plane.desk.cancel(operation_id))


class Harness:
    def __init__(self, store: SqlStore, wakeups: LocalWakeups, clock: VirtualClock, ids: SeededIds) -> None:
        self.store = store
        self.wakeups = wakeups
        self.clock = clock
        self.ids = ids
        self.settings = Settings()
        self.cloud = Cloud(clock)
        self.provider = CloudProvider(self.cloud)
        self.arm = Arm(clock.now, Paces(create=60.0, pool=20.0, abort=10.0, delete=30.0, group_delete=10.0))
        self.clusters = SimulatedClusters(self.arm)
        self.ports = Ports(
            store=store,
            commands=store.commands,
            access=store.access,
            overview=store.overview,
            clusters=store.clusters,
            jobs=store.jobs,
            messages=store.messages,
            outgoing=frozenset({"ops", "chat"}),
            clock=clock,
            ids=ids,
            wakeups=wakeups,
            providers={"cloud": self.provider},
            cluster_providers={self.clusters.name: self.clusters},
            template_parts=tuple(installed().template_tables.values()),
            request_parts=tuple(installed().request_tables.values()),
            verifier=CloudVerifier(self.cloud),
        )
        self.enrolment = new_enrolment(self.ports, self.settings)
        """The agents' way in. Belongs to no replica, so that agents outlive all of them."""
        self.watch_tracker = WatchTracker(store, clock, self.settings.limits)
        self.agents = Agents(self.enrolment, self.cloud)
        self.complaints: list[logging.LogRecord] = []
        """What was logged as an error. A scenario that expects one takes it out."""
        self._replicas: list[Replica] = []
        self._kept: list[asyncio.Task[None]] = []
        self.keep(asyncio.create_task(self.enrolment.heartbeats.run()))

    @property
    def now(self) -> float:
        return self.clock.now()

    @property
    def loop_time(self) -> float:
        return asyncio.get_running_loop().time()

    async def replica(self, **ports: Any) -> Replica:
        """A new replica. `ports`: those of its own."""
        name = f"replica-{len(self._replicas) + 1}"
        replica = Replica(name, replace(self.ports, **ports), self.settings)
        self._replicas.append(replica)
        for _ in range(4):  # until its driver leases
            await asyncio.sleep(0)
        return replica

    def keep(self, task: asyncio.Task[None]) -> None:
        """A task of the scenario that goes on until its end."""
        self._kept.append(task)

    async def template(self, name: str = "ci", **fields: Any) -> Template:
        return await self.store.apply_template(
            TemplateSpec(name=name, provider="cloud", **fields), now=self.now
        )

    async def cap(self, max_nodes: int) -> None:
        await self.store.limit_installation(max_nodes, now=self.now)

    async def warm(self, count: int, template: str = "ci") -> list[Node]:
        """Idle nodes with living agents, made through the ports alone, in no time."""
        return await warm_nodes.warm(self, count, template)

    # --- looking ----------------------------------------------------------------------------------

    async def operation(self, operation_id: OperationId) -> Operation:
        return await self.store.operation(operation_id)

    async def nodes(self, *states: NodeState, template: str | None = None) -> list[Node]:
        page = await self.store.nodes(states=states or ALL, template=template, after=None, limit=1000)
        return list(page.items)

    async def node(self, node_id: NodeId) -> Node:
        return await self.store.node(node_id)

    async def of(self, operation_id: OperationId) -> list[Node]:
        return list((await self.store.view(operation_id)).nodes)

    async def launches(self, operation_id: OperationId) -> Sequence[Launch]:
        return (await self.store.view(operation_id)).launches

    async def used(self, template: str = "ci") -> int:
        return (await self.store.usage(template)).template

    async def events(self, entity_id: str | None = None, name: str | None = None) -> list[Event]:
        found: list[Event] = []
        cursor = None
        while True:
            page = await self.store.events(after=cursor, limit=1000, entity_id=entity_id)
            found += [event for event in page.items if name is None or event.name == name]
            cursor = page.next
            if len(page.items) < 1000:
                return found

    async def history(self, node_id: NodeId) -> list[str]:
        """What happened to a node's record, by name."""
        return [event.name for event in await self.events(node_id) if event.entity is Entity.NODE]

    async def commands(self, run: str | None = None) -> list[Command]:
        """By their place in their run."""
        page = await self.store.commands.commands(run=run, after=None, limit=1000)
        return sorted(page.items, key=lambda command: (command.created_at, command.ordinal))

    # --- waiting ----------------------------------------------------------------------------------

    async def until(self, holds: Callable[[], Awaitable[bool]], *, within: float = 3600.0) -> None:
        listener = self.wakeups.listen((EVENTS,))
        end = self.now + within
        while not await holds():
            if self.now >= end:
                raise AssertionError(f"it did not come true within {within} s: {inspect.getsource(holds)}")
            await listener.wait(min(1.0, end - self.now))
        listener.close()

    async def ended(self, operation: Operation, *, within: float = 3600.0) -> Operation:
        async def has_ended() -> bool:
            return (await self.operation(operation.id)).ended

        await self.until(has_ended, within=within)
        for replica in self._replicas:
            replica.interceptor.armed = False
        return await self.operation(operation.id)

    async def succeeded(self, operation: Operation) -> Operation:
        ended = await self.ended(operation)
        assert ended.status is Status.SUCCEEDED, ended.verdict
        return ended

    async def joined(self, expected: int) -> None:
        """Wait until so many nodes have an agent that spoke."""

        async def as_many() -> bool:
            return sum(node.joined_at is not None for node in await self.nodes()) == expected

        await self.until(as_many)

    async def count(self, expected: int, *states: NodeState, within: float = 600.0) -> list[Node]:
        """Wait until so many nodes are in the states."""

        async def as_many() -> bool:
            return len(await self.nodes(*states)) == expected

        await self.until(as_many, within=within)
        return await self.nodes(*states)

    async def pass_time(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    # --- what must always hold --------------------------------------------------------------------

    async def check(self) -> None:
        """At the end of every scenario: counters are right, nothing is recorded twice, no bug was logged."""
        assert not self.complaints, [record.getMessage() for record in self.complaints]
        assert not any(replica.broken for replica in self._replicas)
        assert list(await self.store.audit(now=self.now)) == []
        machines = [node.machine_id for node in await self.nodes() if node.state is not NodeState.TERMINATED]
        assert len(machines) == len(set(machines))

    async def nothing_is_left(self, *, idle: int | None = 0) -> None:
        """Every machine has gone, or is one of so many (None: any) in the pool. Waits for that."""

        async def tidy() -> bool:
            live = await self.nodes(*LIVE, NodeState.TERMINATING)
            to_close = await self.store.launches_to_close(limit=10)
            return all(node.state is NodeState.IDLE for node in live) and not to_close

        await self.until(tidy)
        left = sorted(node.machine_id for node in await self.nodes(NodeState.IDLE))
        assert sorted(box.id for box in self.cloud.live()) == left
        assert idle in (None, len(left))
        assert (await self.store.usage("ci")).total == len(left)

    async def of_kind(self, kind: Kind) -> list[Operation]:
        page = await self.store.operations(
            kind=kind, statuses=tuple(Status), run=None, after=None, limit=1000
        )
        return list(reversed(page.items))


class _Complaints(logging.Handler):
    def __init__(self, records: list[logging.LogRecord]) -> None:
        super().__init__(logging.ERROR)
        self._records = records

    def emit(self, record: logging.LogRecord) -> None:
        self._records.append(record)


def run_scenario(scenario: Callable[[Harness], Awaitable[T]]) -> T:
    """Run a scenario on a fresh harness, in virtual time."""
    ids = SeededIds(Random(1))
    wakeups = LocalWakeups()
    store = open_sqlite(":memory:", ids=ids, inline=True, after_commit=announcer(wakeups))

    async def perform() -> T:
        harness = Harness(store, wakeups, VirtualClock(), ids)
        handler = _Complaints(harness.complaints)
        logger = logging.getLogger("muster")
        logger.addHandler(handler)
        try:
            result = await scenario(harness)
            await harness.check()
        finally:
            logger.removeHandler(handler)
        return result

    try:
        return run(perform(), limit=LIMIT)
    finally:
        run(store.close())  # only now: what was pending on the other loop may still want it


def with_harness(test: Callable[Concatenate[Harness, P], Awaitable[None]]) -> Callable[P, None]:
    """Make a test of a scenario: its first parameter is a fresh harness, the others are pytest's."""

    def performed(*args: P.args, **kwargs: P.kwargs) -> None:
        run_scenario(lambda harness: test(harness, *args, **kwargs))

    signature = inspect.signature(test)
    performed.__name__ = getattr(test, "__name__", "test")
    performed.__doc__ = test.__doc__
    performed.__module__ = test.__module__
    parameters = list(signature.parameters.values())[1:]
    performed.__signature__ = signature.replace(parameters=parameters, return_annotation=None)  # type: ignore[attr-defined]
    return performed
