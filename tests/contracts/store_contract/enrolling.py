import asyncio
from dataclasses import replace
from typing import Any

import pytest

from muster.domain import node as lifecycle
from muster.domain.errors import CapReached, Conflict
from muster.domain.health import Health
from muster.domain.ids import AssignmentId, NodeId
from muster.domain.lifecycle import NodeState
from muster.domain.node import Node
from muster.domain.reasons import Reason
from muster.domain.template import EXTERNAL, Runtime, TemplateSpec, UsageClass
from muster.ports.store import Beat, Store
from tests.contracts.store_contract.bookkeeping import whole_feed


async def _template(store: Store, *, max_nodes: int = 5, total: int = 100) -> None:
    spec = TemplateSpec(name="web", provider=EXTERNAL, runtime=Runtime.SERVICE, max_nodes=max_nodes)
    await store.apply_template(spec, now=1.0)
    await store.limit_installation(total, now=1.0)


def _app(number: int = 1, machine: str | None = None) -> Node:
    return Node(
        id=NodeId(f"node-{number}"),
        template="web",
        revision=1,
        provider=EXTERNAL,
        resource_class="large",
        usage_class=UsageClass.ON_DEMAND,
        instance_type="app",
        machine_id=machine or f"app-{number}",
        launch_id=None,
        state=NodeState.CREATED,
        created_at=2.0,
        entered_at=2.0,
        deadline_at=722.0,
        deadline_source="default",
        assignment_id=AssignmentId(f"as-{number}"),
        run="web-1",
        address="http://10.0.0.5:8000/health",
    )


async def _enrol(store: Store, node: Node, **given: Any) -> Node:
    said: dict[str, Any] = {
        "boot_id": "boot-1",
        "key_hash": f"key of {node.machine_id}",
        "token_hash": f"token of {node.id}",
        "stale_after": 61.0,
        "now": 2.0,
    }
    return await store.enrol(node, **(said | given))


