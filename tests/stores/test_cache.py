"""What a replica keeps of its store: never what a commit changed, and on a shared store not for long."""

import asyncio
import inspect
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from typing import Any

import pytest

from muster.domain import node as nodes
from muster.domain import operation as operations
from muster.domain.access import ApiToken, Role
from muster.domain.errors import Conflict, StoreUnavailable
from muster.domain.ids import NodeId
from muster.domain.lifecycle import NodeState
from muster.domain.node import Node
from muster.domain.operation import Operation, Status
from muster.domain.reasons import Reason
from muster.domain.template import TemplateSpec
from muster.ports.commits import Written
from muster.ports.store import Beat, Cursor, Page, Store
from muster.ports.verbs import marks
from muster.ports.wakeups import ACCESS
from muster.stores import cache
from muster.stores.cache import LISTS_MOST, SETTLED, CachedAccess, CachedStore, Kept, follow_revocations
from muster.stores.sql import SqlStore, open_sqlite
from muster.stores.wakeups import LocalWakeups
from tests.contracts.store_contract.records import Records
from tests.stores.ids import CountingIds

OPEN = (Status.QUEUED, Status.RUNNING)
WEB = TemplateSpec(name="web", provider="simulated")


class Minute:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.at = 1000.0

    def now(self) -> float:
        return self.at

    async def sleep(self, seconds: float) -> None:
        self.at += seconds


class Counted:
    """A store whose verbs are counted. Of calls of one verb, the end stays unknown."""

    def __init__(self, inner: object) -> None:
        self.inner = inner
        self.calls: list[str] = []
        self.unknown = ""

    def __getattr__(self, verb: str) -> Any:
        call = getattr(self.inner, verb)

        async def counted(*args: Any, **kwargs: Any) -> Any:
            self.calls.append(verb)
            if verb == self.unknown:
                raise StoreUnavailable("the connection broke before the answer")
            return await call(*args, **kwargs)

        return counted


class Replica:
    """One replica's memory over a store."""

    def __init__(self, store: SqlStore, clock: Minute, *, alone: bool) -> None:
        self.counted: Any = Counted(store)
        self.access_counted: Any = Counted(store.access)
        self.cache = CachedStore(self.counted, clock, alone=alone)
        self.store = self.cache.as_store()
        self.access = CachedAccess(self.access_counted, clock, alone=alone)

    def saw(self, written: Sequence[Written]) -> None:
        self.cache.saw(written)
        self.access.saw(written)

    @property
    def calls(self) -> list[str]:
        """Since the last look."""
        found = [*self.counted.calls, *self.access_counted.calls]
        self.counted.calls.clear()
        self.access_counted.calls.clear()
        return found


class World:
    def __init__(self) -> None:
        self.clock = Minute()
        self.tells: list[Replica] = []
        self.store = open_sqlite(":memory:", ids=CountingIds(), inline=True, after_commit=self._committed)

    def _committed(self, written: Sequence[Written]) -> None:
        for replica in self.tells:
            replica.saw(written)

    def replica(self, *, alone: bool) -> Replica:
        made = Replica(self.store, self.clock, alone=alone)
        if alone:
            self.tells.append(made)
        return made


@pytest.fixture
async def world() -> AsyncIterator[World]:
    world = World()
    await world.store.apply_template(WEB, now=1.0)
    yield world
    await world.store.close()


async def test_a_hand_over_and_its_release_read_next_to_nothing(world: World) -> None:
    replica = world.replica(alone=True)
    records = Records(replica.store)
    await records.idle(2)
    operation = await records.leased()
    await replica.store.view(operation.id)
    assert replica.calls[-1] == "view"

    claimed = await records.claim(operation, 2)
    held = await replica.store.view(operation.id)
    assert [node.id for node in held.nodes] == sorted(node.id for node in claimed)
    for node in held.nodes:
        node_view = await replica.store.node_view(node.id)
        assert node_view.node == node and node_view.operation == held.operation
        await replica.store.apply(nodes.attached(node, now=2.0, deadline_at=100.0))
    assert all(node.attached for node in (await replica.store.view(operation.id)).nodes)
    assert replica.calls == ["claim", "apply", "apply"]
    assert await replica.store.view(operation.id) == await world.store.view(operation.id)


