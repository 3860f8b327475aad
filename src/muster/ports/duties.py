"""Periodic duties, and what those of integrations are given to work with."""

from dataclasses import dataclass
from typing import Protocol

from muster.domain.operation import Operation
from muster.domain.requests import ProvisionRequest, ReleaseRequest
from muster.domain.settings import Settings
from muster.ports.clock import Clock
from muster.ports.jobs import JobStore
from muster.ports.store import Store


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
    clock: Clock
    settings: Settings
    desk: Desk
