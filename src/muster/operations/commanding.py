"""Commands on the nodes of a provision: asked for here, carried out by the nodes, one record each."""

from collections.abc import Sequence

from muster.domain import command as commands
from muster.domain import node as nodes
from muster.domain.command import Command, Execution
from muster.domain.errors import Conflict, Gone, InvalidRequest, NotFound
from muster.domain.ids import CommandId, OperationId
from muster.domain.lifecycle import NodeState
from muster.domain.node import Node
from muster.domain.operation import Kind, Member, Operation
from muster.domain.requests import ProvisionRequest
from muster.operations.together import together
from muster.ports.bundle import Ports

TRIES = 20
"""Each lost try means that the node moved; it doesn't do so for ever."""


class Commander:
    def __init__(self, ports: Ports) -> None:
        self._ports = ports
        self._store = ports.store
        self._commands = ports.commands

    async def execute(
        self, operation_id: OperationId, execution: Execution, *, key: str | None = None
    ) -> Sequence[Command]:
        """Execute on every node of a provision. The same key gives the commands that were made first.

        Raises Gone if the nodes have been given back.
        """
        operation = await self._store.operation(operation_id)
        if operation.kind is not Kind.PROVISION:
            raise InvalidRequest("operation_id", operation_id, f"must be a provision, not a {operation.kind}")
        if not operation.committed:
            raise InvalidRequest("operation_id", operation_id, "its nodes are not ready yet: wait for it")
        batch = key or self._ports.ids.new("cmd")
        return await together(
            self.start(operation, member, execution, command_id=CommandId(f"{batch}.{place}"))
            for place, member in enumerate(operation.members)
        )

    async def start(
        self, operation: Operation, member: Member, execution: Execution, *, command_id: CommandId
    ) -> Command:
        """One command on one node, once, however often it is asked for under this id."""
        for _ in range(TRIES):
            node = await self._store.node(member.node_id)
            if node.assignment_id != member.assignment_id or node.state is not NodeState.RUNNING:
                return await self._existing(command_id, node)
            command = self._command(operation, member, execution, command_id)
            change = nodes.commanded(node, now=self._ports.clock.now())
            try:
                return await self._commands.start(command, change)
            except Conflict:
                continue
        raise Conflict(f"cannot start {command_id}: node {member.node_id} keeps changing; try again")

    async def _existing(self, command_id: CommandId, node: Node) -> Command:
        try:
            return await self._commands.command(command_id)
        except NotFound as error:
            raise Gone(f"node {node.id} no longer serves this run: it is {node.state}") from error

    def _command(
        self, operation: Operation, member: Member, execution: Execution, command_id: CommandId
    ) -> Command:
        request = operation.request
        if not isinstance(request, ProvisionRequest):
            raise InvalidRequest("operation_id", operation.id, "must be a provision")
        return Command(
            id=command_id,
            operation_id=operation.id,
            assignment_id=member.assignment_id,
            node_id=member.node_id,
            ordinal=operation.members.index(member),
            count=len(operation.members),
            run=request.run,
            execution=execution,
            created_at=self._ports.clock.now(),
        )

    async def cancel(self, command_id: CommandId) -> Command:
        """Ask for its end: the node kills the whole tree. A command that has ended stays as it is."""
        for _ in range(TRIES):
            command = await self._commands.command(command_id)
            now = self._ports.clock.now()
            after = commands.cancel_requested(command, now=now)
            if after is None:
                return command
            node = await self._store.node(command.node_id)
            held = node.assignment_id == command.assignment_id and node.state is NodeState.RUNNING
            try:
                change = nodes.commanded(node, now=now) if held else None
                return await self._commands.write(command, after, change)
            except Conflict:
                continue
        raise Conflict(f"cannot cancel {command_id}: it keeps changing; try again")