async def test_duties_that_look_again_read_nothing_until_a_commit_changes_what_they_look_at(
    world: World,
) -> None:
    replica = world.replica(alone=True)
    records = Records(replica.store)
    (node,) = await records.idle(1)

    async def operations() -> Page[Operation]:
        return await replica.store.operations(kind=None, statuses=OPEN, run=None, after=None, limit=9)

    async def look() -> list[NodeId]:
        found = await replica.store.nodes(states=(NodeState.IDLE,), template=None, after=None, limit=9)
        await replica.store.nodes(states=(NodeState.IDLE,), template="web", after=None, limit=9)
        await replica.store.count_nodes(state=NodeState.TERMINATING, template=None)
        await replica.store.undiagnosed(limit=9)
        await replica.store.launches_to_close(limit=9)
        await operations()
        await replica.store.pool("web")
        await replica.store.usage("web")
        await replica.store.templates()
        return [each.id for each in found.items]

    assert await look() == [node.id] and replica.calls
    assert await look() == [node.id] and replica.calls == []
    await replica.store.apply(nodes.condemn(node, now=2.0, reason=Reason.OPERATOR))
    assert await look() == []
    await replica.store.apply_template(replace(WEB, min_idle=3), now=3.0)
    assert (await replica.store.templates())[0].spec.min_idle == 3
    operation = await records.leased()
    assert (await operations()).items[0].id == operation.id
    await replica.store.renew("replica-a", [operation.fence], until=2e6)
    assert (await operations()).items[0].lease_until == 2e6
    await look()
    assert replica.calls and await look() == [] and replica.calls == []


async def test_a_list_of_nodes_follows_their_commits_without_a_read(world: World) -> None:
    replica = world.replica(alone=True)
    records = Records(replica.store)
    first, second, third = await records.idle(3)
    asked: list[dict[str, Any]] = [
        {"states": states, "template": name, "after": None, "limit": limit}
        for states in ((NodeState.IDLE,), (NodeState.TERMINATING, NodeState.IDLE))
        for name in (None, "web", "another")
        for limit in (2, 9)
    ]
    assert len(asked) <= LISTS_MOST, "all are kept"

    async def all_agree() -> None:
        for each in asked:
            assert await replica.store.nodes(**each) == await world.store.nodes(**each), each

    await all_agree()
    moved = await replica.store.apply(nodes.drained(second, now=2.0))
    await all_agree()
    await replica.store.apply(nodes.condemn(moved, now=3.0, reason=Reason.OPERATOR))
    await all_agree()
    await replica.store.apply_all(
        [nodes.condemn(each, now=4.0, reason=Reason.OPERATOR) for each in (first, third)]
    )
    await all_agree()
    await records.idle(4)
    await all_agree()
    assert replica.calls.count("nodes") < 5 * len(asked), "most are answered from memory"


async def test_pages_of_a_list_that_was_read_follow_commits_without_a_read(world: World) -> None:
    replica = world.replica(alone=True)
    records = Records(replica.store)
    kept = await records.idle(7)

    async def pages(store: Store, limit: int) -> list[Page[Node]]:
        after: Cursor | None = None
        found: list[Page[Node]] = []
        while not found or after is not None:
            found.append(
                await store.nodes(states=(NodeState.IDLE,), template="web", after=after, limit=limit)
            )
            after = found[-1].next
        return found

    async def same() -> None:
        for limit in (1, 2, 3, 7, 8):
            assert await pages(replica.store, limit) == await pages(world.store, limit)
        assert "nodes" not in replica.calls

    await pages(replica.store, 3)
    assert replica.calls.count("nodes") == 3
    await same()
    drained = await replica.store.apply(nodes.drained(kept[3], now=2.0))
    await same()
    for node in (kept[0], drained, kept[6]):
        await replica.store.apply(nodes.condemn(node, now=3.0, reason=Reason.OPERATOR))
        await same()
    await records.idle(3)
    await same()


