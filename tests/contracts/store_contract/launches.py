import asyncio
from dataclasses import replace

import pytest

from muster.domain import launch as lifecycle
from muster.domain import operation as operations
from muster.domain.errors import CapReached, Conflict, LeaseLost, NotFound
from muster.domain.ids import LaunchId
from muster.domain.launch import Launch
from muster.domain.lifecycle import NodeState
from muster.domain.operation import Status
from muster.domain.reasons import Reason
from muster.domain.template import TemplateSpec
from muster.ports.store import TOTAL, Store
from tests.contracts.store_contract.bookkeeping import whole_feed
from tests.contracts.store_contract.records import Records


class LaunchContract:
    async def test_a_reservation_holds_its_room_and_is_repeatable(self, store: Store) -> None:
        records = Records(store)
        operation = await records.leased()
        plan = records.plan(operation, size=3)
        assert await store.reserve(plan, cap=3, total_cap=9, fence=operation.fence) == plan
        again = replace(plan, count=2)
        assert await store.reserve(again, cap=3, total_cap=9, fence=operation.fence) == plan
        usage = await store.usage("web")
        assert (usage.template, usage.total) == (3, 3)
        assert [event.name for event in await whole_feed(store, entity_id=plan.id)] == ["planned"]
        assert await store.launch(plan.id) == plan
        assert await store.launch_by_token(plan.token) == plan
        assert await store.launch_by_token("other") is None
        with pytest.raises(NotFound):
            await store.launch(LaunchId("op-x.1"))

    async def test_a_launch_that_does_not_fit_reserves_nothing(self, store: Store) -> None:
        records = Records(store)
        operation = await records.leased()
        first, second = records.plan(operation, size=2), records.plan(operation, size=2, ordinal=2)
        await store.reserve(first, cap=2, total_cap=3, fence=operation.fence)
        with pytest.raises(CapReached) as refused:
            await store.reserve(second, cap=3, total_cap=9, fence=operation.fence)
        assert (refused.value.used, refused.value.cap, refused.value.short_by) == (2, 3, 1)
        other = replace(second, template="api")
        with pytest.raises(CapReached) as refused:
            await store.reserve(other, cap=9, total_cap=3, fence=operation.fence)
        assert refused.value.scope == TOTAL
        usage = await store.usage("api")
        assert (usage.template, usage.total) == (0, 2)
        assert await store.launch_by_token(second.token) is None
        assert await store.reserve(other, cap=2, total_cap=4, fence=operation.fence) == other

    async def test_a_cap_lowered_since_it_was_read_holds(self, store: Store) -> None:
        records = Records(store)
        spec = TemplateSpec(name="web", provider="simulated", max_nodes=10)
        await store.apply_template(spec, now=1.0)
        await store.apply_template(replace(spec, max_nodes=2), now=2.0)
        operation = await records.leased()
        with pytest.raises(CapReached) as refused:
            await store.reserve(records.plan(operation, size=3), cap=10, total_cap=10, fence=operation.fence)
        assert (refused.value.used, refused.value.cap, refused.value.short_by) == (0, 2, 1)
        assert (await store.usage("web")).total == 0
        fits = records.plan(operation, size=2)
        assert await store.reserve(fits, cap=10, total_cap=10, fence=operation.fence) == fits

    async def test_a_cap_over_all_lowered_since_it_was_read_holds(self, store: Store) -> None:
        records = Records(store)
        await store.limit_installation(10, now=1.0)
        await store.limit_installation(2, now=2.0)
        operation = await records.leased()
        with pytest.raises(CapReached) as refused:
            await store.reserve(records.plan(operation, size=3), cap=10, total_cap=10, fence=operation.fence)
        assert (refused.value.scope, refused.value.cap, refused.value.short_by) == (TOTAL, 2, 1)
        assert (await store.usage("web")).total == 0

    async def test_a_cap_raised_since_it_was_read_gives_no_more_than_the_caller_knew(
        self, store: Store
    ) -> None:
        records = Records(store)
        await store.apply_template(TemplateSpec(name="web", provider="simulated", max_nodes=10), now=1.0)
        operation = await records.leased()
        with pytest.raises(CapReached) as refused:
            await store.reserve(records.plan(operation, size=3), cap=2, total_cap=10, fence=operation.fence)
        assert refused.value.cap == 2

    async def test_concurrent_reservations_never_exceed_a_cap(self, store: Store) -> None:
        records = Records(store)
        operation = await records.leased()
        plans = [
            records.plan(operation, size=3, ordinal=number, template=("web", "api")[number % 2])
            for number in range(1, 31)
        ]
        ends = await asyncio.gather(
            *(store.reserve(plan, cap=10, total_cap=16, fence=operation.fence) for plan in plans),
            return_exceptions=True,
        )
        assert sum(isinstance(end, Launch) for end in ends) == 5
        assert sum(isinstance(end, CapReached) for end in ends) == 25
        assert (await store.usage("web")).total == 15

    async def test_writes_of_a_launch_under_an_old_epoch_are_refused(self, store: Store) -> None:
        records = Records(store)
        operation, old = await records.taken_over()
        plan = records.plan(operation)
        with pytest.raises(LeaseLost):
            await store.reserve(plan, cap=9, total_cap=9, fence=old)
        await store.reserve(plan, cap=9, total_cap=9, fence=operation.fence)
        with pytest.raises(LeaseLost):
            await store.write_launch(plan, lifecycle.calling(plan, now=2.0), fence=old)
        calling = await store.write_launch(plan, lifecycle.calling(plan, now=2.0), fence=operation.fence)
        settled = lifecycle.settled(calling, now=3.0, adopted=1)
        with pytest.raises(LeaseLost):
            await store.settle(calling, settled, [records.machine(calling)], fence=old, now=3.0)
        assert await store.launch(plan.id) == calling
        assert (await store.nodes(states=tuple(NodeState), template=None, after=None, limit=9)).items == ()

    async def test_a_launch_that_moved_is_not_written(self, store: Store) -> None:
        records = Records(store)
        operation = await records.leased()
        plan = records.plan(operation)
        await store.reserve(plan, cap=9, total_cap=9, fence=operation.fence)
        calling = await store.write_launch(plan, lifecycle.calling(plan, now=2.0), fence=None)
        abandoned = lifecycle.abandoned(plan, now=3.0, reason=Reason.CANCELLED)
        with pytest.raises(Conflict):
            await store.write_launch(plan, abandoned, fence=None)
        assert await store.launch(plan.id) == calling

    async def test_a_launch_closed_without_machines_frees_its_room(self, store: Store) -> None:
        records = Records(store)
        operation = await records.leased()
        launch = await records.called(records.plan(operation, size=4), operation.fence)
        assert (await store.usage("web")).total == 4
        await store.write_launch(
            launch, lifecycle.abandoned(launch, now=5.0, reason=Reason.CAPACITY), fence=operation.fence
        )
        assert (await store.usage("web")).total == 0

    async def test_settling_turns_held_room_into_nodes(self, store: Store) -> None:
        records = Records(store)
        operation = await records.leased()
        launch = await records.called(records.plan(operation, size=4), operation.fence)
        nodes = [records.machine(launch) for _ in range(3)]
        settled = await records.adopted(launch, nodes, fence=operation.fence)
        assert await store.launch(launch.id) == settled
        assert (await store.usage("web")).total == 3
        names = [event.name for event in await whole_feed(store)]
        assert names == ["submitted", "planned", "calling", "adopt", "adopt", "adopt", "settled"]

    async def test_settling_leaves_recorded_machines_as_they_are(self, store: Store) -> None:
        records = Records(store)
        operation = await records.leased()
        launch = await records.called(records.plan(operation, size=3), operation.fence)
        first = records.machine(launch, machine_id="m-1")
        early = replace(launch, version=launch.version + 1, adopted=1)
        await store.settle(launch, early, [first], fence=None, now=3.0)
        assert (await store.usage("web")).total == 3
        with pytest.raises(Conflict):
            await store.settle(launch, early, [records.machine(launch)], fence=None, now=3.0)
        again = [records.machine(launch, machine_id=name) for name in ("m-1", "m-2", "m-2")]
        await store.settle(early, lifecycle.settled(early, now=4.0, adopted=2), again, fence=None, now=4.0)
        assert await store.node_by_machine("simulated", "m-1") == first
        assert (await store.usage("web")).total == 2
        page = await store.nodes(states=tuple(NodeState), template=None, after=None, limit=9)
        assert len(page.items) == 2

    async def test_forsaken_launches_are_walked_in_pages_that_miss_and_repeat_nothing(
        self, store: Store
    ) -> None:
        records = Records(store)
        made: list[LaunchId] = []
        for number in range(7):
            now = 1.0 + number // 2  # some are of one moment
            operation = await records.leased(now=now)
            launch = await records.called(records.plan(operation, now=now), operation.fence)
            verdict = operations.Verdict(reason=Reason.QUOTA, message="")
            end = operations.ended(operation, Status.FAILED, now=now, progress=None, verdict=verdict)
            await store.write_operation(end)
            made.append(launch.id)
        walked: list[LaunchId] = []
        last: Launch | None = None
        while batch := await store.launches_to_close(limit=2, after=last):
            walked += [launch.id for launch in batch]
            last = batch[-1]
        assert walked == made

    async def test_a_forsaken_launch_is_open_while_its_operation_has_ended(self, store: Store) -> None:
        records = Records(store)
        found = []
        for now in (30.0, 20.0, 10.0):
            operation = await records.leased(now=now)
            launch = await records.called(records.plan(operation, now=now), operation.fence)
            if now != 20.0:
                end = operations.ended(operation, Status.FAILED, now=50.0, progress=None)
                await store.write_operation(end, fence=operation.fence)
                found.append(launch)
        assert list(await store.launches_to_close(limit=9)) == found[::-1]
        assert list(await store.launches_to_close(limit=1)) == found[1:]
        abandoned = lifecycle.abandoned(found[1], now=60.0, reason=Reason.CANCELLED)
        await store.write_launch(found[1], abandoned, fence=None)
        assert list(await store.launches_to_close(limit=9)) == found[:1]
