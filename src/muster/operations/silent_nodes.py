"""Find nodes that do not answer while commands run on them: since when, and when they are given up."""

from collections.abc import Mapping, Sequence

from muster.domain.command import Command
from muster.domain.health import Silence, silence
from muster.domain.ids import NodeId
from muster.domain.settings import Settings
from muster.operations.watch import WatchTracker
from muster.ports.bundle import Ports


class SilentNodes:
    def __init__(self, ports: Ports, settings: Settings, watch_tracker: WatchTracker) -> None:
        self._ports = ports
        self._limits = settings.limits
        self._watch_tracker = watch_tracker

    async def under(self, commands: Sequence[Command]) -> Mapping[NodeId, Silence]:
        """Return the silence of each node that runs unfinished commands. Leaves out nodes that answer."""
        asked = list(dict.fromkeys(command.node_id for command in commands if not command.ended))
        if not asked:
            return {}
        watch = await self._watch_tracker.look()
        now = self._ports.clock.now()
        limits = watch.limits(self._limits, now=now)
        found = {
            node_id: silence(vitals, now=now, observing_since=watch.since, limits=limits)
            for node_id, vitals in (await self._ports.store.vitals(asked)).items()
        }
        return {node_id: each for node_id, each in found.items() if each is not None}
