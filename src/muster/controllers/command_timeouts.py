"""End the wait for commands past their timeout on nodes that do not answer.

A node ends its commands at their timeout itself, and sends their output first. This duty covers nodes that
can't do so.
"""

from muster.domain import command as commands
from muster.domain.errors import Conflict
from muster.operations.watch import SilentNodes
from muster.ports.bundle import Ports

BATCH = 500


class CommandTimeouts:
    def __init__(self, ports: Ports, silent_nodes: SilentNodes) -> None:
        self._ports = ports
        self._silent_nodes = silent_nodes

    async def reconcile(self) -> None:
        now = self._ports.clock.now()
        overdue = await self._ports.commands.overdue(now=now, limit=BATCH)
        silent = await self._silent_nodes.under(overdue)
        for command in overdue:
            if command.node_id not in silent:
                continue
            try:
                await self._ports.commands.write(command, commands.unanswered(command, now=now))
            except Conflict:
                continue
