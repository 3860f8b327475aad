"""One simulated machine's agent: what a node does, apart from what goes wrong with it.

Owns the agent's side of enrolment: join, boot, follow the desired state, report until acknowledged. Its
habits (how long things take, how it fails) are drawn when it is made. It runs in a Life of its own: frozen is
paused, dead is killed.
"""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol, TypeVar

from muster.domain.boot import Phase
from muster.domain.desired_state import Desired, Directive
from muster.domain.errors import (
    Conflict,
    Forbidden,
    Gone,
    MusterError,
    NotFound,
    NotYet,
    ProviderError,
    StoreUnavailable,
)
from muster.domain.health import Health
from muster.domain.ids import AssignmentId, NodeId
from muster.enrolment.reports import Report
from muster.plane import ControlPlane
from muster_simulation.cloud import Entry
from muster_simulation.cloud.provider import proof_of
from muster_simulation.invariants.machine_rules import TOLD_TO_GO
from muster_simulation.invariants.truth import Truth
from muster_simulation.life import Life
from muster_simulation.network import Network, Push
from muster_simulation.wire import Silent, Unreachable, Wire

T = TypeVar("T")
FIRST_CONTACT = 1800.0
"""The dead man's time before the first word from the server."""
PATIENCE = 10.0
"""How long an agent waits for an answer that isn't a long poll."""
AGAIN = 5.0
"""Between two tries of something that doesn't get through."""
SILENCE = 30.0
"""A stream without a line for so long is broken, or a proxy keeps its lines back."""
POLLS = 12
"""Long polls instead of the stream, before it is tried again."""


class Fate(StrEnum):
    FINE = "fine"
    MUTE = "mute"
    """Never joins."""
    STUCK = "stuck"
    """Joins, and never boots."""
    BROKEN = "broken"
    """Its boot script fails, and it says so."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stint:
    """A part of a boot: it works, or stands still."""

    seconds: float
    works: bool = True
    step: str = ""
    """What the boot script names when it comes here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Habits:
    fate: Fate
    before_join: float
    boot: tuple[Stint, ...]
    attach: float
    detach: float
    attach_hangs: float
    """The chance that an attach never ends."""
    detach_hangs: float
    poll: float
    """How long it waits for news before it asks again."""
    streams: bool = True
    """Lines of a stream reach it. If not, a proxy keeps them back, and it polls."""
    says: Health | None = None
    """Its own word on how it feels, in every beat."""


class Program(Protocol):
    """What a kit's program does, once it is ready."""

    async def run(self) -> None:
        """Work until the end, or until cancelled."""
        ...


