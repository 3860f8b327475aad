"""One launch: placed on engines with room, and recorded before anything is made.

The record is final for its token. Launches of one server take turns. Two servers may write at the same time,
so each counts again after it wrote. A server that finds too many machines gives back from its own. So an
engine never has more than its capacity.
"""

import asyncio
import json
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from muster.domain.errors import Refused, TokenSpent, Uncertain
from muster.domain.matching import type_matches
from muster.domain.reasons import Reason
from muster.domain.template import TemplateSpec
from muster.domain.text import counted
from muster.integrations.docker import body, journal, names
from muster.integrations.docker.api import Engine, EngineError, NoAnswer
from muster.integrations.docker.journal import ENDED, Fate, Launch
from muster.integrations.docker.looks import Looks
from muster.integrations.docker.spec import DOCKER
from muster.integrations.docker.starter import Starter
from muster.integrations.docker.tables import TEMPLATE
from muster.integrations.docker.view import View
from muster.ports.clock import Clock
from muster.ports.provider import LaunchAnswer, LaunchRequest, Machine, MachineState

logger = logging.getLogger(__name__)

PATIENCE = 15.0
"""Seconds that a launch waits for an engine to answer: a daemon that restarts takes less."""
AGAIN = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Launcher:
    installation_id: str
    engines: Mapping[str, Engine]
    servers: Sequence[str]
    dead_man: Callable[[TemplateSpec], float]
    clock: Clock
    looks: Looks
    starter: Starter
    _turn: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def launch(self, request: LaunchRequest) -> LaunchAnswer:
        kind = self._fitting(request)
        try:
            async with self._turn:
                launch, views = await self._recorded(request, kind)
        except (EngineError, NoAnswer) as error:
            raise Uncertain(f"cannot record the launch: {error}") from error
        for name in dict.fromkeys(launch.placed):
            self.starter.begin(launch, self.engines[name])
        return _answer(request, launch, views)

    def _fitting(self, request: LaunchRequest) -> str:
        kind = f"{DOCKER}.{request.resource_class.name}"
        if request.installation_id != self.installation_id:
            raise Refused("cannot launch for another installation", Reason.PROVIDER_REFUSED)
        if not type_matches(kind, request.instance_types):
            patterns = " ".join(request.instance_types)
            raise Refused(
                f"cannot launch: containers are {kind} here, which none of the patterns {patterns!r} allows",
                Reason.PROVIDER_REFUSED,
            )
        return kind

    async def _recorded(self, request: LaunchRequest, kind: str) -> tuple[Launch, dict[str, View]]:
        views, away = await self._reachable()
        wanted = request.fingerprint
        name = names.launch_name(self.installation_id, request.token)
        kept = next((view.launches[name] for view in views.values() if name in view.launches), None)
        if kept is None:
            kept = await self._written(request, kind, wanted, views, away)
        if kept.fingerprint != wanted:
            raise TokenSpent(f"cannot launch with token {request.token}: it was used with other parameters")
        unknown = [each for each in dict.fromkeys(kept.placed) if each not in views]
        if unknown:
            raise Uncertain(f"cannot finish the launch: engine {unknown[0]} does not answer")
        if any(kept.name not in views[each].launches for each in kept.placed):
            views = await self._settled(kept)
        return kept, views

    async def _written(
        self, request: LaunchRequest, kind: str, wanted: str, views: dict[str, View], away: dict[str, str]
    ) -> Launch:
        """The launch, on the first engine that can record it. One with a full disk can't, and takes none."""
        while True:
            planned = self._planned(request, kind, wanted, views, away)
            engine = self.engines[planned.placed[0]]
            try:
                return await journal.write_launch(engine, planned)
            except EngineError as error:
                away[engine.name] = journal.lost(error, engine)
                del views[engine.name]
            if not views:
                raise Refused(f"cannot launch: {'; '.join(away.values())}", Reason.PROVIDER_ERROR)

    async def _reachable(self) -> tuple[dict[str, View], dict[str, str]]:
        """Look at every engine; those that don't answer, with why. Raises Refused if none does in time."""
        latest = self.clock.now() + PATIENCE
        while True:
            views, away = await self.looks.all()
            if views:
                return views, away
            if self.clock.now() > latest:
                raise Refused(f"cannot launch: {'; '.join(away.values())}", Reason.PROVIDER_ERROR)
            await self.clock.sleep(AGAIN)

    def _planned(
        self,
        request: LaunchRequest,
        kind: str,
        fingerprint: str,
        views: Mapping[str, View],
        away: Mapping[str, str],
    ) -> Launch:
        spec = TEMPLATE.of(request.template)
        rooms = {
            name: Room(capacity=self.engines[name].config.capacity, taken=len(view.living()))
            for name, view in views.items()
        }
        chosen = placed(request.count, rooms)
        if not chosen:
            words = f"cannot launch: none of {_places(rooms)} is free"
            raise Refused("; ".join((words, *away.values())), Reason.CAPACITY)
        bodies = {
            name: json.dumps(
                body.body(
                    request,
                    spec,
                    self.engines[name].config,
                    servers=self.engines[name].config.server_url or self.servers,
                    dead_man=self.dead_man(request.template),
                )
            )
            for name in dict.fromkeys(chosen)
        }
        return Launch(
            installation_id=self.installation_id,
            token=request.token,
            fingerprint=fingerprint,
            count=request.count,
            placed=chosen,
            instance_type=kind,
            usage_class=request.usage_class,
            at=self.clock.now(),
            image=spec.parts.whole,
            pull=spec.pull,
            bodies=bodies,
        )

    async def _settled(self, launch: Launch) -> dict[str, View]:
        """The record on every engine of the launch, and no engine with more than its capacity."""
        involved = [self.engines[name] for name in dict.fromkeys(launch.placed)]
        await asyncio.gather(*(self._copied(engine, launch) for engine in involved[1:]))
        views = await asyncio.gather(*(self.looks.fresh(engine) for engine in involved))
        return {
            engine.name: await self._given_back(engine, view, launch)
            for engine, view in zip(involved, views, strict=True)
        }

    async def _copied(self, engine: Engine, launch: Launch) -> None:
        """An engine without the record makes none of its machines: the launch is partial."""
        try:
            await journal.write_launch(engine, launch)
        except EngineError as error:
            logger.warning("cannot record a launch: %s", journal.lost(error, engine))

    async def _given_back(self, engine: Engine, view: View, launch: Launch) -> View:
        over = len(view.living()) - engine.config.capacity
        if over <= 0:
            return view
        surplus = [each for each in reversed(launch.on(engine.name)) if each.id not in view.fates][:over]
        why = f"another launch took the last place on engine {engine.name} at the same time"
        fates = {
            each.id: await journal.write_fate(
                engine,
                self.installation_id,
                Fate(machine_id=each.id, how=ENDED, at=self.clock.now(), why=why, reason=Reason.CAPACITY),
            )
            for each in surplus
        }
        return replace(view, fates={**view.fates, **fates})


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    capacity: int
    taken: int

    @property
    def free(self) -> int:
        return max(0, self.capacity - self.taken)


