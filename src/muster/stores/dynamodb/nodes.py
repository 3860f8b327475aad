"""Node records: reading them, and the guarded writes.

This module owns every write of a node. Beside the record there is an item per machine, so that a machine has
at most one live record and is found by name. Another item lies in the partition of the operation that holds
the node, so that an operation's view is consistent. All of them move in the node's own transaction.
"""

import asyncio
from collections.abc import Sequence

from muster.domain import events as drafts
from muster.domain import node as lifecycle
from muster.domain.errors import Conflict, IllegalTransition
from muster.domain.failures import of_node as of_failure
from muster.domain.ids import NodeId
from muster.domain.launch import Launch
from muster.domain.lifecycle import Fact, NodeState, Verb
from muster.domain.node import Node, NodeChange
from muster.domain.operation import Fence
from muster.ports.store import Cursor, Page
from muster.stores import cursors
from muster.stores.dynamodb import boots, counters, failures, guards, keys, templates
from muster.stores.dynamodb.candidates import Candidates
from muster.stores.dynamodb.feed import Feed
from muster.stores.dynamodb.table import Table
from muster.stores.dynamodb.values import Item, Refusal, Value, moment, record, restored, text
from muster.stores.dynamodb.vitals import Liveness
from muster.stores.dynamodb.writes import ABSENT, Write, version_conflict
from muster.stores.records import operations_of

ADOPTED_AT_ONCE = 15
"""Machines per transaction: five items each, beside heads, counters, launch and fence."""


_LEAVING = (NodeState.FAILED, NodeState.TERMINATING)
APPLIED_AT_ONCE = 14
"""Changes per transaction: up to five items each, beside heads and guards."""


class Recorded(Exception):
    """The machine has a live record already."""


