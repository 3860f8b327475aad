"""The contract of the cluster store as code: every adapter runs it unchanged."""

import asyncio
from dataclasses import replace
from itertools import count
from typing import Any

import pytest

from muster.domain import operation as lifecycle
from muster.domain.cluster import LIVE_CLUSTERS, Cluster, ClusterChange, ClusterState, changed
from muster.domain.errors import ClusterExists, Conflict, IdempotencyMismatch, LeaseLost, NotFound
from muster.domain.events import Entity
from muster.domain.ids import ClusterId, OperationId
from muster.domain.operation import Kind, Operation, Status
from muster.domain.progress import Progress
from muster.domain.requests import ClusterCreateRequest
from muster.ports.cluster_store import FORGET, ClusterStore
from muster.ports.store import Store
from tests.contracts.store_contract.bookkeeping import whole_feed

NUMBERS = count(1)
TOKEN = "a-token-that-nobody-may-see"


def creation(
    name: str = "c1", *, now: float = 1.0, key: str | None = None
) -> tuple[Operation, ClusterChange]:
    number = next(NUMBERS)
    operation = Operation(
        id=OperationId(f"op-c{number:05d}"),
        kind=Kind.CLUSTER_CREATE,
        request=ClusterCreateRequest(name=name, template="batch"),
        template="batch",
        run=None,
        idempotency_key=key,
        created_at=now,
        updated_at=now,
        deadline_at=now + 3600.0,
        deadline_source="default",
        lease_owner="replica-a",
        lease_until=1e6,
        epoch=1,
    )
    cluster = Cluster(
        id=ClusterId(f"cl-{number:05d}"),
        name=name,
        template="batch",
        revision=1,
        provider="aks",
        stage="preparing",
        created_at=now,
        stage_at=now,
        operation_id=operation.id,
    )
    return operation, ClusterChange(before=None, after=cluster, at=now)


