"""The NodeProvider of container engines: answers from what engines show, and remembers nothing that matters.

Every verb may be cut off at any point, and the next look is right. An engine that does not answer makes its
own machines uncertain, and no others.
"""

import asyncio
import logging
import struct
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from typing import Any

from muster.domain.errors import Uncertain
from muster.domain.reasons import Reason
from muster.domain.template import TemplateSpec
from muster.integrations.docker import answers, body, journal, names
from muster.integrations.docker.api import Engine, EngineError, NoAnswer, path_of
from muster.integrations.docker.journal import ENDED, Fate
from muster.integrations.docker.launcher import Launcher
from muster.integrations.docker.looks import Looks
from muster.integrations.docker.names import MachineName
from muster.integrations.docker.pruner import Pruner
from muster.integrations.docker.spec import DOCKER
from muster.integrations.docker.starter import Advance, Starter
from muster.integrations.docker.tables import EngineConfig
from muster.integrations.docker.view import View
from muster.integrations.docker.watcher import Watcher
from muster.ports.clock import Clock
from muster.ports.ids import Ids
from muster.ports.provider import LaunchAnswer, LaunchRequest, Machine, MachineState

logger = logging.getLogger(__name__)

STOPPING_WITHIN = body.GRACE + 20.0
TRIES = 5
"""Looks at a container that changes its state while Muster ends it."""
HEARD_WITHIN = 2.0
"""Seconds after which an engine that stops a container has surely heard: it goes on by itself."""
CONSOLE_MOST = 8 * 1024 * 1024
"""More than the log's own bound (`body.LOG`)."""
_FRAME = struct.Struct(">BxxxL")
_STREAMS = (0, 1, 2)


