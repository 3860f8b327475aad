"""Commands whose node no longer serves their run: nobody will tell how they ended, so they are lost."""

from muster.domain import command as commands
from muster.domain.errors import Conflict
from muster.ports.bundle import Ports

BATCH = 500


class ForsakenCommands:
    def __init__(self, ports: Ports) -> None:
        self._ports = ports

    async def reconcile(self) -> None:
        for command in await self._ports.commands.forsaken(limit=BATCH):
            now = self._ports.clock.now()
            lost = commands.lost(command, detail="its node was lost or given back before it ended", now=now)
            try:
                await self._ports.commands.write(command, lost)
            except Conflict:
                continue
