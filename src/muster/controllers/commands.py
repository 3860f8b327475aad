"""End commands that their node can not end."""

from contextlib import suppress

from muster.domain import command as commands
from muster.domain.errors import Conflict
from muster.operations.watch import SilentNodes
from muster.ports.bundle import Ports
from muster.ports.store import if_found

BATCH = 500


class CommandTimeouts:
    """End the wait for commands past their timeout on nodes that do not answer.

    A node ends its commands at their timeout itself, and sends their output first. This duty covers nodes
    that can't do so.
    """

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
            with suppress(Conflict):
                await self._ports.commands.write(command, commands.unanswered(command, now=now))


class LostCommands:
    """Mark commands as lost when their node no longer serves their run."""

    def __init__(self, ports: Ports) -> None:
        self._ports = ports

    async def reconcile(self) -> None:
        for command in await self._ports.commands.unserved(limit=BATCH):
            node = await if_found(self._ports.store.node(command.node_id))
            lost = commands.unserved(command, node, now=self._ports.clock.now())
            with suppress(Conflict):
                await self._ports.commands.write(command, lost)