async def test_a_list_that_was_read_in_part_is_known_in_part(world: World) -> None:
    replica = world.replica(alone=True)
    records = Records(replica.store)
    kept = await records.idle(5)
    asked: dict[str, Any] = {"states": (NodeState.IDLE,), "template": None, "after": None, "limit": 3}

    async def reads() -> int:
        assert await replica.store.nodes(**asked) == await world.store.nodes(**asked)
        return replica.calls.count("nodes")

    assert await reads() == 1
    assert await reads() == 0, "two more nodes follow"
    await replica.store.apply(nodes.drained(kept[1], now=2.0))
    assert await reads() == 0
    await replica.store.apply(nodes.condemn(kept[4], now=2.0, reason=Reason.OPERATOR))
    assert await reads() == 1, "it might have been the only one that followed"
    await replica.store.apply(nodes.condemn(kept[0], now=2.0, reason=Reason.OPERATOR))
    assert await reads() == 1, "another takes its place"
    assert await reads() == 0


async def test_a_list_of_nodes_that_was_read_while_one_changed_is_not_kept(world: World) -> None:
    replica = world.replica(alone=True)
    records = Records(replica.store)
    (node,) = await records.idle(1)
    asked: dict[str, Any] = {"states": (NodeState.IDLE,), "template": None, "after": None, "limit": 3}
    read = world.store.nodes

    async def while_one_changes(**given: Any) -> Page[Node]:
        found = await read(**given)
        await world.store.apply(nodes.condemn(node, now=2.0, reason=Reason.OPERATOR))
        return found

    replica.counted.nodes = while_one_changes
    assert (await replica.store.nodes(**asked)).items == (node,)
    del replica.counted.nodes
    assert (await replica.store.nodes(**asked)).items == ()
    assert (await replica.store.node(node.id)).state is NodeState.TERMINATING


async def test_a_list_of_nodes_and_a_look_at_one_keep_it_once(world: World) -> None:
    replica = world.replica(alone=True)
    records = Records(world.store)
    (node,) = await records.idle(1)
    asked: dict[str, Any] = {"states": (NodeState.IDLE,), "after": None, "limit": 3}
    (listed,) = (await replica.store.nodes(template="web", **asked)).items
    assert await replica.store.node(node.id) is listed
    (again,) = (await replica.store.nodes(template=None, **asked)).items
    assert again is listed
    assert replica.calls == ["nodes", "nodes"]


@pytest.mark.parametrize(
    ("states", "most"), [((NodeState.IDLE, NodeState.TERMINATED), 9), ((NodeState.IDLE,), 2)]
)
async def test_lists_of_what_has_ended_and_longer_lists_than_memory_takes_are_not_kept(
    world: World, states: tuple[NodeState, ...], most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache, "NODES_MOST", most)
    replica = world.replica(alone=True)
    await Records(replica.store).idle(3)
    replica.calls.clear()
    for _ in range(2):
        found = await replica.store.nodes(states=states, template=None, after=None, limit=9)
        assert len(found.items) == 3
    assert replica.calls == ["nodes", "nodes"]


async def test_a_list_that_commits_make_longer_than_memory_takes_is_not_kept(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache, "NODES_MOST", 2)
    replica = world.replica(alone=True)
    records = Records(replica.store)
    asked: dict[str, Any] = {"states": (NodeState.IDLE,), "template": None, "after": None, "limit": 9}
    for count in (1, 2, 3):
        await replica.store.nodes(**asked)
        await records.idle(1)
        replica.calls.clear()
        assert len((await replica.store.nodes(**asked)).items) == count
        assert ("nodes" in replica.calls) is (count > 2)


async def test_a_list_that_is_asked_for_outlives_those_that_were_asked_for_once(world: World) -> None:
    replica = world.replica(alone=True)
    await Records(world.store).idle(1)
    replica.calls.clear()
    for number in range(LISTS_MOST + 1):
        for template in (None, f"template-{number}"):
            await replica.store.nodes(states=(NodeState.IDLE,), template=template, after=None, limit=9)
    assert replica.calls.count("nodes") == 1 + LISTS_MOST + 1


async def test_on_a_shared_store_lists_are_read_each_time(world: World) -> None:
    replica = world.replica(alone=False)
    for _ in range(2):
        await replica.store.nodes(states=(NodeState.IDLE,), template=None, after=None, limit=9)
    assert replica.calls == ["nodes", "nodes"]


