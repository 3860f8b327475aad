"""What operations showed, read, decoded and encoded once for all streams that follow the same one.

A history lives for as long as a stream follows its operation. Streams that are woken together share one read.
What this process wrote itself is taken from its commit, and not read. That includes what it submitted: who
submits an operation follows it next.
"""

import asyncio
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache

from muster.api.feed_pages import sse_message
from muster.domain import serialization
from muster.domain.diagnosis import Bundle, Diagnosis
from muster.domain.diagnosis_rules import classify
from muster.domain.events import Event
from muster.domain.ids import OperationId
from muster.domain.operation import Operation
from muster.domain.serialization import Plain
from muster.operations.evidence import evidence
from muster.ports.clock import Clock
from muster.ports.commits import Written
from muster.ports.paging import pages
from muster.ports.store import Cursor, Store
from muster.single_flight import SingleFlight
from muster.wire.base import encode
from muster.wire.operations import Progress

REMEMBERED = 64
"""Bundles; each is two texts of 64 KiB at most."""

_classified = lru_cache(maxsize=REMEMBERED)(classify)


async def diagnose(store: Store, operation: Operation, *, now: float) -> Diagnosis | None:
    """Say why an operation failed. None: no node's failure was the reason, or nothing is known of it."""
    bundle = await evidence(store, operation, now=now)
    return None if bundle is None else await classify_bundle(bundle)


async def classify_bundle(bundle: Bundle) -> Diagnosis:
    """Classify a bundle beside the loop."""
    return await asyncio.to_thread(_classified, bundle)


FIRST = 1
"""The version of an operation when it is submitted."""
PAGE = 200
"""Events that are read at once."""
BEGUN_MOST = 128
"""Operations that were submitted here last, and kept for their first follower."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Version:
    """One version of an operation, as it is sent."""

    version: int
    message: bytes
    ended: bool


class History:
    """The versions of one operation, oldest first."""

    def __init__(
        self, store: Store, clock: Clock, operation_id: OperationId, written: Iterable[Operation]
    ) -> None:
        self._store = store
        self._clock = clock
        self._id = operation_id
        self._cursor: Cursor | None = None
        self._fields: dict[str, Plain] = {}
        self._reads: SingleFlight[str, None] = SingleFlight()
        self._written = list(written)
        """Versions that this process wrote, each the next one after the last step. Without steps they begin
        with the first version."""
        self.steps: list[Version] = []
        self.followers = 0

    def wrote(self, operation: Operation) -> None:
        """Note a version that this process wrote. After a gap the store is read: others wrote in between."""
        known = self._written[-1].version if self._written else self.steps[-1].version if self.steps else -1
        if operation.version == known + 1:
            self._written.append(operation)

    async def look(self, known: int) -> bool:
        """Add what was written before this call, for a stream that has so many steps.

        Return whether the store was read. Without a read, versions that another process wrote after those
        of this process may be missing: look again a while later.
        """
        written, self._written = self._written, []
        for operation in written:
            await self._add(operation, at=operation.updated_at)
        if len(self.steps) > known:
            return False
        await self._reads.get_later("", self._read)
        return True

    async def _read(self) -> None:
        async for page in pages(
            lambda after: self._store.events(after=after, limit=PAGE, entity_id=self._id),
            after=self._cursor,
            full=PAGE,
        ):
            for event in page.items:
                operation = self._after(event)
                if operation is not None:
                    await self._add(operation, at=event.at)
            self._cursor = page.next
        if "request" not in self._fields:
            # The beginning was pruned: there is no history to tell, only the present.
            await self._add(await self._store.operation(self._id), at=self._clock.now())

    def _after(self, event: Event) -> Operation | None:
        self._fields.update(event.changes)
        if "request" not in self._fields:
            return None
        return replace(serialization.from_plain(Operation, self._fields), version=event.version)

    async def _add(self, operation: Operation, *, at: float) -> None:
        if self.steps and operation.version <= self.steps[-1].version:
            return
        told = await diagnose(self._store, operation, now=at) if operation.ended else None
        shown = encode(Progress.of(operation, now=at, diagnosis=told))
        message = sse_message(shown, event="progress", place=str(operation.version))
        self.steps.append(Version(version=operation.version, message=message, ended=operation.ended))


class Histories:
    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._followed: dict[OperationId, History] = {}
        self._begun: dict[OperationId, list[Operation]] = {}
        """The versions, since the first, of operations that were submitted here and have no stream yet."""

    def saw(self, written: Iterable[Written]) -> None:
        """Take the commits of this process, right after each one."""
        for each in written:
            if not isinstance(each.record, Operation):
                continue
            history = self._followed.get(each.record.id)
            if history is not None:
                history.wrote(each.record)
            else:
                self._keep(each.record)

    def _keep(self, operation: Operation) -> None:
        begun = self._begun.get(operation.id)
        if begun is not None and operation.version == begun[-1].version + 1:
            begun.append(operation)
        elif begun is not None:
            del self._begun[operation.id]  # another process wrote in between: the store knows all
        elif operation.version == FIRST:
            if len(self._begun) >= BEGUN_MOST:
                del self._begun[next(iter(self._begun))]
            self._begun[operation.id] = [operation]

    def begun(self, operation_id: OperationId) -> Operation | None:
        """Return an operation that was submitted here and has no follower yet, as this process knows it."""
        known = self._begun.get(operation_id)
        return None if known is None else known[-1]

    @contextmanager
    def follow(self, operation_id: OperationId) -> Iterator[History]:
        """Give the history that all present followers of the operation share."""
        history = self._followed.get(operation_id)
        if history is None:
            begun = self._begun.pop(operation_id, ())
            history = self._followed[operation_id] = History(self._store, self._clock, operation_id, begun)
        history.followers += 1
        try:
            yield history
        finally:
            history.followers -= 1
            if not history.followers:
                del self._followed[operation_id]
