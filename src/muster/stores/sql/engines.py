"""Run the transaction functions on one connection that writes: in threads, or in the caller itself.

`Threaded` keeps the event loop free: one thread writes, one reads. Waiting work is taken in batches, urgent
work first, and a batch of writes is one commit. `Inline` runs everything where it is called and never
suspends, which makes a simulation over it repeatable. PostgreSQL has an engine of its own
(`postgres.loop_engine`).
"""

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from functools import update_wrapper
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from muster.domain.errors import StoreUnavailable
from muster.ports.commits import AfterCommit, Written
from muster.ports.verbs import reads, writes
from muster.stores.sql.events import EVERYTHING
from muster.stores.sql.tx import Tx, Work, WorkResult

T = TypeVar("T")
P = ParamSpec("P")

BATCH_MOST = 64
"""Writes per commit: enough to make the disk's answer cheap, few enough to keep each one's wait short."""
WAITING_MOST = 20_000
WAITING_SECONDS = 30.0
"""More than this waiting for a connection, or for longer, is a store that doesn't keep up: better to say so
than to queue."""


@dataclass(frozen=True, slots=True)
class Job:
    work: Work[Any]
    answer: asyncio.Future[Any]
    since: float


def deliver(jobs: Sequence[Job], ends: Sequence[WorkResult]) -> None:
    """Answer those who wait. The write of a caller that was cancelled stands all the same."""
    for job, end in zip(jobs, ends, strict=True):
        if job.answer.done():
            continue
        if end.error is None:
            job.answer.set_result(end.value)
        else:
            job.answer.set_exception(end.error)


IDLE = 1.0
"""How long one that has nothing to do waits before it is asked again whether it is ready: it may hold what
others need."""


def check_that_it_keeps_up(waiting: int, longest: float, connections: int) -> None:
    """Raise StoreUnavailable if too much waits, or the first for too long."""
    if waiting >= WAITING_MOST or longest > WAITING_SECONDS:
        raise StoreUnavailable(
            f"cannot use the store: {waiting} others wait for one of its {connections}"
            f" connections, the first for {longest:.0f} s; try again later",
            why="more waits for it than it does; try again later",
        )


class Runner(Protocol):
    def ready(self) -> bool:
        """Return whether it should get work. False: it can do none, and others can."""
        ...

    def run(self, batch: Sequence[Work[Any]]) -> tuple[list[WorkResult], list[Written]]:
        """Run a batch; return each one's end, and what was appended. Never raises."""
        ...

    def close(self) -> None: ...


class Engine(Protocol):
    async def write(self, work: Work[T], *, urgent: bool = False) -> T:
        """Run in one transaction; when this returns, it is durable and has been announced. What is urgent
        waits for nothing but what is running."""
        ...

    async def read(self, work: Work[T], *, point: bool = False) -> T:
        """Run over one snapshot. `point`: the function reads a few rows by key, so an engine in this
        process may run it inline."""
        ...

    async def complete_upto(self) -> int:
        """Return the number up to which the event log is complete.

        An event below it that a later `read` doesn't find was never written, and never will be.
        """
        ...

    async def close(self) -> None: ...