async def test_a_write_that_was_refused_is_followed_by_a_look_at_the_store(world: World) -> None:
    replica = world.replica(alone=True)
    records = Records(replica.store)
    (node,) = await records.idle(1)
    assert (await listed(replica)).items == (node,)
    world.tells.clear()  # a commit that this memory doesn't hear of
    moved = await world.store.apply(nodes.drained(node, now=2.0))
    assert await replica.store.node(node.id) == node
    with pytest.raises(Conflict):
        await replica.store.apply(nodes.drained(node, now=3.0))
    assert await replica.store.node(node.id) == moved
    assert (await listed(replica)).items == (moved,)


async def listed(replica: Replica) -> Page[Node]:
    return await replica.store.nodes(states=(NodeState.IDLE,), template=None, after=None, limit=9)


@pytest.mark.parametrize("verb", sorted(name for name, writes in marks(Store).items() if writes))
async def test_a_write_whose_end_is_unknown_is_followed_by_a_look_at_the_store(
    world: World, verb: str
) -> None:
    replica = world.replica(alone=True)
    records = Records(replica.store)
    (node,) = await records.idle(1)
    operation = await records.leased()

    async def look() -> set[str]:
        await replica.store.node(node.id)
        await replica.store.operation(operation.id)
        await replica.store.view(operation.id)
        await replica.store.last_seen((node.id,))
        await listed(replica)
        return set(replica.calls)

    await look()
    assert await look() == set()
    replica.counted.unknown = verb
    parameters = inspect.signature(getattr(Store, verb)).parameters
    given = [None for each in parameters.values() if each.kind is each.POSITIONAL_OR_KEYWORD][1:]
    with pytest.raises(StoreUnavailable):
        await getattr(replica.store, verb)(*given)
    assert replica.calls == [verb]
    seen = {"last_seen"} if verb == "record_beats" else set()
    assert await look() == {"node", "operation", "view", "nodes", *seen}


async def test_a_node_that_is_lost_before_the_commit_moves_its_operation_in_memory_too(world: World) -> None:
    replica = world.replica(alone=True)
    records = Records(replica.store)
    await records.idle(1)
    operation = await records.leased()
    (node,) = await records.claim(operation, 1)
    await replica.store.view(operation.id)
    await replica.store.apply(nodes.condemn(node, now=2.0, reason=Reason.OPERATOR))
    assert await replica.store.operation(operation.id) == await world.store.operation(operation.id)
    assert await replica.store.view(operation.id) == await world.store.view(operation.id)


async def test_a_node_that_left_its_operation_is_gone_from_the_kept_view(world: World) -> None:
    replica = world.replica(alone=True)
    records = Records(replica.store)
    await records.idle(3)
    operation = await records.leased()
    first, second, third = await records.claim(operation, 3)
    given = [
        await replica.store.apply(nodes.release(each, now=3.0, deadline_at=500.0)) for each in (first, second)
    ]
    await replica.store.view(operation.id)
    for each in given:
        await replica.store.apply(nodes.clean(each, now=4.0, deadline_at=500.0))
    view = await replica.store.view(operation.id)
    assert [each.id for each in view.nodes] == [third.id]
    assert view.nodes == (await world.store.view(operation.id)).nodes


async def test_the_order_of_the_queue_is_read_anew_when_the_queue_moves(world: World) -> None:
    replica = world.replica(alone=True)
    records = Records(replica.store)
    first, second = await records.leased(now=1.0), await records.leased(now=2.0)
    assert (await replica.store.view(second.id)).ahead == 0
    await records.queued(first)
    assert (await replica.store.view(second.id)).ahead == 1


async def test_beats_are_seen_in_a_view_that_was_kept(world: World) -> None:
    replica = world.replica(alone=True)
    records = Records(replica.store)
    await records.idle(1)
    operation = await records.leased()
    (node,) = await records.claim(operation, 1)
    before = await replica.store.view(operation.id)
    await replica.store.record_beats([Beat(node_id=node.id, seen_at=before.seen[node.id] + 7.0)])
    assert (await replica.store.view(operation.id)).seen == (await world.store.view(operation.id)).seen
    assert await replica.store.last_seen([node.id]) == {node.id: before.seen[node.id] + 7.0}


