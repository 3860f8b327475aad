import asyncio

import pytest

from muster.domain import operation as lifecycle
from muster.domain.errors import Conflict, LeaseLost, NotFound
from muster.domain.operation import Fence, Status
from muster.ports.store import LASTING, Cursor, DutyLease, Store
from tests.contracts.store_contract.bookkeeping import whole_feed
from tests.contracts.store_contract.records import Records


class LeaseContract:
    async def test_the_oldest_operations_are_leased_first(self, store: Store) -> None:
        records = Records(store)
        made = [await records.submitted(now=now) for now in (3.0, 1.0, 2.0)]
        taken = await store.lease("replica-a", now=5.0, until=65.0, limit=2)
        assert [operation.id for operation in taken] == [made[1].id, made[2].id]
        assert all(each.lease_owner == "replica-a" and each.lease_until == 65.0 for each in taken)
        assert [operation.epoch for operation in taken] == [1, 1]
        assert [operation.version for operation in taken] == [1, 1]
        (rest,) = await store.lease("replica-b", now=5.0, until=65.0, limit=9)
        assert rest.id == made[0].id
        assert [event.name for event in await whole_feed(store)] == ["submitted"] * 3

    async def test_a_lease_lasts_until_it_lapses_and_then_the_epoch_rises(self, store: Store) -> None:
        records = Records(store)
        operation = await records.leased(until=60.0)
        assert list(await store.lease("replica-b", now=59.9, until=120.0, limit=9)) == []
        (taken,) = await store.lease("replica-b", now=60.0, until=120.0, limit=9)
        assert (taken.id, taken.epoch, taken.version) == (operation.id, 2, operation.version)
        *_, last = await whole_feed(store)
        assert (last.name, last.entity_id, last.changes) == ("taken_over", operation.id, {})

    async def test_an_ended_operation_is_never_leased(self, store: Store) -> None:
        records = Records(store)
        operation = await records.leased()
        end = lifecycle.ended(operation, Status.FAILED, now=2.0, progress=None)
        await store.write_operation(end, fence=operation.fence)
        assert list(await store.lease("replica-b", now=1e9, until=2e9, limit=9)) == []
        assert list(await store.renew("replica-a", [operation.fence], until=2e9)) == []

    async def test_concurrent_replicas_lease_each_operation_once(self, store: Store) -> None:
        records = Records(store)
        made = [await records.submitted() for _ in range(20)]
        taken = await asyncio.gather(
            *(store.lease(f"replica-{number}", now=5.0, until=65.0, limit=3) for number in range(10))
        )
        ids = sorted(operation.id for each in taken for operation in each)
        assert ids == [operation.id for operation in made]

    async def test_an_operation_can_be_taken_from_a_replica_that_leads_it(self, store: Store) -> None:
        records = Records(store)
        operation = await records.leased(until=60.0)
        seized = await store.seize(operation.id, "replica-b", now=5.0, until=65.0)
        assert (seized.lease_owner, seized.lease_until, seized.epoch) == ("replica-b", 65.0, 2)
        assert seized.version == operation.version
        assert list(await store.renew("replica-a", [operation.fence], until=99.0)) == []
        end = lifecycle.ended(seized, Status.FAILED, now=6.0, progress=None)
        with pytest.raises(LeaseLost):
            await store.write_operation(end, fence=operation.fence)
        ended = await store.write_operation(end, fence=seized.fence)
        assert (await store.seize(ended.id, "replica-c", now=7.0, until=67.0)).epoch == 2
        with pytest.raises(NotFound):
            await store.seize(records.draft().id, "replica-c", now=7.0, until=67.0)
        names = [event.name for event in await whole_feed(store)]
        assert names == ["submitted", "taken_over", "ended"]

    async def test_only_the_holder_of_the_present_epoch_renews(self, store: Store) -> None:
        records = Records(store)
        mine = await records.leased(until=60.0)
        lost, old = await records.taken_over(now=2.0)
        unknown = Fence(operation_id=records.draft().id, epoch=1)
        fences = [old, mine.fence, unknown, lost.fence]
        assert list(await store.renew("replica-a", fences, until=99.0)) == [mine.fence]
        assert (await store.operation(mine.id)).lease_until == 99.0
        assert (await store.operation(mine.id)).version == mine.version
        assert list(await store.renew("replica-a", [], until=99.0)) == []

    async def test_an_old_epoch_renews_nothing_even_for_the_same_owner(self, store: Store) -> None:
        records = Records(store)
        operation = await records.leased(until=60.0)
        (again,) = await store.lease("replica-a", now=60.0, until=90.0, limit=1)
        assert list(await store.renew("replica-a", [operation.fence], until=999.0)) == []
        assert (await store.operation(operation.id)).lease_until == 90.0
        assert list(await store.renew("replica-a", [again.fence], until=999.0)) == [again.fence]

    async def test_many_leases_are_renewed_at_once(self, store: Store) -> None:
        records = Records(store)
        for _ in range(30):
            await records.submitted()
        taken = await store.lease("replica-a", now=1.0, until=60.0, limit=99)
        fences = [operation.fence for operation in taken]
        assert list(await store.renew("replica-a", fences * 40, until=99.0)) == fences * 40

    async def test_expiring_ends_every_lease_at_once(self, store: Store) -> None:
        records = Records(store)
        operation = await records.leased()
        await records.submitted()
        assert await store.expire_leases() == 1
        assert list(await store.renew("replica-a", [operation.fence], until=2e6)) == []
        taken = await store.lease("replica-b", now=2.0, until=62.0, limit=9)
        assert [each.epoch for each in taken] == [2, 1]

    async def test_a_replica_that_stops_gives_back_its_own_leases_only(self, store: Store) -> None:
        records = Records(store)
        his = await records.leased(owner="replica-a")
        hers = await records.leased(owner="replica-b")
        assert await store.lease_duty("reaper", "replica-a", now=1.0, until=1e6)
        assert await store.lease_duty("sweep", "replica-b", now=1.0, until=1e6)
        assert await store.expire_leases("replica-a") == 1
        assert [each.id for each in await store.lease("replica-c", now=2.0, until=62.0, limit=9)] == [his.id]
        assert list(await store.renew("replica-b", [hers.fence], until=2e6)) == [hers.fence]
        assert await store.lease_duty("reaper", "replica-c", now=2.0, until=62.0)
        assert not await store.lease_duty("sweep", "replica-c", now=2.0, until=62.0)

    async def test_a_duty_has_one_holder_until_its_lease_lapses(self, store: Store) -> None:
        assert await store.lease_duty("reaper", "replica-a", now=1.0, until=31.0)
        assert not await store.lease_duty("reaper", "replica-b", now=30.9, until=60.0)
        assert await store.lease_duty("reaper", "replica-a", now=20.0, until=50.0)
        assert not await store.lease_duty("reaper", "replica-b", now=49.9, until=80.0)
        assert await store.lease_duty("sweep", "replica-b", now=20.0, until=50.0)
        assert await store.lease_duty("reaper", "replica-b", now=50.0, until=80.0)
        assert not await store.lease_duty("reaper", "replica-a", now=51.0, until=90.0)

    async def test_several_duties_are_leased_in_one_go_if_they_are_free(self, store: Store) -> None:
        asked = [DutyLease(name="sweep", until=61.0), DutyLease(name="reaper", until=31.0)]
        assert sorted(await store.lease_duties("replica-a", asked, now=1.0)) == ["reaper", "sweep"]
        more = [DutyLease(name=name, until=90.0) for name in ("sweep", "pool", "reaper")]
        assert sorted(await store.lease_duties("replica-b", more, now=30.9)) == ["pool"]
        assert sorted(await store.lease_duties("replica-b", more, now=31.0)) == ["pool", "reaper"]
        assert sorted(await store.lease_duties("replica-a", more, now=32.0)) == ["sweep"]
        assert list(await store.lease_duties("replica-a", [], now=33.0)) == []
        assert not await store.lease_duty("pool", "replica-a", now=89.9, until=200.0)

    async def test_of_replicas_that_ask_for_the_same_duties_at_once_each_has_its_own(
        self, store: Store
    ) -> None:
        names = [f"duty-{number}" for number in range(6)]
        ends = await asyncio.gather(
            *(
                store.lease_duties(
                    f"replica-{n}",
                    [DutyLease(name=name, until=31.0) for name in (names if n % 2 else names[::-1])],
                    now=1.0,
                )
                for n in range(8)
            )
        )
        assert sorted(name for end in ends for name in end) == names

    async def test_only_the_holder_of_a_duty_moves_its_bookmark(self, store: Store) -> None:
        assert await store.bookmark("follower") is None
        with pytest.raises(Conflict):
            await store.move_bookmark("follower", "replica-a", Cursor("1"))
        assert await store.lease_duty("follower", "replica-a", now=1.0, until=31.0)
        assert await store.bookmark("follower") is None
        await store.move_bookmark("follower", "replica-a", Cursor("1"))
        assert await store.lease_duty("follower", "replica-b", now=31.0, until=61.0)
        with pytest.raises(Conflict, match="replica-a"):
            await store.move_bookmark("follower", "replica-a", Cursor("2"))
        assert await store.bookmark("follower") == "1"
        await store.move_bookmark("follower", "replica-b", Cursor("3"))
        assert await store.bookmark("follower") == "3"

    async def test_the_duties_of_a_dead_server_are_free_at_once(self, store: Store) -> None:
        assert await store.lease_duty("reaper", "replica-a", now=1.0, until=1e6)
        await store.expire_leases()
        assert await store.lease_duty("reaper", "replica-b", now=2.0, until=62.0)

    @pytest.mark.parametrize("owner", ["replica-a", None])
    async def test_a_lasting_duty_stays_held_until_its_lease_lapses(
        self, store: Store, owner: str | None
    ) -> None:
        name = f"{LASTING}share"
        assert await store.lease_duty(name, "replica-a", now=1.0, until=61.0)
        assert await store.lease_duty("reaper", "replica-a", now=1.0, until=61.0)
        await store.expire_leases(owner)
        assert not await store.lease_duty(name, "replica-b", now=60.9, until=90.0)
        assert await store.lease_duty("reaper", "replica-b", now=60.9, until=90.0)
        assert await store.lease_duty(name, "replica-b", now=61.0, until=90.0)

    async def test_what_a_silent_replica_leads_in_a_queue_is_taken_over_before_its_lease_lapses(
        self, store: Store
    ) -> None:
        records = Records(store)
        queued = [
            await records.queued(await records.leased(owner="replica-a", now=now)) for now in (2.0, 1.0)
        ]
        working = await records.leased(owner="replica-a")
        theirs = await records.queued(await records.leased(owner="replica-c"))
        for owner in ("replica-a", "replica-c"):
            assert list(await store.lease(owner, now=10.0, until=70.0, limit=0, absent_since=2.0)) == []
        await store.lease("replica-c", now=17.0, until=77.0, limit=9, absent_since=9.0)
        assert not await store.lease("replica-b", now=18.0, until=78.0, limit=9, absent_since=10.0)
        (first,) = await store.lease("replica-b", now=18.5, until=78.5, limit=1, absent_since=10.5)
        assert (first.id, first.epoch, first.lease_owner) == (queued[1].id, 2, "replica-b")
        (second,) = await store.lease("replica-b", now=18.5, until=78.5, limit=9, absent_since=10.5)
        assert second.id == queued[0].id
        # Neither what it leads outside of a queue, nor what another leads that gives signs of life.
        assert not await store.lease("replica-b", now=19.0, until=79.0, limit=9, absent_since=11.0)
        for mine in (working, theirs):
            assert (await store.operation(mine.id)).lease_owner == mine.lease_owner
        with pytest.raises(LeaseLost):
            await store.write_operation(lifecycle.resumed(queued[1], now=20.0), fence=queued[1].fence)
        assert list(await store.renew("replica-a", [queued[0].fence], until=99.0)) == []

    async def test_all_that_a_replica_leads_is_taken_over_once_it_was_silent_for_long(
        self, store: Store
    ) -> None:
        """However long its lease: it may have been prolonged for a call."""
        records = Records(store)
        working = await records.leased(owner="replica-a", until=1e6)
        await store.lease("replica-a", now=10.0, until=70.0, limit=0, absent_since=2.0, gone_since=-5.0)
        early = await store.lease(
            "replica-b", now=25.0, until=85.0, limit=9, absent_since=17.0, gone_since=10.0
        )
        assert list(early) == []
        (taken,) = await store.lease(
            "replica-b", now=25.5, until=85.5, limit=9, absent_since=17.5, gone_since=10.5
        )
        assert (taken.id, taken.epoch, taken.lease_owner) == (working.id, 2, "replica-b")
        with pytest.raises(LeaseLost):
            await store.write_operation(lifecycle.resumed(working, now=26.0), fence=working.fence)

    async def test_a_replica_that_never_gave_a_sign_of_life_keeps_its_leases(self, store: Store) -> None:
        records = Records(store)
        await records.queued(await records.leased(owner="older", until=60.0))
        assert not await store.lease("replica-b", now=59.0, until=119.0, limit=9, absent_since=51.0)
        assert await store.lease("replica-b", now=60.0, until=120.0, limit=9, absent_since=52.0)

    async def test_a_sign_of_life_that_comes_late_takes_nothing_back(self, store: Store) -> None:
        records = Records(store)
        await records.queued(await records.leased(owner="replica-a"))
        await store.lease("replica-a", now=10.0, until=70.0, limit=0, absent_since=2.0)
        await store.lease("replica-a", now=5.0, until=65.0, limit=0, absent_since=-3.0)
        assert not await store.lease("replica-b", now=18.0, until=78.0, limit=9, absent_since=10.0)

    async def test_of_concurrent_replicas_one_gets_the_duty(self, store: Store) -> None:
        ends = await asyncio.gather(
            *(store.lease_duty("reaper", f"replica-{n}", now=1.0, until=31.0) for n in range(16))
        )
        assert sum(ends) == 1
