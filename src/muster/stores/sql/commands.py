"""Commands and their output, as the command port promises.

This module owns both tables. Output is kept in chunks by offset. Appending known output changes nothing, and
what exceeds the cap is dropped. So a repeated or reordered delivery can't grow it.
"""

from collections.abc import Sequence
from functools import cache

from muster.domain import events as drafts
from muster.domain.command import OUTPUT_CAP, Command
from muster.domain.errors import Conflict
from muster.domain.ids import AssignmentId, CommandId, OperationId
from muster.domain.node import NodeChange
from muster.ports.commands import Kept
from muster.ports.store import Cursor, Page
from muster.stores import cursors
from muster.stores.records import command_written_at
from muster.stores.sql import events, guards, nodes
from muster.stores.sql.engines import EngineVerbs, read, write
from muster.stores.sql.rows import COMMAND
from muster.stores.sql.tx import Tx, Value

OF_OPERATION = f"""
    SELECT {COMMAND.select} FROM commands WHERE operation_id = :id ORDER BY created_at, id LIMIT 10000
"""
UNFINISHED = f"""
    SELECT {COMMAND.select} FROM commands WHERE assignment_id = :id AND ended_at IS NULL
    ORDER BY created_at, id LIMIT 1000
"""
UNSERVED = f"""
    SELECT {COMMAND.qualified("c")} FROM commands AS c
    WHERE c.ended_at IS NULL AND NOT EXISTS (
        SELECT 1 FROM nodes AS n WHERE n.id = c.node_id AND n.assignment_id = c.assignment_id
        AND n.state IN ('running', 'releasing', 'failed')
    )
    ORDER BY c.created_at, c.id LIMIT :limit
"""
OVERDUE = f"""
    SELECT {COMMAND.select} FROM commands WHERE ended_at IS NULL AND deadline_at <= :now
    ORDER BY deadline_at, id LIMIT :limit
"""
_SIZE = """
    SELECT start + length(data) FROM command_output WHERE command_id = :id ORDER BY start DESC LIMIT 1
"""
_KEEP = "INSERT INTO command_output (command_id, start, data) VALUES (:id, :start, :data)"
READ = """
    SELECT start, data FROM command_output WHERE command_id = :id AND start >= :first AND start < :end
    ORDER BY start LIMIT 1000
"""
_FIRST = """
    SELECT start FROM command_output WHERE command_id = :id AND start <= :offset ORDER BY start DESC LIMIT 1
"""


def _get(tx: Tx, command_id: CommandId) -> Command:
    return COMMAND.get(tx, command_id)


def _of_operation(tx: Tx, operation_id: OperationId) -> Sequence[Command]:
    return COMMAND.all(tx.execute(OF_OPERATION, {"id": operation_id}))


def _unfinished(tx: Tx, assignment_id: AssignmentId) -> Sequence[Command]:
    return COMMAND.all(tx.execute(UNFINISHED, {"id": assignment_id}))


def _unserved(tx: Tx, *, limit: int) -> Sequence[Command]:
    return COMMAND.all(tx.execute(UNSERVED, {"limit": limit}))


def _overdue(tx: Tx, *, now: float, limit: int) -> Sequence[Command]:
    return COMMAND.all(tx.execute(OVERDUE, {"now": now, "limit": limit}))


def _start(tx: Tx, command: Command, change: NodeChange, *, actor: str = "") -> Command:
    there = COMMAND.find(tx, command.id)
    if there is not None:
        return there
    # First, and refused if it was started at the same moment: then all is done again, and it is found above.
    tx.change(COMMAND.insert, COMMAND.params(command))
    nodes.apply(tx, change)
    _log(tx, None, command, at=command.created_at, actor=actor)
    return command


def _write(
    tx: Tx, before: Command, after: Command, change: NodeChange | None = None, *, actor: str = ""
) -> Command:
    if change is not None:
        nodes.apply(tx, change)
    guards.update(tx, COMMAND, before, after)
    _log(tx, before, after, at=command_written_at(after), actor=actor)
    return after


def _append(tx: Tx, command_id: CommandId, *, offset: int, data: bytes) -> Kept:
    _get(tx, command_id)
    rows = tx.execute(_SIZE, {"id": command_id})
    size: int = rows[0][0] if rows else 0
    if offset > size:
        raise Conflict(f"cannot keep output of {command_id} from {offset} on: only {size} bytes came before")
    fresh = data[size - offset : max(0, OUTPUT_CAP - offset)]
    if fresh and tx.short():
        return Kept(size=size, full=True)
    if fresh:
        tx.change(_KEEP, {"id": command_id, "start": size, "data": fresh})
        size += len(fresh)
    return Kept(size=size, full=offset + len(data) > OUTPUT_CAP)


def _output(tx: Tx, command_id: CommandId, *, offset: int, limit: int) -> bytes:
    _get(tx, command_id)
    end = min(offset + limit, OUTPUT_CAP)
    if offset >= end:
        return b""
    rows = tx.execute(_FIRST, {"id": command_id, "offset": offset})
    if not rows:
        return b""
    first = rows[0][0]
    chunks = tx.execute(READ, {"id": command_id, "first": first, "end": end})
    return b"".join(bytes(data) for _, data in chunks)[offset - first : end - first]


@cache
def listing(*, by_run: bool, paged: bool) -> str:
    conditions = ["1 = 1"]
    if by_run:
        conditions.append("run = :run")
    if paged:
        conditions.append("(created_at, id) < (:created_at, :id)")
    return f"""
        SELECT {COMMAND.select} FROM commands WHERE {" AND ".join(conditions)}
        ORDER BY created_at DESC, id DESC LIMIT :limit
    """


def _page(tx: Tx, *, run: str | None, after: Cursor | None, limit: int) -> Page[Command]:
    params: dict[str, Value] = {"limit": limit + 1, "run": run}
    if after is not None:
        params["created_at"], params["id"] = cursors.decode("commands", after, float, str)
    rows = tx.execute(listing(by_run=run is not None, paged=after is not None), params)
    return cursors.page(COMMAND.all(rows), limit, "commands")


def _log(tx: Tx, before: Command | None, after: Command, *, at: float, actor: str) -> None:
    told = drafts.of_command(before, after, actor=actor)
    events.append(tx, told, at=at, operations=(after.operation_id,), record=after)


class SqlCommands(EngineVerbs):
    """Implements muster.ports.commands.CommandStore."""

    start = write(_start)
    command = read(_get, point=True)
    of_operation = read(_of_operation)
    unfinished = read(_unfinished, point=True)
    unserved = read(_unserved)
    overdue = read(_overdue)
    append_output = write(_append)
    output = read(_output)
    commands = read(_page)
    write = write(_write)
