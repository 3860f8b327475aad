"""Run transactions on the event loop, side by side, each on a connection of its own.

Writes, and reads of a few rows, use no thread: a switch of threads costs more than most statements. Lists are
read in threads, because to decode a long one takes a while. The pool uses the connection first that it used
last. So a quiet replica keeps few connections busy, and the database keeps their plans warm.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Protocol, TypeVar

from muster.domain.errors import StoreUnavailable
from muster.ports.commits import AfterCommit
from muster.stores.sql.engines import BATCH_MOST, IDLE, Job, Runner, check_that_it_keeps_up, deliver
from muster.stores.sql.postgres.bridge import bridged
from muster.stores.sql.tx import Work, WorkResult

logger = logging.getLogger(__name__)

T = TypeVar("T")
NOT_READY = 0.2
"""How long a connection that can't work waits before it tries again to be able to."""


class LoopRunner(Runner, Protocol):
    def unwatch(self) -> None:
        """Let a thread run the next batch."""
        ...


class LoopEngine:
    """Implements muster.stores.sql.engines.Engine."""

    def __init__(
        self,
        writers: Sequence[LoopRunner],
        readers: Sequence[LoopRunner],
        after_commit: AfterCommit,
        *,
        horizon: Work[int],
    ) -> None:
        """`horizon` asks the database up to which event its log is complete."""
        self._writers = _RunnerPool(writers, after_commit, most=1)
        self._points = _RunnerPool(readers, after_commit, most=BATCH_MOST)
        self._horizon = horizon

    async def write(self, work: Work[T], *, urgent: bool = False) -> T:
        return await self._writers.submit(work, first=urgent)

    async def read(self, work: Work[T], *, point: bool = False) -> T:
        return await self._points.submit(work, threaded=not point)

    async def complete_upto(self) -> int:
        return await self.read(self._horizon, point=True)

    async def close(self) -> None:
        """Finish what was submitted, then close."""
        await self._writers.close()
        await self._points.close()


class _RunnerPool:
    def __init__(self, runners: Sequence[LoopRunner], after_commit: AfterCommit, *, most: int) -> None:
        self._runners = tuple(runners)
        self._idle = list(reversed(runners))
        self._most = most
        self._after_commit = after_commit
        self._first: deque[Job] = deque()
        self._usual: deque[Job] = deque()
        self._lists: deque[Job] = deque()
        self._tasks: dict[asyncio.Task[None], LoopRunner] = {}
        self._resting: list[LoopRunner] = []
        """Those that could not work, and ask again soon."""
        self._threads = ThreadPoolExecutor(len(runners), "muster-store-lists")
        self._loop: asyncio.AbstractEventLoop | None = None
        self._scheduled = False
        self._closed = False

    async def submit(self, work: Work[T], *, first: bool = False, threaded: bool = False) -> T:
        if self._closed:
            raise StoreUnavailable("cannot use the store: it was closed; open it again", why="it was closed")
        loop = asyncio.get_running_loop()
        if not first:
            oldest = self._usual[0].since if self._usual else loop.time()
            check_that_it_keeps_up(self._waiting, loop.time() - oldest, len(self._runners))
        answer: asyncio.Future[T] = loop.create_future()
        lane = self._lists if threaded else self._first if first else self._usual
        lane.append(Job(work, answer, loop.time()))
        if loop is not self._loop:
            self._take_back()
            self._loop, self._scheduled = loop, False
            loop.call_later(IDLE, self._look_after, loop)
        if not self._scheduled:
            # Once per turn of the loop: reads of callers that were woken together share a snapshot.
            self._scheduled = True
            loop.call_soon(self._begin)
        return await answer

    @property
    def _waiting(self) -> int:
        return len(self._first) + len(self._usual) + len(self._lists)

    def _begin(self) -> None:
        self._scheduled = False
        wanted = -(-self._waiting // self._most)
        while self._idle and wanted > 0:
            wanted -= 1
            self._start(self._idle.pop())

    def _start(self, runner: LoopRunner) -> None:
        task = asyncio.get_running_loop().create_task(self._serve(runner))
        self._tasks[task] = runner
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        """Keep a runner whose task was cancelled: it was asked nothing yet."""
        runner = self._tasks.pop(task, None)
        if runner is not None and task.cancelled():
            self._idle.append(runner)

    def _take_back(self) -> None:
        """Take back the runners of a loop that is closed, as when tests share a store: it wakes none."""
        if self._loop is None or not self._loop.is_closed():
            return
        for runner in self._tasks.values():
            runner.close()  # it may stand still in the middle of a statement
        self._idle += [*self._tasks.values(), *self._resting]
        self._tasks.clear()
        self._resting.clear()

    async def _serve(self, runner: LoopRunner) -> None:
        """Work until nothing waits."""
        while self._closed or await self._is_ready(runner):
            lane = self._next_lane()
            if lane is not None:
                await self._work(runner, lane)
            if not self._waiting:
                self._idle.append(runner)
                return
        # It can't work at present: others do, and it asks again.
        self._begin()
        self._resting.append(runner)
        asyncio.get_running_loop().call_later(NOT_READY, self._start_again, runner)

    async def _work(self, runner: LoopRunner, lane: deque[Job]) -> None:
        batch = [lane.popleft() for _ in range(min(self._most, len(lane)))]
        run = partial(runner.run, [job.work for job in batch])
        try:
            if lane is self._lists:
                runner.unwatch()
                ends, written = await asyncio.get_running_loop().run_in_executor(self._threads, run)
            else:
                ends, written = await bridged(run)
        except Exception as error:  # a bug; each caller must hear of it, and the runner must stay
            logger.exception("a transaction failed unexpectedly")
            ends, written = [WorkResult(error=error) for _ in batch], []
        deliver(batch, ends)
        if written:
            self._after_commit(written)

    def _start_again(self, runner: LoopRunner) -> None:
        if runner in self._resting:
            self._resting.remove(runner)
            self._start(runner)

    async def _is_ready(self, runner: LoopRunner) -> bool:
        try:
            return await bridged(runner.ready)
        except Exception:  # a bug; the runner asks again later
            logger.exception("a connection could not be looked after")
            return False

    def _next_lane(self) -> deque[Job] | None:
        if self._first:
            return self._first
        lanes = [lane for lane in (self._usual, self._lists) if lane]
        return min(lanes, key=lambda lane: lane[0].since) if lanes else None

    def _look_after(self, loop: asyncio.AbstractEventLoop) -> None:
        """Ask the idle ones whether they are ready: they may hold what other replicas need."""
        if self._closed or loop is not self._loop:
            return
        idle, self._idle = self._idle, []
        for runner in reversed(idle):
            self._start(runner)
        loop.call_later(IDLE, self._look_after, loop)

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        self._take_back()
        while self._waiting or self._tasks:
            self._begin()
            await (asyncio.wait(self._tasks) if self._tasks else asyncio.sleep(NOT_READY))
        self._threads.shutdown()
        for runner in self._runners:
            runner.close()
