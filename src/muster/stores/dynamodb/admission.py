"""Credentials of nodes: only hashes, one key per node for ever, one token at a time.

This module owns those items. A token is an item of its own, because its holder uses it at once.
"""

from dataclasses import replace

from muster.domain import node as lifecycle
from muster.domain.errors import Conflict
from muster.domain.ids import NodeId
from muster.domain.lifecycle import LIVE
from muster.domain.node import Node, NodeChange
from muster.stores.dynamodb import boots, counters, keys, nodes
from muster.stores.dynamodb.feed import Feed
from muster.stores.dynamodb.nodes import Nodes
from muster.stores.dynamodb.table import Table
from muster.stores.dynamodb.values import Item, Value, text
from muster.stores.dynamodb.vitals import Liveness
from muster.stores.dynamodb.writes import ABSENT, Write, again


class Admission:
    def __init__(self, table: Table, feed: Feed, records: Nodes, liveness: Liveness) -> None:
        self._table = table
        self._feed = feed
        self._records = records
        self._liveness = liveness

    async def admit(
        self, change: NodeChange | None, node_id: NodeId, *, key_hash: str, token_hash: str
    ) -> None:
        before = await self._table.get(keys.credentials(node_id))
        if before is not None and before["key_hash"] != key_hash:
            raise Conflict(f"cannot admit node {node_id}: another key was admitted before")
        if change is None and before is None:
            raise Conflict(f"cannot renew the token of node {node_id}: it never joined")
        write = Write()
        trim = change is not None and await self._records.change(write, change, fence=None)
        _give(write, node_id, before, key_hash=key_hash, token_hash=token_hash)
        await self._feed.commit(write)
        if change is not None:
            await self._records.changed(change, trim=trim)

    async def enrol(
        self,
        node: Node,
        *,
        boot_id: str,
        key_hash: str,
        token_hash: str,
        stale_after: float,
        now: float,
        actor: str = "",
    ) -> Node:
        known = await self._records.by_machine(node.provider, node.machine_id)
        if known is not None:
            if known.state in LIVE:
                await self.admit(None, known.id, key_hash=key_hash, token_hash=token_hash)
                await self._liveness.set_stale_after(known.id, stale_after=stale_after)
            return known
        stored = await counters.caps(self._table, node.template)
        if stored[0] is None:
            raise Conflict(f"cannot enrol {node.machine_id}: there is no template {node.template}")
        write = Write()
        counters.take(write, node.template, 1, stored=stored, cap=stored[0], total_cap=stored[1])
        if node.address:
            await self._displace(write, node, now=now)
        joined = replace(lifecycle.joined(node, boot_id=boot_id, now=now), actor=actor)
        await self._insert_joined(write, node, joined, stale_after=stale_after, now=now)
        _give(write, node.id, None, key_hash=key_hash, token_hash=token_hash)
        await self._feed.commit(write)
        return joined.after

    async def _insert_joined(
        self, write: Write, node: Node, joined: NodeChange, *, stale_after: float, now: float
    ) -> None:
        """Insert a node that is adopted and joined in one write: its record starts at version 2."""
        self._records.insert(write, joined.after, refused=again(node.machine_id))
        patience = await self._records.patience(node)
        vitals = self._liveness.joined(joined.after, again=False, stall_after=patience)
        self._liveness.begin(
            write, joined.after, **{**vitals, "stale_after": stale_after, "health_since": joined.at}
        )
        nodes.log(write, lifecycle.adopt(node, now=now))
        nodes.log(write, joined)
        await boots.note(self._table, write, joined)

    async def _displace(self, write: Write, node: Node, *, now: float) -> None:
        """End the node that had this address before: the newest one answers there."""
        key = keys.address(node.template, node.address)
        item = await self._table.get(key)
        before = None if item is None else text(item, "node")
        values: dict[str, Value] = {} if before is None else {"before": before}
        write.put(
            key,
            {"node": node.id},
            where=ABSENT if before is None else "#node = :before",
            values=values,
            refused=again(node.address),
        )
        for other in await self._records.some([] if before is None else [NodeId(before)]):
            if other.state in LIVE and other.address == node.address:
                await self._records.change(write, lifecycle.displaced(other, now=now), fence=None)
                self._liveness.forget_probes(write, other.id)

    async def admitted_key(self, node_id: NodeId) -> str | None:
        item = await self._table.get(keys.credentials(node_id))
        return None if item is None else text(item, "key_hash")

    async def node_for_token(self, token_hash: str) -> NodeId | None:
        return await node_for_token(self._table, token_hash)


async def node_for_token(table: Table, token_hash: str) -> NodeId | None:
    """Return the node of a token. A token that died may count for a second more; a new one counts at once.

    Every request of a node asks this, so it takes the cheaper read, and looks again for what isn't there.
    """
    key = keys.node_token(token_hash)
    item = await table.get(key, consistent=False) or await table.get(key)
    return None if item is None else NodeId(text(item, "node"))


def _give(write: Write, node_id: NodeId, before: Item | None, *, key_hash: str, token_hash: str) -> None:
    write.put(
        keys.credentials(node_id),
        {"key_hash": key_hash, "token_hash": token_hash},
        where=ABSENT if before is None else "#token_hash = :before",
        values={} if before is None else {"before": before["token_hash"]},
        refused=again(node_id),
    )
    if before is not None and before["token_hash"] != token_hash:
        write.delete(keys.node_token(text(before, "token_hash")))
    write.put(keys.node_token(token_hash), {"node": node_id})
