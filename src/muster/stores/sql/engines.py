"""Run the transaction functions: in threads, or in the caller itself.

`Threaded` keeps the event loop free: some threads write, some read. Waiting work is taken in batches, urgent
work first. SQLite has one thread of each, with group commit. An engine with concurrent transactions has a
connection per thread. `Inline` runs everything where it is called and never suspends, which makes a
simulation over it repeatable.
"""

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass
from functools import update_wrapper
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar

from muster.domain.errors import StoreUnavailable
from muster.ports.commits import AfterCommit, Written
from muster.ports.verbs import reads, writes
from muster.stores.sql.events import EVERYTHING
from muster.stores.sql.tx import Tx, Work, WorkResult

J = TypeVar("J")


class PriorityQueue(Generic[J]):
    """Jobs that wait for a connection, in two lanes.

    Leases and heartbeats are few, and late ones cost a takeover or a node that seems dead. So they pass all
    other work. Within a lane, the first comes first.
    """

    def __init__(self) -> None:
        self._urgent: deque[J] = deque()
        self._usual: deque[J] = deque()
        self._changed = threading.Condition()
        self._closed = False

    def put(self, urgent: Iterable[J], usual: Iterable[J]) -> None:
        with self._changed:
            before = len(self._urgent) + len(self._usual)
            self._urgent.extend(urgent)
            self._usual.extend(usual)
            self._changed.notify(len(self._urgent) + len(self._usual) - before)

    def take(self, most: int, within: float) -> list[J] | None:
        """Wait for work; return up to `most` jobs. None: none came in time. Empty: closed, and all was
        taken."""
        with self._changed:
            if not self._changed.wait_for(lambda: self._urgent or self._usual or self._closed, within):
                return None
            taken: list[J] = []
            for lane in (self._urgent, self._usual):
                while lane and len(taken) < most:
                    taken.append(lane.popleft())
            return taken

    def first(self) -> J | None:
        """Return the job that has waited longest in the usual lane."""
        with self._changed:
            return self._usual[0] if self._usual else None

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify_all()


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


NOT_READY = 0.2
"""How long one that can't work waits before it tries again to be able to."""
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
    """A thread for each of the writers and readers."""

    def __init__(
        self,
        writers: Sequence[Runner],
        readers: Sequence[Runner],
        after_commit: AfterCommit,
        *,
        together: int = BATCH_MOST,
        horizon: Work[int] | None = None,
        near: Runner | None = None,
    ) -> None:
        """Start the threads. `together`: how many writes one writer takes at a time.

        `horizon` asks the engine up to which event its log is complete; None: one writer at a time leaves no
        gap. `near` runs point reads on the caller's thread and never waits for a lock. What it can't do goes
        to the readers.
        """
        self._writers = _WorkerPool(writers, "muster-store-writer", after_commit, most=together)
        self._readers = _WorkerPool(readers, "muster-store-reader", after_commit, most=BATCH_MOST)
        self._horizon = horizon
        self._near = near

    async def write(self, work: Work[T], *, urgent: bool = False) -> T:
        return await self._writers.submit(work, urgent=urgent)

    async def read(self, work: Work[T], *, point: bool = False) -> T:
        if point and self._near is not None:
            (end,), _ = self._near.run((work,))
            if end.error is None:
                return end.value  # type: ignore[no-any-return]  # the type of the work that was run
            if not isinstance(end.error, StoreUnavailable):
                raise end.error
        return await self._readers.submit(work)

    async def complete_upto(self) -> int:
        return EVERYTHING if self._horizon is None else await self.read(self._horizon)

    async def close(self) -> None:
        """Finish what was submitted, then close."""
        if self._near is not None:
            near, self._near = self._near, None
            near.close()
        await self._writers.close()
        await self._readers.close()


class _WorkerPool:
    """Threads that take what waits, up to a batch each, run it and answer for the batch in one call."""

    def __init__(self, runners: Sequence[Runner], name: str, after_commit: AfterCommit, *, most: int) -> None:
        self.runners = tuple(runners)
        self._most = most
        self._after_commit = after_commit
        self._lanes: PriorityQueue[Job] = PriorityQueue()
        self._gathered: tuple[list[Job], list[Job]] = ([], [])
        self._waiting = 0
        self._closed = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._threads = [
            threading.Thread(target=self._serve, args=(runner,), name=name, daemon=True) for runner in runners
        ]
        for thread in self._threads:
            thread.start()

    async def submit(self, work: Work[T], *, urgent: bool = False) -> T:
        if self._closed:
            raise StoreUnavailable("cannot use the store: it was closed; open it again", why="it was closed")
        loop = self._loop = asyncio.get_running_loop()
        if not urgent:
            first = self._lanes.first()
            waited = 0.0 if first is None else loop.time() - first.since
            check_that_it_keeps_up(self._waiting, waited, len(self._threads))
        answer: asyncio.Future[T] = loop.create_future()
        self._waiting += 1
        pressing, usual = self._gathered
        if not pressing and not usual:
            # Hand over once per turn of the loop: callers that were woken together share a commit.
            loop.call_soon(self._hand_over)
        (pressing if urgent else usual).append(Job(work, answer, loop.time()))
        return await answer

    def _hand_over(self) -> None:
        gathered, self._gathered = self._gathered, ([], [])
        self._lanes.put(*gathered)

    async def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._hand_over()
            self._lanes.close()
            for thread in self._threads:
                await asyncio.to_thread(thread.join)

    def _serve(self, runner: Runner) -> None:
        while True:
            while not self._closed and not runner.ready():
                time.sleep(NOT_READY)
            batch = self._lanes.take(self._most, IDLE)
            if batch == []:
                runner.close()
                return
            if batch is not None:
                self._run(runner, batch)

    def _run(self, runner: Runner, batch: list[Job]) -> None:
        ends, written = runner.run([job.work for job in batch])
        answers = [job.answer for job in batch]
        loop = self._loop
        if loop is not None and not loop.is_closed():
            loop.call_soon_threadsafe(self._deliver, answers, ends, written)

    def _deliver(
        self, answers: list[asyncio.Future[Any]], ends: list[WorkResult], written: list[Written]
    ) -> None:
        self._waiting -= len(answers)
        for answer, end in zip(answers, ends, strict=True):
            if answer.done():
                continue  # the caller was cancelled; its write stands all the same
            if end.error is None:
                answer.set_result(end.value)
            else:
                answer.set_exception(end.error)
        if written:
            self._after_commit(written)
