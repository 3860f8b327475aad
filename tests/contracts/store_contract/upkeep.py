from collections.abc import Awaitable, Callable

from muster.domain import launch as launches
from muster.domain import node as nodes
from muster.domain import operation as operations
from muster.domain.errors import NotFound
from muster.domain.ids import OperationId
from muster.domain.node import Node
from muster.domain.operation import Kind, Operation, Status
from muster.domain.reasons import Reason
from muster.domain.requests import ReleaseRequest
from muster.ports.store import TOTAL, Beat, Drift, Pruned, Store
from tests.contracts.store_contract.bookkeeping import whole_feed
from tests.contracts.store_contract.records import EVERY_STATE, Records

NOTHING = Pruned(nodes=0, launches=0, operations=0, events=0)


class UpkeepContract:
    async def test_an_audit_finds_and_repairs_a_wrong_counter(
        self, store: Store, corrupt: Callable[[Store, int], Awaitable[None]]
    ) -> None:
        records = Records(store)
        operation = await records.leased()
        await records.created(operation, 2)
        await records.called(records.plan(operation, size=3, ordinal=2), operation.fence)
        assert list(await store.audit(now=9.0)) == []
        await corrupt(store, 4)
        assert list(await store.audit(now=9.0)) == [
            Drift(scope="template/web", counted=5, stored=9),
            Drift(scope=TOTAL, counted=5, stored=9),
        ]
        usage = await store.usage("web")
        assert (usage.template, usage.total) == (5, 5)
        names = [event.name for event in await whole_feed(store)]
        assert names[-2:] == ["counter_corrected"] * 2

    async def test_prune_forgets_what_is_old_and_over(self, store: Store) -> None:
        records = Records(store)
        operation, gone = await self._over(records)
        cut = await store.prune(before=100.0, limit=100)
        assert (cut.nodes, cut.launches, cut.operations) == (1, 1, 1)
        for lost in (store.node(gone.id), store.operation(operation.id)):
            try:
                await lost
            except NotFound:
                continue
            raise AssertionError("it is still there")
        assert (await store.nodes(states=EVERY_STATE, template=None, after=None, limit=9)).items == ()
        assert await whole_feed(store) == []
        assert await store.last_seen([gone.id]) == {}
        assert await store.node_for_token(f"token-{gone.id}") is None

    async def test_prune_leaves_what_is_not_old_enough(self, store: Store) -> None:
        records = Records(store)
        await self._over(records)
        cut = await store.prune(before=1.0, limit=100)
        assert cut == NOTHING

    async def test_prune_is_bounded_and_comes_to_an_end(self, store: Store) -> None:
        records = Records(store)
        for _ in range(3):
            await self._over(records)
        rounds: list[Pruned] = []
        while not rounds or rounds[-1].more:
            cut = await store.prune(before=100.0, limit=2)
            assert max(cut.nodes, cut.launches, cut.operations, cut.events) <= 2
            rounds.append(cut)
        assert await store.prune(before=100.0, limit=2) == NOTHING
        assert sum(cut.nodes for cut in rounds) == 3
        assert sum(cut.launches for cut in rounds) == 3
        assert sum(cut.operations for cut in rounds) == 3

    async def test_prune_keeps_what_a_live_record_refers_to(self, store: Store) -> None:
        records = Records(store)
        operation = await records.leased()
        lost, kept = await records.created(operation, 2)
        await self._ended(store, await self._gone(store, lost), operation)
        cut = await store.prune(before=100.0, limit=100)
        assert (cut.nodes, cut.launches, cut.operations) == (1, 0, 0)
        assert await store.node(kept.id) == kept
        assert (await store.view(operation.id)).nodes == (kept,)

    async def test_prune_keeps_the_nodes_and_launches_of_an_operation_that_goes_on(
        self, store: Store
    ) -> None:
        records = Records(store)
        operation = await records.leased()
        (node,) = await records.created(operation, 1)
        await self._gone(store, node)
        cut = await store.prune(before=100.0, limit=100)
        assert (cut.nodes, cut.launches, cut.operations) == (0, 0, 0)

    async def test_prune_keeps_an_ended_operation_that_a_warm_node_still_serves(self, store: Store) -> None:
        records = Records(store)
        await records.idle(1)
        operation = await records.leased()
        (node,) = await records.claim(operation, 1)
        await self._ended(store, None, operation)
        await store.prune(before=1e6, limit=100)
        assert (await store.view(operation.id)).nodes == (node,)

    async def test_prune_keeps_an_open_launch_and_its_ended_operation(self, store: Store) -> None:
        records = Records(store)
        operation = await records.leased()
        launch = await records.called(records.plan(operation), operation.fence)
        await self._ended(store, None, operation)
        cut = await store.prune(before=1e6, limit=100)
        assert (cut.launches, cut.operations) == (0, 0)
        await store.write_launch(
            launch, launches.abandoned(launch, now=20.0, reason=Reason.CANCELLED), fence=None
        )
        cut = await store.prune(before=1e6, limit=100)
        assert (cut.launches, cut.operations) == (1, 1)

    async def test_prune_keeps_what_an_unfinished_release_means(self, store: Store) -> None:
        records = Records(store)
        operation = await records.leased()
        await self._ended(store, None, operation)
        request = ReleaseRequest(operation_id=OperationId(operation.id))
        release, _ = await store.submit(records.draft(kind=Kind.RELEASE, request=request))
        assert (await store.prune(before=1e6, limit=100)).operations == 0
        await self._ended(store, None, release)
        assert (await store.prune(before=1e6, limit=100)).operations == 2

    async def test_prune_keeps_the_refill_that_a_pool_remembers(self, store: Store) -> None:
        records = Records(store)
        pool = await store.pool("web")
        refill, _ = await store.submit(records.draft(kind=Kind.REFILL), pool=pool)
        await self._ended(store, None, refill)
        assert (await store.prune(before=1e6, limit=100)).operations == 0

    async def test_a_key_is_free_again_once_its_operation_is_forgotten(self, store: Store) -> None:
        records = Records(store)
        operation, _ = await store.submit(records.draft(key="key-1"))
        await self._ended(store, None, operation)
        await store.prune(before=1e6, limit=100)
        _, made = await store.submit(records.draft(key="key-1"))
        assert made

    async def test_a_cursor_that_was_pruned_past_goes_on_with_what_is_left(self, store: Store) -> None:
        for now in (1.0, 2.0, 3.0, 4.0):
            await store.note("m-1", "seen", reason=None, detail="", now=now)
        first = await store.events(after=None, limit=1)
        assert (await store.prune(before=3.0, limit=100)).events == 2
        rest = await store.events(after=first.next, limit=10)
        assert [event.at for event in rest.items] == [3.0, 4.0]
        assert (await store.prune(before=99.0, limit=100)).events == 2
        await store.note("m-1", "seen", reason=None, detail="", now=99.0)
        newest = await store.events(after=rest.next, limit=10)
        assert [event.at for event in newest.items] == [99.0], "an event's place is never given again"

    async def _over(self, records: Records) -> tuple[Operation, Node]:
        operation = await records.leased()
        (node,) = await records.created(operation, 1)
        join = nodes.joined(node, boot_id="boot-1", now=5.0)
        await records.store.admit(join, node.id, key_hash="key", token_hash=f"token-{node.id}")
        await records.store.record_beats([Beat(node_id=node.id, seen_at=5.0)])
        gone = await self._gone(records.store, join.after)
        return await self._ended(records.store, gone, operation), gone

    async def _gone(self, store: Store, node: Node) -> Node:
        doomed = await store.apply(nodes.condemn(node, now=6.0, reason=Reason.OPERATOR))
        return await store.apply(nodes.confirm_gone(doomed, now=7.0))

    async def _ended(self, store: Store, _after: Node | None, operation: Operation) -> Operation:
        present = await store.operation(operation.id)
        end = operations.ended(present, Status.FAILED, now=8.0, progress=None)
        return await store.write_operation(end)
