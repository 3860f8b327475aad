"""Agents that do what a test tells them, speaking to the enrolment as real ones do."""

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, replace
from typing import Any

from muster.domain.command import CommandState
from muster.domain.desired_state import Desired, Directive
from muster.domain.errors import Conflict, Forbidden, Gone, NotFound, NotYet, ProviderError
from muster.domain.ids import AssignmentId, CommandId, NodeId
from muster.domain.settings import Settings
from muster.enrolment.reports import Report
from muster.enrolment.signals import Enrolment
from muster.operations.watch import WatchTracker
from muster.ports.bundle import Ports
from muster.ports.runtime import Kit
from muster_simulation.life import outside
from tests.harness.cloud import Box, Cloud

BEAT_EVERY = 5.0
SIGKILL = 9


def new_enrolment(ports: Ports, settings: Settings) -> Enrolment:
    """A way in that belongs to no replica, and looks for itself how long the world is watched."""
    return Enrolment(ports, settings, WatchTracker(ports.store, ports.clock, settings.limits).look)


@dataclass(frozen=True, slots=True, kw_only=True)
class Behaviour:
    """How an agent behaves. Times in seconds; None: never."""

    boot: float | None = 0.0
    """From the machine's making until `booted`."""
    join: bool = True
    attach: float | None = 0.0
    detach: float | None = 0.0
    fails: str | None = None
    """The boot ends with this instead of `booted`."""
    busy: tuple[tuple[float, float], ...] = ()
    """Spans of its boot in which it visibly works: activity grows from beat to beat."""
    steps: tuple[tuple[float, str], ...] = ()
    """What its boot script names, and when."""
    beats: bool = True
    silent_after_attach: bool = False
    works: float | None = 0.0
    """From a command's start until its end."""
    exit_code: int | None = 0
    signal: int | None = None
    obeys: bool = False
    """Powers off when told to stop. By default only the provider ends a machine, so that leaks show."""


PROMPT = Behaviour()
NEVER_BOOTS = Behaviour(boot=None)
NEVER_ATTACHES = Behaviour(attach=None)
NEVER_DETACHES = Behaviour(detach=None)


