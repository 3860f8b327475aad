"""Who runs the transaction functions: threads with group commit, or the caller itself.

Owns the executor choice. `Threaded` keeps the event loop free: one thread writes, one reads, and what waits
is taken in batches. `Inline` runs everything where it is called and never suspends, which makes a simulation
over it repeatable.
"""

import asyncio
import queue
import threading
from collections.abc import Sequence
from typing import Any, Protocol, TypeVar

from muster.domain.errors import StoreUnavailable
from muster.stores.announcing import AfterCommit, Written
from muster.stores.sql.sqlite import Done, Work

T = TypeVar("T")

BATCH_MOST = 64
"""Writes per commit: enough to make the disk's answer cheap, few enough to keep each one's wait short."""

Job = tuple[Work[Any], asyncio.Future[Any]]


class Runner(Protocol):
    def run(self, batch: Sequence[Work[Any]]) -> tuple[list[Done], list[Written]]: ...

    def close(self) -> None: ...


class Engine(Protocol):
    async def write(self, work: Work[T]) -> T:
        """Run in one transaction; when this returns, it is durable and has been announced."""
        ...

    async def read(self, work: Work[T]) -> T:
        """Run over one snapshot."""
        ...

    async def close(self) -> None: ...


class Inline:
    """Everything on the calling thread and one connection."""

    def __init__(self, writer: Runner, reader: Runner, after_commit: AfterCommit) -> None:
        self._writer = writer
        self._reader = reader
        self._after_commit = after_commit

    async def write(self, work: Work[T]) -> T:
        return self._run(self._writer, work)

    async def read(self, work: Work[T]) -> T:
        return self._run(self._reader, work)

    def _run(self, runner: Runner, work: Work[T]) -> T:
        (end,), written = runner.run((work,))
        if end.error is not None:
            raise end.error
        if written:
            self._after_commit(written)
        return end.value  # type: ignore[no-any-return]  # the type of the work that was run

    async def close(self) -> None:
        self._writer.close()


class Threaded:
    """A thread for the one writer and one for the reader."""

    def __init__(self, writer: Runner, reader: Runner, after_commit: AfterCommit) -> None:
        self._writer = _Worker(writer, "muster-store-writer", after_commit)
        self._reader = _Worker(reader, "muster-store-reader", after_commit)

    async def write(self, work: Work[T]) -> T:
        return await self._writer.submit(work)

    async def read(self, work: Work[T]) -> T:
        return await self._reader.submit(work)

    async def close(self) -> None:
        """What was submitted before is done first."""
        await self._writer.close()
        await self._reader.close()


class _Worker:
    """One thread that takes all that waits, up to a batch, runs it and answers for the batch in one call."""

    def __init__(self, runner: Runner, name: str, after_commit: AfterCommit) -> None:
        self._runner = runner
        self._after_commit = after_commit
        self._jobs: queue.SimpleQueue[list[Job] | None] = queue.SimpleQueue()
        self._gathered: list[Job] = []
        self._closed = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = threading.Thread(target=self._serve, name=name, daemon=True)
        self._thread.start()

    async def submit(self, work: Work[T]) -> T:
        if self._closed:
            raise StoreUnavailable("cannot use the store: it was closed; open it again")
        loop = self._loop = asyncio.get_running_loop()
        answer: asyncio.Future[T] = loop.create_future()
        self._gathered.append((work, answer))
        if len(self._gathered) == 1:
            # Hand over once per turn of the loop: callers that were woken together share a commit.
            loop.call_soon(self._hand_over)
        return await answer

    def _hand_over(self) -> None:
        if self._gathered:
            self._jobs.put(self._gathered)
            self._gathered = []

    async def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._hand_over()
            self._jobs.put(None)
            await asyncio.to_thread(self._thread.join)

    def _serve(self) -> None:
        waiting: list[Job] = []
        while True:
            more = self._jobs.get()
            while more is not None:
                waiting.extend(more)
                if len(waiting) >= BATCH_MOST:
                    break
                try:
                    more = self._jobs.get_nowait()
                except queue.Empty:
                    break
            while waiting:
                self._run(waiting[:BATCH_MOST])
                del waiting[:BATCH_MOST]
            if more is None:
                self._runner.close()
                return

    def _run(self, batch: list[Job]) -> None:
        ends, written = self._runner.run([work for work, _ in batch])
        answers = [answer for _, answer in batch]
        loop = self._loop
        if loop is not None and not loop.is_closed():
            loop.call_soon_threadsafe(self._deliver, answers, ends, written)

    def _deliver(self, answers: list[asyncio.Future[Any]], ends: list[Done], written: list[Written]) -> None:
        for answer, end in zip(answers, ends, strict=True):
            if answer.done():
                continue  # the caller was cancelled; its write stands all the same
            if end.error is None:
                answer.set_result(end.value)
            else:
                answer.set_exception(end.error)
        if written:
            self._after_commit(written)