def placed(count: int, rooms: Mapping[str, Room]) -> tuple[str, ...]:
    """Return the engine of each machine; fewer than asked for if no more fit.

    Each machine goes to the engine with the largest share of free places, so that load spreads as engines
    differ in size. Equal ones are taken in the order of the settings.
    """
    left = {name: room.free for name, room in rooms.items()}
    chosen: list[str] = []
    for _ in range(count):
        best = max(left, key=lambda name: left[name] / max(1, rooms[name].capacity), default=None)
        if best is None or not left[best]:
            break
        left[best] -= 1
        chosen.append(best)
    return tuple(chosen)


def _answer(request: LaunchRequest, launch: Launch, views: Mapping[str, View]) -> LaunchAnswer:
    """Machines that have ended since are not among them: the launch is partial, and says so."""
    seen = [
        machine for each in launch.machines if (machine := views[each.engine].machine(each.id)) is not None
    ]
    machines = tuple(machine for machine in seen if machine.state is not MachineState.GONE)
    gone = [machine for machine in seen if machine.state is MachineState.GONE]
    if len(launch.placed) < request.count:
        message = f"{counted(len(launch.placed), 'place')} of {request.count} free"
        return LaunchAnswer(machines=machines, reason=Reason.CAPACITY, message=message)
    if gone:
        return LaunchAnswer(machines=machines, reason=_reason(gone), message=_why(gone))
    lacking = [each.engine for each in launch.machines if each.id not in {machine.id for machine in seen}]
    if lacking:
        message = f"engine {lacking[0]} cannot record launches: check its disk and its log"
        return LaunchAnswer(machines=machines, reason=Reason.PROVIDER_ERROR, message=message)
    return LaunchAnswer(machines=machines)


def _reason(gone: Sequence[Machine]) -> Reason:
    given_back = all(machine.reason is Reason.CAPACITY for machine in gone)
    return Reason.CAPACITY if given_back else Reason.PARTIAL_LAUNCH


def _why(gone: Sequence[Machine]) -> str:
    return f"already gone: {', '.join(f'{machine.id} ({machine.why})' for machine in gone)}"


def _places(rooms: Mapping[str, Room]) -> str:
    places = sum(room.capacity for room in rooms.values())
    return f"{counted(places, 'place')} on {counted(len(rooms), 'engine')}"