async def test_a_time_that_a_wrong_clock_wrote_is_not_kept_either(world: World) -> None:
    replica = world.replica(alone=True)
    records = Records(replica.store)
    (node,) = await records.idle(1)
    operation = await records.leased()
    await records.claim(operation, 1)
    for at, alone in ((99_000.0, False), (2_000.0, False), (98_000.0, True), (3_000.0, True)):
        beats, alive = ([], {at: {node.id: None}}) if alone else ([Beat(node_id=node.id, seen_at=at)], {})
        await replica.store.record_beats(beats, alive)
        assert (await replica.store.view(operation.id)).seen == {node.id: at}
        assert await replica.store.last_seen([node.id]) == {node.id: at}


async def test_a_beat_that_comes_late_moves_no_time_back(world: World) -> None:
    replica = world.replica(alone=True)
    records = Records(replica.store)
    (node,) = await records.idle(1)
    operation = await records.leased()
    await records.claim(operation, 1)
    for at in (3_000.0, 2_990.0):
        await replica.store.record_beats([], {at: {node.id: None}})
        assert (await replica.store.view(operation.id)).seen == {node.id: 3_000.0}


async def test_a_node_that_beat_before_this_replica_started_is_seen_in_the_view_that_claims_it(
    world: World,
) -> None:
    """Else a provision after a restart would wait for its next beat."""
    records = Records(world.store)
    (node,) = await records.idle(1)
    replica = world.replica(alone=True)
    operation = await records.leased()
    await replica.store.view(operation.id)
    (claimed,) = await records.claim(operation, 1)
    await replica.store.apply(nodes.attached(claimed, now=2.0, deadline_at=100.0))
    view = await replica.store.view(operation.id)
    assert view.seen == (await world.store.view(operation.id)).seen
    assert list(view.seen) == [node.id]


async def test_a_token_that_died_is_not_known_any_more_on_the_replica_that_saw_it(world: World) -> None:
    replica = world.replica(alone=True)
    records = Records(replica.store)
    (node,) = await records.idle(1)
    await replica.store.admit(
        nodes.joined(node, boot_id="b", now=2.0), node.id, key_hash="key", token_hash="old"
    )
    assert await replica.store.node_for_token("old") == node.id
    await replica.store.admit(None, node.id, key_hash="key", token_hash="new")
    assert await replica.store.node_for_token("old") is None
    assert await replica.store.node_for_token("new") == node.id


async def test_on_a_shared_store_a_dead_token_is_known_no_more(world: World) -> None:
    here, there = world.replica(alone=False), world.replica(alone=False)
    records = Records(here.store)
    (node,) = await records.idle(1)
    await there.store.admit(nodes.joined(node, boot_id="b", now=2.0), node.id, key_hash="k", token_hash="old")
    assert await here.store.node_for_token("old") == node.id
    shown = await here.store.node_view_for_token("old")
    assert shown is not None and shown.node.id == node.id
    await there.store.admit(None, node.id, key_hash="k", token_hash="new")
    assert await here.store.node_for_token("old") is None
    assert await here.store.node_view_for_token("old") is None


async def turns() -> None:
    """Let tasks that were woken run."""
    for _ in range(3):
        await asyncio.sleep(0)


async def test_on_a_shared_store_a_wake_up_makes_all_forget_at_once_what_one_changed(world: World) -> None:
    wakeups, here = LocalWakeups(), world.replica(alone=False)
    there = CachedStore(world.store, world.clock, alone=False, revoked=lambda: wakeups.notify(ACCESS))
    following = asyncio.create_task(follow_revocations(wakeups, here.cache, here.access))
    await turns()
    heard = wakeups.listen((ACCESS,))
    (node,) = await Records(world.store).idle(1)
    joined = nodes.joined(node, boot_id="b", now=2.0)
    await there.admit(joined, node.id, key_hash="key", token_hash="old")
    assert not await heard.wait(0.0), "the first token of a node replaces none"
    await there.admit(None, node.id, key_hash="key", token_hash="new")
    assert await heard.wait(0.0)

    access = here.access.as_access()
    token = ApiToken(id="tok-1", name="ci", role=Role.ADMIN, created_at=1.0)
    await world.store.access.add_token(token, secret_hash="hash")
    assert await access.token_for("hash") == token
    await world.store.access.revoke_token("tok-1", now=2.0)
    wakeups.notify(ACCESS)  # as the announcer does
    await turns()
    found = await access.token_for("hash")
    assert found is not None and found.revoked_at == 2.0
    following.cancel()


