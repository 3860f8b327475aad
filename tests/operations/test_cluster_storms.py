"""Clusters while everything goes wrong at once, drawn from a seed.

Replicas die or stand still at any call. Azure throttles, fails, hangs and loses its answers. Creates fail.
People cancel and ask twice.
"""

import asyncio
import contextlib
from random import Random
from typing import Any

import pytest

from muster.domain.cluster import CLUSTER_TAG, ClusterState
from muster.domain.errors import ClusterExists, Conflict, NotCancellable
from muster.domain.operation import Kind, Operation, Status
from muster.domain.requests import ClusterCreateRequest
from muster.integrations.aks.error_codes import Problem
from muster.operations.submission import request_cancel
from muster_simulation.arm import Fault, Paces
from muster_simulation.arm.faults import Verb
from tests.harness import Harness, Replica
from tests.harness.azure import batch, cluster, create, delete, nothing_of_ours, published
from tests.harness.harness import run_scenario

SEEDS = range(12)
CHUNK = 4
NAMES = ("c1", "c2")
"""In one resource group: what undoes one must leave the other its group."""
THROTTLED = Problem(status=429, code="TooManyRequests", message="Slow down.", retry_after=7.0)
BROKEN = Problem(status=500, code="InternalServerError", message="Something broke.")
DOOMED = Problem(code="InternalOperationError", message="It did not work out.")
LONG = 400.0
"""Seconds: replicas that stood still are awake by then, and what came late was found."""
CALLS = 60
"""Within so many calls of a replica a blow falls."""


class Storm:
    """What chance has in store for one world."""

    def __init__(self, harness: Harness, seed: int, last: Replica) -> None:
        self.harness = harness
        self.last = last
        """It stays to the end."""
        self.random = Random(f"clusters/{seed}")
        self.blows = self.random.randint(0, 3)
        self.paused = 0
        self.accepted: list[str] = []
        """By cluster: each create that Azure began."""
        harness.arm.paces = Paces(
            create=self.random.uniform(5.0, 60.0),
            pool=self.random.uniform(1.0, 20.0),
            abort=self.random.uniform(1.0, 20.0),
            delete=self.random.uniform(1.0, 40.0),
            group_delete=self.random.uniform(1.0, 20.0),
            group_visible=self.random.choice((0.0, 5.0)),
            principal=self.random.choice((0.0, 20.0)),
        )
        harness.arm.faults.add(*self._faults())
        if self.random.random() < 0.25:
            harness.arm.next_problem = DOOMED
        elif self.random.random() < 0.2:
            harness.arm.next_failing_pools = ("blastpool",)
        self._count_creates()

    def _faults(self) -> list[Fault]:
        verbs = [verb for verb in Verb if self.random.random() < 0.4]
        return [
            Fault(
                on=verb,
                skip=self.random.randint(0, 4),
                times=self.random.randint(1, 3),
                **self.random.choice(
                    (
                        {"problem": THROTTLED},
                        {"problem": BROKEN},
                        {"loses": True},
                        {"hangs": 40.0},
                        {"hangs": 5.0, "loses": True},
                    )
                ),
            )
            for verb in verbs
        ]

    def _count_creates(self) -> None:
        put = self.harness.arm.put_cluster

        def counted(group: str, name: str, asked: Any, *, only_if_missing: bool) -> Any:
            made = put(group, name, asked, only_if_missing=only_if_missing)
            self.accepted.append(asked.tags[CLUSTER_TAG])
            return made

        self.harness.arm.put_cluster = counted  # type: ignore[method-assign]

    async def replica(self) -> Replica:
        """One that may not live long."""
        replica = await self.harness.replica()
        if self.blows:
            self.blows -= 1
            replica.interceptor.armed = True
            replica.interceptor.run_at(self.random.randint(0, 2 * CALLS), lambda: self._strike(replica))
        return replica

    async def _strike(self, replica: Replica) -> None:
        if self.random.random() < 0.7:
            await replica.life.die()
        else:
            self.paused += 1
            replica.life.pause(self.harness.loop_time + self.random.uniform(61.0, 150.0))
            await asyncio.sleep(0)

    async def some_time(self) -> None:
        await self.harness.pass_time(self.random.uniform(0.0, 120.0))


async def insist(storm: Storm, name: str) -> Operation:
    """Ask until a replica answers, under one key; sometimes another caller asks for the same."""
    while True:
        replica = await storm.replica()
        try:
            operation = await create(replica, name, key=f"key-{name}")
        except ConnectionError:
            continue
        if storm.random.random() < 0.3:
            await storm.some_time()
            with contextlib.suppress(ClusterExists):
                again = await create(storm.last, name)
                assert again.id == operation.id or (await storm.harness.operation(operation.id)).ended
                operation = again
        return operation


async def live(storm: Storm, name: str) -> Operation:
    operation = await insist(storm, name)
    if storm.random.random() < 0.4:
        await storm.some_time()
        with contextlib.suppress(NotCancellable, Conflict):
            await request_cancel(storm.harness.store, operation.id, now=storm.harness.now)
    return await storm.harness.ended(operation)


async def run_storm(harness: Harness, seed: int) -> None:
    await batch(harness)
    storm = Storm(harness, seed, await harness.replica())
    ended = await asyncio.gather(*(live(storm, name) for name in NAMES))
    harness.arm.faults.clear()
    if storm.paused:
        await harness.pass_time(LONG)
    for operation in ended:
        await outcome_is_whole(storm, operation)
    for kind in (Kind.CLUSTER_CREATE, Kind.CLUSTER_DELETE):
        for operation in await harness.of_kind(kind):
            assert operation.ended
            await never_went_back(harness, operation)
    if not storm.paused:
        assert len(set(storm.accepted)) == len(storm.accepted)
    await all_can_be_removed(storm)


async def outcome_is_whole(storm: Storm, operation: Operation) -> None:
    """Ready, with all that belongs to it, or nothing that was made for it."""
    harness = storm.harness
    assert isinstance(operation.request, ClusterCreateRequest)
    record = await cluster(harness, operation.request.name)
    there = [each for each in harness.arm.clusters.values() if each.asked.tags.get(CLUSTER_TAG) == record.id]
    roles = [each for each in harness.arm.assignments.values() if each.principal.endswith(record.name)]
    if operation.status is Status.SUCCEEDED:
        assert record.state is ClusterState.READY
        assert (len(there), len(roles)) == (1, 1)
    else:
        assert record.state is ClusterState.DELETED, (operation.verdict, record)
        assert (there, roles) == ([], [])
    assert not harness.arm.changed
    assert await harness.store.clusters.token(record.id) is None


async def never_went_back(harness: Harness, operation: Operation) -> None:
    shown = await published(harness, operation)
    assert [each.step for each in shown] == sorted(each.step for each in shown)
    assert [each.percent for each in shown] == sorted(each.percent for each in shown)


async def all_can_be_removed(storm: Storm) -> None:
    for name in NAMES:
        if (await cluster(storm.harness, name)).state is not ClusterState.DELETED:
            await storm.harness.succeeded(await delete(storm.last, name))
    nothing_of_ours(storm.harness)


@pytest.mark.parametrize("first", range(SEEDS.start, SEEDS.stop, CHUNK))
def test_in_any_weather_a_cluster_is_ready_or_nothing_is_left_of_it(first: int) -> None:
    for seed in range(first, first + CHUNK):
        try:
            run_scenario(lambda harness, seed=seed: run_storm(harness, seed))  # type: ignore[misc]
        except BaseException as error:
            error.add_note(f"seed {seed}")
            raise
