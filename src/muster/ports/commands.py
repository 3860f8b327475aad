"""Keep commands and their output: a shared, durable record of requests to nodes and of the results.

The rules of the store port hold here too. Time is a parameter. A write is one transaction with its event. A
record that moved raises Conflict.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from muster.domain.command import Command
from muster.domain.ids import AssignmentId, CommandId, OperationId
from muster.domain.node import NodeChange
from muster.ports.store import Cursor, Page
from muster.ports.verbs import reads, writes


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """How much of a command's output is kept. `full`: some of this was beyond the cap, and was dropped."""

    size: int
    full: bool


class CommandStore(Protocol):
    @writes
    async def start(self, command: Command, change: NodeChange, *, actor: str = "") -> Command:
        """Insert a pending command together with the change that tells its node. `actor` is
        who asked for it. A command that is there already is returned as it is. Raises Conflict if the node
        moved."""
        ...

    @reads
    async def command(self, command_id: CommandId) -> Command:
        """Return a command. Raises NotFound."""
        ...

    @reads
    async def of_operation(self, operation_id: OperationId) -> Sequence[Command]:
        """Return all commands on the nodes of a provision, oldest first, at most 10,000."""
        ...

    @reads
    async def unfinished(self, assignment_id: AssignmentId) -> Sequence[Command]:
        """Return the commands that the node of an assignment should execute, oldest first."""
        ...

    @reads
    async def unserved(self, *, limit: int) -> Sequence[Command]:
        """Return unfinished commands whose node no longer holds their assignment, oldest first."""
        ...

    @reads
    async def overdue(self, *, now: float, limit: int) -> Sequence[Command]:
        """Return unfinished commands past their own timeout, most overdue first."""
        ...

    @writes
    async def write(
        self, before: Command, after: Command, change: NodeChange | None = None, *, actor: str = ""
    ) -> Command:
        """Write a command, guarded. With `change`, the same transaction writes the node."""
        ...

    @writes
    async def append_output(self, command_id: CommandId, *, offset: int, data: bytes) -> Kept:
        """Keep output from `offset` on. What is kept already is skipped, a gap is refused with Conflict,
        what goes past the cap is dropped. Idempotent. Raises NotFound."""
        ...

    @reads
    async def output(self, command_id: CommandId, *, offset: int, limit: int) -> bytes:
        """Return up to `limit` bytes from `offset` on; empty at the end of what is kept so far."""
        ...

    @reads
    async def commands(self, *, run: str | None, after: Cursor | None, limit: int) -> Page[Command]:
        """Return commands, newest first."""
        ...
