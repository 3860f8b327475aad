"""Deaths of containers, told by engines' events at once.

Events are hints: what they name is looked at before it is believed. Some are missed while no connection is
there, so each connection begins with a look at what is gone.

A container that an operator removes by force ends first and is removed a moment later. So an end is told only
after that moment, and as what it was.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence

from muster.domain.errors import ProviderError
from muster.integrations.docker import names
from muster.integrations.docker.api import Engine, EngineError, NoAnswer, filters
from muster.integrations.docker.looks import Looks
from muster.integrations.docker.view import REMOVED
from muster.ports.clock import Clock
from muster.ports.provider import Machine, MachineState

logger = logging.getLogger(__name__)

REMOVALS = ("destroy", "remove")
DEATHS = ("die", *REMOVALS)
AGAIN = 2.0
OVERLAP = 10.0
"""Seconds of events that a new connection asks for again: what happened since the look is among them."""
TRIES = 10
SOON = 0.2
"""Seconds after an event until the engine shows what it told."""
MOMENT = 2.0
"""Seconds after a container's end in which its removal follows: Podman takes 0.3 s on a busy machine."""
Describe = Callable[[Sequence[str]], Awaitable[Mapping[str, Machine]]]


class Watcher:
    def __init__(
        self, engines: Mapping[str, Engine], installation_id: str, looks: Looks, clock: Clock
    ) -> None:
        self._engines = engines
        self._installation_id = installation_id
        self._looks = looks
        self._clock = clock
        self._dead: asyncio.Queue[str] = asyncio.Queue()
        self._tasks: list[asyncio.Task[None]] = []
        self._told: dict[str, bool] = {}
        """Machines whose end was told: an end has several events."""
        self._removed: dict[str, bool] = {}
        """Machines whose removal an engine told, until their end is told."""

    async def ended(self, describe: Describe) -> Sequence[Machine]:
        """Wait for deaths, and return each machine once. Raises Uncertain."""
        if not self._tasks:
            self._tasks = [asyncio.create_task(self._follow(each)) for each in self._engines.values()]
        while True:
            waiting = [await self._dead.get()]
            while not self._dead.empty():
                waiting.append(self._dead.get_nowait())
            fresh = [each for each in dict.fromkeys(waiting) if each not in self._told]
            gone = await self._gone(fresh, describe)
            if any(machine.why != REMOVED for machine in gone):
                await self._wait_for_removals(fresh)
                gone = await self._gone(fresh, describe)
            self._told.update((machine.id, True) for machine in gone)
            for machine in gone:
                self._removed.pop(machine.id, None)
            if gone:
                return gone

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _gone(self, dead: list[str], describe: Describe) -> Sequence[Machine]:
        found: dict[str, Machine] = {}
        for _ in range(TRIES):
            left = [each for each in dead if each not in found]
            if not left:
                break
            try:
                known = await describe(left)
            except ProviderError:
                break  # the look at the next connection finds them
            found |= {each.id: each for each in known.values() if each.state is MachineState.GONE}
            if len(found) < len(dead):
                await self._clock.sleep(SOON)
        return list(found.values())

    async def _wait_for_removals(self, dead: Sequence[str]) -> None:
        latest = self._clock.now() + MOMENT
        while self._clock.now() < latest and not all(each in self._removed for each in dead):
            await self._clock.sleep(SOON)

    async def _follow(self, engine: Engine) -> None:
        ours = filters(type=["container"], label=[f"{names.INSTALLATION}={self._installation_id}"])
        while True:
            asked = {"filters": ours, "since": f"{self._clock.now() - OVERLAP:.0f}"}
            try:
                await self._look(engine)
                async for event in engine.lines("GET", "/events", params=asked):
                    self._note(event)
            except (EngineError, NoAnswer) as error:
                told = {"engine": engine.name, "error": repr(error)}
                logger.info("cannot hear an engine's events now", extra=told)
            await self._clock.sleep(AGAIN)

    async def _look(self, engine: Engine) -> None:
        """Tell of those that are gone and weren't told, and forget those that the engine forgot."""
        view = await self._looks.fresh(engine)
        gone = {each.id: True for each in view.machines() if each.state is MachineState.GONE}
        others = {each: True for each in self._told if not each.startswith(f"{engine.name}.")}
        self._told = {**others, **{each: True for each in self._told if each in gone}}
        for machine_id in gone:
            if machine_id not in self._told:
                self._dead.put_nowait(machine_id)

    def _note(self, event: Mapping[str, object]) -> None:
        actor = event.get("Actor")
        attributes = actor.get("Attributes") if isinstance(actor, Mapping) else None
        machine_id = attributes.get(names.MACHINE) if isinstance(attributes, Mapping) else None
        action = event.get("Action")
        if action not in DEATHS or not isinstance(machine_id, str) or not names.parsed(machine_id):
            return
        if action in REMOVALS and machine_id not in self._told:
            self._removed[machine_id] = True
        self._dead.put_nowait(machine_id)