class DockerProvider:
    """Implements muster.ports.provider.NodeProvider and muster.ports.provider.EndingsSource."""

    name = DOCKER
    visibility_window = 0.0
    call_timeout = 30.0
    makes_way = frozenset({Reason.CAPACITY})

    def __init__(
        self,
        configs: Sequence[EngineConfig],
        *,
        installation_id: str,
        servers: Sequence[str],
        dead_man: Callable[[TemplateSpec], float],
        clock: Clock,
        ids: Ids,
        advance: Advance,
    ) -> None:
        self.engines = {config.name: Engine(config) for config in configs}
        self._installation_id = installation_id
        self._clock = clock
        self._looks = Looks(self.engines, installation_id)
        self._starter = Starter(installation_id, clock, ids, advance)
        self._launcher = Launcher(
            installation_id=installation_id,
            engines=self.engines,
            servers=tuple(servers),
            dead_man=dead_man,
            clock=clock,
            looks=self._looks,
            starter=self._starter,
        )
        self._pruner = Pruner(self._looks, clock)
        self._watcher = Watcher(self.engines, installation_id, self._looks, clock)
        self._stops: dict[str, asyncio.Task[None]] = {}

    # --- the port ---------------------------------------------------------------------------------

    async def launch(self, request: LaunchRequest) -> LaunchAnswer:
        return await self._launcher.launch(request)

    async def find(self, token: str) -> Sequence[Machine]:
        views = await self._every()
        return [each for view in views for each in view.living() if each.token == token]

    async def list(self) -> AsyncIterator[Machine]:
        views, away = await self._looks.all()
        for name, view in views.items():
            for machine in view.living():
                yield machine
            await self._pruner.prune(self.engines[name], view)
        if away:
            raise Uncertain(f"cannot list all machines: {'; '.join(away.values())}")

    async def describe(self, machine_ids: Sequence[str]) -> Mapping[str, Machine]:
        asked = _by_engine(machine_ids)
        parts = await asyncio.gather(
            *(
                self._described(self.engines[name], some)
                for name, some in asked.items()
                if name in self.engines
            )
        )
        found = {machine.id: machine for part in parts for machine in part}
        return {each: found[each] for each in dict.fromkeys(machine_ids) if each in found}

    async def console(self, machine_id: str, *, lines: int) -> str | None:
        machine = names.parsed(machine_id)
        engine = None if machine is None else self.engines.get(machine.engine)
        if machine is None or engine is None:
            return None
        try:
            return await console(engine, machine, lines=lines)
        except (EngineError, NoAnswer) as error:
            raise Uncertain(f"cannot read the console: {journal.lost(error, engine)}") from error

    async def terminate(self, machine_ids: Sequence[str]) -> None:
        asked = _by_engine(machine_ids)
        await asyncio.gather(
            *(
                self._terminate(self.engines[name], some)
                for name, some in asked.items()
                if name in self.engines
            )
        )

    async def ended(self) -> Sequence[Machine]:
        """Implements muster.ports.provider.EndingsSource by the engines' events."""
        return await self._watcher.ended(self.describe)

    # --- for the server ---------------------------------------------------------------------------

    async def reconcile(self) -> None:
        """Go on with what a dead server left unfinished. Implements muster.ports.duties.Reconciler."""
        views, _ = await self._looks.all()
        for name, view in views.items():
            for launch in view.launches.values():
                if any(_unfinished(view, machine) for machine in launch.on(name)):
                    self._starter.begin(launch, self.engines[name])

    async def close(self) -> None:
        await self._watcher.close()
        await self._starter.close()
        stops = list(self._stops.values())
        for task in stops:
            task.cancel()
        await asyncio.gather(*stops, return_exceptions=True)
        for engine in self.engines.values():
            await engine.close()

    # --- looking ----------------------------------------------------------------------------------

    async def _every(self) -> Sequence[View]:
        views, away = await self._looks.all()
        if away:
            raise Uncertain(f"cannot look at all machines: {'; '.join(away.values())}")
        return list(views.values())

    async def _described(self, engine: Engine, asked: Sequence[MachineName]) -> Sequence[Machine]:
        """Machines of an engine that does not answer are neither here nor gone."""
        try:
            view = await self._looks.fresh(engine)
            found = [each for machine in asked if (each := view.machine(machine.id)) is not None]
            return [await self._looks.explained(engine, view, each) for each in found]
        except (EngineError, NoAnswer) as error:
            why = journal.lost(error, engine)
            return [Machine.unknown(machine.id, self._installation_id, why) for machine in asked]

    # --- ending -----------------------------------------------------------------------------------

    async def _terminate(self, engine: Engine, asked: Sequence[MachineName]) -> None:
        try:
            view = await self._looks.fresh(engine)
            stops = [await self._end(engine, view, machine) for machine in asked]
        except (EngineError, NoAnswer) as error:
            raise Uncertain(f"cannot end machines: {journal.lost(error, engine)}") from error
        tasks = [task for task in stops if task is not None]
        if tasks:
            done, _ = await asyncio.wait(tasks, timeout=HEARD_WITHIN)
            failed = [each for each in (task.exception() for task in done) if each is not None]
            if failed:
                raise Uncertain(f"cannot end machines: engine {engine.name}: {failed[0]}") from failed[0]

    async def _end(self, engine: Engine, view: View, machine: MachineName) -> asyncio.Task[None] | None:
        known = view.machine(machine.id)
        if known is None or known.state is MachineState.GONE:
            return None
        if known.state is MachineState.PENDING:
            why = "it was ended before it began"
            fate = Fate(machine_id=machine.id, how=ENDED, at=self._clock.now(), why=why)
            await journal.write_fate(engine, self._installation_id, fate)
        return self._beside(machine.id, _stopped(engine, machine))

    def _beside(self, machine_id: str, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Ending takes as long as the agent needs. The caller needs not wait for it."""
        if machine_id in self._stops:
            work.close()
        else:
            self._stops[machine_id] = task = asyncio.create_task(work)
            task.add_done_callback(lambda done: self._forget(machine_id, done))
        return self._stops[machine_id]

    def _forget(self, machine_id: str, task: asyncio.Task[None]) -> None:
        self._stops.pop(machine_id, None)
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.info("cannot end a container now", extra={"machine": machine_id, "error": repr(error)})


async def _stopped(engine: Engine, machine: MachineName) -> None:
    """End its container, in whatever state it is by now. Raises EngineError or NoAnswer."""
    for _ in range(TRIES):
        try:
            found = await engine.get(path_of("containers", machine.container, "json"))
            if answers.labels_of(found).get(names.MACHINE) != machine.id:
                return
            path = ("containers", answers.identity_of(found))
            match answers.state_of(word := answers.status_of(found)):
                case MachineState.GONE:
                    return
                case MachineState.PENDING:
                    # Without force: it may have started meanwhile.
                    await engine.call("DELETE", path_of(*path), params={"v": "true"})
                case _:
                    if word == "paused":
                        await engine.post(path_of(*path, "unpause"))
                    asked = {"t": str(body.GRACE)}
                    await engine.post(path_of(*path, "stop"), params=asked, timeout=STOPPING_WITHIN)
        except EngineError as error:
            if error.missing:
                return
            if not error.improper:
                raise


def _by_engine(machine_ids: Sequence[str]) -> dict[str, list[MachineName]]:
    found: dict[str, list[MachineName]] = {}
    for machine_id in dict.fromkeys(machine_ids):
        machine = names.parsed(machine_id)
        if machine is not None:
            found.setdefault(machine.engine, []).append(machine)
    return found


def _unfinished(view: View, machine: MachineName) -> bool:
    """Still to be made, or made and not started."""
    container, fate = view.containers.get(machine.id), view.fates.get(machine.id)
    if container is None:
        return fate is None
    return container.state is MachineState.PENDING


async def console(engine: Engine, machine: MachineName, *, lines: int) -> str | None:
    """Return the last lines, at most so many; None if nothing was said, or nothing is left of it.

    Without a terminal, an engine sends frames: eight bytes (stream, three zeros, length) and the data. Frames
    are writes, not lines, so lines are counted once all frames are joined.
    """
    if lines <= 0:
        return None
    # Of one more, because the engine counts an unfinished line.
    asked = {"stdout": "true", "stderr": "true", "tail": str(lines + 1)}
    try:
        data = await engine.read(
            "GET", path_of("containers", machine.container, "logs"), params=asked, most=CONSOLE_MOST
        )
    except EngineError as error:
        if error.missing:
            return None
        raise
    text = joined(data).decode("utf-8", "replace").replace("\r\n", "\n").removesuffix("\n")
    found = text.split("\n")[-lines:] if text else []
    return "\n".join(found) if found else None


def joined(data: bytes) -> bytes:
    """Return the data of all frames. What doesn't look like frames is taken as it is."""
    found: list[bytes] = []
    at = 0
    while at < len(data):
        if at + _FRAME.size > len(data):
            break
        stream, length = _FRAME.unpack_from(data, at)
        if stream not in _STREAMS or data[at + 1 : at + 4] != b"\0\0\0":
            return data if not found else b"".join(found)
        found.append(data[at + _FRAME.size : at + _FRAME.size + length])
        at += _FRAME.size + length
    return b"".join(found)