class Agent:
    def __init__(
        self,
        entry: Entry,
        habits: Habits,
        *,
        key: str,
        host: Callable[[str], Program] | None,
        network: Network,
        now: Callable[[], float],
        chance: Callable[[], float],
        finished: Callable[["asyncio.Task[None]"], None],
        power_off: Callable[["Agent", str], None],
        moved: Callable[["Agent", AssignmentId | None], None],
        recognised: Callable[[str, NodeId], None],
    ) -> None:
        self.machine_id = entry.machine_id
        self.life = Life(entry.machine_id)
        self.node_id: NodeId | None = None
        self.attached: AssignmentId | None = None
        """What it is physically attached to."""
        self.ended: dict[AssignmentId, None] = {}
        """Assignments whose program came to its end by itself."""
        self.partitioned_until = 0.0
        self.disturbed_until = 0.0
        """The end of its last freeze or partition."""
        self.losses: list[float] = []
        """When something that would have told it what to do didn't reach it."""
        self.truth = Truth(reached_at=now())
        self.working = False
        """Its boot does something: output, CPU time, bytes."""
        self.activity = 0
        self.heard_at = now()
        self.dead_man = FIRST_CONTACT
        self.proof = proof_of(entry.machine_id)
        self.says = habits.says
        self._habits = habits
        self._key = key
        self._host = host
        self._program: asyncio.Task[None] | None = None
        self._network = network
        self._now = now
        self._chance = chance
        self._finished = finished
        self._power_off = power_off
        self._moved = moved
        self._recognised = recognised
        self._token = ""
        self._acknowledged: AssignmentId | None = None
        self._desired: Desired | None = None
        self._changed = asyncio.Event()

    def start(self) -> None:
        self._run(self._live())

    def _run(self, coro: Coroutine[Any, Any, None]) -> None:
        if self.life.alive:
            self.life.spawn(coro).add_done_callback(self._finished)
        else:
            coro.close()  # powered off by what it was just told

    async def _live(self) -> None:
        await asyncio.sleep(self._habits.before_join)
        if self._habits.fate is Fate.MUTE:
            return
        await self._join()
        self._run(self._follow())
        await self._boot()
        if self._habits.fate is Fate.STUCK:
            return
        if self._habits.fate is Fate.BROKEN:
            await self._report(Report(failed="the boot script ended with 1"))
            return
        self.truth.booted = True
        await self._report(Report(booted=True))
        while True:
            await self._act()

    async def _boot(self) -> None:
        for stint in self._habits.boot:
            if stint.step:
                self._moves()
                self._run(self._mention(stint.step))
            self.working = stint.works
            await asyncio.sleep(stint.seconds)
        self.working = False

    def work(self) -> None:
        """What a boot that works does between two heartbeats."""
        self.activity += 1
        self._moves()

    def _moves(self) -> None:
        self.truth.moved_at = self._now()

    @property
    def wanted(self) -> AssignmentId | None:
        """The assignment that it was last told of."""
        return None if self._desired is None else self._desired.assignment_id

    @property
    def poll(self) -> float:
        return self._habits.poll

    @property
    def told_to(self) -> str:
        return "" if self._desired is None else self._desired.directive.value

    @property
    def booting(self) -> bool:
        return not self.truth.booted

    # --- talking ----------------------------------------------------------------------------------

    async def _join(self) -> None:
        while True:
            try:
                admission = await self._call(
                    lambda plane: plane.enrolment.join(
                        self.proof, key=self._key, boot_id=f"boot-{self.machine_id}"
                    ),
                    timeout=PATIENCE,
                )
            except NotYet as error:
                await asyncio.sleep(error.retry_after)
            except Gone:
                self._power_off(self, TOLD_TO_GO)
                await asyncio.sleep(AGAIN)
            except Forbidden:
                self._power_off(self, "turned away")
                await asyncio.sleep(AGAIN)
            except (Unreachable, StoreUnavailable, Conflict):
                await asyncio.sleep(AGAIN * (0.5 + self._chance()))
            else:
                if self.node_id is None:
                    self._moves()
                self.node_id, self._token = admission.node_id, admission.token
                self._hear(admission.desired)
                return

    async def _follow(self) -> None:
        """By the stream; by long polls for a while, where nothing comes on it."""
        while True:
            heard, error = await self._listen()
            if heard or not isinstance(error, Silent):
                await asyncio.sleep(AGAIN * (0.5 + self._chance()))
                continue
            for _ in range(POLLS):
                await self._poll()

    async def _listen(self) -> tuple[bool, Exception]:
        """Follow one stream to its end. Whether a line came, and what ended it."""
        token = self._token
        wire = Wire(
            reachable=lambda: self._now() >= self.partitioned_until,
            lost=self._lost,
            hear=self._hear,
            life=self.life,
        )

        async def serve(plane: ControlPlane, push: Push) -> None:
            await self._served(plane, token, wire, push)

        if self._now() >= self.partitioned_until:
            self._network.listen(serve, wire)
        try:
            await wire.follow(SILENCE)
        except (MusterError, Unreachable) as error:
            self._lost()
            try:
                await self._understand(error, token)
            except (MusterError, Unreachable) as understood:
                return wire.heard, understood
            return wire.heard, error
        finally:
            wire.close()

    async def _served(self, plane: ControlPlane, token: str, wire: Wire, push: Push) -> None:
        """What a replica does for the stream: as the API does, without HTTP."""
        node_id = await self._identified(plane, token)

        async def look() -> Desired:
            node_view = await plane.enrolment.recognise(token)
            self._recognised(token, node_view.node.id)
            return await plane.enrolment.desired_for(node_view)

        with plane.enrolment.streams.open(node_id) as stream:

            def over() -> bool:
                return stream.silent and not wire.open

            desired = await stream.first(look, meaning)
            while True:
                if self._habits.streams:
                    push(desired)
                line = await stream.next(look, meaning, over)
                if line is None:
                    return
                _, desired = line

    async def _poll(self) -> None:
        poll = self._habits.poll
        known = self._desired.version if self._desired is not None else 0
        try:
            desired = await self._speak(
                lambda plane, node_id: plane.enrolment.poll(node_id, known=known, timeout=poll),
                timeout=poll + PATIENCE,
            )
        except (Unreachable, StoreUnavailable, Conflict):
            self._lost()
            await asyncio.sleep(AGAIN * (0.5 + self._chance()))
        else:
            self._hear(desired)

    def _lost(self) -> None:
        self.losses.append(self._now())

    async def _report(self, report: Report) -> None:
        """Until it is acknowledged."""
        while True:
            try:
                desired = await self._speak(
                    lambda plane, node_id: answer(plane, node_id, report), timeout=PATIENCE
                )
            except (Unreachable, StoreUnavailable, Conflict, NotYet, ProviderError):
                await asyncio.sleep(AGAIN * (0.5 + self._chance()))
            else:
                self._hear(desired)
                return

    async def _mention(self, step: str) -> None:
        """Report a step of the boot script once: a booting agent does not repeat it."""
        report = Report(phase=Phase.BOOT_SCRIPT.value, step=step)
        try:
            desired = await self._speak(
                lambda plane, node_id: answer(plane, node_id, report), timeout=PATIENCE
            )
        except (Unreachable, MusterError):
            return
        self._hear(desired)

    async def _speak(
        self, message: Callable[[ControlPlane, NodeId], Coroutine[Any, Any, T]], *, timeout: float
    ) -> T:
        """A message under the node's token. A token that died is replaced by joining anew."""
        token = self._token

        async def identified(plane: ControlPlane) -> T:
            return await message(plane, await self._identified(plane, token))

        try:
            return await self._call(identified, timeout=timeout)
        except (Forbidden, NotFound, Gone) as error:
            await self._understand(error, token)
            raise

    async def _identified(self, plane: ControlPlane, token: str) -> NodeId:
        node_id = await plane.enrolment.identify(token)
        self._recognised(token, node_id)
        return node_id

    async def _understand(self, error: Exception, token: str) -> None:
        """Do what an answer asks for. Raises Unreachable if that was all there was to do."""
        match error:
            case Forbidden():
                if self._token == token:
                    await self._join()
                raise Unreachable("the token had died") from None
            case NotFound() | Gone():
                self._power_off(self, "told to leave")
                raise Unreachable("nothing more to say") from None
            case _:
                return

    async def _call(self, message: Callable[[ControlPlane], Coroutine[Any, Any, T]], *, timeout: float) -> T:
        if self._now() < self.partitioned_until:
            await asyncio.sleep(timeout)
            raise Unreachable("cut off")

        def arrived(plane: ControlPlane) -> Coroutine[Any, Any, T]:
            return self.worked_on(message, plane)

        answer = await self._network.call(arrived, timeout=timeout)
        if self._now() < self.partitioned_until:
            raise Unreachable("cut off")
        return answer

    async def worked_on(
        self, message: Callable[[ControlPlane], Coroutine[Any, Any, T]], plane: ControlPlane
    ) -> T:
        """Note that a replica works on a message sent in this machine's name, by any sender."""
        self.truth.reached_at = self._now()
        try:
            return await message(plane)
        finally:
            self.truth.reached_at = self._now()

    def _hear(self, desired: Desired) -> None:
        self.heard_at = self._now()
        if self._desired is not None and desired.version < self._desired.version:
            return  # older news
        before, self._desired = self._desired, desired
        self.dead_man = desired.dead_man
        if desired.directive is Directive.STOP:
            self._power_off(self, "told to stop")
        if before is None or meaning(before) != meaning(desired):
            self._changed.set()

    # --- acting -----------------------------------------------------------------------------------

    async def _act(self) -> None:
        """Close one gap between what is desired and what is, or wait until something else is desired."""
        self._changed.clear()
        desired = self._desired
        if desired is None:
            raise RuntimeError("an agent acts only after it has joined")
        wanted = desired.assignment_id
        if desired.directive is Directive.ATTACH and wanted is not None and wanted != self._acknowledged:
            await self._attach(desired, wanted)
        elif desired.directive is Directive.DETACH and wanted is not None:
            await self._detach()
            await self._report(Report(detached=wanted))
            if self._desired is desired or self._desired == desired:
                await asyncio.sleep(AGAIN)  # acknowledged without effect: say it again, but not at once
        elif self.attached is not None and desired.directive is Directive.STAY:
            await self._detach()
        else:
            await self._changed.wait()

    async def _attach(self, desired: Desired, wanted: AssignmentId) -> None:
        if self.attached is not None and self.attached != wanted:
            await self._detach()
        if self.attached is None and wanted not in self.ended:
            if self._chance() < self._habits.attach_hangs:
                await asyncio.sleep(10 * FIRST_CONTACT)
            await asyncio.sleep(self._habits.attach)
            if self._desired is not desired and self._desired != desired:
                return  # something else is desired by now
            program = await self._kit(wanted) if desired.kit else None
            if desired.kit and program is None:
                return
            self._move(wanted)
            if program is not None:
                self._run(self._serve(wanted, program))
        await self._report(Report(attached=wanted))
        self._acknowledged = wanted

    async def _kit(self, wanted: AssignmentId) -> str | None:
        """Get the kit's program. None: it can't be had now."""
        try:
            kit = await self._speak(
                lambda plane, node_id: plane.enrolment.kit(node_id, wanted), timeout=PATIENCE
            )
        except (Unreachable, StoreUnavailable, Conflict, NotYet, ProviderError):
            await asyncio.sleep(AGAIN * (0.5 + self._chance()))
            return None
        return kit.program

    async def _serve(self, assignment: AssignmentId, program: str) -> None:
        """Run the kit's program. If it ends by itself, say so until something else is desired."""
        if self._host is None:
            raise RuntimeError("nothing here runs a kit")
        task = self._program = asyncio.create_task(self._host(program).run())
        await asyncio.wait({task})
        if task.cancelled() or self._program is not task:
            return
        task.result()
        self._program = None
        self.ended[assignment] = None
        self._move(None)
        while self.wanted == assignment and self.told_to == Directive.ATTACH:
            await self._report(Report(detached=assignment))
            await asyncio.sleep(AGAIN)

    async def _detach(self) -> None:
        if self._program is not None:
            self._program.cancel()
            self._program = None
        if self.attached is not None:
            if self._chance() < self._habits.detach_hangs:
                await asyncio.sleep(10 * FIRST_CONTACT)
            await asyncio.sleep(self._habits.detach)
            self._move(None)
        self._acknowledged = None

    def _move(self, assignment: AssignmentId | None) -> None:
        self.attached = assignment
        self._moved(self, assignment)


def meaning(desired: Desired) -> object:
    """What an agent acts on: all but the record's version and the time that passes by itself."""
    return desired.directive, desired.assignment_id, desired.run, desired.kit


async def answer(plane: ControlPlane, node_id: NodeId, report: Report) -> Desired:
    """What a replica does with a report: its answer says what the stream then needn't."""
    with plane.enrolment.streams.answering(node_id) as stream:
        desired = await plane.enrolment.report(node_id, report)
        if stream is not None:
            stream.last_sent = meaning(desired)
    return desired
