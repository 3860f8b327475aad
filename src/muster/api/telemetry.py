"""Record how this replica's calls to its store and its providers go: decorators on ports, and counts over a
moving window.

The window is cut into slices. Each slice holds counts and a histogram, and old slices are dropped. So memory
and the cost of reading are fixed, however many calls there are.
"""

import asyncio
import logging
import time
from bisect import bisect_left
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Mapping, Sequence
from math import inf
from typing import TypeVar

from muster.api.prometheus import MILLISECONDS, SECONDS, Counter, Histogram
from muster.domain.errors import Refused, StoreUnavailable, Throttled, TokenSpent
from muster.domain.findings import Culprit
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
    """Implements muster.operations.overview.Telemetry."""

    def __init__(self) -> None:
        self.calls = Histogram("muster_provider_seconds", "How long providers took, by verb.", SECONDS)
        self.errors = Counter("muster_provider_errors_total", "Provider calls that went wrong, by error.")
        self._store = CallWindow(MILLISECONDS)
        self._troubles: dict[str, float] = {}
        """When each trouble of the store was logged last."""
        self._others: dict[str, tuple[CallWindow, Culprit]] = {}
        """What this replica calls, and where the cause is when that fails."""

    # --- gathered ---------------------------------------------------------------------------------

    def store_took(self, verb: str, seconds: float, error: Exception | None, *, now: float) -> None:
        self._store.add(seconds, now=now, failed=isinstance(error, StoreUnavailable))
        if isinstance(error, StoreUnavailable):
            self._tell(verb, error, now)

    def _tell(self, verb: str, error: StoreUnavailable, now: float) -> None:
        """Log the whole error: the caller got only the public part."""
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
        culprit: Culprit = Culprit.CLOUD,
    ) -> None:
        """Record a finished call to a provider, or to the service behind a runtime."""
        throttled = isinstance(error, Throttled)
        failed = error is not None and not throttled and not _answered(error)
        self.calls.observe(seconds, provider=name, verb=verb)
        if error is not None:
            self.errors.add(provider=name, verb=verb, error=type(error).__name__)
        words = told(error) if error is not None and failed else ""
        recent, _ = self._others.setdefault(name, (CallWindow(SECONDS), culprit))
        recent.add(seconds, now=now, failed=failed, throttled=throttled, error=words)

    def watched(
        self, provider: NodeProvider, clock: Clock, *, culprit: Culprit = Culprit.CLOUD
    ) -> NodeProvider:
        """Return the provider, with each of its calls recorded."""
        self._others.setdefault(provider.name, (CallWindow(SECONDS), culprit))
        return WatchedProvider(provider, self, clock)

    # --- read -------------------------------------------------------------------------------------

    def store_calls(self, *, now: float) -> Calls:
        return self._store.calls(now=now)

    def dependencies(self, *, now: float) -> tuple[Dependency, ...]:
        return tuple(
            Dependency(name=name, calls=recent.calls(now=now), culprit=culprit)
            for name, (recent, culprit) in self._others.items()
        )


def _answered(error: Exception) -> bool:
    """Return whether the provider answered with a refusal: no room, or it happened already."""
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
            # The caller gave up: a call that takes longer than it may is no good sign either.
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


WINDOW = 300.0
SLICE = 15.0


class _Slice:
    __slots__ = ("counts", "errors", "number", "throttled")

    def __init__(self, number: int, edges: int) -> None:
        self.number = number
        self.counts = [0] * (edges + 1)
        self.errors = 0
        self.throttled = 0


class CallWindow:
    """Counts and durations of recent calls.

    `edges` are the upper bounds of the durations that are told apart, in seconds.
    """

    def __init__(self, edges: Sequence[float]) -> None:
        self._edges = tuple(edges)
        self._slices: deque[_Slice] = deque(maxlen=int(WINDOW / SLICE))
        self._last_error = (float("-inf"), "")

    def add(
        self, seconds: float, *, now: float, failed: bool = False, throttled: bool = False, error: str = ""
    ) -> None:
        number = int(now / SLICE)
        if not self._slices or self._slices[-1].number < number:
            self._slices.append(_Slice(number, len(self._edges)))
        part = self._slices[-1]
        part.counts[bisect_left(self._edges, seconds)] += 1
        part.errors += failed
        part.throttled += throttled
        if error:
            self._last_error = (now, error)

    def calls(self, *, now: float) -> Calls:
        since = int(now / SLICE) - int(WINDOW / SLICE)
        parts = [part for part in self._slices if part.number > since]
        counts = [sum(column) for column in zip(*(part.counts for part in parts), strict=True)]
        at, error = self._last_error
        return Calls(
            window=WINDOW,
            calls=sum(counts),
            errors=sum(part.errors for part in parts),
            throttled=sum(part.throttled for part in parts),
            p50=self._bound(counts, 0.50),
            p95=self._bound(counts, 0.95),
            p99=self._bound(counts, 0.99),
            last_error=error if now - at <= WINDOW else "",
        )

    def _bound(self, counts: Sequence[int], share: float) -> float | None:
        """Return the edge below which this share of the calls stays; beyond the last edge, twice that."""
        wanted, seen = share * sum(counts), 0
        for edge, count in zip((*self._edges, 2 * self._edges[-1]), counts, strict=False):
            seen += count
            if count and seen >= wanted:
                return edge
        return None
