"""The node's side of commands: what it should be busy with, what came out, how it ended.

A node speaks for its own commands only. Everything may be said twice.
"""

from collections.abc import Sequence

from muster.domain import command as commands
from muster.domain.command import Command, CommandState
from muster.domain.errors import Conflict, Forbidden, InvalidRequest
from muster.domain.ids import AssignmentId, CommandId, NodeId
from muster.ports.bundle import Ports
from muster.ports.commands import Kept

TRIES = 20


class CommandPost:
    def __init__(self, ports: Ports) -> None:
        self._ports = ports
        self._commands = ports.commands

    async def unfinished(self, node_id: NodeId, assignment_id: AssignmentId) -> Sequence[Command]:
        found = await self._commands.unfinished(assignment_id)
        return [command for command in found if command.node_id == node_id]

    async def output(self, node_id: NodeId, command_id: CommandId, offset: int, data: bytes) -> Kept:
        """Raises Conflict for a gap: the node sends again from where the kept output ends."""
        if offset < 0:
            raise InvalidRequest("offset", offset, "must not be negative")
        command = await self._own(node_id, command_id)
        kept = await self._commands.append_output(command_id, offset=offset, data=data)
        if kept.full and command.truncated_at is None:
            await self._mark(command_id, kept.size)
        return kept

    async def _mark(self, command_id: CommandId, kept: int) -> None:
        """That output was dropped, in the record: whoever reads the rest must know that it is not all."""
        for _ in range(TRIES):
            command = await self._commands.command(command_id)
            after = commands.truncated(command, kept=kept)
            if after is None:
                return
            try:
                await self._commands.write(command, after)
            except Conflict:
                continue
            return
        raise Conflict(f"cannot write {command_id}: it keeps changing; say it again")

    async def state(
        self,
        node_id: NodeId,
        command_id: CommandId,
        state: CommandState,
        exit_code: int | None = None,
        signal: int | None = None,
    ) -> Command:
        for _ in range(TRIES):
            command = await self._own(node_id, command_id)
            after = self._after(command, state, exit_code, signal)
            if after is None:
                return command
            try:
                return await self._commands.write(command, after)
            except Conflict:
                continue
        raise Conflict(f"cannot write {command_id}: it keeps changing; say it again")

    async def _own(self, node_id: NodeId, command_id: CommandId) -> Command:
        command = await self._commands.command(command_id)
        if command.node_id != node_id:
            raise Forbidden(f"command {command_id} is not this node's")
        return command

    def _after(
        self, command: Command, state: CommandState, exit_code: int | None, signal: int | None
    ) -> Command | None:
        """None: nothing new. The first word about an end stands."""
        now = self._ports.clock.now()
        if command.ended:
            return None
        match state:
            case CommandState.PENDING:
                return None
            case CommandState.RUNNING:
                pending = command.state is CommandState.PENDING
                return commands.started(command, now=now) if pending else None
            case CommandState.EXITED:
                return commands.exited(command, exit_code=exit_code, signal=signal, now=now)
            case CommandState.LOST:
                return commands.lost(command, detail="the node can't tell how it ended", now=now)