class Nodes:
    def __init__(self, table: Table, feed: Feed, liveness: Liveness, candidates: Candidates) -> None:
        self._table = table
        self._feed = feed
        self._liveness = liveness
        self._candidates = candidates
        self._patience: dict[tuple[str, int], float | None] = {}
        """What revisions say of standing still: a revision never changes."""

    # --- reading ----------------------------------------------------------------------------------

    async def get(self, node_id: NodeId) -> Node:
        return restored(Node, await self._table.found(keys.node(node_id), "node", node_id))

    async def some(self, node_ids: Sequence[NodeId]) -> list[Node]:
        """Return those that exist, in the order of the ids."""
        found = await self._table.get_many([keys.node(node_id) for node_id in node_ids])
        return [restored(Node, found[key]) for key in map(keys.node, node_ids) if key in found]

    async def by_machine(self, provider: str, machine_id: str) -> Node | None:
        item = await self._table.get(keys.machine(provider, machine_id))
        if item is None:
            return None
        found = await self.some([NodeId(text(item, "node"))])
        return found[0] if found else None

    async def recorded(self, provider: str, machine_ids: Sequence[str]) -> Sequence[str]:
        found = await self._table.get_many([keys.machine(provider, each) for each in machine_ids])
        live = {key for key, item in found.items() if item["live"]}
        return [each for each in dict.fromkeys(machine_ids) if keys.machine(provider, each) in live]

    async def page(
        self, *, states: Sequence[NodeState], template: str | None, after: Cursor | None, limit: int
    ) -> Page[Node]:
        start = "" if after is None else cursors.decode("nodes", after, str)[0]
        wanted = tuple(dict.fromkeys(states))
        parts = await asyncio.gather(*(self._ids(state, template, start, limit + 1) for state in wanted))
        ids = sorted({node_id for part in parts for node_id in part})
        some = ids[:limit]
        # An index may lag: what is in another state by now, or gone, is left out.
        items = tuple(node for node in await self.some(some) if node.state in wanted)
        more = len(ids) > limit
        return Page(items=items, next=cursors.encode("nodes", some[-1]) if more else None)

    async def _ids(self, state: NodeState, template: str | None, after: str, most: int) -> list[NodeId]:
        index = "listed" if template is None else "scoped"
        low = f"{after}\x00" if after else None
        found = await self._table.query(partition(state, template), index=index, low=low, most=most)
        return [NodeId(text(item, "PK").partition("#")[2]) for item in found]

    async def due(self, *, now: float, limit: int) -> Sequence[Node]:
        found = await self._table.query(keys.DUE, index="timed", high=moment(now, keys.LAST), most=limit)
        nodes = await self.some([NodeId(text(item, "PK").partition("#")[2]) for item in found])
        due = [node for node in nodes if node.deadline_at is not None and node.deadline_at <= now]
        return sorted(due, key=lambda node: (node.deadline_at, node.id))

    async def count(self, *, state: NodeState, template: str | None) -> int:
        index = "listed" if template is None else "scoped"
        return await self._table.count(partition(state, template), index=index)

    async def offline(
        self, *, states: Sequence[NodeState], since_before: float, limit: int
    ) -> Sequence[Node]:
        if not states:
            return []
        ids = await self._liveness.offline_since(since_before)
        return [node for node in await self.some(ids) if node.state in states][:limit]

    async def stalled(self, *, now: float, stall_after: float, limit: int) -> Sequence[Node]:
        still = []
        for node_id, item in await self._liveness.booting():
            at, own = item.get("advanced_at"), item.get("stall_after")
            patience = stall_after if own is None else float(own)
            if at is not None and float(at) < now - patience:
                still.append((float(at), node_id))
        return await self.some([node_id for _, node_id in sorted(still)[:limit]])

    async def undiagnosed(self, *, limit: int) -> Sequence[Node]:
        found: list[Node] = []
        after: Cursor | None = None
        while len(found) < limit:
            page = await self.page(states=[NodeState.FAILED], template=None, after=after, limit=limit)
            filed = await self._table.get_many([keys.bundle(node.id) for node in page.items])
            found += [node for node in page.items if keys.bundle(node.id) not in filed]
            after = page.next
            if after is None:
                break
        return found[:limit]

    # --- the guarded write ------------------------------------------------------------------------

    async def apply(self, change: NodeChange, *, fence: Fence | None = None) -> Node:
        write = Write()
        trim = await self.change(write, change, fence=fence)
        await self._feed.commit(write)
        await self.changed(change, trim=trim)
        return change.after

    async def apply_all(self, changes: Sequence[NodeChange], *, fence: Fence | None = None) -> Sequence[Node]:
        """Write in transactions of some nodes each; a large gang may be written in part before a refusal."""
        for start in range(0, len(changes), APPLIED_AT_ONCE):
            part = changes[start : start + APPLIED_AT_ONCE]
            write = Write()
            guards.check_all(write, fence, [change.guard for change in part if change.guard is not None])
            trims = [await self._change(write, change) for change in part]
            await self._feed.commit(write)
            for change, trim in zip(part, trims, strict=True):
                await self.changed(change, trim=trim)
        return [change.after for change in changes]

    async def changed(self, change: NodeChange, *, trim: bool) -> None:
        """Update what follows from a write; nothing depends on it."""
        if trim:
            await boots.bound(self._table, change.after)
        if change.after.state is NodeState.IDLE and change.name is not Verb.EXTEND:
            self._candidates.announce(change.after.resource_class, change.after.id)

    async def change(self, write: Write, change: NodeChange, *, fence: Fence | None) -> bool:
        """Add everything that a node's write writes. Returns whether old boots are due to go."""
        guards.check_all(write, fence, [] if change.guard is None else [change.guard])
        return await self._change(write, change)

    async def _change(self, write: Write, change: NodeChange) -> bool:
        before, after = change.before, change.after
        if before is None:
            raise IllegalTransition(
                f"cannot adopt node {after.id} by itself: settle its launch or adopt a stray"
            )
        if change.name is Verb.CONFIRM_GONE:
            write.delete(self._liveness.key(after.id))
            write.update(
                keys.machine(after.provider, after.machine_id),
                "SET #live = :no REMOVE #sp, #ss",
                {"no": False, "id": after.id},
                where="#node = :id",
                refused=version_conflict(after.id, before.version),
            )
            counters.add(write, after.template, -1)
        else:
            await self._liveness.noted(write, change, await self._of_vitals(change, before))
        write.put(
            keys.node(after.id),
            item(after),
            where="#v = :expected",
            values={"expected": before.version},
            refused=version_conflict(before.id, before.version),
        )
        _rebind(write, before, after)
        trim = await boots.note(self._table, write, change)
        await failures.keep(self._table, write, of_failure(change))
        log(write, change)
        return trim

    async def _of_vitals(self, change: NodeChange, before: Node) -> dict[str, Value]:
        after = change.after
        if change.name is Fact.JOINED and after.boot_id != before.boot_id:
            patience = await self.patience(after)
            return self._liveness.joined(after, again=before.boot_id is not None, stall_after=patience)
        if change.name is Fact.ADVANCED:
            return await self._liveness.advanced_to(after.id, change.at)
        if after.up and not before.up:
            return {**self._liveness.booted(after.id), **self._liveness.stays(True)}
        stays = after.state not in _LEAVING
        counted = {} if stays is (before.state not in _LEAVING) else self._liveness.stays(stays)
        if before.state is NodeState.CREATED and after.state is not NodeState.CREATED and not after.up:
            return {**counted, **self._liveness.stopped_booting(after.id)}
        return counted

    async def patience(self, node: Node) -> float | None:
        """Return how long a boot of the node's revision may stand still, if the revision says."""
        revision = (node.template, node.revision)
        if revision not in self._patience:
            self._patience[revision] = await templates.stall_after(self._table, *revision)
        return self._patience[revision]

    # --- adopting ---------------------------------------------------------------------------------

    def adopt(self, write: Write, node: Node, *, now: float, refused: Refusal) -> None:
        """Insert a machine's record; the caller accounts for its room."""
        self.insert(write, node, refused=refused)
        self._liveness.begin(write, node)
        log(write, lifecycle.adopt(node, now=now))

    def insert(self, write: Write, node: Node, *, refused: Refusal) -> None:
        write.put(
            keys.machine(node.provider, node.machine_id),
            {"node": node.id, "live": True, "sp": counters.live(node.template), "ss": node.id},
            where=f"{ABSENT} OR #live = :no",
            values={"no": False},
            refused=refused,
        )
        write.put(keys.node(node.id), item(node), where=ABSENT, refused=version_conflict(node.id, 0))
        if node.operation_id is not None:
            write.put(keys.held(node.operation_id, node.id), {})

    async def adopt_stray(self, node: Node, *, now: float) -> Node | None:
        if node.state is not NodeState.TERMINATING:
            raise IllegalTransition(
                f"cannot adopt stray {node.machine_id} as {node.state}: only as terminating"
            )
        write = Write()
        if node.launch_id is not None:
            await self._of_closed_launch(write, node)
        self.adopt(write, node, now=now, refused=lambda _item: Recorded())
        failures.put(write, of_failure(lifecycle.adopt(node, now=now)))
        counters.add(write, node.template, 1)
        try:
            await self._feed.commit(write)
        except Recorded:
            return None
        return node

    async def _of_closed_launch(self, write: Write, node: Node) -> None:
        assert node.launch_id is not None  # noqa: S101 — the caller asked
        key = keys.launch(node.launch_id)
        found = await self._table.get(key)
        if found is None:
            return
        still = Conflict(f"cannot adopt {node.machine_id} as a stray: its launch {node.launch_id} is open")
        if restored(Launch, found).open:
            raise still
        write.update(
            key,
            "ADD #made :one",
            {"one": 1, "closed": keys.CLOSED},
            where="#tp = :closed",
            refused=lambda _i: still,
        )