class EngineVerbs:
    """Base of a port's adapter. Its verbs are transaction functions, each made a method by `read` or `write`:

    node = read(nodes.get)
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine


Verb = Callable[Concatenate[EngineVerbs, P], Coroutine[Any, Any, T]]


def read(work: Callable[Concatenate[Tx, P], T], *, point: bool = False) -> Verb[P, T]:
    """Make a verb of a transaction function that only reads. `point`: as for `Engine.read`."""

    def verb(self: EngineVerbs, /, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, T]:
        return self._engine.read(lambda tx: work(tx, *args, **kwargs), point=point)

    update_wrapper(verb, work)
    return reads(verb)


def write(work: Callable[Concatenate[Tx, P], T], *, urgent: bool = False) -> Verb[P, T]:
    """Make a verb of a transaction function that writes. `urgent`: it passes whatever else waits."""

    def verb(self: EngineVerbs, /, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, T]:
        return self._engine.write(lambda tx: work(tx, *args, **kwargs), urgent=urgent)

    update_wrapper(verb, work)
    return writes(verb)


class InlineWriter(Protocol):
    def one(self, work: Work[T]) -> tuple[T, list[Written]]:
        """Run one write by itself; return its value, and what the commit appended."""
        ...

    def close(self) -> None: ...


class InlineReader(Protocol):
    def one(self, work: Work[T]) -> T: ...


class InlineEngine:
    """Everything on the calling thread and one connection."""

    def __init__(self, writer: InlineWriter, reader: InlineReader, after_commit: AfterCommit) -> None:
        self._writer = writer
        self._reader = reader
        self._after_commit = after_commit

    async def write(self, work: Work[T], *, urgent: bool = False) -> T:
        value, written = self._writer.one(work)
        if written:
            self._after_commit(written)
        return value

    async def read(self, work: Work[T], *, point: bool = False) -> T:
        return self._reader.one(work)

    async def complete_upto(self) -> int:
        return EVERYTHING

    async def close(self) -> None:
        self._writer.close()


class ThreadedEngine:
    """A thread that writes, and one that reads."""

    def __init__(
        self, writer: Runner, reader: Runner, after_commit: AfterCommit, *, near: Runner | None = None
    ) -> None:
        """Start the threads. `near` runs point reads on the caller's thread and never waits for a lock. What
        it can't do goes to the reader."""
        self._writer = _Worker(writer, "muster-store-writer", after_commit)
        self._reader = _Worker(reader, "muster-store-reader", after_commit)
        self._near = near

    async def write(self, work: Work[T], *, urgent: bool = False) -> T:
        return await self._writer.submit(work, urgent=urgent)

    async def read(self, work: Work[T], *, point: bool = False) -> T:
        if point and self._near is not None:
            (end,), _ = self._near.run((work,))
            if end.error is None:
                return end.value  # type: ignore[no-any-return]  # the type of the work that was run
            if not isinstance(end.error, StoreUnavailable):
                raise end.error
        return await self._reader.submit(work)

    async def complete_upto(self) -> int:
        return EVERYTHING

    async def close(self) -> None:
        """Finish what was submitted, then close."""
        if self._near is not None:
            near, self._near = self._near, None
            near.close()
        await self._writer.close()
        await self._reader.close()


class _Worker:
    """A thread that takes what waits, up to a batch, runs it and answers for the batch in one call.

    What waits is in two lanes. Leases and heartbeats are few, and late ones cost a takeover or a node that
    seems dead. So they pass all other work. Within a lane, the first comes first.
    """

    def __init__(self, runner: Runner, name: str, after_commit: AfterCommit) -> None:
        self.runner = runner
        self._after_commit = after_commit
        self._urgent: deque[Job] = deque()
        self._usual: deque[Job] = deque()
        self._changed = threading.Condition()
        self._gathered: list[tuple[deque[Job], Job]] = []
        self._waiting = 0
        self._closed = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = threading.Thread(target=self._serve, name=name, daemon=True)
        self._thread.start()

    async def submit(self, work: Work[T], *, urgent: bool = False) -> T:
        if self._closed:
            raise StoreUnavailable("cannot use the store: it was closed; open it again", why="it was closed")
        loop = self._loop = asyncio.get_running_loop()
        if not urgent:
            with self._changed:
                waited = loop.time() - self._usual[0].since if self._usual else 0.0
            check_that_it_keeps_up(self._waiting, waited, connections=1)
        answer: asyncio.Future[T] = loop.create_future()
        self._waiting += 1
        if not self._gathered:
            # Hand over once per turn of the loop: callers that were woken together share a commit.
            loop.call_soon(self._hand_over)
        self._gathered.append((self._urgent if urgent else self._usual, Job(work, answer, loop.time())))
        return await answer

    def _hand_over(self, *, last: bool = False) -> None:
        gathered, self._gathered = self._gathered, []
        with self._changed:
            self._closed = self._closed or last
            for lane, job in gathered:
                lane.append(job)
            self._changed.notify()

    async def close(self) -> None:
        if not self._closed:
            self._hand_over(last=True)
            await asyncio.to_thread(self._thread.join)

    def _serve(self) -> None:
        while True:
            self.runner.ready()
            batch = self._next_batch()
            if batch == []:
                self.runner.close()
                return
            if batch is not None:
                ends, written = self.runner.run([job.work for job in batch])
                loop = self._loop
                if loop is not None and not loop.is_closed():
                    loop.call_soon_threadsafe(self._deliver, batch, ends, written)

    def _next_batch(self) -> list[Job] | None:
        """Wait for work, and take it. None: none came in time. Empty: closed, and all was taken."""
        with self._changed:
            if not self._changed.wait_for(lambda: self._urgent or self._usual or self._closed, IDLE):
                return None
            taken: list[Job] = []
            for lane in (self._urgent, self._usual):
                while lane and len(taken) < BATCH_MOST:
                    taken.append(lane.popleft())
            return taken

    def _deliver(self, batch: list[Job], ends: list[WorkResult], written: list[Written]) -> None:
        self._waiting -= len(batch)
        deliver(batch, ends)
        if written:
            self._after_commit(written)
