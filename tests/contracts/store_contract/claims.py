import asyncio
from dataclasses import replace

import pytest

from muster.domain import node as lifecycle
from muster.domain.errors import LeaseLost
from muster.domain.lifecycle import NodeState
from muster.domain.matching import Demand
from muster.domain.node import Node
from muster.domain.template import Reuse, TemplateSpec, UsageClass
from muster.ports.store import Beat, Store
from tests.contracts.store_contract.bookkeeping import whole_feed
from tests.contracts.store_contract.records import DEMAND, Records


class ClaimContract:
    GANG = 150
    """More than the adapter takes at once."""
    POOL = 200
    """What 64 claimers fight for."""

    async def test_a_claimed_node_is_bound_and_tells_so_in_one_event(self, store: Store) -> None:
        records = Records(store)
        (idle,) = await records.idle(1)
        operation = await records.leased()
        (binding,) = records.bindings(operation, 1)
        (node,) = await store.claim(
            DEMAND, [binding], fence=operation.fence, seen_since=90.0, now=100.0, deadline_at=130.0
        )
        expected = replace(
            idle,
            state=NodeState.CLAIMED,
            version=idle.version + 1,
            entered_at=100.0,
            deadline_at=130.0,
            deadline_source="attach_timeout",
            operation_id=operation.id,
            assignment_id=binding.assignment_id,
            run="run-1",
            owner="acme",
        )
        assert node == expected
        assert await store.node(idle.id) == expected
        *_, last = await whole_feed(store, entity_id=idle.id)
        assert (last.name, last.version, last.at) == ("claim", expected.version, 100.0)

    async def test_each_claimed_node_gets_a_binding_of_its_own(self, store: Store) -> None:
        records = Records(store)
        await records.idle(5)
        operation = await records.leased()
        nodes = await records.claim(operation, 4)
        assert len(dict.fromkeys(node.assignment_id for node in nodes)) == 4
        assert len(dict.fromkeys(node.id for node in nodes)) == 4
        assert len(await records.claim(operation, 4)) == 1
        assert list(await records.claim(operation, 4)) == []
        assert list(await records.claim(operation, 0)) == []

    async def test_a_gang_larger_than_any_batch_is_claimed_whole(self, store: Store) -> None:
        records = Records(store)
        await records.idle(self.GANG)
        operation = await records.leased()
        nodes = await records.claim(operation, self.GANG - 1)
        assert len(dict.fromkeys(node.assignment_id for node in nodes)) == self.GANG - 1
        assert len(dict.fromkeys(node.id for node in nodes)) == self.GANG - 1

    async def test_many_concurrent_claimers_lose_no_node_and_share_none(self, store: Store) -> None:
        records = Records(store)
        idle = await records.idle(self.POOL)
        operations = [await records.leased() for _ in range(64)]
        taken: list[Node] = []

        async def claimer(place: int) -> None:
            while got := await records.claim(operations[place], 1 + place % 3):
                taken.extend(got)

        await asyncio.gather(*(claimer(place) for place in range(64)))
        assert sorted(node.id for node in taken) == [node.id for node in idle]
        assert len(dict.fromkeys(node.assignment_id for node in taken)) == self.POOL

    async def test_a_claim_under_an_old_epoch_takes_nothing(self, store: Store) -> None:
        records = Records(store)
        (idle,) = await records.idle(1)
        operation, old = await records.taken_over()
        with pytest.raises(LeaseLost):
            await store.claim(
                DEMAND,
                records.bindings(operation, 1),
                fence=old,
                seen_since=0.0,
                now=100.0,
                deadline_at=130.0,
            )
        assert await store.node(idle.id) == idle

    async def test_a_claim_that_lost_its_lease_takes_nothing_from_those_that_wait_with_it(
        self, store: Store
    ) -> None:
        records = Records(store)
        await records.idle(2)
        others = [await records.leased() for _ in range(2)]
        operation, old = await records.taken_over()
        lost = store.claim(
            DEMAND, records.bindings(operation, 1), fence=old, seen_since=0.0, now=100.0, deadline_at=130.0
        )
        first, refused, last = await asyncio.gather(
            records.claim(others[0], 1), lost, records.claim(others[1], 1), return_exceptions=True
        )
        assert isinstance(refused, LeaseLost)
        assert [len(taken) for taken in (first, last) if not isinstance(taken, BaseException)] == [1, 1]

    async def test_own_nodes_come_first_then_those_idle_for_the_shortest_time(self, store: Store) -> None:
        records = Records(store)
        old_own = await records.served("acme", entered_at=5.0)
        new_own = await records.served("acme", entered_at=6.0)
        (old_fresh,) = await records.idle(1, entered_at=7.0)
        (new_fresh,) = await records.idle(1, entered_at=8.0)
        expected = [new_own, old_own, new_fresh, old_fresh]
        for size, demand in ((2, DEMAND), (4, replace(DEMAND, reuse=Reuse.ALWAYS))):
            taken = await records.claim(await records.leased(), size, demand=demand)
            wanted, expected = expected[:size], expected[size:]
            assert [node.id for node in taken] == [node.id for node in wanted]

    @pytest.mark.parametrize(
        ("demand", "fits"),
        [
            (DEMAND, True),
            (replace(DEMAND, template="api"), False),
            (replace(DEMAND, revision=2), False),
            (replace(DEMAND, resource_class="small"), False),
            (replace(DEMAND, usage=(UsageClass.SPOT,)), False),
            (replace(DEMAND, usage=(UsageClass.SPOT, UsageClass.ON_DEMAND)), True),
            (replace(DEMAND, instance_types=("c*",)), False),
            (replace(DEMAND, instance_types=("c*", "M5.*")), True),
            (replace(DEMAND, instance_types=("m5_large",)), False),
            (replace(DEMAND, instance_types=("m5%",)), False),
            (replace(DEMAND, instance_types=("5.large",)), False),
        ],
    )
    async def test_only_nodes_of_the_right_kind_are_claimed(
        self, store: Store, demand: Demand, fits: bool
    ) -> None:
        records = Records(store)
        await records.idle(1)
        assert await store.count_claimable(demand, seen_since=90.0, now=100.0) == fits
        assert len(await records.claim(await records.leased(), 1, demand=demand)) == fits

    @pytest.mark.parametrize(
        ("reuse", "owner", "fits"),
        [
            (Reuse.NEVER, "acme", False),
            (Reuse.SAME_OWNER, "acme", True),
            (Reuse.SAME_OWNER, "other", False),
            (Reuse.ALWAYS, "other", True),
        ],
    )
    async def test_a_node_that_served_is_given_on_as_reuse_allows(
        self, store: Store, reuse: Reuse, owner: str, fits: bool
    ) -> None:
        records = Records(store)
        await records.served("acme")
        demand = replace(DEMAND, reuse=reuse, owner=owner)
        assert await store.count_claimable(demand, seen_since=90.0, now=100.0) == fits
        assert len(await records.claim(await records.leased(), 1, demand=demand)) == fits

    async def test_a_fresh_node_is_for_any_owner(self, store: Store) -> None:
        records = Records(store)
        await records.idle(3)
        for reuse in Reuse:
            demand = replace(DEMAND, reuse=reuse, owner="other")
            assert len(await records.claim(await records.leased(), 1, demand=demand)) == 1

    async def test_a_node_of_another_owner_comes_after_ones_own(self, store: Store) -> None:
        records = Records(store)
        others = await records.served("other", entered_at=9.0)
        own = await records.served("acme", entered_at=5.0)
        demand = replace(DEMAND, reuse=Reuse.ALWAYS)
        taken = await records.claim(await records.leased(), 2, demand=demand)
        assert [node.id for node in taken] == [own.id, others.id]

    async def test_a_stale_unseen_overdue_or_draining_node_is_not_claimed(self, store: Store) -> None:
        records = Records(store)
        await records.idle(1, seen_at=None)
        await records.idle(1, seen_at=89.9)
        await records.idle(1, deadline_at=100.0)
        (draining,) = await records.idle(1)
        await store.apply(lifecycle.drained(draining, now=5.0))
        assert await store.count_claimable(DEMAND, seen_since=90.0, now=100.0) == 0
        assert list(await records.claim(await records.leased(), 9)) == []
        (at_limit,) = await records.idle(1, seen_at=90.0, deadline_at=100.1)
        assert await store.count_claimable(DEMAND, seen_since=90.0, now=100.0) == 1
        assert [node.id for node in await records.claim(await records.leased(), 9)] == [at_limit.id]

    async def test_a_claim_takes_no_node_of_a_revision_that_is_old_by_then(self, store: Store) -> None:
        records = Records(store)
        spec = TemplateSpec(name="web", provider="simulated")
        await store.apply_template(spec, now=1.0)
        (old,) = await records.idle(1)
        known = DEMAND  # as a slow claimer read it
        await store.apply_template(replace(spec, boot_script="echo mended"), now=2.0)
        operation = await records.leased()

        assert list(await records.claim(operation, 1, demand=known)) == []

        assert (await store.node(old.id)).state is NodeState.IDLE
        (new,) = await records.idle(1, revision=2)
        taken = await records.claim(operation, 2, demand=replace(known, revision=2))
        assert [node.id for node in taken] == [new.id]

    async def test_another_templates_revisions_make_no_node_old(self, store: Store) -> None:
        records = Records(store)
        await store.apply_template(TemplateSpec(name="web", provider="simulated"), now=1.0)
        for script in ("", "echo newer"):
            spec = TemplateSpec(name="api", provider="simulated", boot_script=script)
            await store.apply_template(spec, now=1.0)
        await records.idle(1)
        assert len(await records.claim(await records.leased(), 1)) == 1

    async def test_a_claim_moves_no_node_that_is_not_idle(self, store: Store) -> None:
        records = Records(store)
        created = await records.created(await records.leased(), 2)
        await store.record_beats([Beat(node_id=node.id, seen_at=100.0) for node in created])
        assert list(await records.claim(await records.leased(), 9)) == []
