"""Delete old records and events, a bounded batch at a time.

This module owns the order: nodes before their launches before their operations, so that nothing that stays
names something that went. Of each, dependent items go first and its own item last, so that an interrupted
prune continues. What an unfinished operation holds stays whole. Indexes say what is old. Each record is read
again, and goes only if it is unchanged.
"""

from collections.abc import Awaitable, Callable
from contextlib import aclosing

from muster.domain.boot import Boot
from muster.domain.ids import OperationId
from muster.domain.launch import Launch
from muster.domain.lifecycle import NodeState
from muster.domain.node import Node
from muster.domain.operation import Kind
from muster.domain.requests import ReleaseRequest
from muster.domain.run_decisions import provision_key, release_key
from muster.ports.store import Pruned
from muster.stores.dynamodb import keys, templates
from muster.stores.dynamodb.clusters import DynamoClusters
from muster.stores.dynamodb.commands import DynamoCommands
from muster.stores.dynamodb.feed import Feed
from muster.stores.dynamodb.jobs import DynamoJobs
from muster.stores.dynamodb.operation_items import known, operation
from muster.stores.dynamodb.operations import Operations
from muster.stores.dynamodb.table import Again, Table
from muster.stores.dynamodb.values import Item, Key, key_of, moment, restored, text, whole
from muster.stores.dynamodb.writes import Write, again


class Pruner:
    def __init__(
        self,
        table: Table,
        feed: Feed,
        operations: Operations,
        *,
        commands: DynamoCommands,
        clusters: DynamoClusters,
        jobs: DynamoJobs,
    ) -> None:
        self._table = table
        self._feed = feed
        self._operations = operations
        self._commands = commands
        self._clusters = clusters
        self._jobs = jobs

    async def prune(self, *, before: float, limit: int) -> Pruned:
        """Delete at most `limit` of each."""
        nodes = await self._each(keys.GONE, before, limit, self._forget_node)
        await self._each(keys.BOOTED, before, limit, self._forget_boot)
        await self._each(keys.FAILED, before, limit, self._forget_failure)
        launches = await self._each(keys.CLOSED, before, limit, self._forget_launch)
        await self._each(keys.DELETED, before, limit, self._clusters.forget)
        await self._each(keys.JOBS_UPDATED, before, limit, self._jobs.forget)
        await self._jobs.forget_sources(before=before)
        meant = await self._meant()
        operations = await self._each(
            keys.ENDED, before, limit, lambda item: self._forget_operation(item, meant)
        )
        events = await self._feed.prune(before=before, limit=limit)
        return Pruned(
            nodes=nodes,
            launches=launches,
            operations=operations,
            events=events,
            more=max(nodes, launches, operations, events) >= limit,
        )

    async def _each(
        self, partition: str, before: float, limit: int, forget: Callable[[Item], Awaitable[bool]]
    ) -> int:
        forgotten = 0
        walk = self._table.walk(partition, index="timed", high=moment(before))
        async with aclosing(walk) as items:
            async for item in items:
                if item.get("tp") != partition or text(item, "ts") >= moment(before):
                    continue  # the index lagged
                try:
                    forgotten += await forget(item)
                except Again:
                    continue  # it moved while we looked: another time
                if forgotten == limit:
                    break
        return forgotten

    async def _goes_on(self, operation_id: OperationId | None) -> bool:
        item = None if operation_id is None else await self._table.get(keys.operation(operation_id))
        return item is not None and not item["ended"]

    async def _forget_node(self, item: Item) -> bool:
        node = restored(Node, item)
        if node.state is not NodeState.TERMINATED or await self._goes_on(node.operation_id):
            return False
        partition, _ = keys.node(node.id)
        beside = [text(each, "SK") for each in await self._table.query(partition)]
        credentials = await self._table.get(keys.credentials(node.id))
        doomed: list[Key] = [(partition, name) for name in beside if name != "NODE"]
        if credentials is not None:
            doomed.append(keys.node_token(text(credentials, "token_hash")))
        await self._table.delete(doomed)
        write = Write()
        write.delete(
            keys.node(node.id),
            where="#v = :v",
            values={"v": node.version},
            refused=again(node.id),
        )
        if node.operation_id is not None:
            write.delete(keys.held(node.operation_id, node.id))
        await self._free_names(write, node)
        await self._feed.commit(write)
        return True

    async def _free_names(self, write: Write, node: Node) -> None:
        """Delete what else names the node: its machine, its address, the count of its launch."""
        named = [keys.machine(node.provider, node.machine_id), keys.address(node.template, node.address)]
        for key, found in (await self._table.get_many(named)).items():
            if found["node"] == node.id:
                write.delete(key, where="#node = :id", values={"id": node.id}, refused=again(node.id))
        launch = None if node.launch_id is None else keys.launch(node.launch_id)
        if launch is not None and await self._table.get(launch) is not None:
            write.update(
                launch,
                "ADD #made :less",
                {"less": -1},
                where="attribute_exists(#PK)",
                refused=again(node.id),
            )

    async def _forget_boot(self, item: Item) -> bool:
        """Delete old boots. Those of the present revision stay, however old: there may be no newer boot."""
        boot = restored(Boot, item)
        old = boot.revision < await templates.current_revision(self._table, boot.template)
        if old:
            await self._table.delete([key_of(item)])
        return old

    async def _forget_failure(self, item: Item) -> bool:
        await self._table.delete([key_of(item)])
        return True

    async def _forget_launch(self, item: Item) -> bool:
        launch = restored(Launch, item)
        if whole(item, "made") > 0 or await self._goes_on(launch.operation_id):
            return False
        write = Write()
        write.delete(
            keys.launch(launch.id),
            where="#made <= :none",
            values={"none": 0},
            refused=again(launch.id),
        )
        write.delete(keys.launch_token(launch.token))
        await self._feed.commit(write)
        return True

    async def _meant(self) -> frozenset[str]:
        """Return operations, and their keys, that unfinished work still refers to: releases, refills,
        runs."""
        pools = await self._table.query(keys.POOLS)
        meant = {str(pool["refill"]) for pool in pools if pool.get("refill") is not None}
        for each in await self._operations.unended():
            if isinstance(each.request, ReleaseRequest):
                meant.add(each.request.operation_id)
            if each.kind is Kind.RUN:
                meant |= {provision_key(each.id), release_key(each.id)}
        return frozenset(meant)

    async def _forget_operation(self, item: Item, meant: frozenset[str]) -> bool:
        if not known(item):
            return False
        ended = operation(item)
        if not ended.ended or ended.id in meant or ended.idempotency_key in meant:
            return False
        partition, _ = keys.operation(ended.id)
        if await self._table.query(partition, low="LAUNCH#", high=f"NODE#{keys.LAST}", most=1):
            return False
        if await self._table.get(keys.worked_on(ended.id)) is not None:
            return False
        await self._commands.forget(ended.id)
        write = Write()
        write.delete(keys.handover(ended.id))
        write.delete(
            keys.operation(ended.id),
            where="#v = :v",
            values={"v": ended.version},
            refused=again(ended.id),
        )
        if ended.idempotency_key is not None:
            write.delete(keys.idempotency(ended.idempotency_key))
        await self._feed.commit(write)
        return True
