"""Looks at engines, and the causes of ended containers. The log says when an engine goes and comes back."""

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import replace

from muster.integrations.docker import answers, journal
from muster.integrations.docker.api import Engine, EngineError, NoAnswer, path_of
from muster.integrations.docker.view import View, look
from muster.ports.provider import Machine, MachineState

logger = logging.getLogger(__name__)

CAUSES_MOST = 2000
"""Ended containers whose cause is remembered."""


class Looks:
    def __init__(self, engines: Mapping[str, Engine], installation_id: str) -> None:
        self._engines = engines
        self._installation_id = installation_id
        self._away: dict[str, bool] = {}
        self._causes: dict[str, Machine] = {}
        """By container: a machine that ended, with why. That never changes."""

    async def fresh(self, engine: Engine) -> View:
        """Raises EngineError or NoAnswer."""
        try:
            view = await look(engine, self._installation_id)
        except (EngineError, NoAnswer) as error:
            if not self._away.get(engine.name):
                logger.warning("an engine does not answer: %s", journal.lost(error, engine))
            self._away[engine.name] = True
            raise
        if self._away.pop(engine.name, False):
            logger.info("engine %s answers again", engine.name)
        return view

    async def all(self) -> tuple[dict[str, View], dict[str, str]]:
        """What those show that answer; and of the others, why not."""
        views: dict[str, View] = {}
        away: dict[str, str] = {}

        async def one(engine: Engine) -> None:
            try:
                views[engine.name] = await self.fresh(engine)
            except (EngineError, NoAnswer) as error:
                away[engine.name] = f"{journal.lost(error, engine)} (does not answer)"

        await asyncio.gather(*(one(engine) for engine in self._engines.values()))
        return {name: views[name] for name in self._engines if name in views}, away

    async def explained(self, engine: Engine, view: View, machine: Machine) -> Machine:
        """A machine that is gone with the cause that its container tells. Raises EngineError or NoAnswer."""
        container = view.containers.get(machine.id)
        if machine.state is not MachineState.GONE or container is None or machine.why:
            return machine
        known = self._causes.get(container.id)
        if known is None:
            try:
                found = await engine.get(path_of("containers", container.id, "json"))
            except EngineError as error:
                if error.missing:
                    return machine
                raise
            why = answers.why(found, memory_mib=answers.memory_of(found))
            known = replace(machine, why=why, reason=answers.reason_of(found))
            self._causes[container.id] = known
            while len(self._causes) > CAUSES_MOST:
                self._causes.pop(next(iter(self._causes)))
        return known
