"""Request commands on the nodes of a provision: one record each, executed by the nodes."""

import hashlib
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

from muster.domain import checks
from muster.domain import command as commands
from muster.domain import node as nodes
from muster.domain.command import Command, Execution
from muster.domain.errors import (
    Conflict,
    Gone,
    IdempotencyMismatch,
    InvalidRequest,
    NotFound,
    TooManyShells,
)
from muster.domain.ids import CommandId, NodeId, OperationId
from muster.domain.lifecycle import NodeState
from muster.domain.node import Node
from muster.domain.operation import Member, Operation
from muster.domain.requests import ProvisionRequest
from muster.operations.concurrency import concurrently
from muster.operations.submission import provision_of
from muster.ports.bundle import Ports
from muster.ports.store import if_found

TRIES = 20
"""Each lost try means that the node moved; it doesn't do so for ever."""


class CommandDesk:
    def __init__(self, ports: Ports, *, shells_per_node: int) -> None:
        self._ports = ports
        self._shells_per_node = shells_per_node
        self._store = ports.store
        self._commands = ports.commands

    async def execute(
        self,
        operation_id: OperationId,
        execution: Execution,
        *,
        indexes: Sequence[int] = (),
        key: str | None = None,
        actor: str = "",
    ) -> Sequence[Command]:
        """Execute on the nodes of a provision: on all, or on those with these indexes. The same key gives the
        commands that were made first.

        Raises Gone, and starts nothing, if one of them has been given back or lost; IdempotencyMismatch if
        the key was used for something else.
        """
        if key is not None:
            checks.text("idempotency_key", key, longest=checks.KEY_MAX)
        operation = await self._ready(operation_id)
        batch = self._ports.ids.new("cmd") if key is None else _batch(key)
        for index in indexes:
            checks.whole("indexes", index, least=0, most=len(operation.members) - 1)
        targets = [
            (member, CommandId(f"{batch}.{n}"))
            for n, member in enumerate(operation.members)
            if not indexes or n in indexes
        ]
        await concurrently(self._possible(operation, member, execution, name) for member, name in targets)
        return await concurrently(
            self.start(operation, member, execution, command_id=name, actor=actor) for member, name in targets
        )

    async def place(self, node_id: NodeId) -> tuple[OperationId, Sequence[int]]:
        """Return the provision that a node serves, and its place there. Raises InvalidRequest if none."""
        node = await self._store.node(node_id)
        if node.operation_id is not None and node.state is NodeState.RUNNING:
            operation = await self._store.operation(node.operation_id)
            for index, member in enumerate(operation.members):
                if _serves(node, member):
                    return operation.id, (index,)
        rule = f"it is {node.state}, and commands run on nodes that serve a run; see `muster nodes`"
        raise InvalidRequest("node_id", node_id, rule)

    async def look_inside(
        self, node_id: NodeId, execution: Execution, *, key: str | None, actor: str
    ) -> Command | None:
        """Open a shell on a failed node that is kept for a look. None: the node is no such node."""
        node = await self._store.node(node_id)
        if execution.terminal is None or node.state is not NodeState.FAILED or not node.commandable:
            return None
        if node.operation_id is None or node.assignment_id is None:
            return None
        operation = await self._store.operation(node.operation_id)
        member = Member(node_id=node.id, assignment_id=node.assignment_id)
        batch = self._ports.ids.new("cmd") if key is None else _batch(key)
        return await self.start(operation, member, execution, command_id=CommandId(f"{batch}.0"), actor=actor)

    async def _ready(self, operation_id: OperationId) -> Operation:
        operation = await provision_of(self._store, operation_id)
        if not operation.ended:
            raise InvalidRequest("operation_id", operation_id, "its nodes are not ready yet: wait for it")
        if not operation.committed:
            raise InvalidRequest("operation_id", operation_id, f"it has {operation.status}: it has no nodes")
        return operation

    async def _possible(
        self, operation: Operation, member: Member, execution: Execution, command_id: CommandId
    ) -> None:
        node = await if_found(self._store.node(member.node_id))
        if not _serves(node, member):
            await self._existing(operation, member, execution, command_id, node)

    async def start(
        self,
        operation: Operation,
        member: Member,
        execution: Execution,
        *,
        command_id: CommandId,
        actor: str = "",
    ) -> Command:
        """Start one command on one node, once, however often it is requested under this id."""
        for _ in range(TRIES):
            node = await if_found(self._store.node(member.node_id))
            if node is None or not _serves(node, member):
                return await self._existing(operation, member, execution, command_id, node)
            command = replace(self._command(operation, member, execution, command_id), actor=actor)
            if execution.terminal is not None:
                await self._check_shells(command)
            change = nodes.commanded(node, now=self._ports.clock.now())
            with suppress(Conflict):
                started = await self._commands.start(command, change, actor=actor)
                return _same(started, member, execution)
        raise Conflict(f"cannot start {command_id}: node {member.node_id} keeps changing; try again")

    async def _check_shells(self, command: Command) -> None:
        """Raise TooManyShells if the node has as many as it may. The node was read before, and each new
        command moves its version, so no two requests pass together."""
        found = await self._commands.unfinished(command.assignment_id)
        shells = [each for each in found if each.execution.terminal is not None and each.id != command.id]
        if len(shells) >= self._shells_per_node:
            raise TooManyShells(f"node {command.node_id}", self._shells_per_node)

    async def _existing(
        self,
        operation: Operation,
        member: Member,
        execution: Execution,
        command_id: CommandId,
        node: Node | None,
    ) -> Command:
        try:
            return _same(await self._commands.command(command_id), member, execution)
        except NotFound as error:
            how = "forgotten" if node is None else node.state
            raise Gone(
                f"node {member.node_id}{_index(operation, member)} no longer serves"
                f" {operation.id}: it is {how}; choose others by their index, or provision again"
            ) from error

    def _command(
        self, operation: Operation, member: Member, execution: Execution, command_id: CommandId
    ) -> Command:
        request = operation.request
        if not isinstance(request, ProvisionRequest):
            raise InvalidRequest("operation_id", operation.id, "must be a provision")
        now = self._ports.clock.now()
        return Command(
            id=command_id,
            operation_id=operation.id,
            assignment_id=member.assignment_id,
            node_id=member.node_id,
            ordinal=operation.members.index(member) if member in operation.members else 0,
            count=max(1, len(operation.members)),
            run=request.run,
            execution=execution,
            created_at=now,
            deadline_at=commands.due(execution, since=now),
        )

    async def cancel(self, command_id: CommandId, *, actor: str = "") -> Command:
        """Ask for its end: the node kills the whole tree. A command that has ended stays as it is."""
        for _ in range(TRIES):
            command = await self._commands.command(command_id)
            now = self._ports.clock.now()
            after = commands.cancel_requested(command, now=now)
            if after is None:
                return command
            member = Member(node_id=command.node_id, assignment_id=command.assignment_id)
            node = await if_found(self._store.node(member.node_id))
            with suppress(Conflict):
                change = nodes.commanded(node, now=now) if node and _serves(node, member) else None
                return await self._commands.write(command, after, change, actor=actor)
        raise Conflict(f"cannot cancel {command_id}: it keeps changing; try again")


def _batch(key: str) -> str:
    """Derive a batch id from the caller's key. Ids are parts of URLs and file names; a key is any text."""
    return f"cmd-{hashlib.sha256(key.encode()).hexdigest()[:32]}"


def _serves(node: Node | None, member: Member) -> bool:
    if node is None or not node.commandable:
        return False
    return node.assignment_id == member.assignment_id


def _index(operation: Operation, member: Member) -> str:
    return f" (index {operation.members.index(member)})" if member in operation.members else ""


def _same(command: Command, member: Member, execution: Execution) -> Command:
    """Return the command made under this id before. Raises IdempotencyMismatch if it differs."""
    if command.assignment_id != member.assignment_id or command.execution != execution:
        raise IdempotencyMismatch(command.id, command.operation_id)
    return command