class Agent:
    def __init__(self, box: Box, manner: Behaviour, enrolment: Enrolment, cloud: Cloud) -> None:
        self.box = box
        self.manner = manner
        self.node_id: NodeId | None = None
        self.token = ""
        self.key = f"key-of-{box.id}"
        self.attached: list[AssignmentId] = []
        """Every assignment that it ever attached to, in order."""
        self.kits: list[Kit] = []
        self.host: Callable[[Kit], None] = lambda _kit: None
        """Does what a kit's program would."""
        self.executed: list[CommandId] = []
        """Every command that it ever started, in order."""
        self._busy: dict[CommandId, asyncio.Task[None]] = {}
        self.stopped = False
        self.beat_every = BEAT_EVERY
        """As its stream told it last."""
        self._enrolment = enrolment
        self._cloud = cloud
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """In the world: an agent doesn't die with the replica that asked for its machine."""
        self._spawn(self._live())

    def silence(self) -> None:
        """It goes on working, without heartbeats."""
        self.manner = replace(self.manner, beats=False)

    def die(self) -> None:
        """The agent is no more. Its machine may still be there."""
        self.stopped = True
        for task in (*self._tasks, *self._busy.values()):
            task.cancel()

    def _spawn(self, coro: Coroutine[Any, Any, None]) -> None:
        self._tasks.append(outside(asyncio.create_task, coro))

    async def _live(self) -> None:
        try:
            await self._serve()
        except (Gone, NotFound, Forbidden):
            self.power_off()

    def power_off(self) -> None:
        self.stopped = True
        self._cloud.end(self.box.id)

    async def _report(self, node_id: NodeId, report: Report) -> Desired:
        """Say it until it is heard: the server may wait for an answer from elsewhere."""
        while True:
            try:
                return await self._enrolment.report(node_id, report)
            except ProviderError:
                await asyncio.sleep(BEAT_EVERY)

    async def _serve(self) -> None:
        manner = self.manner
        if not manner.join:
            return
        node_id = await self._join()
        self._spawn(self._beat(node_id))
        if manner.boot is None:
            return
        await self._boot(node_id, manner.boot)
        if manner.fails is not None:
            await self._report(node_id, Report(failed=manner.fails))
            return
        desired = await self._report(node_id, Report(booted=True))
        while desired.directive is not Directive.STOP:
            await self._follow(node_id, desired)
            desired = await self._enrolment.poll(node_id, known=desired.version, timeout=20.0)
        if manner.obeys:
            self.power_off()

    async def _boot(self, node_id: NodeId, seconds: float) -> None:
        passed = 0.0
        for at, step in self.manner.steps:
            await asyncio.sleep(at - passed)
            await self._report(node_id, Report(phase="boot_script", step=step or None))
            passed = at
        await asyncio.sleep(seconds - passed)

    async def _kitted(self, node_id: NodeId, assignment: AssignmentId) -> bool:
        """Get its kit and run it. False: it isn't to attach to that any more."""
        while True:
            try:
                kit = await self._enrolment.kit(node_id, assignment)
            except Conflict:
                return False
            except ProviderError:
                await asyncio.sleep(BEAT_EVERY)
            else:
                self.kits.append(kit)
                self.host(kit)
                return True

    def _activity(self, since: float) -> int:
        age = asyncio.get_running_loop().time() - since
        return int(sum(max(0.0, min(age, end) - start) for start, end in self.manner.busy) * 100)

    async def _join(self) -> NodeId:
        while True:
            try:
                admission = await self._enrolment.join(self.box.id, key=self.key, boot_id="boot-1")
            except NotYet as wait:
                await asyncio.sleep(wait.retry_after)
                continue
            self.node_id, self.token = admission.node_id, admission.token
            return admission.node_id

    async def _beat(self, node_id: NodeId) -> None:
        began = asyncio.get_running_loop().time()
        while not self.stopped and self.box.gone_at is None:
            if self.manner.beats:
                try:
                    await self._enrolment.beat(node_id, activity=self._activity(began))
                except Gone:
                    return
            await asyncio.sleep(self.beat_every)

    async def _follow(self, node_id: NodeId, desired: Desired) -> None:
        manner, assignment = self.manner, desired.assignment_id
        if assignment is None:
            return
        if desired.directive is Directive.ATTACH:
            if assignment in self.attached:
                await self._work(node_id, assignment)
                return
            if manner.attach is None:
                return
            await asyncio.sleep(manner.attach)
            if desired.kit and not await self._kitted(node_id, assignment):
                return
            self.attached.append(assignment)
            if manner.silent_after_attach:
                self.silence()
            await self._report(node_id, Report(attached=assignment))
        elif manner.detach is not None:
            for command_id in list(self._busy):
                await self._kill(node_id, command_id)
            await asyncio.sleep(manner.detach)
            await self._report(node_id, Report(detached=assignment))

    async def _work(self, node_id: NodeId, assignment: AssignmentId) -> None:
        """Start what it should be busy with, each once; end what it should not."""
        for command in await self._enrolment.commands.unfinished(node_id, assignment):
            if command.id not in self.executed:
                self.executed.append(command.id)
                self._busy[command.id] = outside(asyncio.create_task, self._execute(node_id, command.id))
            if command.cancel_requested_at is not None and command.id in self._busy:
                await self._kill(node_id, command.id)

    async def _execute(self, node_id: NodeId, command_id: CommandId) -> None:
        post, manner = self._enrolment.commands, self.manner
        await post.state(node_id, command_id, CommandState.RUNNING)
        await post.output(node_id, command_id, 0, f"{command_id} on {node_id}\n".encode())
        if manner.works is None:
            return
        await asyncio.sleep(manner.works)
        del self._busy[command_id]
        await post.state(node_id, command_id, CommandState.EXITED, manner.exit_code, manner.signal)

    async def _kill(self, node_id: NodeId, command_id: CommandId) -> None:
        self._busy.pop(command_id).cancel()
        await self._enrolment.commands.state(node_id, command_id, CommandState.EXITED, None, SIGKILL)


class Agents:
    """One per machine. `script` says how the next ones behave; the rest are prompt."""

    def __init__(self, enrolment: Enrolment, cloud: Cloud) -> None:
        self.by_machine: dict[str, Agent] = {}
        self.usual = PROMPT
        self._manners: deque[Behaviour] = deque()
        self.enrolment = enrolment
        self.host: Callable[[Kit], None] = lambda _kit: None
        self._cloud = cloud
        cloud.on_made = self._made

    def script(self, *manners: Behaviour) -> None:
        self._manners.extend(manners)

    def of(self, node_id: NodeId) -> Agent:
        return next(agent for agent in self.by_machine.values() if agent.node_id == node_id)

    def _made(self, box: Box) -> None:
        manner = self._manners.popleft() if self._manners else self.usual
        agent = Agent(box, manner, self.enrolment, self._cloud)
        agent.host = self.host
        self.by_machine[box.id] = agent
        agent.start()
