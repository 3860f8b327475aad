"""Commands and their output, as the command port promises.

This module owns both. A command is an item. Beside it, there is one in the partition of its provision, and
one in that of its assignment until it ends. Output is kept in compressed pieces by offset. The size is an
item that moves with each piece, so a repeated or reordered delivery can't grow it.
"""

import zlib
from collections.abc import Sequence
from contextlib import aclosing

from muster.domain import events as drafts
from muster.domain.command import OUTPUT_CAP, Command
from muster.domain.errors import Conflict, NotFound
from muster.domain.ids import AssignmentId, CommandId, NodeId, OperationId
from muster.domain.lifecycle import NodeState
from muster.domain.node import NodeChange
from muster.ports.commands import Kept
from muster.ports.store import Cursor, Page
from muster.stores.dynamodb import keys
from muster.stores.dynamodb.feed import Feed
from muster.stores.dynamodb.nodes import Nodes
from muster.stores.dynamodb.table import Table, newest
from muster.stores.dynamodb.values import Item, Value, key_of, moment, record, restored, text, whole
from muster.stores.dynamodb.writes import ABSENT, Write, again, version_conflict
from muster.stores.records import command_written_at

PIECE = 256 * 1024
"""Bytes of output per item: it fits, however badly it is compressed."""
_SERVING = (NodeState.RUNNING, NodeState.RELEASING, NodeState.FAILED)


class _There(Exception):
    """The command was started before."""


