import asyncio
import math
from dataclasses import replace
from typing import Any

import pytest

from muster.domain import checks
from muster.domain import node as lifecycle
from muster.domain.errors import CapReached, Conflict, InvalidRequest, NotFound
from muster.domain.events import Entity, Event
from muster.domain.reasons import Reason
from muster.domain.template import Reuse, TemplateSpec, UsageClass
from muster.ports.store import Cursor, Store
from tests.contracts.store_contract.bookkeeping import whole_feed
from tests.contracts.store_contract.records import Records

SPEC = TemplateSpec(
    name="web",
    provider="simulated",
    usage=(UsageClass.SPOT, UsageClass.ON_DEMAND),
    reuse=Reuse.NEVER,
    attach_timeout=5.0,
)


class FeedContract:
    async def test_the_feed_is_complete_while_many_write(self, store: Store) -> None:
        records = Records(store)
        nodes = await records.created(await records.leased(), 20)
        writing = asyncio.Event()
        seen: list[Event] = []

        async def write(place: int) -> None:
            node = nodes[place]
            for number in range(10):
                node = await store.apply(lifecycle.joined(node, boot_id=f"b-{number}", now=float(number)))

        async def follow() -> None:
            after: Cursor | None = None
            while True:
                done = writing.is_set()
                page = await store.events(after=after, limit=7)
                seen.extend(page.items)
                after = page.next
                if done and not page.items:
                    return
                await asyncio.sleep(0)

        async with asyncio.TaskGroup() as group:
            group.create_task(follow())
            await asyncio.gather(*(write(place) for place in range(20)))
            writing.set()
        assert len(dict.fromkeys(event.id for event in seen)) == len(seen)
        assert sorted(event.id for event in seen) == sorted(event.id for event in await whole_feed(store))
        for node in nodes:
            versions = [event.version for event in seen if event.entity_id == node.id]
            assert versions == list(range(1, 12))

    async def test_the_end_of_the_feed_can_be_had_without_the_rest_and_says_where_it_goes_on(
        self, store: Store
    ) -> None:
        assert (await store.last_events(limit=3, entity_id="nobody")).items == ()
        records = Records(store)
        first, second = await records.created(await records.leased(), 2)
        whole = await whole_feed(store)
        end = await store.last_events(limit=3)
        assert list(end.items) == whole[-3:]
        assert list((await store.last_events(limit=1000)).items) == whole
        of_first = await store.last_events(limit=1, entity_id=first.id)
        assert of_first.items == tuple(event for event in whole if event.entity_id == first.id)[-1:]
        assert (await store.events(after=end.next, limit=10)).items == ()
        await store.apply(lifecycle.joined(second, boot_id="b", now=2.0))
        fresh = (await store.events(after=end.next, limit=10)).items
        assert [event.entity_id for event in fresh] == [second.id]

    async def test_an_empty_feed_still_says_where_to_go_on(self, store: Store) -> None:
        page = await store.events(after=None, limit=10)
        assert page.items == () and page.next is not None
        await store.note("m-1", "orphan", reason=Reason.ORPHAN, detail="seen twice", now=4.0)
        (event,) = (await store.events(after=page.next, limit=10)).items
        assert (event.entity, event.entity_id, event.name) == (Entity.INSTALLATION, "m-1", "orphan")
        assert (event.changes, event.detail, event.at) == ({"reason": "orphan"}, "seen twice", 4.0)

    async def test_an_entity_has_a_feed_of_its_own(self, store: Store) -> None:
        records = Records(store)
        first, second = await records.created(await records.leased(), 2)
        await store.apply(lifecycle.drained(first, now=5.0))
        await store.apply(lifecycle.drained(second, now=5.0))
        events = await whole_feed(store, page=1, entity_id=second.id)
        assert [event.name for event in events] == ["adopt", "drained"]

    async def test_an_equal_template_keeps_its_revision(self, store: Store) -> None:
        first = await store.apply_template(SPEC, now=1.0)
        assert (first.revision, first.spec, first.applied_at) == (1, SPEC, 1.0)
        assert await store.apply_template(SPEC, now=2.0) == first
        second = await store.apply_template(replace(SPEC, boot_script="true"), now=3.0)
        assert second.revision == 2
        third = await store.apply_template(SPEC, now=4.0)
        assert third == replace(first, revision=3, version=3, applied_at=4.0)
        assert await store.template("web", 1) == first
        assert await store.template("web", 2) == second
        assert (await store.template("web")).revision == 3
        assert [event.version for event in await whole_feed(store)] == [1, 2, 3]

    async def test_how_a_pool_is_kept_changes_inside_the_revision(self, store: Store) -> None:
        await store.apply_template(replace(SPEC, boot_script="true"), now=1.0)
        current = await store.apply_template(SPEC, now=2.0)
        kept = replace(SPEC, max_nodes=7, min_idle=3, idle_timeout=99.0)
        adjusted = await store.apply_template(kept, now=3.0)
        assert adjusted == replace(current, spec=kept, version=3, applied_at=3.0)
        assert (adjusted.revision, adjusted.version) == (2, 3)
        assert await store.apply_template(kept, now=4.0) == adjusted
        assert await store.template("web") == await store.template("web", 2) == adjusted
        assert (await store.template("web", 1)).spec.min_idle == SPEC.min_idle, "an old revision is as it was"
        records = Records(store)
        operation = await records.leased()
        plan = records.plan(operation, size=kept.max_nodes + 1)
        with pytest.raises(CapReached):
            await store.reserve(plan, cap=100, total_cap=100, fence=operation.fence)
        remade = await store.apply_template(replace(kept, boot_script="false"), now=5.0)
        assert (remade.revision, remade.version, remade.spec.min_idle) == (3, 4, 3)
        events = [each for each in await whole_feed(store) if each.entity is Entity.TEMPLATE]
        assert [(each.name, each.version, each.changes["revision"]) for each in events] == [
            ("applied", 1, 1),
            ("applied", 2, 2),
            ("adjusted", 3, 2),
            ("applied", 4, 3),
        ]
        assert "min_idle 0 → 3" in events[2].detail

    async def test_of_changes_at_the_same_time_none_is_lost_and_none_is_made_twice(
        self, store: Store
    ) -> None:
        await store.apply_template(SPEC, now=1.0)
        wanted = [
            *(replace(SPEC, idle_timeout=100.0 + each) for each in range(4)),
            *(replace(SPEC, boot_script=f"# {each}") for each in range(4)),
        ]
        made = await asyncio.gather(*(store.apply_template(each, now=2.0) for each in wanted))
        assert sorted(each.version for each in made) == list(range(2, 10))
        events = [each for each in await whole_feed(store) if each.entity is Entity.TEMPLATE]
        assert [each.version for each in events] == list(range(1, 10))
        last = await store.template("web")
        assert last.version == 9 and last in made

    async def test_a_template_that_was_changed_meanwhile_is_not_overwritten(self, store: Store) -> None:
        with pytest.raises(Conflict):
            await store.apply_template(SPEC, now=1.0, over=1)
        await store.apply_template(SPEC, now=1.0)
        second = await store.apply_template(replace(SPEC, max_nodes=7), now=2.0, over=1)
        assert (second.revision, second.version) == (1, 2)
        with pytest.raises(Conflict, match="version 1 is not its current one"):
            await store.apply_template(replace(SPEC, max_nodes=8), now=3.0, over=1)
        assert await store.template("web") == second

    async def test_current_templates_are_listed_by_name(self, store: Store) -> None:
        for name in ("b", "c", "a", "b"):
            await store.apply_template(replace(SPEC, name=name, max_nodes=5), now=1.0)
        newest = await store.apply_template(replace(SPEC, name="b"), now=2.0)
        assert [each.name for each in await store.templates()] == ["a", "b", "c"]
        assert (await store.templates())[1] == newest

    async def test_a_missing_template_is_named(self, store: Store) -> None:
        await store.apply_template(SPEC, now=1.0)
        for name, revision in (("api", None), ("web", 2)):
            with pytest.raises(NotFound, match=name):
                await store.template(name, revision)

    async def test_the_installation_keeps_its_id_and_its_limit(self, store: Store) -> None:
        before = await store.installation()
        after = await store.limit_installation(7, now=1.0)
        assert after == replace(before, max_nodes=7)
        assert await store.installation() == after
        await store.limit_installation(7, now=2.0)
        assert [event.changes for event in await whole_feed(store)] == [{"max_nodes": 7}]

    @pytest.mark.parametrize(
        "nonsense", [-1, -5, True, 10**40, checks.MACHINES_MAX + 1, "x", None, 2.5, math.nan], ids=repr
    )
    async def test_a_limit_that_makes_no_sense_is_refused(self, store: Store, nonsense: Any) -> None:
        before = await store.installation()
        with pytest.raises(InvalidRequest, match="max_nodes"):
            await store.limit_installation(nonsense, now=1.0)
        assert await store.installation() == before
        assert await whole_feed(store) == []

    @pytest.mark.parametrize("limit", [0, checks.MACHINES_MAX])
    async def test_a_limit_may_be_nothing_and_may_be_huge(self, store: Store, limit: int) -> None:
        assert (await store.limit_installation(limit, now=1.0)).max_nodes == limit
