"""The simulated cloud: the world's side of the provider port. Belongs to no replica.

Owns its machines, what is visible of them, and the way of a call: there, and back. A call that has left
its caller happens or doesn't, whatever becomes of the caller: it travels in callbacks of an empty context.
Refuses to forget: everything is in the ledger.
"""

import asyncio
import contextvars
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Protocol, TypeVar

from muster.domain.errors import MusterError, Refused, Throttled, TokenSpent, Uncertain
from muster.domain.matching import type_matches
from muster.domain.reasons import Reason
from muster.domain.template import RESOURCE_CLASSES, ResourceClass
from muster.ports.clock import Clock
from muster.ports.provider import LaunchAnswer, LaunchRequest, Machine
from muster_simulation.cloud.ledger import Entry, Ledger

T = TypeVar("T")
HOUR = 3600.0
Range = tuple[float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceType:
    name: str
    cpu: int
    memory_mib: int


def _catalogue() -> tuple[InstanceType, ...]:
    """Three families, as clouds have them: memory per processor grows from c to r."""
    families = (("c7", 1), ("m7", 2), ("r7", 4))
    return tuple(
        InstanceType(name=f"{family}.{size.name}", cpu=size.cpu, memory_mib=size.memory_mib * factor)
        for size in RESOURCE_CLASSES.values()
        for family, factor in families
    )


CATALOGUE = _catalogue()


def candidates(size: ResourceClass, patterns: tuple[str, ...]) -> tuple[InstanceType, ...]:
    return tuple(
        item
        for item in CATALOGUE
        if item.cpu == size.cpu and item.memory_mib >= size.memory_mib and type_matches(item.name, patterns)
    )


def choose(size: ResourceClass, patterns: tuple[str, ...], random: Random) -> InstanceType | None:
    """Choose an instance type that serves a request; None: there is none.

    A type must have the class's processors exactly and at least its memory, and match one of the patterns.
    Several may fit; chance takes one, as an allocation strategy would.
    """
    fitting = candidates(size, patterns)
    return random.choice(fitting) if fitting else None


@dataclass(frozen=True, slots=True, kw_only=True)
class CloudFaults:
    """What goes wrong, as data: probabilities per call, ranges in seconds, rates per hour."""

    latency: Range = (0.0, 0.0)
    """Each way of a call."""
    lost_request: float = 0.0
    """Never arrives; the caller waits for its timeout."""
    lost_reply: float = 0.0
    """It happened; the caller waits for its timeout."""
    late_request: float = 0.0
    """Arrives, and happens, after the caller gave up."""
    late_by: Range = (30.0, 150.0)
    duplicate: float = 0.0
    """The request arrives twice."""
    throttled: float = 0.0
    refused: float = 0.0
    partial: float = 0.0
    """A launch gets fewer machines than it asked for."""
    empty: float = 0.0
    """A launch gets no machine at all."""
    start: Range = (0.0, 0.0)
    """From its making until a machine runs."""
    lag: Range = (0.0, 0.0)
    """From its making until a machine is visible; cut to the visibility window."""
    stop: Range = (0.0, 0.0)
    """From an accepted termination until the machine is gone."""
    deaf: float = 0.0
    """A termination is accepted and nothing comes of it: it must be asked for again."""
    deaths: float = 0.0
    """Per machine and hour."""
    interruptions: float = 0.0
    """Per spot machine and hour, on top."""


NO_FAULTS = CloudFaults()


class Watcher(Protocol):
    """Receive each event of the cloud as it happens."""

    def made(self, entry: Entry) -> None: ...

    def gone(self, entry: Entry) -> None: ...

    def acted(self, verb: str, subject: str, outcome: str) -> None:
        """A call was carried out."""
        ...


class SimulatedCloud:
    def __init__(
        self,
        *,
        clock: Clock,
        random: Random,
        faults: CloudFaults = NO_FAULTS,
        capacity: int | None = None,
        call_timeout: float = 30.0,
        visibility_window: float = 300.0,
    ) -> None:
        self.faults = faults
        self.capacity = capacity
        """How many machines fit; None: as many as you like."""
        self.call_timeout = call_timeout
        self.visibility_window = visibility_window
        self.ledger = Ledger()
        self.injected: dict[str, int] = {}
        """How often each fault struck."""
        self._clock = clock
        self._random = random
        self._watchers: list[Watcher] = []
        self._launched: dict[str, tuple[LaunchRequest, tuple[Entry, ...], Reason | None]] = {}
        self._refusals: dict[tuple[str, float], Refused] = {}
        self._made = 0
        self._consoles: dict[str, list[str]] = {}

    def watch(self, watcher: Watcher) -> None:
        self._watchers.append(watcher)

    # --- the way of a call ------------------------------------------------------------------------

    def send(self, act: Callable[[], T], reply: asyncio.Future[T]) -> None:
        """Carry a call to the cloud and its outcome back into `reply`, as far as faults allow."""
        expiry = self.later(self.call_timeout, _expire, reply, self.call_timeout)
        if self._strikes("lost_request"):
            return
        delay = self._between(self.faults.latency)
        if self._strikes("late_request"):
            delay += self._between(self.faults.late_by)
        self.later(delay, self._arrive, act, reply, expiry)
        if self._strikes("duplicate"):
            self.later(delay + self._between(self.faults.latency), self._arrive, act, None, None)

    def _arrive(
        self, act: Callable[[], T], reply: asyncio.Future[T] | None, expiry: asyncio.TimerHandle | None
    ) -> None:
        outcome: T | MusterError
        if self._strikes("throttled"):
            outcome = Throttled("cannot do it now: too many requests", self._random.uniform(1.0, 10.0))
        else:
            try:
                outcome = act()
            except MusterError as error:
                outcome = error
        if reply is not None and not self._strikes("lost_reply"):
            self.later(self._between(self.faults.latency), _settle, reply, outcome, expiry)

    def later(self, delay: float, act: Callable[..., None], *args: object) -> asyncio.TimerHandle:
        """In an empty context: what is under way doesn't die with the process that started it."""
        return asyncio.get_running_loop().call_later(delay, act, *args, context=contextvars.Context())

    # --- what calls do ----------------------------------------------------------------------------

    def launch(self, request: LaunchRequest, *, sent_at: float) -> LaunchAnswer:
        known = self._launched.get(request.token)
        if known is None:
            # A call that arrives twice is still one call: it can't be refused and carried out.
            refusal = self._refusals.get((request.token, sent_at))
            if refusal is not None:
                raise refusal
            known = self._launch(request, sent_at)
            self._launched[request.token] = known
            self._acted("launch", request.token, f"{len(known[1])} of {request.count}")
        first, entries, reason = known
        if first != request:
            raise TokenSpent(f"cannot launch with token {request.token}: it was used with other parameters")
        now = self._clock.now()
        message = "" if reason is None else f"{len(entries)} of {request.count} machines could be had"
        return LaunchAnswer(
            machines=tuple(item.shown(now) for item in entries), reason=reason, message=message
        )

    def _launch(
        self, request: LaunchRequest, sent_at: float
    ) -> tuple[LaunchRequest, tuple[Entry, ...], Reason | None]:
        if self._strikes("refused"):
            self._acted("launch", request.token, "refused")
            refusal = Refused("cannot launch: the account's quota is used up", Reason.QUOTA)
            self._refusals[request.token, sent_at] = refusal
            raise refusal
        count = self._granted(request.count)
        chosen = choose(request.resource_class, request.instance_types, self._random)
        if chosen is None:
            raise Refused("cannot launch: no instance type fits class and patterns", Reason.PROVIDER_REFUSED)
        entries = tuple(self._make(request, chosen.name, sent_at) for _ in range(count))
        return request, entries, None if count == request.count else Reason.CAPACITY

    def _granted(self, count: int) -> int:
        room = count if self.capacity is None else max(0, min(count, self.capacity - len(self.ledger.live())))
        if self._strikes("empty"):
            return 0
        if room > 1 and self._strikes("partial"):
            return self._random.randrange(1, room)
        return room

    def _make(self, request: LaunchRequest, instance_type: str, sent_at: float) -> Entry:
        now = self._clock.now()
        self._made += 1
        entry = Entry(
            machine_id=f"i-{self._made:06d}",
            installation_id=request.installation_id,
            token=request.token,
            template=request.template.name,
            instance_type=instance_type,
            usage_class=request.usage_class,
            sent_at=sent_at,
            created_at=now,
            running_at=now + self._between(self.faults.start),
            # A caller that waits for the timeout and then for the window waits long enough, also for a
            # request that arrived late: that is what the window promises.
            visible_at=min(
                now + self._between(self.faults.lag),
                max(now, sent_at + self.call_timeout + self.visibility_window - 1.0),
            ),
        )
        self.ledger.add(entry)
        self._doom(entry)
        for watcher in self._watchers:
            watcher.made(entry)
        return entry

    def _doom(self, entry: Entry) -> None:
        spot = entry.usage_class == "spot"
        for cause, rate in (
            ("died", self.faults.deaths),
            ("interrupted", self.faults.interruptions if spot else 0.0),
        ):
            if rate > 0:
                self.later(self._random.expovariate(rate / HOUR), self._strike_down, entry.machine_id, cause)

    def _strike_down(self, machine_id: str, cause: str) -> None:
        entry = self.ledger.get(machine_id)
        # Calm came before its time did: the faults that doomed it are over.
        rate = self.faults.deaths if cause == "died" else self.faults.interruptions
        if entry is not None and not entry.gone and rate > 0:
            self._count(cause)
            self.end(machine_id, cause)

    def find(self, token: str) -> Sequence[Machine]:
        now = self._clock.now()
        entries = self.ledger.of_token(token)
        return [item.shown(now) for item in entries if not item.gone and item.visible_at <= now]

    def list(self, installation_id: str, *, after: str, limit: int) -> Sequence[Machine]:
        now = self._clock.now()
        shown = [
            item.shown(now)
            for item in self.ledger.live()
            if item.installation_id == installation_id and item.machine_id > after and item.visible_at <= now
        ]
        return shown[:limit]

    def describe(self, machine_ids: Sequence[str]) -> dict[str, Machine]:
        now = self._clock.now()
        known = [entry for entry in map(self.ledger.get, machine_ids) if entry is not None]
        return {item.machine_id: item.shown(now) for item in known if item.visible_at <= now}

    def console(self, machine_id: str, *, lines: int) -> str | None:
        written = self._consoles.get(machine_id)
        return "\n".join(written[-lines:]) if written and lines > 0 else None

    def terminate(self, machine_ids: Sequence[str]) -> None:
        now = self._clock.now()
        for machine_id in machine_ids:
            entry = self.ledger.get(machine_id)
            if entry is None:
                continue
            entry.terminate_calls.append(now)
            # A machine that isn't visible yet can't be terminated, and no answer says so: so are clouds.
            effective = entry.visible_at <= now and not entry.gone and entry.stopping_at is None
            if not effective or self._strikes("deaf"):
                self._acted("terminate", machine_id, "nothing")
                continue
            self._acted("terminate", machine_id, "stopping")
            entry.stopping_at = now
            self.later(self._between(self.faults.stop), self.end, machine_id, "terminated")

    # --- what happens without a call --------------------------------------------------------------

    def write(self, machine_id: str, text: str) -> None:
        """The machine writes to its console."""
        self._consoles.setdefault(machine_id, []).extend(text.removesuffix("\n").split("\n"))

    def end(self, machine_id: str, cause: str) -> None:
        """The machine is gone: terminated, powered off by itself, died, interrupted."""
        entry = self.ledger.get(machine_id)
        if entry is None or entry.gone:
            return
        self.ledger.close(entry, now=self._clock.now(), cause=cause)
        self._acted("gone", machine_id, cause)
        for watcher in self._watchers:
            watcher.gone(entry)

    def _acted(self, verb: str, subject: str, outcome: str) -> None:
        for watcher in self._watchers:
            watcher.acted(verb, subject, outcome)

    def _strikes(self, fault: str) -> bool:
        probability: float = getattr(self.faults, fault)
        if probability <= 0.0 or self._random.random() >= probability:
            return False
        self._count(fault)
        return True

    def _count(self, fault: str) -> None:
        self.injected[fault] = self.injected.get(fault, 0) + 1

    def _between(self, bounds: tuple[float, float]) -> float:
        return self._random.uniform(*bounds) if bounds[1] > 0.0 else 0.0


def _expire(reply: asyncio.Future[T], timeout: float) -> None:
    if not reply.done():
        error = Uncertain(f"cannot tell what came of the call: no answer within {timeout:.0f} s")
        _raise(reply, error)


def _settle(reply: asyncio.Future[T], outcome: T | MusterError, expiry: asyncio.TimerHandle | None) -> None:
    if expiry is not None:
        expiry.cancel()
    if reply.done():
        return
    if isinstance(outcome, MusterError):
        _raise(reply, outcome)
    else:
        reply.set_result(outcome)


def _raise(reply: asyncio.Future[T], error: MusterError) -> None:
    reply.set_exception(error)
    reply.exception()  # the caller may have died: the error has no other reader
