"""From a launch's record to containers that run: any replica may do it, again and again.

    image there, or pulled     a pull is a phase of the boot
    container created          by a name that only one can have; with a secret of its own
    archive put                agent and secret
    fate `made`                unless its end was asked for meanwhile: then it is `ended` and never starts
    started                    a missing container now means that it could not start, or was removed

Cut off anywhere, the next round goes on. A container without a fate after TAKEOVER seconds is made anew,
because only its maker knew the secret. A failure that a repeat won't mend becomes the fate `ended`.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence

import muster.agent
from muster.domain.reasons import Reason
from muster.integrations.docker import answers, body, images, journal, names
from muster.integrations.docker.api import HTTP_ERROR, Engine, EngineError, NoAnswer, path_of
from muster.integrations.docker.journal import ENDED, MADE, Fate, Launch
from muster.integrations.docker.names import MachineName
from muster.integrations.docker.spec import DOCKER, Image, Pull, image_of
from muster.ports.clock import Clock
from muster.ports.ids import Ids
from muster.ports.provider import MachineState

logger = logging.getLogger(__name__)

AT_ONCE = 4
"""Containers that are made on one engine at the same time: more only wait for each other there."""
TAKEOVER = 10.0
FINISH_WITHIN = 3.0
TELL_EVERY = 0.5
PULL_PHASE = "pull_image"
START_PHASE = "start_container"
Advance = Callable[[str, str, str], Awaitable[None]]
"""Tell a machine's boot phase and step."""