class ClusterStoreContract:
    """An adapter gives `clusters` and, of the same store, `store`."""

    async def _made(
        self, clusters: ClusterStore, name: str = "c1", *, now: float = 1.0
    ) -> tuple[Operation, Cluster]:
        operation, change = creation(name, now=now)
        assert await clusters.submit(operation, change) == (operation, True)
        return operation, change.after

    async def _ready(self, clusters: ClusterStore, name: str, *, now: float, took: float) -> Cluster:
        operation, cluster = await self._made(clusters, name, now=now)
        at = now + took
        change = changed(cluster, now=at, stage="done", state=ClusterState.READY, ready_at=at)
        return await clusters.write(change, fence=operation.fence)

    async def _deleted(
        self, clusters: ClusterStore, operation: Operation, cluster: Cluster, *, now: float
    ) -> Cluster:
        change = changed(cluster, now=now, stage="gone", state=ClusterState.DELETED)
        return await clusters.write(change, fence=operation.fence)

    async def test_a_cluster_and_its_operation_are_kept_together(
        self, clusters: ClusterStore, store: Store
    ) -> None:
        operation, cluster = await self._made(clusters)
        assert await clusters.cluster(cluster.id) == cluster
        assert await clusters.of_operation(operation.id) == cluster
        assert await store.operation(operation.id) == operation
        with pytest.raises(NotFound):
            await clusters.cluster(ClusterId("cl-none"))
        with pytest.raises(NotFound):
            await clusters.of_operation(OperationId("op-none"))

    async def test_one_live_cluster_has_a_name_case_aside(self, clusters: ClusterStore, store: Store) -> None:
        operation, cluster = await self._made(clusters, "Batch-1")
        second, change = creation("batch-1", now=2.0)
        with pytest.raises(ClusterExists, match="creating"):
            await clusters.submit(second, change)
        with pytest.raises(NotFound):
            await store.operation(second.id)
        assert await clusters.named("BATCH-1") == cluster
        gone = await self._deleted(clusters, operation, cluster, now=3.0)
        assert await clusters.named("batch-1") == gone
        assert (await clusters.submit(second, change))[1]
        assert await clusters.named("batch-1") == change.after

    async def test_of_many_who_ask_for_a_name_at_once_one_gets_it(self, clusters: ClusterStore) -> None:
        asked = [creation("c1") for _ in range(8)]
        ends = await asyncio.gather(*(clusters.submit(*each) for each in asked), return_exceptions=True)
        assert sum(not isinstance(end, BaseException) for end in ends) == 1
        assert all(isinstance(end, tuple | ClusterExists) for end in ends)

    async def test_the_same_key_gives_the_first_operation(self, clusters: ClusterStore) -> None:
        first, change = creation(key="key-1")
        await clusters.submit(first, change)
        again, another = creation(key="key-1", now=9.0)
        assert await clusters.submit(again, another) == (first, False)
        other, change = creation("c2", key="key-1")
        with pytest.raises(IdempotencyMismatch):
            await clusters.submit(other, change)

    async def test_a_write_is_guarded_by_version_and_epoch(
        self, clusters: ClusterStore, store: Store
    ) -> None:
        operation, cluster = await self._made(clusters)
        change = changed(cluster, now=2.0, stage="group")
        after = await clusters.write(change, fence=operation.fence)
        assert after == await clusters.cluster(cluster.id)
        assert (after.stage, after.stage_at, after.version) == ("group", 2.0, 2)
        with pytest.raises(Conflict):
            await clusters.write(change, fence=operation.fence)
        old = replace(operation.fence, epoch=0)
        with pytest.raises(LeaseLost):
            await clusters.write(changed(after, now=3.0, stage="creating"), fence=old)
        with pytest.raises(LeaseLost):
            await clusters.write(changed(after, now=3.0), fence=old, token=TOKEN)
        assert await clusters.token(cluster.id) is None

    async def test_a_cluster_and_its_operation_are_written_together_or_not_at_all(
        self, clusters: ClusterStore, store: Store
    ) -> None:
        operation, cluster = await self._made(clusters)
        shown = Progress(step=2, total_steps=5, phase="p", label="l")
        change = changed(cluster, now=2.0, stage="group")
        await clusters.write(
            change, fence=operation.fence, operation=lifecycle.progressed(operation, shown, now=2.0)
        )
        moved = await store.operation(operation.id)
        assert moved.progress == shown
        stale = lifecycle.progressed(operation, shown, now=3.0)
        with pytest.raises(Conflict):
            await clusters.write(
                changed(change.after, now=3.0, stage="creating"), fence=operation.fence, operation=stale
            )
        assert (await clusters.cluster(cluster.id)).stage == "group"

    async def test_a_token_is_kept_apart_and_forgotten_at_the_end(
        self, clusters: ClusterStore, store: Store
    ) -> None:
        operation, cluster = await self._made(clusters)
        assert await clusters.token(cluster.id) is None
        for token in ("another", TOKEN, None):
            cluster = await clusters.write(changed(cluster, now=2.0), fence=operation.fence, token=token)
        assert await clusters.token(cluster.id) == TOKEN
        assert TOKEN not in str(await clusters.cluster(cluster.id))
        assert TOKEN not in str(await whole_feed(store))
        await self._deleted(clusters, operation, cluster, now=2.0)
        assert await clusters.token(cluster.id) is None

    @pytest.mark.parametrize(
        ("end", "token"),
        [
            ({"stage": "done", "state": ClusterState.READY}, None),
            ({"state": ClusterState.FAILED}, None),
            ({"stage": "aborting"}, FORGET),
        ],
    )
    async def test_with_the_work_its_token_is_forgotten(
        self, clusters: ClusterStore, end: dict[str, Any], token: str | None
    ) -> None:
        """Ready; failed and left as it is; or given up, when no operation waits for what comes of it."""
        operation, cluster = await self._made(clusters)
        creating = changed(cluster, now=2.0, stage="creating")
        cluster = await clusters.write(creating, fence=operation.fence, token=TOKEN)
        cluster = await clusters.write(
            changed(cluster, now=2.0, stage="granting", roles_left="x"), fence=operation.fence
        )
        assert await clusters.token(cluster.id) == TOKEN
        ended = await clusters.write(changed(cluster, now=3.0, **end), fence=operation.fence, token=token)
        assert await clusters.token(cluster.id) is None
        assert await clusters.cluster(cluster.id) == ended

    async def test_clusters_are_listed_newest_first_by_state_and_page(self, clusters: ClusterStore) -> None:
        made = [await self._made(clusters, f"c{number}", now=float(number)) for number in range(1, 6)]
        await self._deleted(clusters, *made[2], now=9.0)
        first = await clusters.clusters(states=LIVE_CLUSTERS, after=None, limit=3)
        assert [each.name for each in first.items] == ["c5", "c4", "c2"]
        rest = await clusters.clusters(states=LIVE_CLUSTERS, after=first.next, limit=3)
        assert [each.name for each in rest.items] == ["c1"]
        assert rest.next is None
        gone = await clusters.clusters(states=(ClusterState.DELETED,), after=None, limit=3)
        assert [each.name for each in gone.items] == ["c3"]
        assert (await clusters.clusters(states=(), after=None, limit=3)).items == ()

    async def test_the_last_creates_of_a_template_tell_how_long_they_took(
        self, clusters: ClusterStore
    ) -> None:
        await self._made(clusters, "unfinished")
        for number, took in enumerate((300.0, 420.0, 360.0)):
            await self._ready(clusters, f"c{number}", now=1000.0 * number, took=took)
        assert await clusters.create_seconds("batch", limit=2) == [360.0, 420.0]
        assert await clusters.create_seconds("another", limit=2) == []

    async def test_events_rebuild_a_cluster(self, clusters: ClusterStore, store: Store) -> None:
        from muster.domain import serialization

        operation, cluster = await self._made(clusters)
        await self._deleted(clusters, operation, cluster, now=2.0)
        told = [event for event in await whole_feed(store) if event.entity is Entity.CLUSTER]
        assert [event.name for event in told] == ["submitted", "deleted"]
        folded = {name: value for event in told for name, value in event.changes.items()}
        assert folded == serialization.fields_to_plain(await clusters.cluster(cluster.id))

    async def test_what_is_long_gone_is_forgotten_but_not_what_teaches(
        self, clusters: ClusterStore, store: Store
    ) -> None:
        operation, cluster = await self._made(clusters, "never-ready")
        gone = await self._deleted(clusters, operation, cluster, now=2.0)
        end = lifecycle.ended(operation, Status.FAILED, now=2.0, progress=None)
        await store.write_operation(end, fence=operation.fence)
        ready = await self._ready(clusters, "taught", now=2.0, took=300.0)
        taught = await store.operation(ready.operation_id)
        await self._deleted(clusters, taught, ready, now=400.0)
        await store.prune(before=1e6, limit=100)
        await store.prune(before=1e6, limit=100)
        with pytest.raises(NotFound):
            await clusters.cluster(gone.id)
        with pytest.raises(NotFound):
            await store.operation(operation.id)
        assert await clusters.create_seconds("batch", limit=5) == [300.0]
