"""Operation records: submitted once, read with all they hold, written under guard.

This module owns what is written with them. Places in a template's queue are items of their own. `entered`
counts how often an operation took a place, so a write can require that none did since its read.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace

from muster.domain import events as drafts
from muster.domain.errors import (
    Conflict,
    IllegalTransition,
    LeaseLost,
    QueueFull,
    StoreUnavailable,
)
from muster.domain.failures import of_operation as of_failure
from muster.domain.ids import NodeId, OperationId
from muster.domain.launch import Launch
from muster.domain.node import Node
from muster.domain.operation import ENDED, Fence, Kind, Operation, OperationChange, Status
from muster.domain.overview import Handover
from muster.domain.provision_decisions import HELD
from muster.domain.requests import ProvisionRequest
from muster.ports.store import AHEAD_MOST, Cursor, Holdings, NodeView, OperationView, Page, Pool
from muster.stores.cursors import age
from muster.stores.dynamodb import failures, guards, keys
from muster.stores.dynamodb.admission import node_for_token
from muster.stores.dynamodb.feed import Feed
from muster.stores.dynamodb.operation_items import fields, known, known_of, new, operation
from muster.stores.dynamodb.table import TRIES, Again, Table, newest
from muster.stores.dynamodb.values import (
    Item,
    Key,
    Value,
    key_of,
    moment,
    number,
    record,
    restored,
    text,
    whole,
)
from muster.stores.dynamodb.vitals import Liveness
from muster.stores.dynamodb.writes import ABSENT, Write, given, setting, version_conflict
from muster.stores.records import lease_lost_error, same_request

_TOGETHER = 99
"""Nodes that are read in one moment, beside their operation."""
_ENTERED = "ENTERED"
"""Sorts after the places in a queue, which are times."""


class _KeyUsed(Exception):
    """The idempotency key belongs to an operation."""


class Operations:
    def __init__(self, table: Table, feed: Feed, liveness: Liveness) -> None:
        self._table = table
        self._feed = feed
        self._liveness = liveness

    # --- reading ----------------------------------------------------------------------------------

    async def get(self, operation_id: OperationId) -> Operation:
        item = await self._table.found(keys.operation(operation_id), "operation", operation_id)
        return operation(item)

    async def by_key(self, key: str | None) -> Operation | None:
        item = None if key is None else await self._table.get(keys.idempotency(key))
        return None if item is None else await self.get(OperationId(text(item, "op")))

    async def view(self, operation_id: OperationId) -> OperationView:
        # First the operation: a loss after this read moves its version.
        found = await self.get(operation_id)
        launches, ids = await self._held(operation_id)
        wanted = [key for node_id in ids for key in (keys.node(node_id), self._liveness.key(node_id))]
        items, ahead = await asyncio.gather(self._table.get_many(wanted), self._ahead(found))
        nodes = [restored(Node, items[key]) for key in map(keys.node, ids) if key in items]
        bound = _bound(nodes, operation_id)
        seen = {node.id: number(items.get(self._liveness.key(node.id), {}), "seen_at") for node in bound}
        return OperationView(
            operation=found,
            nodes=bound,
            launches=launches,
            seen={node_id: at for node_id, at in seen.items() if at is not None},
            ahead=ahead,
        )

    async def holdings(self, operation_id: OperationId) -> Holdings:
        launches, ids = await self._held(operation_id)
        items = await self._table.get_many([keys.node(node_id) for node_id in ids])
        nodes = [restored(Node, item) for item in items.values()]
        return Holdings(nodes=_bound(nodes, operation_id), launches=launches)

    async def _held(self, operation_id: OperationId) -> tuple[tuple[Launch, ...], list[NodeId]]:
        """Read its launches, and the ids of nodes that are bound to it or were a moment ago."""
        held = await self._table.query(
            keys.operation(operation_id)[0], low="LAUNCH#", high=f"NODE#{keys.LAST}"
        )
        launches = [restored(Launch, item) for item in held if text(item, "SK").startswith("LAUNCH#")]
        ids = [NodeId(text(item, "SK")[5:]) for item in held if text(item, "SK").startswith("NODE#")]
        return tuple(sorted(launches, key=lambda launch: (len(launch.id), launch.id))), ids

    async def _ahead(self, found: Operation) -> int:
        if found.template is None:
            return 0
        high = moment(found.created_at, found.id)
        return await self._table.count(keys.queue(found.template), high=high, most=AHEAD_MOST)

    async def page(
        self,
        *,
        kind: Kind | None,
        statuses: Sequence[Status],
        run: str | None,
        after: Cursor | None,
        limit: int,
    ) -> Page[Operation]:
        wanted = tuple(dict.fromkeys(statuses))
        partitions = (
            [f"OPS#{each.value}" for each in wanted] if run is None else [f"RUN#{run}"] if wanted else []
        )

        def read(item: Item) -> Operation | None:
            found = operation(item) if known(item) else None
            matches = found is not None and found.status in wanted and kind in (None, found.kind)
            return found if matches else None

        index = "listed" if run is None else "scoped"
        return await newest(
            self._table, partitions, read, kind="operations", index=index, after=after, limit=limit
        )

    async def node_view(self, node_id: NodeId) -> NodeView:
        """Read the node first: an operation is deleted after its nodes."""
        item = await self._table.found(keys.node(node_id), "node", node_id)
        node = restored(Node, item)
        bound = (
            None if node.operation_id is None else await self._table.get(keys.operation(node.operation_id))
        )
        return NodeView(node=node, operation=None if bound is None else operation(bound))

    async def node_view_for_token(self, token_hash: str) -> NodeView | None:
        node_id = await node_for_token(self._table, token_hash)
        return None if node_id is None else await self.node_view(node_id)

    async def oldest(self, *, limit: int) -> Sequence[Operation]:
        """Return operations that have not ended, oldest first."""
        parts = await asyncio.gather(
            *(self._unended_of(status, limit) for status in Status if status not in ENDED)
        )
        return sorted((each for part in parts for each in part), key=age)[:limit]

    async def _unended_of(self, status: Status, limit: int) -> list[Operation]:
        found = await self._table.query(f"OPS#{status.value}", index="listed", most=limit)
        items = await self._table.get_many([key_of(item) for item in found])
        return [each for each in known_of(items.values()) if each.status is status]

    async def unended(self) -> list[Operation]:
        found = [item async for item in self._table.walk(keys.LEASED, index="timed")]
        return [each for each in known_of(found) if not each.ended]

    # --- writing ----------------------------------------------------------------------------------

    async def submit(
        self,
        operation: Operation,
        *,
        pool: Pool | None = None,
        fence: Fence | None = None,
        queue_cap: int | None = None,
        actor: str = "",
    ) -> tuple[Operation, bool]:
        asked = operation
        owner = asked.waiting_owner
        if queue_cap is not None and owner is not None:
            waiting = await self._table.count(keys.waiting(owner), most=queue_cap)
            if waiting >= queue_cap and await self.by_key(asked.idempotency_key) is None:
                raise QueueFull(owner, queue_cap)
        write = Write()
        self.plan(write, asked, pool=pool, fence=fence, actor=actor)
        return await self.submitted(write, asked)

    @staticmethod
    def plan(write: Write, asked: Operation, *, pool: Pool | None, fence: Fence | None, actor: str) -> None:
        """Add everything that a submission writes."""
        guards.check_fence(write, fence)
        if asked.idempotency_key is not None:
            key = keys.idempotency(asked.idempotency_key)
            write.put(key, {"op": asked.id}, where=ABSENT, refused=lambda _item: _KeyUsed())
        taken = Conflict(f"cannot submit operation {asked.id}: there is one of that id")
        write.put(keys.operation(asked.id), new(asked), where=ABSENT, refused=lambda _item: taken)
        if asked.queued_since is not None and asked.template is not None:
            _enter(write, asked, asked.template)
        _wait(write, None, asked)
        if pool is not None:
            _refilled(write, pool, asked.id)
        write.tell(drafts.of_submission(asked, actor=actor), at=asked.created_at, record=asked)

    async def submitted(self, write: Write, asked: Operation) -> tuple[Operation, bool]:
        try:
            await self._feed.commit(write)
        except _KeyUsed:
            return await self._first(asked), False
        return asked, True

    async def _first(self, asked: Operation) -> Operation:
        first = await self.by_key(asked.idempotency_key)
        if first is None:
            raise Again(asked.id)  # it was forgotten in this moment
        return same_request(first, asked)

    async def write(
        self,
        change: OperationChange,
        *,
        fence: Fence | None = None,
        clock: Callable[[], float] | None = None,
    ) -> Operation:
        write = Write()
        written = await self.change(write, change, fence=fence, clock=clock)
        await self._feed.commit(write)
        return written

    async def change(
        self,
        write: Write,
        change: OperationChange,
        *,
        fence: Fence | None,
        clock: Callable[[], float] | None,
    ) -> Operation:
        """Add everything that an operation's write writes; return the operation after it."""
        before, after = change.before, change.after
        item = await self._table.get(keys.operation(before.id))
        if fence is not None and not guards.held_by(fence, item):
            raise lease_lost_error(fence)
        if item is None:
            raise version_conflict(before.id, before.version)(None)
        conditions = ["#v = :expected"]
        values: dict[str, Value] = {"expected": before.version}
        if fence is not None:
            write.by = fence.operation_id
            conditions.append(guards.EPOCH)
            values["epoch"] = fence.epoch
        await self._check_place(write, change)
        if change.fresh_for is not None:
            until = await self._check_freshness(change, item, clock)
            conditions.append("#lease_until >= :until")
            values["until"] = until
        present = operation(item)
        lease = after if after.ended else present
        sets = fields(after)
        write.update(
            keys.operation(before.id),
            setting(sets),
            {**given(sets), **values},
            where=" AND ".join(conditions),
            refused=_refusal(before, fence),
        )
        _queue(write, before, after)
        _wait(write, before, after)
        if after.committed and not before.committed and after.kind is Kind.PROVISION:
            _handed_over(write, after)
        await failures.keep(self._table, write, of_failure(change))
        write.tell(drafts.of_operation(change), at=after.updated_at, record=after)
        # The lease is not guarded by the version: what is stored may be newer than what the caller read.
        return replace(
            after, lease_owner=lease.lease_owner, lease_until=lease.lease_until, epoch=present.epoch
        )

    async def _check_place(self, write: Write, change: OperationChange) -> None:
        template = change.before.template
        if not change.first_in_line or template is None:
            return
        counted = await self._table.get((keys.queue(template), _ENTERED))
        ahead = await self._ahead(change.before)
        if ahead:
            raise Conflict(f"cannot take {change.before.id} out of the queue: {ahead} older ones are in it")
        where = "attribute_not_exists(#n)" if counted is None else "#n = :n"
        write.check(
            (keys.queue(template), _ENTERED),
            where,
            {} if counted is None else {"n": whole(counted, "n")},
            lambda _item: Conflict(
                f"cannot take {change.before.id} out of the queue: another operation entered it"
            ),
        )

    async def _check_members(self, change: OperationChange) -> None:
        """Check that version and nodes are of one moment.

        The loss of a node moves the version. But the caller may have read the version after a loss, and the
        node before it.
        """
        before, ids = change.before, [member.node_id for member in change.after.members]
        own = keys.operation(before.id)
        for start in range(0, len(ids), _TOGETHER):
            some = [keys.node(node_id) for node_id in ids[start : start + _TOGETHER]]
            found = await self._together([own, *some])
            if own not in found or whole(found[own], "v") != before.version:
                raise version_conflict(before.id, before.version)(None)
            for node in (restored(Node, found[key]) for key in some if key in found):
                if node.state not in HELD or node.operation_id != before.id:
                    raise Conflict(f"cannot commit {before.id}: {node.id} is {node.state}; read it again")

    async def _together(self, wanted: Sequence[Key]) -> dict[Key, Item]:
        for attempt in range(TRIES):
            found = await self._table.get_together(wanted)
            if found is not None:
                return found
            await self._table.back_off(attempt)
        raise StoreUnavailable(f"cannot read {wanted[0][0]}: others write it all the time; it is tried again")

    async def _check_freshness(
        self, change: OperationChange, item: Item, clock: Callable[[], float] | None
    ) -> float:
        """Check the heartbeats before the write. A time of last contact never moves back, so the check
        stays true. The write itself checks the lease once more."""
        if clock is None:
            raise IllegalTransition(f"cannot commit {change.before.id}: the change has no time")
        seen = await self._liveness.last_seen([member.node_id for member in change.after.members])
        now, until = clock(), number(item, "lease_until") or 0.0
        if until <= now:
            raise LeaseLost(
                f"cannot commit {change.before.id}: its lease ran out {now - until:.1f} s ago; stop driving"
            )
        for member in change.after.members:
            silent = now - seen.get(member.node_id, 0.0)
            if silent > (change.fresh_for or 0.0):
                raise Conflict(
                    f"cannot commit {change.before.id}: {member.node_id} sent no heartbeat for {silent:.1f} s"
                )
        await self._check_members(change)
        return until

    async def pool(self, template: str) -> Pool:
        item = await self._table.get((keys.POOLS, template)) or {}
        refill = item.get("refill")
        return Pool(
            template=template,
            version=whole(item, "version"),
            refill=None if refill is None else OperationId(str(refill)),
        )


