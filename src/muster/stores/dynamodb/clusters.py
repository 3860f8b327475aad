"""Clusters and the tokens of their work, as the cluster store promises.

Owns those items. A name is an item, so that it has one live cluster at most; what an operation works on is
one in the operation's partition. A token is a secret: in an item of its own, and in no record and no event.
"""

from collections.abc import Sequence

from muster.domain import events as drafts
from muster.domain.cluster import Cluster, ClusterChange, ClusterState
from muster.domain.cluster_decisions import LEARNED_FROM
from muster.domain.errors import ClusterExists
from muster.domain.ids import ClusterId, OperationId
from muster.domain.operation import Fence, Operation, OperationChange
from muster.ports.cluster_store import FORGET
from muster.ports.store import Cursor, Page
from muster.stores import cursors
from muster.stores.dynamodb import guards, keys
from muster.stores.dynamodb.feed import Feed
from muster.stores.dynamodb.operations import Operations
from muster.stores.dynamodb.table import Again, Table, newest
from muster.stores.dynamodb.values import Item, Value, key_of, moment, record, restored, text
from muster.stores.dynamodb.writes import ABSENT, Write, again, conflict, version_conflict


class _NameTaken(Exception):
    """A live cluster has that name."""


class DynamoClusters:
    """Implements muster.ports.cluster_store.ClusterStore; see there for what each verb promises."""

    def __init__(self, table: Table, feed: Feed, operations: Operations) -> None:
        self._table = table
        self._feed = feed
        self._operations = operations

    async def submit(self, operation: Operation, change: ClusterChange) -> tuple[Operation, bool]:
        return await self._table.repeated(lambda: self._submit(operation, change))

    async def _submit(self, operation: Operation, change: ClusterChange) -> tuple[Operation, bool]:
        write = Write()
        self._operations.plan(write, operation, pool=None, fence=None, actor=change.actor)
        _apply(write, change, concerned=(operation.id,))
        try:
            return await self._operations.submitted(write, operation)
        except _NameTaken:
            there = await self.named(change.after.name)
            if there is None or there.state is ClusterState.DELETED:
                raise Again(change.after.name) from None  # it went in this moment
        message = f"cannot make cluster {there.name}: there is one of that name, and it is {there.state}"
        raise ClusterExists(there.name, there.state, message)

    async def cluster(self, cluster_id: ClusterId) -> Cluster:
        return restored(Cluster, await self._table.found(keys.cluster(cluster_id), "cluster", cluster_id))

    async def named(self, name: str) -> Cluster | None:
        item = await self._table.get(keys.cluster_name(name))
        return None if item is None else await self.cluster(ClusterId(text(item, "cluster")))

    async def of_operation(self, operation_id: OperationId) -> Cluster:
        item = await self._table.found(keys.worked_on(operation_id), "cluster of operation", operation_id)
        return await self.cluster(ClusterId(text(item, "cluster")))

    async def clusters(
        self, *, states: Sequence[ClusterState], after: Cursor | None, limit: int
    ) -> Page[Cluster]:
        wanted = tuple(dict.fromkeys(states))

        def read(item: Item) -> Cluster | None:
            cluster = restored(Cluster, item)
            return cluster if cluster.state in wanted else None

        return await newest(
            self._table, [_listed(each) for each in wanted], read, kind="clusters", after=after, limit=limit
        )

    async def write(
        self,
        change: ClusterChange,
        *,
        fence: Fence,
        operation: OperationChange | None = None,
        token: str | None = None,
    ) -> Cluster:
        write = Write()
        if operation is None:
            guards.check_fence(write, fence)
        _apply(write, change)
        if token == FORGET or change.after.state is not ClusterState.CREATING:
            write.delete(keys.cluster_token(change.after.id))
        elif token is not None:
            write.put(keys.cluster_token(change.after.id), {"token": token})
        if operation is not None:
            await self._operations.change(write, operation, fence=fence, clock=None)
        await self._feed.commit(write)
        return change.after

    async def token(self, cluster_id: ClusterId) -> str | None:
        item = await self._table.get(keys.cluster_token(cluster_id))
        return None if item is None else text(item, "token")

    async def create_seconds(self, template: str, *, limit: int) -> Sequence[float]:
        found = await self._table.query(_taught(template), index="scoped", forward=False, most=limit)
        names = [key_of(item) for item in found]
        items = await self._table.get_many(names)
        made = [restored(Cluster, items[name]) for name in names if name in items]
        return [each.ready_at - each.created_at for each in made if each.ready_at is not None]

    async def forget(self, item: Item) -> bool:
        """Delete old clusters. Creates from which the expected duration is learnt stay, however old."""
        cluster = restored(Cluster, item)
        if cluster.state is not ClusterState.DELETED or await self._teaches(cluster):
            return False
        write = Write()
        write.delete(
            keys.cluster(cluster.id),
            where="#v = :v",
            values={"v": cluster.version},
            refused=again(cluster.id),
        )
        write.delete(keys.cluster_token(cluster.id))
        write.delete(keys.worked_on(cluster.operation_id))
        named = await self._table.get(keys.cluster_name(cluster.name))
        if named is not None and named["cluster"] == cluster.id:
            write.delete(
                keys.cluster_name(cluster.name),
                where="#cluster = :id",
                values={"id": cluster.id},
                refused=again(cluster.id),
            )
        await self._feed.commit(write)
        return True

    async def _teaches(self, cluster: Cluster) -> bool:
        if cluster.ready_at is None:
            return False
        low = f"{moment(cluster.ready_at, cluster.id)}\x00"
        newer = await self._table.query(_taught(cluster.template), index="scoped", low=low, most=LEARNED_FROM)
        return len(newer) < LEARNED_FROM


def _listed(state: ClusterState) -> str:
    return f"CLUSTERS#{state.value}"


def _taught(template: str) -> str:
    return f"CLUSTERS#{template}"


def _apply(write: Write, change: ClusterChange, *, concerned: tuple[OperationId, ...] = ()) -> None:
    before, after = change.before, change.after
    if before is None:
        _name(write, after)
        taken = conflict(f"cannot make cluster {after.id}: there is one of that id")
        write.put(keys.cluster(after.id), _item(after), where=ABSENT, refused=taken)
    else:
        write.put(
            keys.cluster(after.id),
            _item(after),
            where="#v = :expected",
            values={"expected": before.version},
            refused=version_conflict(before.id, before.version),
        )
        if after.state is ClusterState.DELETED:
            write.update(keys.cluster_name(after.name), "SET #live = :no", {"no": False})
    if before is None or before.operation_id != after.operation_id:
        write.put(keys.worked_on(after.operation_id), {"cluster": after.id})
        if before is not None:
            write.delete(keys.worked_on(before.operation_id))
    write.tell(drafts.of_cluster(change), at=change.at, operations=concerned)


def _name(write: Write, cluster: Cluster) -> None:
    write.put(
        keys.cluster_name(cluster.name),
        {"cluster": cluster.id, "live": True},
        where=f"{ABSENT} OR #live = :no",
        values={"no": False},
        refused=lambda _item: _NameTaken(),
    )


def _item(cluster: Cluster) -> Item:
    item: dict[str, Value] = {
        "v": cluster.version,
        "d": record(cluster),
        "lp": _listed(cluster.state),
        "ls": moment(*cursors.age(cluster)),
    }
    if cluster.ready_at is not None:
        item |= {"sp": _taught(cluster.template), "ss": moment(cluster.ready_at, cluster.id)}
    if cluster.state is ClusterState.DELETED:
        item |= {"tp": keys.DELETED, "ts": moment(cluster.stage_at, cluster.id)}
    return item
