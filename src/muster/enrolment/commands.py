"""Serve a node's commands: what it should run, its output, how each ended.

A node may only speak for its own commands. Every request may be repeated.
"""

from collections.abc import Sequence
from contextlib import suppress

from muster.domain import command as commands
from muster.domain.command import Command, CommandState
from muster.domain.errors import Conflict, Forbidden, InvalidRequest
from muster.domain.ids import AssignmentId, CommandId, NodeId
from muster.domain.terminal import Traffic
from muster.ports.bundle import Ports
from muster.ports.commands import Kept

TRIES = 20


class NodeCommands:
    def __init__(self, ports: Ports) -> None:
        self._ports = ports
        self._commands = ports.commands

    async def unfinished(self, node_id: NodeId, assignment_id: AssignmentId) -> Sequence[Command]:
        found = await self._commands.unfinished(assignment_id)
        return [command for command in found if command.node_id == node_id]

    async def output(self, node_id: NodeId, command_id: CommandId, offset: int, data: bytes) -> Kept:
        """Store output of a command.

        Raises Conflict for a gap: the node sends again from where the kept output ends. Raises Forbidden for
        a command that has ended: agents send all output before they report the end.
        """
        if offset < 0:
            raise InvalidRequest("offset", offset, "must not be negative")
        command = await self.open(node_id, command_id)
        kept = await self._commands.append_output(command_id, offset=offset, data=data)
        if kept.full and command.truncated_at is None:
            await self._mark(command_id, kept.size)
        return kept

    async def _mark(self, command_id: CommandId, kept: int) -> None:
        """Record that output was dropped: a reader of the rest must know that it is not all."""
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
        *,
        timed_out: bool = False,
        traffic: Traffic | None = None,
    ) -> Command:
        for _ in range(TRIES):
            command = await self._own(node_id, command_id)
            after = self._after(command, state, exit_code, signal, timed_out=timed_out, traffic=traffic)
            if after is None:
                return command
            with suppress(Conflict):
                return await self._commands.write(command, after)
        raise Conflict(f"cannot write {command_id}: it keeps changing; say it again")

    async def open(self, node_id: NodeId, command_id: CommandId) -> Command:
        """Return a command of this node that has not ended. Raises Forbidden for any other."""
        command = await self._own(node_id, command_id)
        if command.ended:
            raise Forbidden(f"cannot add to command {command_id}: it has ended ({command.state})")
        return command

    async def _own(self, node_id: NodeId, command_id: CommandId) -> Command:
        command = await self._commands.command(command_id)
        if command.node_id != node_id:
            raise Forbidden(f"command {command_id} is not this node's")
        return command

    def _after(
        self,
        command: Command,
        state: CommandState,
        exit_code: int | None,
        signal: int | None,
        *,
        timed_out: bool,
        traffic: Traffic | None,
    ) -> Command | None:
        """Return the command after a report; None: nothing new. The first report of an end stands."""
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
                return commands.exited(
                    command,
                    exit_code=exit_code,
                    signal=signal,
                    now=now,
                    timed_out=timed_out,
                    traffic=traffic,
                )
            case CommandState.LOST:
                return commands.lost(command, detail="the node does not know how the command ended", now=now)