class DynamoCommands:
    """Implements muster.ports.commands.CommandStore; see there for what each verb promises."""

    def __init__(self, table: Table, feed: Feed, nodes: Nodes) -> None:
        self._table = table
        self._feed = feed
        self._nodes = nodes

    async def start(self, command: Command, change: NodeChange, *, actor: str = "") -> Command:
        there = await self._table.record(Command, keys.command(command.id))
        if there is not None:
            return there
        write = Write()
        write.put(keys.command(command.id), _item(command), where=ABSENT, refused=lambda _item: _There())
        trim = await self._nodes.change(write, change, fence=None)
        write.put(keys.commanded(command.operation_id, _place(command)), {"cmd": command.id})
        write.put(keys.assigned(command.assignment_id, _place(command)), {"cmd": command.id})
        _log(write, None, command, at=command.created_at, actor=actor)
        try:
            await self._feed.commit(write)
        except _There:
            return await self.command(command.id)
        await self._nodes.changed(change, trim=trim)
        return command

    async def command(self, command_id: CommandId) -> Command:
        return restored(Command, await self._table.found(keys.command(command_id), "command", command_id))

    async def of_operation(self, operation_id: OperationId) -> Sequence[Command]:
        partition, _ = keys.operation(operation_id)
        found = await self._table.query(partition, low="CMD#", high=f"CMD#{keys.LAST}", most=10_000)
        return await self._named(found)

    async def unfinished(self, assignment_id: AssignmentId) -> Sequence[Command]:
        partition, _ = keys.assigned(assignment_id, "")
        return await self._named(await self._table.query(partition, most=1000))

    async def _named(self, found: Sequence[Item]) -> list[Command]:
        """Return the commands in the order of their places."""
        wanted = [keys.command(CommandId(text(item, "cmd"))) for item in found]
        items = await self._table.get_many(wanted)
        return [restored(Command, items[key]) for key in wanted if key in items]

    async def unserved(self, *, limit: int) -> Sequence[Command]:
        found: list[Command] = []
        async with aclosing(self._table.walk(keys.UNFINISHED, index="timed")) as items:
            async for item in items:
                command = restored(Command, item)
                if command.ended_at is None and not await self._served(command):
                    found.append(command)
                if len(found) == limit:
                    break
        return found

    async def overdue(self, *, now: float, limit: int) -> Sequence[Command]:
        found: list[tuple[float, str, Command]] = []
        async with aclosing(self._table.walk(keys.UNFINISHED, index="timed")) as items:
            async for item in items:
                command = restored(Command, item)
                at = command.deadline_at
                if command.ended_at is None and at is not None and at <= now:
                    found.append((at, command.id, command))
        return [command for _, _, command in sorted(found, key=lambda each: each[:2])[:limit]]

    async def _served(self, command: Command) -> bool:
        nodes = await self._nodes.some([NodeId(command.node_id)])
        return any(node.assignment_id == command.assignment_id and node.state in _SERVING for node in nodes)

    async def write(
        self, before: Command, after: Command, change: NodeChange | None = None, *, actor: str = ""
    ) -> Command:
        write = Write()
        trim = change is not None and await self._nodes.change(write, change, fence=None)
        write.put(
            keys.command(before.id),
            _item(after),
            where="#v = :expected",
            values={"expected": before.version},
            refused=version_conflict(before.id, before.version),
        )
        if after.ended_at is not None:
            write.delete(keys.assigned(after.assignment_id, _place(after)))
        _log(write, before, after, at=command_written_at(after), actor=actor)
        await self._feed.commit(write)
        if change is not None:
            await self._nodes.changed(change, trim=trim)
        return after

    async def append_output(self, command_id: CommandId, *, offset: int, data: bytes) -> Kept:
        return await self._table.repeated(lambda: self._append(command_id, offset, data))

    async def _append(self, command_id: CommandId, offset: int, data: bytes) -> Kept:
        size = await self._size(command_id)
        if offset > size:
            raise Conflict(
                f"cannot keep output of {command_id} from {offset} on: only {size} bytes came before"
            )
        fresh = data[size - offset : max(0, OUTPUT_CAP - offset)]
        for start in range(0, len(fresh), PIECE):
            piece = fresh[start : start + PIECE]
            await self._keep(command_id, size, piece)
            size += len(piece)
        return Kept(size=size, full=offset + len(data) > OUTPUT_CAP)

    async def _size(self, command_id: CommandId) -> int:
        command, kept = keys.command(command_id), keys.output_size(command_id)
        found = await self._table.get_many([command, kept])
        if command not in found:
            raise NotFound("command", command_id)
        return whole(found.get(kept, {}), "size")

    async def _keep(self, command_id: CommandId, start: int, piece: bytes) -> None:
        write = Write()
        values: dict[str, Value] = {"size": start + len(piece)}
        if start:
            values["start"] = start
        write.update(
            keys.output_size(command_id),
            "SET #size = :size",
            values,
            where="#size = :start" if start else ABSENT,
            refused=again(command_id),
        )
        packed = zlib.compress(piece, 1)
        write.put(keys.output(command_id, start), {"z": packed, "size": len(piece)})
        await self._feed.commit(write)

    async def output(self, command_id: CommandId, *, offset: int, limit: int) -> bytes:
        size = await self._size(command_id)
        end = min(offset + limit, size)
        if offset >= end:
            return b""
        partition, first = keys.output(command_id, offset)
        _, last = keys.output(command_id, end - 1)
        below = await self._table.query(partition, high=first, forward=False, most=1)
        start = text(below[0], "SK")
        pieces = below if start == last else await self._table.query(partition, low=start, high=last)
        whole_text = b"".join(zlib.decompress(item["z"]) for item in pieces)  # type: ignore[arg-type]  # bytes
        return whole_text[offset - int(start) : end - int(start)]

    async def commands(self, *, run: str | None, after: Cursor | None, limit: int) -> Page[Command]:
        index = "listed" if run is None else "scoped"
        partition = keys.COMMANDS if run is None else f"{keys.COMMANDS}#{run}"
        return await newest(
            self._table,
            [partition],
            lambda item: restored(Command, item),
            kind="commands",
            index=index,
            after=after,
            limit=limit,
        )

    async def forget(self, operation_id: OperationId) -> None:
        """Delete commands and their output with the provision that they ran on."""
        partition, _ = keys.operation(operation_id)
        for item in await self._table.query(partition, low="CMD#", high=f"CMD#{keys.LAST}"):
            command_id = CommandId(text(item, "cmd"))
            pieces = await self._table.query(keys.output_size(command_id)[0])
            doomed = [key_of(piece) for piece in pieces]
            await self._table.delete([*doomed, keys.command(command_id), (partition, text(item, "SK"))])


def _place(command: Command) -> str:
    return moment(command.created_at, command.id)


def _item(command: Command) -> Item:
    place = _place(command)
    unfinished = command.ended_at is None
    return {
        "v": command.version,
        "d": record(command),
        "lp": keys.COMMANDS,
        "ls": place,
        "sp": f"{keys.COMMANDS}#{command.run}",
        "ss": place,
        "tp": keys.UNFINISHED if unfinished else None,
        "ts": place if unfinished else None,
    }


def _log(write: Write, before: Command | None, after: Command, *, at: float, actor: str) -> None:
    told = drafts.of_command(before, after, actor=actor)
    write.tell(told, at=at, operations=(after.operation_id,), record=after)