class Starter:
    def __init__(self, installation_id: str, clock: Clock, ids: Ids, advance: Advance) -> None:
        self._installation_id = installation_id
        self._clock = clock
        self._ids = ids
        self._advance = advance
        self._tasks: dict[tuple[str, str], asyncio.Task[None]] = {}
        self._pulls: dict[tuple[str, str], tuple[asyncio.Task[None], list[str]]] = {}
        """By engine and image: the pull under way, and how far it is."""
        self._turns: dict[str, asyncio.Semaphore] = {}
        self._waiting: dict[str, float] = {}
        """Since when containers of others are seen that were created and not started."""

    def begin(self, launch: Launch, engine: Engine) -> None:
        """Make its machines on this engine, beside the caller; nothing if that is under way."""
        key = (engine.name, launch.name)
        if key not in self._tasks:
            self._tasks[key] = asyncio.create_task(self._make_all(launch, engine))
            self._tasks[key].add_done_callback(lambda _done: self._tasks.pop(key, None))

    async def close(self) -> None:
        """Let what is nearly done be done: the next server would have to make it anew."""
        pulls = [task for task, _ in self._pulls.values()]
        if self._tasks and not pulls:
            await asyncio.wait(self._tasks.values(), timeout=FINISH_WITHIN)
        under_way = [*self._tasks.values(), *pulls]
        for task in under_way:
            task.cancel()
        await asyncio.gather(*under_way, return_exceptions=True)

    async def _make_all(self, launch: Launch, engine: Engine) -> None:
        machines = launch.on(engine.name)
        try:
            fates = await asyncio.gather(*(journal.read_fate(engine, machine) for machine in machines))
            left = [
                each for each, fate in zip(machines, fates, strict=True) if fate is None or not fate.ended
            ]
            if left and await self._image(launch, engine, left):
                turn = self._turns.setdefault(engine.name, asyncio.Semaphore(AT_ONCE))
                await asyncio.gather(*(self._in_turn(turn, launch, engine, each) for each in left))
        except (EngineError, NoAnswer) as error:
            # The duty comes back to what is left. Meanwhile the nodes' timelines say what they wait for.
            words = journal.lost(error, engine)
            logger.warning("cannot go on with a launch now: %s", words)
            await self._tell(machines, START_PHASE, words[:200])

    async def _in_turn(
        self, turn: asyncio.Semaphore, launch: Launch, engine: Engine, machine: MachineName
    ) -> None:
        async with turn:
            await self._make(launch, engine, machine)

    # --- the image --------------------------------------------------------------------------------

    async def _image(self, launch: Launch, engine: Engine, machines: Sequence[MachineName]) -> bool:
        """Whether the image is there. If it can't be had, that is the fate of the machines."""
        image = image_of(launch.image)
        assert image is not None  # noqa: S101 — checked with the template
        there = await images.has(engine, image)
        if there and launch.pull is not Pull.ALWAYS:
            return True
        if launch.pull is Pull.NEVER:
            why = f"engine {engine.name} has no image {image.whole}, and the template says pull = never"
            await self._end_all(engine, machines, why, Reason.PROVIDER_REFUSED)
            return False
        try:
            await self._pulled(engine, image, machines)
        except (EngineError, TimeoutError) as error:
            late = f"it takes more than {images.WITHIN:.0f} s"
            words = late if isinstance(error, TimeoutError) else str(error)
            why = f"cannot pull {image.whole} on engine {engine.name}: {words}"
            await self._end_all(engine, machines, why, Reason.PROVIDER_REFUSED)
            return False
        return True

    async def _pulled(self, engine: Engine, image: Image, machines: Sequence[MachineName]) -> None:
        key = (engine.name, image.whole)
        if key not in self._pulls:
            said = [""]
            task = asyncio.create_task(images.pull(engine, image, lambda words: said.__setitem__(0, words)))
            self._pulls[key] = task, said
            task.add_done_callback(lambda _done: self._pulls.pop(key, None))
        task, said = self._pulls[key]
        while not task.done():
            step = " ".join(filter(None, (image.whole, said[0])))[:200]
            await self._tell(machines, PULL_PHASE, step)
            await asyncio.wait((task,), timeout=TELL_EVERY)
        task.result()
        await self._tell(machines, START_PHASE, "")

    async def _tell(self, machines: Sequence[MachineName], phase: str, step: str) -> None:
        for machine in machines:
            await self._advance(machine.id, phase, step)

    # --- one container ----------------------------------------------------------------------------

    async def _make(self, launch: Launch, engine: Engine, machine: MachineName) -> None:
        secret = self._ids.secret()
        asked = body.for_machine(
            launch.bodies[engine.name],
            machine,
            kind=launch.instance_type,
            usage=launch.usage_class,
            secret=secret,
        )
        try:
            answer = await engine.post("/containers/create", params={"name": machine.container}, json=asked)
        except EngineError as error:
            if error.taken:
                await self._look_at_other(engine, machine)
            else:
                await self._failed(engine, machine, "create", error)
            return
        made = answers.identity_of(answer)
        if not made:
            raise NoAnswer("its answer to a created container names no Id")
        self._waiting.pop(machine.id, None)
        runtime = asked["HostConfig"].get("Runtime")
        if runtime is None or await self._uses(engine, machine, made, runtime):
            await self._start(engine, machine, made, secret)

    async def _uses(self, engine: Engine, machine: MachineName, made: str, runtime: str) -> bool:
        """Podman's Engine API takes a runtime and ignores it: then nothing may run there unprotected."""
        found = await engine.get(path_of("containers", made, "json"))
        if answers.runtime_of(found) == runtime:
            return True
        why = f"engine {engine.name} ignores the runtime {runtime} of the template: make it its default"
        await self._end_all(engine, [machine], why, Reason.PROVIDER_REFUSED)
        await self._discard(engine, made)
        return False

    async def _start(self, engine: Engine, machine: MachineName, made: str, secret: str) -> None:
        data = body.archive(muster.agent.source(), secret)
        headers = {"Content-Type": "application/x-tar"}
        path = path_of("containers", made, "archive")
        try:
            await engine.call("PUT", path, params={"path": body.HOME}, content=data, headers=headers)
        except EngineError as error:
            if not error.missing:  # else another one took over
                await self._failed(engine, machine, "fill", error)
                await self._discard(engine, made)
            return
        fate = Fate(machine_id=machine.id, how=MADE, at=self._clock.now())
        await self._run(engine, machine, made, await journal.write_fate(engine, self._installation_id, fate))

    async def _run(self, engine: Engine, machine: MachineName, made: str, fate: Fate) -> None:
        """Start a container that has all it needs, unless it was ended meanwhile."""
        if fate.ended:
            await self._discard(engine, made)
            return
        try:
            await engine.post(path_of("containers", made, "start"))
        except EngineError as error:
            # What is missing may be the container, removed by hand; or a network that it names.
            if error.missing and not await self._there(engine, made):
                return
            await self._failed(engine, machine, "start", error, failure=True)
            await self._discard(engine, made)

    async def _there(self, engine: Engine, made: str) -> bool:
        try:
            await engine.get(path_of("containers", made, "json"))
        except EngineError as error:
            if error.missing:
                return False
            raise
        return True

    async def _look_at_other(self, engine: Engine, machine: MachineName) -> None:
        """Its container is there: made by another replica, or by one that died since."""
        try:
            found = await engine.get(path_of("containers", machine.container, "json"))
        except EngineError as error:
            if not error.missing:
                raise
            # Docker reserves a name before it shows the container. A Podman that was killed keeps it.
            if self._waited_long(machine):
                why = (
                    f"engine {engine.name} holds the name {machine.container} of a container that it does not"
                    f" have: it was killed while it made it. Free the name: podman rm -f {machine.container}"
                )
                await self._end_all(engine, [machine], why, Reason.PROVIDER_ERROR)
            return
        identity, word = answers.identity_of(found), answers.status_of(found)
        if answers.labels_of(found).get(names.MACHINE) != machine.id:
            why = f"a container {machine.container} on engine {engine.name} is not Muster's: rename it"
            await self._end_all(engine, [machine], why, Reason.PROVIDER_REFUSED)
        elif answers.state_of(word) is MachineState.PENDING:
            fate = await journal.read_fate(engine, machine)
            if fate is not None:
                await self._run(engine, machine, identity, fate)
            elif self._waited_long(machine):
                await self._discard(engine, identity)

    def _waited_long(self, machine: MachineName) -> bool:
        """Return whether another server had its time to go on with this container; then begin anew."""
        now = self._clock.now()
        if now - self._waiting.setdefault(machine.id, now) <= TAKEOVER:
            return False
        self._waiting.pop(machine.id, None)
        return True

    async def _failed(
        self, engine: Engine, machine: MachineName, verb: str, error: EngineError, *, failure: bool = False
    ) -> None:
        reason = Reason.PROVIDER_ERROR if error.status >= HTTP_ERROR else Reason.PROVIDER_REFUSED
        why = f"engine {engine.name} cannot {verb} its container: {error}"
        await self._end_all(engine, [machine], why, reason, failure=failure)

    async def _end_all(
        self,
        engine: Engine,
        machines: Sequence[MachineName],
        why: str,
        reason: Reason,
        *,
        failure: bool = False,
    ) -> None:
        at = self._clock.now()
        fates = [Fate(machine_id=each.id, how=ENDED, at=at, why=why, reason=reason) for each in machines]
        logger.warning("a container can't be made: %s", why, extra={"provider": DOCKER})
        write = journal.write_failure if failure else journal.write_fate
        await asyncio.gather(*(write(engine, self._installation_id, fate) for fate in fates))

    async def _discard(self, engine: Engine, identity: str) -> None:
        """Without force: one that runs by now is left alone."""
        try:
            await engine.call("DELETE", path_of("containers", identity), params={"v": "true"})
        except EngineError as error:
            if not (error.missing or error.improper):
                raise