def _refusal(before: Operation, fence: Fence | None) -> Callable[[Item | None], Exception]:
    def refused(item: Item | None) -> Exception:
        if fence is not None and not guards.held_by(fence, item):
            return lease_lost_error(fence)
        if item is not None and whole(item, "v") == before.version:
            return LeaseLost(f"cannot commit {before.id}: its lease ran out; stop driving it")
        return version_conflict(before.id, before.version)(item)

    return refused


def _bound(nodes: Sequence[Node], operation_id: OperationId) -> tuple[Node, ...]:
    bound = [node for node in nodes if node.operation_id == operation_id]
    return tuple(sorted(bound, key=lambda node: (node.created_at, node.id)))


def _place(waiting: Operation, template: str) -> Key:
    return keys.queue(template), moment(waiting.created_at, waiting.id)


def _enter(write: Write, waiting: Operation, template: str) -> None:
    write.put(_place(waiting, template), {})
    write.update((keys.queue(template), _ENTERED), "ADD #n :one", {"one": 1})


def _queue(write: Write, before: Operation, after: Operation) -> None:
    template = after.template
    if template is None:
        return
    if before.queued_since is None and after.queued_since is not None:
        _enter(write, after, template)
    elif before.queued_since is not None and after.queued_since is None:
        write.delete(_place(before, template))


