"""How this replica's calls to its store and its providers go: decorators on the ports, and what they saw."""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Mapping, Sequence
from math import inf
from typing import TypeVar

from muster.api.figures import MILLISECONDS, SECONDS, Counter, Histogram
from muster.api.recent import Recent
from muster.domain.errors import Refused, StoreUnavailable, Throttled, TokenSpent
from muster.domain.observations import Calls, Dependency
from muster.domain.reasons import Reason
from muster.domain.redaction import told
from muster.ports.clock import Clock
from muster.ports.provider import LaunchAnswer, LaunchRequest, Machine, NodeProvider

logger = logging.getLogger(__name__)

T = TypeVar("T")
TOLD_AGAIN = 10.0
"""Seconds after which a trouble of the store that goes on is logged again: every request meets it."""


class Telemetry:
    """Implements muster.operations.overviewing.Telemetry."""

    def __init__(self) -> None:
        self.calls = Histogram("muster_provider_seconds", "How long providers took, by verb.", SECONDS)
        self.errors = Counter("muster_provider_errors_total", "Provider calls that went wrong, by error.")
        self._store = Recent(MILLISECONDS)
        self._troubles: dict[str, float] = {}
        """When each trouble of the store was logged last."""
        self._others: dict[str, tuple[Recent, bool]] = {}
        """Whom this replica calls, and whether that is GitHub."""

    # --- gathered ---------------------------------------------------------------------------------

    def store_took(self, verb: str, seconds: float, error: Exception | None, *, now: float) -> None:
        self._store.add(seconds, now=now, failed=isinstance(error, StoreUnavailable))
        if isinstance(error, StoreUnavailable):
            self._tell(verb, error, now)

    def _tell(self, verb: str, error: StoreUnavailable, now: float) -> None:
        """The whole of it: whoever asked hears only what anybody may."""
        if abs(now - self._troubles.get(error.why, -inf)) >= TOLD_AGAIN:
            self._troubles[error.why] = now
            logger.warning("the store failed", extra={"verb": verb, "error": str(error)})

    def took(
        self,
        name: str,
        verb: str,
        seconds: float,
        error: Exception | None,
        *,
        now: float,
        github: bool = False,
    ) -> None:
        """A call to somebody else ended."""
        throttled = isinstance(error, Throttled)
        failed = error is not None and not throttled and not _answered(error)
        self.calls.observe(seconds, provider=name, verb=verb)
        if error is not None:
            self.errors.add(provider=name, verb=verb, error=type(error).__name__)
        words = told(error) if error is not None and failed else ""
        recent, _ = self._others.setdefault(name, (Recent(SECONDS), github))
        recent.add(seconds, now=now, failed=failed, throttled=throttled, error=words)

    def watched(self, provider: NodeProvider, clock: Clock) -> NodeProvider:
        """The provider, with each of its calls noted."""
        self._others.setdefault(provider.name, (Recent(SECONDS), False))
        return WatchedProvider(provider, self, clock)

    # --- read -------------------------------------------------------------------------------------

    def store_calls(self, *, now: float) -> Calls:
        return self._store.calls(now=now)

    def dependencies(self, *, now: float) -> tuple[Dependency, ...]:
        return tuple(
            Dependency(name=name, calls=recent.calls(now=now), github=github)
            for name, (recent, github) in self._others.items()
        )


def _answered(error: Exception) -> bool:
    """It did its work and said no: there is no room, or it happened already."""
    if isinstance(error, Refused):
        return error.reason in (Reason.CAPACITY, Reason.QUOTA)
    return isinstance(error, TokenSpent)


class WatchedProvider:
    """A provider whose calls are timed and whose errors are counted. Changes nothing."""

    def __init__(self, inner: NodeProvider, telemetry: Telemetry, clock: Clock) -> None:
        self._inner = inner
        self._telemetry = telemetry
        self._clock = clock
        self.name = inner.name
        self.visibility_window = inner.visibility_window
        self.call_timeout = inner.call_timeout
        self.makes_way = inner.makes_way

    async def launch(self, request: LaunchRequest) -> LaunchAnswer:
        return await self._noted("launch", self._inner.launch(request))

    async def find(self, token: str) -> Sequence[Machine]:
        return await self._noted("find", self._inner.find(token))

    async def list(self) -> AsyncIterator[Machine]:
        began = time.perf_counter()
        try:
            async for machine in self._inner.list():
                yield machine
        except Exception as error:
            self._note("list", time.perf_counter() - began, error)
            raise
        self._note("list", time.perf_counter() - began, None)

    async def describe(self, machine_ids: Sequence[str]) -> Mapping[str, Machine]:
        return await self._noted("describe", self._inner.describe(machine_ids))

    async def console(self, machine_id: str, *, lines: int) -> str | None:
        return await self._noted("console", self._inner.console(machine_id, lines=lines))

    async def terminate(self, machine_ids: Sequence[str]) -> None:
        await self._noted("terminate", self._inner.terminate(machine_ids))

    async def _noted(self, verb: str, call: Awaitable[T]) -> T:
        began = time.perf_counter()
        try:
            result = await call
        except asyncio.CancelledError:
            # Whoever waited gave up: a call that takes longer than it may is no good sign either.
            seconds = time.perf_counter() - began
            late = TimeoutError(f"no answer to {verb} within {seconds:.0f} s")
            self._note(verb, seconds, late if seconds >= self.call_timeout / 2 else None)
            raise
        except Exception as error:
            self._note(verb, time.perf_counter() - began, error)
            raise
        self._note(verb, time.perf_counter() - began, None)
        return result

    def _note(self, verb: str, seconds: float, error: Exception | None) -> None:
        self._telemetry.took(self.name, verb, seconds, error, now=self._clock.now())
