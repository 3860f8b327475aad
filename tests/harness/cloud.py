"""A cloud that does what a test tells it: one scripted outcome per launch call, honest otherwise."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Never

from muster.domain.errors import Forbidden, ProviderError, TokenSpent, Uncertain
from muster.domain.reasons import Reason
from muster.domain.template import UsageClass
from muster.ports.clock import Clock
from muster.ports.identity import Identity
from muster.ports.provider import LaunchAnswer, LaunchRequest, Machine, MachineState


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What comes of one launch call. Only a call with a token that is new can make machines."""

    give: int | None = None
    """How many machines; None: as many as were asked for."""
    reason: Reason | None = None
    error: ProviderError | None = None
    """Raised instead of the answer."""
    after: float = 0.0
    """Seconds until the answer; the machines exist at once."""


FULL = Outcome()
HANG = 10_000.0
"""Longer than any call's timeout."""


def gives(count: int, reason: Reason | None = Reason.CAPACITY) -> Outcome:
    return Outcome(give=count, reason=reason)


def refuses(error: ProviderError) -> Outcome:
    """Nothing is made."""
    return Outcome(give=0, error=error)


def loses_the_reply(give: int | None = None) -> Outcome:
    return Outcome(give=give, error=Uncertain("the connection broke"))


def loses_the_request() -> Outcome:
    return Outcome(give=-1, error=Uncertain("the connection broke"))


def spends_the_token(give: int | None = None) -> Outcome:
    return Outcome(give=give, error=TokenSpent("used with other parameters"))


def hangs(give: int | None = None) -> Outcome:
    return Outcome(give=give, after=HANG)


@dataclass(slots=True, kw_only=True)
class Box:
    """One machine as it really is."""

    id: str
    installation_id: str
    token: str
    template: str
    instance_type: str
    usage_class: UsageClass
    made_at: float
    visible_at: float
    stopping_at: float | None = None
    gone_at: float | None = None
    forgotten: bool = False
    """Gone, and not even described any more."""
    why: str = ""
    reason: Reason = Reason.MACHINE_GONE
    terminate_calls: list[float] = field(default_factory=list)

    def shown(self, now: float) -> Machine:
        state = MachineState.RUNNING if self.stopping_at is None else MachineState.STOPPING
        return Machine(
            id=self.id,
            installation_id=self.installation_id,
            token=self.token,
            instance_type=self.instance_type,
            usage_class=self.usage_class,
            state=MachineState.GONE if self.gone_at is not None and now >= self.gone_at else state,
            why=self.why,
            reason=self.reason,
        )


