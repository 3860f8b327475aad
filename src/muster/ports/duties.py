"""Periodic and standing duties, hooks, and what those of integrations are given to work with."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from muster.domain.operation import Operation
from muster.domain.requests import ProvisionRequest, ReleaseRequest
from muster.domain.settings import Settings
from muster.ports.access import AccessStore
from muster.ports.clock import Clock
from muster.ports.ids import Ids
from muster.ports.jobs import JobStore
from muster.ports.messages import MessageStore
from muster.ports.store import Store
from muster.ports.wakeups import Wakeups


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    headers: Mapping[str, str]
    """By name, in lower case."""
    body: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class HookAnswer:
    status: int
    words: str
    """What was done with it. The sender's log of deliveries shows it."""


class Hook(Protocol):
    """What a service elsewhere tells this server by HTTP, without a token of Muster's.

    An integration contributes a hook, and the API serves it at `POST /hooks/NAME`. The body is bounded before
    the hook gets it. The hook proves who sent it, and makes durable what it says before it answers.
    """

    async def take(self, delivery: Delivery) -> HookAnswer:
        """Take a delivery. May be called with the same one again, in any order. Raises StoreUnavailable."""
        ...


class Reconciler(Protocol):
    async def reconcile(self) -> None:
        """Look at the world once and move it towards what it should be. Safe to repeat and to abandon."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Duty:
    name: str
    every: float
    work: Reconciler
    woken_by: str | None = None
    """A topic after whose notice it looks sooner. A hint: without it, it is only later."""
    steady: bool = False
    """Its ticks begin `every` seconds apart; without it, that is how long it rests between them."""


Held = Callable[[], bool]
"""Returns whether this replica still holds a standing duty. False: write and send nothing any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StandingDuty:
    """Work that goes on for as long as this replica holds its lease, such as a long poll.

    One replica at a time performs it. A lost lease cancels the work. `held` tells a replica that was paused,
    before its cancellation arrives.
    """

    name: str
    content: object
    """What the work was made from. A duty of the same name with other content replaces it."""
    perform: Callable[[Held], Awaitable[None]]
    """Works until it is cancelled. If it ends or raises, it begins again after a pause."""


class StandingDuties(Protocol):
    async def wanted(self) -> Sequence[StandingDuty]:
        """Return the duties that should be performed now. Asked every few seconds."""
        ...


class Desk(Protocol):
    """Where operations are asked for. Raises InvalidRequest, NotFound, Forbidden and Conflict."""

    async def provision(
        self, request: ProvisionRequest, *, key: str | None = None, ours: bool = False
    ) -> Operation:
        """Submit a provision. `ours`: a duty asks, so the key may be one that Muster reserves for itself."""
        ...

    async def release(
        self, request: ReleaseRequest, *, key: str | None = None, ours: bool = False
    ) -> Operation: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class DutyContext:
    store: Store
    jobs: JobStore
    messages: MessageStore
    access: AccessStore
    clock: Clock
    ids: Ids
    wakeups: Wakeups
    settings: Settings
    desk: Desk
    owner: str
    """How this replica is named in leases."""