def partition(state: NodeState, template: str | None) -> str:
    return f"NODES#{state.value}" if template is None else f"NODES#{template}#{state.value}"


def item(node: Node) -> Item:
    timed: dict[str, Value] = {}
    if node.state is NodeState.TERMINATED:
        timed = {"tp": keys.GONE, "ts": moment(node.entered_at, node.id)}
    elif node.state is NodeState.TERMINATING:
        timed = {"tp": keys.ENDING, "ts": moment(node.entered_at, node.id)}
    elif node.deadline_at is not None:
        timed = {"tp": keys.DUE, "ts": moment(node.deadline_at, node.id)}
    return {
        "v": node.version,
        "d": record(node),
        "op": node.operation_id,
        "lp": partition(node.state, None),
        "ls": node.id,
        "sp": partition(node.state, node.template),
        "ss": node.id,
        **timed,
    }


def _rebind(write: Write, before: Node, after: Node) -> None:
    if before.operation_id == after.operation_id:
        return
    if before.operation_id is not None:
        write.delete(keys.held(before.operation_id, before.id))
    if after.operation_id is not None:
        write.put(keys.held(after.operation_id, after.id), {})


def log(write: Write, change: NodeChange) -> None:
    write.tell(drafts.of_node(change), at=change.at, operations=operations_of(change), record=change.after)
