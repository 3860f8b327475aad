"""Launch records: each one is a provider call to be, and the room it holds under the caps.

This module owns their writes. A launch lies in the partition of its operation. `made` counts the node records
that name it, so that it is not deleted before them.
"""

from collections.abc import Sequence
from contextlib import aclosing

from muster.domain import events as drafts
from muster.domain.errors import Paused
from muster.domain.ids import LaunchId
from muster.domain.launch import Launch
from muster.domain.node import Node
from muster.domain.operation import Fence
from muster.stores.dynamodb import counters, guards, keys
from muster.stores.dynamodb.feed import Feed
from muster.stores.dynamodb.nodes import ADOPTED_AT_ONCE, Nodes
from muster.stores.dynamodb.table import Table
from muster.stores.dynamodb.values import Item, Value, moment, record, restored, text
from muster.stores.dynamodb.writes import ABSENT, Write, again, given, setting, version_conflict
from muster.stores.records import launch_written_at


class _There(Exception):
    """The launch was reserved before."""


class Launches:
    def __init__(self, table: Table, feed: Feed, nodes: Nodes) -> None:
        self._table = table
        self._feed = feed
        self._nodes = nodes

    async def get(self, launch_id: LaunchId) -> Launch:
        return restored(Launch, await self._table.found(keys.launch(launch_id), "launch", launch_id))

    async def by_token(self, token: str) -> Launch | None:
        item = await self._table.get(keys.launch_token(token))
        return None if item is None else await self.get(LaunchId(text(item, "launch")))

    async def to_close(self, *, limit: int, after: Launch | None = None) -> Sequence[Launch]:
        low = None if after is None else f"{moment(after.created_at, after.id)}\x00"
        found: list[Launch] = []
        async with aclosing(self._table.walk(keys.OPEN, index="timed", low=low)) as opened:
            async for item in opened:
                launch = restored(Launch, item)
                if launch.open and await self._forsaken(launch):
                    found.append(launch)
                if len(found) == limit:
                    break
        return found

    async def _forsaken(self, launch: Launch) -> bool:
        operation = await self._table.get(keys.operation(launch.operation_id))
        return operation is None or bool(operation["ended"])

    async def reserve(self, launch: Launch, *, cap: int, total_cap: int, fence: Fence) -> Launch:
        write = Write()
        guards.check_fence(write, fence)
        write.put(
            keys.launch(launch.id), {**_item(launch), "made": 0}, where=ABSENT, refused=lambda _i: _There()
        )
        write.put(keys.launch_token(launch.token), {"launch": launch.id})
        # Before the caps: a paused template has no use for room.
        for pause in keys.pauses(launch.template):
            write.check(pause, ABSENT, {}, lambda _item: Paused(launch.template))
        counters.take(
            write,
            launch.template,
            launch.held,
            stored=await counters.caps(self._table, launch.template),
            cap=cap,
            total_cap=total_cap,
        )
        _log(write, None, launch, at=launch.created_at)
        try:
            await self._feed.commit(write)
        except _There:
            return await self.get(launch.id)
        return launch

    async def write(self, before: Launch, after: Launch, *, fence: Fence | None) -> Launch:
        return await self.settle(before, after, (), fence=fence, now=launch_written_at(after))

    async def settle(
        self, before: Launch, after: Launch, machines: Sequence[Node], *, fence: Fence | None, now: float
    ) -> Launch:
        """Adopt machines in parts, and write the launch with the last part.

        The counters move by what each part adopts, so that they are right at every moment between.
        """
        fresh = await self._unrecorded(machines)
        parts = [fresh[start : start + ADOPTED_AT_ONCE] for start in range(0, len(fresh), ADOPTED_AT_ONCE)]
        for part in parts[:-1]:
            write = Write()
            guards.check_fence(write, fence)
            write.update(
                keys.launch(before.id),
                "ADD #made :made",
                {"made": len(part), "expected": before.version},
                where="#v = :expected",
                refused=version_conflict(before.id, before.version),
            )
            self._adopt(write, part, now=now)
            counters.add(write, after.template, len(part))
            await self._feed.commit(write)
        last = parts[-1] if parts else []
        write = Write()
        guards.check_fence(write, fence)
        self._change(write, before, after, made=len(last))
        self._adopt(write, last, now=now)
        counters.add(write, after.template, len(last) + after.held - before.held)
        _log(write, before, after, at=now)
        await self._feed.commit(write)
        return after

    async def _unrecorded(self, machines: Sequence[Node]) -> list[Node]:
        """Return the first of each machine that has no live record."""
        first: dict[tuple[str, str], Node] = {}
        for node in machines:
            first.setdefault((node.provider, node.machine_id), node)
        found = await self._table.get_many([keys.machine(*name) for name in first]) if first else {}
        return [
            node
            for name, node in first.items()
            if not found.get(keys.machine(*name), {"live": False})["live"]
        ]

    def _adopt(self, write: Write, machines: Sequence[Node], *, now: float) -> None:
        for node in machines:
            # Another replica recorded it in this moment: it is left as it is, and the rest is tried again.
            self._nodes.adopt(write, node, now=now, refused=again())

    def _change(self, write: Write, before: Launch, after: Launch, *, made: int) -> None:
        sets = _item(after)
        values = {**given(sets), "expected": before.version, "made": made}
        write.update(
            keys.launch(before.id),
            f"{setting(sets)} ADD #made :made",
            values,
            where="#v = :expected",
            refused=version_conflict(before.id, before.version),
        )


def _item(launch: Launch) -> Item:
    timed: dict[str, Value] = {"tp": keys.OPEN, "ts": moment(launch.created_at, launch.id)}
    if launch.closed_at is not None:
        timed = {"tp": keys.CLOSED, "ts": moment(launch.closed_at, launch.id)}
    return {"v": launch.version, "d": record(launch), **timed}


def _log(write: Write, before: Launch | None, after: Launch, *, at: float) -> None:
    write.tell(drafts.of_launch(before, after), at=at, operations=(after.operation_id,), record=after)
