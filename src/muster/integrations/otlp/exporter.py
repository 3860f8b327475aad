"""Gather what ended, and send it as spans every few seconds.

The hot path only appends to a bounded queue. A collector that is away costs the queue's memory and one log
line; the oldest spans are dropped then. A process that is killed loses the spans of its last seconds.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress

import httpx

import muster
from muster.domain import traces
from muster.domain.backoff import backoff
from muster.domain.command import Command
from muster.domain.errors import MusterError, NotFound, StoreUnavailable
from muster.domain.ids import OperationId
from muster.domain.launch import Launch
from muster.domain.node import Node
from muster.domain.operation import Operation, OperationEvent
from muster.integrations.otlp import spans
from muster.integrations.otlp.spans import Attribute, Span, encode
from muster.outgoing import NoAnswer, Outgoing
from muster.ports.clock import Clock
from muster.ports.commits import Record, Written
from muster.ports.store import Store

logger = logging.getLogger(__name__)

EVERY = 5.0
"""Seconds between two batches: what a person waits for the end of a trace."""
BATCH = 512
QUEUED_MOST = 8192
"""Writes, and spans that could not be sent: some 2 KiB each."""
KNOWN_MOST = 4096
PAUSE_MOST = 60.0
CLOSE_WITHIN = 3.0
_LATER = (408, 429, 502, 503, 504)


class CannotExport(MusterError):
    """The collector did not take a batch. `passing`: the same batch may be taken later."""

    def __init__(self, why: str, *, passing: bool) -> None:
        super().__init__(f"cannot export traces: {why}")
        self.passing = passing


class Exporter:
    def __init__(
        self,
        url: str,
        store: Store,
        clock: Clock,
        *,
        headers: Mapping[str, str],
        resource: Mapping[str, Attribute],
        sample: float = 1.0,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self._url = url
        self._store = store
        self._clock = clock
        self._resource = resource
        self._sample = sample
        always = {**headers, "Content-Type": "application/json"}
        self._outgoing = Outgoing(url, always, transport)
        self._heard: deque[Written] = deque(maxlen=QUEUED_MOST)
        self._spans: deque[Span] = deque(maxlen=QUEUED_MOST)
        self._operations: dict[OperationId, Operation] = {}
        self._failures = 0
        self._task: asyncio.Task[None] | None = None

    def saw(self, written: Sequence[Written]) -> None:
        """Note what ended. Implements muster.ports.commits.AfterCommit."""
        for each in written:
            if spans.ends_a_span(each):
                self._heard.append(each)
            elif each.draft.name == OperationEvent.SUBMITTED and isinstance(each.record, Operation):
                self._know(each.record)

    def start(self) -> None:
        self._task = asyncio.create_task(self._run())

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        with suppress(CannotExport, StoreUnavailable, TimeoutError):
            async with asyncio.timeout(CLOSE_WITHIN):
                await self.export()
        await self._outgoing.close()

    async def _run(self) -> None:
        while True:
            pause = backoff(self._failures - 1, first=EVERY, most=PAUSE_MOST) if self._failures else 0.0
            await self._clock.sleep(max(EVERY, pause))
            try:
                await self.export()
            except StoreUnavailable:
                continue  # what was heard is still queued
            except CannotExport as error:
                self._failed(error)
            except Exception:
                # Traces must not stop; the next batch may be fine.
                logger.exception("cannot make spans")

    async def export(self) -> None:
        """Send all that was heard. Raises CannotExport."""
        while self._heard or self._spans:
            await self._make_spans()
            batch = [self._spans.popleft() for _ in range(min(BATCH, len(self._spans)))]
            if not batch:
                continue
            try:
                await self._send(batch)
            except CannotExport as error:
                if error.passing:
                    self._keep(batch)
                raise
            if self._failures:
                logger.info("traces are exported again", extra={"url": self._url})
                self._failures = 0

    # --- spans ------------------------------------------------------------------------------------

    async def _make_spans(self) -> None:
        while self._heard and len(self._spans) < BATCH:
            written = self._heard.popleft()
            try:
                self._spans.extend(await self._spans_of(written))
            except StoreUnavailable:
                self._heard.appendleft(written)
                raise

    async def _spans_of(self, written: Written) -> list[Span]:
        try:
            operation = await self._operation(written.record)
            if operation is None or not self._wanted(operation):
                return []
            match written.record:
                case Operation() as ended:
                    self._operations.pop(ended.id, None)
                    return [spans.of_operation(ended)]
                case Node() as node:
                    boot = spans.ends_a_boot(written)
                    marks = await self._store.marks(node.id) if boot else None
                    return list(spans.of_node(node, operation, marks))
                case Launch() as launch:
                    return [spans.of_launch(launch, operation)]
                case Command() as command:
                    return [spans.of_command(command, operation)]
                case _:
                    return []
        except NotFound:
            return []  # pruned before its turn came

    async def _operation(self, record: Record | None) -> Operation | None:
        if record is None or isinstance(record, Operation):
            return record
        if record.operation_id is None:
            return None
        known = self._operations.get(record.operation_id)
        if known is None:
            known = await self._store.operation(record.operation_id)
            self._know(known)
        return known

    def _know(self, operation: Operation) -> None:
        while len(self._operations) >= KNOWN_MOST:
            del self._operations[next(iter(self._operations))]
        self._operations[operation.id] = operation

    def _wanted(self, operation: Operation) -> bool:
        """Return whether the operation's trace is exported. All replicas agree: the trace's id decides."""
        own = traces.of_operation(operation.id, operation.trace)
        if operation.trace:
            return own.sampled
        return int(own.trace_id[:8], 16) < self._sample * (1 << 32)

    # --- sending ----------------------------------------------------------------------------------

    async def _send(self, batch: Sequence[Span]) -> None:
        body = encode(batch, resource=self._resource, version=muster.__version__)
        try:
            response = await self._outgoing.post(body)
        except NoAnswer as error:
            raise CannotExport(str(error), passing=True) from error
        if not response.is_success:
            status = response.status_code
            raise CannotExport(f"{self._url} answered {status}", passing=status in _LATER)

    def _keep(self, batch: Sequence[Span]) -> None:
        room = QUEUED_MOST - len(self._spans)
        self._spans.extendleft(reversed(batch[-room:] if room else ()))

    def _failed(self, error: CannotExport) -> None:
        if not self._failures:
            logger.warning("%s; spans are kept as far as memory is set aside for them", error)
        self._failures += 1