async def test_on_a_shared_store_records_are_never_kept(world: World) -> None:
    replica = world.replica(alone=False)
    records = Records(replica.store)
    (node,) = await records.idle(1)
    operation = await records.leased()
    for _ in range(2):
        await replica.store.node(node.id)
        await replica.store.node_view(node.id)
        await replica.store.operation(operation.id)
        await replica.store.view(operation.id)
    for verb in ("node", "node_view", "operation", "view"):
        assert replica.counted.calls.count(verb) == 2


@pytest.mark.parametrize("alone", [True, False])
async def test_a_revoked_token_and_a_pause_are_known_at_once_or_after_a_second(
    world: World, *, alone: bool
) -> None:
    replica = world.replica(alone=alone)
    token = ApiToken(id="tok-1", name="ci", role=Role.ADMIN, created_at=1.0)
    await world.store.access.add_token(token, secret_hash="hash")
    access = replica.access.as_access()
    assert await access.token_for("hash") == token and not await access.paused("web")
    assert await access.token_for("other") is None
    assert await access.token_for("hash") == token
    assert replica.calls == ["token_for", "paused", "token_for"], "what isn't there is never kept"
    await world.store.access.revoke_token("tok-1", now=2.0)
    await world.store.access.pause("web", paused=True, now=2.0)
    if not alone:
        world.clock.at += SETTLED
    found = await access.token_for("hash")
    assert found is not None and found.revoked_at == 2.0
    assert await access.paused("web")


@pytest.mark.parametrize("alone", [True, False])
async def test_a_new_revision_is_known_at_once_or_after_a_second(world: World, *, alone: bool) -> None:
    replica = world.replica(alone=alone)
    assert (await replica.store.template("web")).revision == 1
    assert (await replica.store.template("web")).revision == 1
    assert replica.calls == ["template"]
    await world.store.apply_template(TemplateSpec(name="web", provider="simulated", boot_script="x"), now=2.0)
    if not alone:
        world.clock.at += SETTLED
    assert (await replica.store.template("web")).revision == 2


async def test_a_read_that_began_before_a_change_is_not_kept_after_it() -> None:
    kept: Kept[str, int] = Kept(Minute(), most=10)
    asked, go_on = asyncio.Event(), asyncio.Event()

    async def slow() -> int:
        asked.set()
        await go_on.wait()
        return 1

    async def quick() -> int:
        return 2

    reading = asyncio.create_task(kept.read("a", slow))
    await asked.wait()
    kept.forget("a")
    go_on.set()
    assert await reading == 1
    assert await kept.read("a", quick) == 2


async def test_a_clock_that_is_set_back_makes_no_answer_last() -> None:
    clock = Minute()
    kept: Kept[str, int] = Kept(clock, most=10, seconds=SETTLED)
    kept.put("a", 1)
    clock.at += SETTLED / 2
    assert kept.get("a") == 1
    clock.at -= 3600.0
    assert kept.get("a") is None


async def test_memory_is_bounded_and_drops_the_oldest() -> None:
    kept: Kept[int, int] = Kept(Minute(), most=3)
    for number in range(5):
        kept.put(number, number)
    assert [kept.get(number) for number in range(5)] == [None, None, 2, 3, 4]


async def test_an_end_is_kept_with_its_lease_as_it_is_stored(world: World) -> None:
    replica = world.replica(alone=True)
    records = Records(replica.store)
    operation = await records.leased(until=5.0)
    await replica.store.view(operation.id)
    (taken,) = await replica.store.lease("replica-b", now=6.0, until=1e6, limit=1)
    assert (await replica.store.view(operation.id)).operation == taken
    assert await replica.store.operation(operation.id) == taken
    ended = await replica.store.write_operation(
        operations.ended(taken, operations.Status.CANCELLED, now=7.0, progress=None, verdict=None),
        fence=taken.fence,
    )
    assert await replica.store.operation(NodeId(operation.id)) == ended  # type: ignore[arg-type]