class Cloud:
    """Belongs to no replica. `script` says what the next launch calls come to; the rest succeed."""

    def __init__(self, clock: Clock, *, call_timeout: float = 30.0, visibility_window: float = 300.0) -> None:
        self.call_timeout = call_timeout
        self.visibility_window = visibility_window
        self.boxes: dict[str, Box] = {}
        self.most = 0
        """The most machines that were ever there at once."""
        self.launches: list[tuple[float, LaunchRequest]] = []
        self.outcomes: deque[Outcome] = deque()
        self.capacity: int | None = None
        """How many machines fit at once. A launch of more than are left gets those."""
        self.lag = 0.0
        """Seconds until a new machine is visible."""
        self.deaf = 0
        """So many terminations of each machine come to nothing."""
        self.stop_seconds = 0.0
        self.trouble: ProviderError | None = None
        """Raised by find, list, describe and terminate while it is set."""
        self.consoles: dict[str, str] = {}
        self.slow_consoles: dict[str, float] = {}
        """Seconds until the console of a machine is answered."""
        self.heard: list[tuple[float, str]] = []
        """Whose console was asked for, and when."""
        self.on_made: Callable[[Box], None] | None = None
        self._clock = clock
        self._answers: dict[str, tuple[LaunchRequest, LaunchAnswer]] = {}

    def script(self, *outcomes: Outcome) -> None:
        self.outcomes.extend(outcomes)

    def make(
        self,
        token: str,
        installation_id: str,
        *,
        template: str = "ci",
        usage: UsageClass = UsageClass.ON_DEMAND,
    ) -> Box:
        now = self._clock.now()
        box = Box(
            id=f"i-{len(self.boxes) + 1:04d}",
            installation_id=installation_id,
            token=token,
            template=template,
            instance_type="m7.large",
            usage_class=usage,
            made_at=now,
            visible_at=now + self.lag,
        )
        self.boxes[box.id] = box
        self.most = max(self.most, len(self.live()))
        if self.on_made is not None:
            self.on_made(box)
        return box

    def end(self, machine_id: str, *, forgotten: bool = False) -> None:
        box = self.boxes[machine_id]
        box.gone_at = min(box.gone_at or self._clock.now(), self._clock.now())
        box.forgotten = forgotten

    def live(self) -> list[Box]:
        now = self._clock.now()
        return [box for box in self.boxes.values() if box.gone_at is None or now < box.gone_at]

    # --- the calls --------------------------------------------------------------------------------

    async def launch(self, request: LaunchRequest) -> LaunchAnswer:
        self.launches.append((self._clock.now(), request))
        outcome = self.outcomes.popleft() if self.outcomes else FULL
        if outcome.give != -1 and not (outcome.error and outcome.give == 0):
            self._happen(request, outcome)
        if outcome.after:
            await asyncio.sleep(outcome.after)
        if outcome.error is not None:
            raise outcome.error
        first, answer = self._answers[request.token]
        if first != request:
            raise TokenSpent("used with other parameters")
        return answer

    def _happen(self, request: LaunchRequest, outcome: Outcome) -> None:
        if request.token in self._answers:
            return
        count = request.count if outcome.give is None else outcome.give
        reason = outcome.reason
        if self.capacity is not None and count > (left := max(0, self.capacity - len(self.live()))):
            count, reason = left, Reason.CAPACITY
        made = [
            self.make(
                request.token,
                request.installation_id,
                template=request.template.name,
                usage=request.usage_class,
            )
            for _ in range(count)
        ]
        now = self._clock.now()
        answer = LaunchAnswer(machines=tuple(box.shown(now) for box in made), reason=reason)
        self._answers[request.token] = (request, answer)

    def visible(self) -> list[Machine]:
        now = self._clock.now()
        return [box.shown(now) for box in self.live() if now >= box.visible_at]

    def describe(self, machine_ids: Sequence[str]) -> Mapping[str, Machine]:
        self.struck()
        now = self._clock.now()
        known = [self.boxes[each] for each in machine_ids if each in self.boxes]
        return {box.id: box.shown(now) for box in known if now >= box.visible_at and not box.forgotten}

    def terminate(self, machine_ids: Sequence[str]) -> None:
        now = self._clock.now()
        for machine_id in machine_ids:
            box = self.boxes[machine_id]
            box.terminate_calls.append(now)
            if len(box.terminate_calls) > self.deaf and now >= box.visible_at and box.stopping_at is None:
                box.stopping_at = now
                box.gone_at = min(box.gone_at or now + self.stop_seconds, now + self.stop_seconds)
        self.struck()

    async def console(self, machine_id: str, lines: int) -> str | None:
        self.heard.append((self._clock.now(), machine_id))
        await asyncio.sleep(self.slow_consoles.get(machine_id, 0.0))
        self.struck()
        text = self.consoles.get(machine_id)
        return None if text is None else "\n".join(text.split("\n")[-lines:])

    def struck(self) -> None:
        if self.trouble is not None:
            raise self.trouble


class CloudProvider:
    """The NodeProvider port over the cloud. A sloppy one: it lists other installations' machines too."""

    name = "cloud"

    def __init__(self, cloud: Cloud) -> None:
        self.visibility_window = cloud.visibility_window
        self.call_timeout = cloud.call_timeout
        self.makes_way = frozenset({Reason.CAPACITY})
        self._cloud = cloud

    async def launch(self, request: LaunchRequest) -> LaunchAnswer:
        return await self._cloud.launch(request)

    async def find(self, token: str) -> Sequence[Machine]:
        self._cloud.struck()
        return [machine for machine in self._cloud.visible() if machine.token == token]

    async def list(self) -> AsyncIterator[Machine]:
        self._cloud.struck()
        for machine in self._cloud.visible():
            yield machine

    async def describe(self, machine_ids: Sequence[str]) -> Mapping[str, Machine]:
        return self._cloud.describe(machine_ids)

    async def console(self, machine_id: str, *, lines: int) -> str | None:
        return await self._cloud.console(machine_id, lines)

    async def terminate(self, machine_ids: Sequence[str]) -> None:
        self._cloud.terminate(machine_ids)


def aloof(clock: Clock) -> CloudProvider:
    """A provider that never tells anything."""
    cloud = Cloud(clock)
    cloud.trouble = Uncertain("the region is down")
    provider = CloudProvider(cloud)
    provider.name = "aloof"
    return provider


class Hanging(CloudProvider):
    """A provider that accepts what it is asked and never answers."""

    name = "aaa"  # those who ask in order ask it first

    async def find(self, token: str) -> Sequence[Machine]:
        return await _never()

    async def list(self) -> AsyncIterator[Machine]:
        for machine in await self.find("any"):
            yield machine

    async def describe(self, machine_ids: Sequence[str]) -> Mapping[str, Machine]:
        return await _never()


async def _never() -> Never:
    await asyncio.Event().wait()
    raise AssertionError("it was not set")


class CloudVerifier:
    """A machine's proof is its id."""

    def __init__(self, cloud: Cloud) -> None:
        self._cloud = cloud

    async def verify(self, proof: str) -> Identity:
        box = self._cloud.boxes.get(proof)
        if box is None:
            raise Forbidden("no machine made this proof")
        return Identity(
            installation_id=box.installation_id, provider="cloud", machine_id=box.id, token=box.token
        )
