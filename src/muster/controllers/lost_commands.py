"""Mark commands as lost when their node no longer serves their run."""

from muster.domain import command as commands
from muster.domain.errors import Conflict, NotFound
from muster.domain.ids import NodeId
from muster.domain.node import Node
from muster.ports.bundle import Ports

BATCH = 500


class LostCommands:
    def __init__(self, ports: Ports) -> None:
        self._ports = ports

    async def reconcile(self) -> None:
        for command in await self._ports.commands.unserved(limit=BATCH):
            node = await self._node(command.node_id)
            lost = commands.unserved(command, node, now=self._ports.clock.now())
            try:
                await self._ports.commands.write(command, lost)
            except Conflict:
                continue

    async def _node(self, node_id: NodeId) -> Node | None:
        try:
            return await self._ports.store.node(node_id)
        except NotFound:
            return None