def _wait(write: Write, before: Operation | None, after: Operation) -> None:
    """Count waiting operations by owner, from their submission on."""
    owner = after.waiting_owner
    was, waits = before is not None and before.status is Status.QUEUED, after.status is Status.QUEUED
    if owner is None or was == waits:
        return
    place = keys.waiting(owner), moment(after.created_at, after.id)
    if waits:
        write.put(place, {})
    else:
        write.delete(place)


def _handed_over(write: Write, after: Operation) -> None:
    at = after.committed_at or after.updated_at
    handover = Handover(
        operation_id=after.id,
        template=after.template,
        at=at,
        seconds=max(0.0, at - after.created_at),
        nodes=after.request.count if isinstance(after.request, ProvisionRequest) else 0,
        warm=after.warm,
    )
    item = {"d": record(handover), "tp": keys.HANDED, "ts": moment(at, after.id)}
    write.put(keys.handover(after.id), item)


def _refilled(write: Write, pool: Pool, refill: OperationId) -> None:
    """Check that the pool is still at the version that the refill's submitter saw."""
    write.update(
        (keys.POOLS, pool.template),
        "SET #version = :next, #refill = :refill",
        {"next": pool.version + 1, "refill": refill, "version": pool.version, "zero": 0},
        where="#version = :version OR (attribute_not_exists(#version) AND :version = :zero)",
        refused=lambda _item: Conflict(
            f"cannot refill {pool.template}: its pool has moved on from version {pool.version}"
        ),
    )
