"""Removal of what is left of ended machines, when their time of keeping is over.

The time runs from when this process first saw all machines of a launch gone. It needs no clock of an engine,
and a restart only keeps them longer. The launch's record goes first. A prune that is cut off leaves
containers and fates without a record, which are leftovers themselves. It never leaves a launch that looks
unfinished.
"""

import logging

from muster.integrations.docker import journal, names
from muster.integrations.docker.api import Engine, EngineError, NoAnswer, path_of
from muster.integrations.docker.looks import Looks
from muster.integrations.docker.view import View
from muster.ports.clock import Clock
from muster.ports.provider import MachineState

logger = logging.getLogger(__name__)

EVERY = 60.0
REMOVABLE = (MachineState.PENDING, MachineState.GONE)
"""A container that was created for a machine whose end came first is left over too."""


class Pruner:
    def __init__(self, looks: Looks, clock: Clock) -> None:
        self._looks = looks
        self._clock = clock
        self._gone_since: dict[str, dict[str, float]] = {}
        """By engine and launch."""
        self._next: dict[str, float] = {}

    async def prune(self, engine: Engine, view: View) -> None:
        """Remove what is due on one engine, now and then. A failure is for the next time."""
        now = self._clock.now()
        if now < self._next.get(engine.name, 0.0):
            return
        keep = engine.config.keep
        self._next[engine.name] = now + min(EVERY, keep)
        before = self._gone_since.get(engine.name, {})
        since = {launch: before.get(launch, now) for launch in _ended(view)}
        self._gone_since[engine.name] = since
        try:
            for launch, at in since.items():
                if now >= at + keep:
                    await self._remove(engine, view, launch)
        except (EngineError, NoAnswer) as error:
            logger.warning("cannot prune: %s", journal.lost(error, engine))

    async def _remove(self, engine: Engine, view: View, launch: str) -> None:
        await journal.remove(engine, names.launch_volume(launch))
        for container in view.containers.values():
            if container.machine.launch == launch and container.state in REMOVABLE:
                await _drop(engine, container.id)
        for machine_id in view.fates:
            machine = names.parsed(machine_id)
            if machine is not None and machine.launch == launch:
                await journal.remove(engine, machine.failure)
                await journal.remove(engine, machine.fate)


async def _drop(engine: Engine, container: str) -> None:
    try:
        await engine.call("DELETE", path_of("containers", container), params={"v": "true"})
    except EngineError as error:
        if not error.missing:
            raise


def _ended(view: View) -> list[str]:
    """Launches of which nothing lives on this engine."""
    living = {found.launch for each in view.living() if (found := names.parsed(each.id)) is not None}
    fated = {found.launch for each in view.fates if (found := names.parsed(each)) is not None}
    shown = {container.machine.launch for container in view.containers.values()}
    return sorted({*view.launches, *fated, *shown} - living)