class EnrolContract:
    async def test_an_app_is_adopted_joined_counted_and_given_its_token_in_one_write(
        self, store: Store
    ) -> None:
        await _template(store)
        made = await _enrol(store, _app())
        assert await store.node(made.id) == made
        assert made == replace(_app(), version=2, boot_id="boot-1", joined_at=2.0, phase="joined")
        assert (await store.usage("web")).template == 1
        assert await store.node_for_token("token of node-1") == made.id
        assert await store.admitted_key(made.id) == "key of app-1"
        vitals = (await store.vitals([made.id]))[made.id]
        assert (vitals.boot_id, vitals.joined_at, vitals.stale_after) == ("boot-1", 2.0, 61.0)
        names = [event.name for event in await whole_feed(store, entity_id=made.id)]
        assert names == ["adopt", "joined"]
        assert [mark.phase for mark in await store.marks(made.id)] == ["joined"]

    async def test_the_same_key_is_the_same_join_and_the_older_token_dies(self, store: Store) -> None:
        await _template(store)
        first = await _enrol(store, _app())
        again = await _enrol(store, _app(2, machine="app-1"), token_hash="fresh", stale_after=91.0, now=9.0)
        assert again == first
        assert await store.node_for_token("fresh") == first.id
        assert await store.node_for_token("token of node-1") is None
        assert (await store.usage("web")).template == 1
        assert (await store.vitals([first.id]))[first.id].stale_after == 91.0
        assert len(await whole_feed(store, entity_id=first.id)) == 2

    async def test_a_machine_under_another_key_is_not_given_a_token(self, store: Store) -> None:
        await _template(store)
        first = await _enrol(store, _app())
        with pytest.raises(Conflict):
            await _enrol(store, _app(2, machine="app-1"), key_hash="another", token_hash="fresh")
        assert await store.node_for_token("fresh") is None
        assert await store.node_for_token("token of node-1") == first.id

    async def test_of_the_same_key_at_once_there_is_one_node(self, store: Store) -> None:
        await _template(store)
        apps = [_app(number, machine="app-1") for number in range(1, 11)]
        made = await asyncio.gather(*(_enrol(store, each) for each in apps))
        assert len({each.id for each in made}) == 1
        assert (await store.usage("web")).template == 1

    async def test_no_concurrency_enrols_past_a_cap(self, store: Store) -> None:
        await _template(store, max_nodes=3)
        ends = await asyncio.gather(
            *(_enrol(store, _app(number)) for number in range(1, 11)), return_exceptions=True
        )
        assert sum(isinstance(end, Node) for end in ends) == 3
        assert sum(isinstance(end, CapReached) for end in ends) == 7
        assert (await store.usage("web")).template == 3

    async def test_the_cap_over_all_templates_holds_too_and_nothing_is_left_of_a_refusal(
        self, store: Store
    ) -> None:
        await _template(store, max_nodes=5, total=1)
        await _enrol(store, _app(1))
        with pytest.raises(CapReached) as refused:
            await _enrol(store, _app(2))
        assert refused.value.scope == "total"
        assert await store.node_for_token("token of node-2") is None
        assert await store.node_by_machine(EXTERNAL, "app-2") is None
        usage = await store.usage("web")
        assert (usage.template, usage.total) == (1, 1)

    async def test_a_full_house_still_knows_its_own(self, store: Store) -> None:
        await _template(store, max_nodes=1)
        first = await _enrol(store, _app())
        await _template(store, max_nodes=0)
        assert await _enrol(store, _app(2, machine="app-1"), token_hash="fresh") == first

    async def test_a_key_whose_time_is_over_gets_no_token_and_its_room_comes_back(self, store: Store) -> None:
        await _template(store)
        made = await _enrol(store, _app())
        doomed = await store.apply(lifecycle.condemn(made, now=3.0, reason=Reason.OPERATOR))
        assert await _enrol(store, _app(2, machine="app-1"), token_hash="fresh") == doomed
        left = await store.apply(lifecycle.left(doomed, now=4.0))
        gone = await store.apply(lifecycle.confirm_gone(left, now=5.0))
        assert await _enrol(store, _app(2, machine="app-1"), token_hash="fresh") == gone
        assert await store.node_for_token("fresh") is None
        assert (await store.usage("web")).template == 0

    async def test_an_app_is_handed_over_without_an_operation(self, store: Store) -> None:
        await _template(store)
        made = await _enrol(store, _app())
        up = await store.apply(lifecycle.booted(made, now=3.0, deadline_at=60.0))
        bound = await store.apply(lifecycle.attached(up, now=3.0, deadline_at=60.0))
        running = await store.apply(lifecycle.hand_over(bound, now=3.0, deadline_at=None))
        assert await store.node(made.id) == running
        assert list(await store.nodes_due(now=1e9, limit=10)) == []

    async def test_an_address_is_its_newest_nodes(self, store: Store) -> None:
        """An app that was killed and started again answers where its earlier self did."""
        await _template(store)
        first = await _enrol(store, _app(1))
        elsewhere = await _enrol(store, replace(_app(2), address="http://10.0.0.6:8000/health"))
        silent = await _enrol(store, replace(_app(3), address=""))
        await store.record_probe(first.id, passed=True, now=3.0)
        newest = await _enrol(store, _app(4), now=4.0)
        displaced = await store.node(first.id)
        assert displaced == replace(first, version=first.version + 1, address="")
        vitals = (await store.vitals([first.id]))[first.id]
        assert (vitals.probed_at, vitals.probe_passing_since, vitals.probe_failures) == (None, None, 0)
        assert await store.node(elsewhere.id) == elsewhere
        assert await store.node(silent.id) == silent
        assert newest.address == first.address
        await _enrol(store, replace(_app(5), address=""))
        assert await store.node(newest.id) == newest

    async def test_a_word_in_the_moment_of_the_last_beat_counts(self, store: Store) -> None:
        await _template(store)
        made = await _enrol(store, _app())
        await store.record_beats([Beat(node_id=made.id, seen_at=5.0, said=Health.READY)])
        await store.record_beats([Beat(node_id=made.id, seen_at=5.0, said=Health.OFFLINE, reason="bye")])
        await store.record_beats([Beat(node_id=made.id, seen_at=4.0, said=Health.READY)])
        vitals = (await store.vitals([made.id]))[made.id]
        assert (vitals.said, vitals.said_reason, vitals.seen_at) == (Health.OFFLINE, "bye", 5.0)

    async def test_a_template_that_is_not_there_enrols_no_app(self, store: Store) -> None:
        with pytest.raises(Conflict):
            await _enrol(store, _app())
        assert (await store.usage("web")).template == 0
