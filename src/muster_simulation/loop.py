"""Provide an asyncio event loop whose time is virtual and whose order is fixed.

Owns: virtual time, the order of callbacks, the register of tasks, and the quiet end of a run. Refuses:
sockets, signals, threads, real time. A program that would wait forever ends with `Deadlock`. One that spins
while no time passes ends with `Livelock`. One that outlives its limit ends with `OutOfTime`.

The order depends on the program alone. Callbacks run first in, first out. Timers of equal time fire in the
order they were set. Tasks hash by their order of creation, so asyncio's own sets of tasks don't depend on
memory addresses. Two things stay in the order of addresses. So a simulated program must not iterate over a
set of plain futures, nor give coroutines to `as_completed`.

Each callback carries a context. If that context holds a gate, the gate decides whether the callback may run.
So `life` kills and pauses a simulated process without help from the process.
"""

import asyncio
import collections
import concurrent.futures
import contextlib
import contextvars
import ctypes
import functools
import gc
import heapq
import math
import sys
import sysconfig
import threading
import types
from collections.abc import Callable, Coroutine, Generator, Iterable
from typing import Any, TypeVar, TypeVarTuple

_T = TypeVar("_T")
_Ts = TypeVarTuple("_Ts")

# Below this many there is nothing to gain from sweeping out cancelled timers or finished tasks.
_FEW = 1024
_LINES_IN_REPORT = 20


class Gate:
    """Rules over the callbacks whose context holds it: while it is shut, they are held instead of run."""

    def __init__(self) -> None:
        self.alive = True
        self.shut = False
        self.held: list[asyncio.Handle] = []


GATE: contextvars.ContextVar[Gate | None] = contextvars.ContextVar("gate", default=None)


class Deadlock(RuntimeError):
    """Nothing is ready and no timer is set: the program would wait forever."""


class Livelock(RuntimeError):
    """The program goes round and round while no virtual time passes."""


class OutOfTime(RuntimeError):
    """The program is still going when its virtual time is up."""


class VirtualTask(asyncio.Task[_T]):
    """A task whose hash is its place in the order of creation."""

    _log_destroy_pending: bool

    def __init__(
        self, coro: Coroutine[Any, Any, _T], loop: "VirtualLoop", context: contextvars.Context | None
    ) -> None:
        # Set before super().__init__(), which already puts the task into a set.
        self.order = loop.next_order()
        self.gate = GATE.get() if context is None else context.get(GATE)
        super().__init__(coro, loop=loop, name=f"Task-{self.order}", context=context)

    def __hash__(self) -> int:
        return self.order

    @property
    def dead(self) -> bool:
        return self.gate is not None and not self.gate.alive

    def cancel(self, msg: Any | None = None) -> bool:
        # A cancel reaches through a task to whatever the task waits for; the dead pass nothing on.
        return False if self.dead else super().cancel(msg)


class _Callback(asyncio.Handle):
    """A Handle without the debugging it would otherwise pay for on each call. It is made more often than all
    else here, so it sets only what the loop reads."""

    __slots__ = ()

    def __init__(self, callback: Any, args: Any, context: contextvars.Context | None) -> None:
        self._callback = callback
        self._args = args
        self._context = contextvars.copy_context() if context is None else context
        self._cancelled = False

    def cancel(self) -> None:
        self._cancelled = True
        self._callback = None
        self._args = ()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._callback}{' cancelled' if self._cancelled else ''}>"


class _Timer(asyncio.TimerHandle):
    """The same for timers. Their order is kept by the loop, not by comparing handles."""

    __slots__ = ()

    def __init__(
        self, when: float, callback: Any, args: Any, loop: Any, context: contextvars.Context | None
    ) -> None:
        self._when = when
        self._scheduled = True
        self._callback = callback
        self._args = args
        self._loop = loop
        self._context = contextvars.copy_context() if context is None else context
        self._cancelled = False

    def cancel(self) -> None:
        if not self._cancelled:
            self._cancelled = True
            self._callback = None
            self._args = ()
            if self._scheduled:
                self._loop.timer_cancelled()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} at {self._when} {self._callback}>"


class VirtualLoop(asyncio.BaseEventLoop):
    """Runs callbacks in a fixed order and jumps to the next timer when none is ready."""

    # Far above what a healthy program does in one instant, and reached within seconds of real time.
    turns_per_instant = 1_000_000

    _closed: bool
    _stopping: bool
    _thread_id: int | None

    def __init__(self, *, start: float = 0.0, limit: float | None = None) -> None:
        super().__init__()
        self._now = float(start)
        self._end = math.inf if limit is None else self._now + limit
        self._turns = 0
        self._order = 0
        self._ready: collections.deque[Any] = collections.deque()
        self._timers: list[tuple[float, int, Any]] = []
        self._cancelled_timers = 0
        self._tasks: list[VirtualTask[Any]] = []
        self._sweep_at = _FEW
        self.set_task_factory(_make_task)

    def time(self) -> float:
        return self._now

    def next_order(self) -> int:
        self._order += 1
        return self._order

    def call_soon(
        self,
        callback: Callable[[*_Ts], object],
        *args: *_Ts,
        context: contextvars.Context | None = None,
    ) -> asyncio.Handle:
        if self._closed:
            raise RuntimeError("Event loop is closed")
        handle = _Callback(callback, args, context)
        self._ready.append(handle)
        return handle

    def call_soon_threadsafe(
        self,
        callback: Callable[[*_Ts], object],
        *args: *_Ts,
        context: contextvars.Context | None = None,
    ) -> asyncio.Handle:
        if self.is_running() and threading.get_ident() != self._thread_id:
            raise RuntimeError("cannot call into a virtual loop from another thread: the order would be lost")
        return self.call_soon(callback, *args, context=context)

    def call_at(
        self,
        when: float,
        callback: Callable[[*_Ts], object],
        *args: *_Ts,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        if self._closed:
            raise RuntimeError("Event loop is closed")
        self._order += 1
        timer = _Timer(when, callback, args, self, context)
        heapq.heappush(self._timers, (when, self._order, timer))
        return timer

    def call_later(
        self,
        delay: float,
        callback: Callable[[*_Ts], object],
        *args: *_Ts,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        if self._closed:
            raise RuntimeError("Event loop is closed")
        # As `call_at`, which most timers would pay a second call for.
        self._order += 1
        when = self._now + delay
        timer = _Timer(when, callback, args, self, context)
        heapq.heappush(self._timers, (when, self._order, timer))
        return timer

    def run_in_executor(
        self, executor: concurrent.futures.Executor | None, func: Callable[[*_Ts], _T], *args: *_Ts
    ) -> asyncio.Future[_T]:
        if executor is None:
            raise RuntimeError("cannot use threads in a virtual loop: pass an executor that runs inline")
        return asyncio.wrap_future(executor.submit(func, *args), loop=self)

    def requeue(self, handles: Iterable[asyncio.Handle]) -> None:
        """Let callbacks that a gate had held run now, in the order given."""
        self._ready.extend(handles)

    def register(self, task: VirtualTask[Any]) -> None:
        """Refer to a task until it is done: garbage collection must not end one at a time of its choosing."""
        if len(self._tasks) >= self._sweep_at:
            self._tasks = [task for task in self._tasks if not task.done()]
            self._sweep_at = max(_FEW, 2 * len(self._tasks))
        self._tasks.append(task)

    def timer_cancelled(self) -> None:
        """Count a cancelled timer that is set, and sweep when the cancelled are most of the heap."""
        self._cancelled_timers += 1
        if self._cancelled_timers > _FEW and self._cancelled_timers * 2 > len(self._timers):
            # In place: a turn that is under way holds on to this list.
            self._timers[:] = [entry for entry in self._timers if not entry[2]._cancelled]
            heapq.heapify(self._timers)
            self._cancelled_timers = 0

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        task = context.get("future")
        if not (isinstance(task, VirtualTask) and task.dead):  # a dead process reports nothing
            super().call_exception_handler(context)

    def close(self) -> None:
        """End everything that is still pending. None of its code runs, no `finally` block either."""
        if self.is_running() or self.is_closed():
            super().close()  # raises, or does nothing
            return
        pending = [task for task in self._tasks if not task.done()]
        for task in pending:
            task._log_destroy_pending = False
        held = [task.gate.held for task in pending if task.gate]
        _lay_to_rest([*(task.get_coro() for task in pending), self._ready, self._timers, *held])
        super().close()
        self._timers.clear()
        self._tasks.clear()

    def _run_once(self) -> None:
        """Take turns until the loop is stopped. In a turn, as in asyncio: move the due timers to the ready
        queue, then run what is in it by now."""
        ready, timers = self._ready, self._timers
        while True:
            if not ready and not self._stopping:
                self._advance()
            self._turns += 1
            if self._turns > self.turns_per_instant:
                raise Livelock(
                    f"cannot go on: {self._turns:,} turns while it stays {self._now} s. {self._report()}"
                )
            now = self._now
            while timers and timers[0][0] <= now:
                timer = heapq.heappop(timers)[2]
                timer._scheduled = False
                if timer._cancelled:
                    self._cancelled_timers -= 1
                else:
                    ready.append(timer)
            for _ in range(len(ready)):
                handle = ready.popleft()
                if handle._cancelled:
                    continue
                context = handle._context
                gate = context.get(GATE)
                if gate is not None and gate.shut:
                    gate.held.append(handle)
                    continue
                try:
                    context.run(handle._callback, *handle._args)
                except (Exception, asyncio.CancelledError) as error:
                    self.call_exception_handler(
                        {
                            "message": f"Exception in callback {handle!r}",
                            "exception": error,
                            "handle": handle,
                        }
                    )
            if self._stopping:
                return

    def _advance(self) -> None:
        """Jump to the time of the next timer."""
        timers = self._timers
        while timers and timers[0][2]._cancelled:
            heapq.heappop(timers)
            self._cancelled_timers -= 1
        when = timers[0][0] if timers else math.inf
        if when == math.inf:
            raise Deadlock(
                f"cannot go on: at {self._now} s nothing is ready, no timer is set. {self._report()}"
            )
        if when > self._end:
            raise OutOfTime(f"cannot go on: the limit of {self._end} s is reached. {self._report()}")
        if when > self._now:
            self._now = float(when)  # callers may give an int, and a trace must not show who did
            self._turns = 0

    def _report(self) -> str:
        waiting = [task for task in self._tasks if not task.done() and not task.dead]
        shown = waiting[:_LINES_IN_REPORT]
        lines = [f"\n  {task.get_name()} in {_place(task.get_coro())}" for task in shown]
        more = f"\n  and {len(waiting) - len(shown)} more" if len(waiting) > len(shown) else ""
        return f"Waiting, without the dead: {len(waiting)}{''.join(lines)}{more}"


def _make_task(
    loop: Any, coro: Any, context: contextvars.Context | None = None, **_: Any
) -> VirtualTask[Any]:
    task = VirtualTask(coro, loop, context)
    loop.register(task)
    return task


def _place(coro: Any) -> str:
    """Where a coroutine is suspended: its own name, then the innermost line of it that we can see."""
    inner = coro
    while getattr(getattr(inner, "cr_await", None), "cr_frame", None) is not None:
        inner = inner.cr_await
    frame = getattr(inner, "cr_frame", None)
    where = f" ({frame.f_code.co_filename}:{frame.f_lineno})" if frame else ""
    return f"{getattr(coro, '__qualname__', coro)}{where}"


# What runs when a suspended coroutine is collected, its `finally` blocks, may hang at the end of a chain: an
# awaited coroutine, the generator behind a `with`, an exit stack. These are the links; others end the search.
_LINKS = (
    types.CoroutineType, types.GeneratorType, types.AsyncGeneratorType, types.MethodType,
    contextlib.ContextDecorator, contextlib.AsyncExitStack, contextlib.ExitStack,
    asyncio.Handle, collections.deque, dict, list, tuple,
)  # fmt: skip
_NAMELESS_LINKS = ("async_generator_", "coroutine_wrapper")  # types of the interpreter that no module exports
_SUSPENDED = (types.CoroutineType, types.GeneratorType, types.AsyncGeneratorType)


def _lay_to_rest(roots: list[Any]) -> None:
    """Mark every suspended coroutine and generator reachable from `roots` as finalized already.

    Python then frees them without resuming them: no `finally` block runs, and nothing is warned about. There
    is no public way to drop a suspended coroutine: `close()` would run the code of processes that are dead.
    On an interpreter that keeps the mark elsewhere nothing is marked, and Python closes them in its own way.
    """
    if not _can_mark():
        return
    seen: set[int] = set()
    todo = list(roots)
    while todo:
        item = todo.pop()
        if id(item) in seen:
            continue
        seen.add(id(item))
        if isinstance(item, _SUSPENDED):
            _mark_finalized(item)
        if isinstance(item, _LINKS) or type(item).__name__.startswith(_NAMELESS_LINKS):
            todo.extend(gc.get_referents(item))


def _mark_finalized(item: object) -> None:
    # The lowest bit of the word before the object: the last word of the garbage collector's header.
    ctypes.c_size_t.from_address(id(item) - ctypes.sizeof(ctypes.c_size_t)).value |= 1


@functools.cache
def _can_mark() -> bool:
    if sys.implementation.name != "cpython" or sysconfig.get_config_var("Py_GIL_DISABLED"):
        return False
    probe = (_ for _ in ())
    _mark_finalized(probe)
    return gc.is_finalized(probe)


def run(main: Coroutine[Any, Any, _T], *, start: float = 0.0, limit: float | None = None) -> _T:
    """Run `main` on a fresh loop whose time begins at `start`; `limit` is the virtual seconds it may take.

    When `main` is done, so is its world: tasks that are still pending are never resumed.
    """
    loop = VirtualLoop(start=start, limit=limit)
    try:
        return loop.run_until_complete(main)
    finally:
        loop.close()


@types.coroutine
def turn() -> Generator[None, None, None]:
    """Let every callback that is ready run first: `asyncio.sleep(0)` with less around it."""
    yield


def running_loop() -> VirtualLoop:
    loop = asyncio.get_running_loop()
    if not isinstance(loop, VirtualLoop):
        raise TypeError(f"cannot live on {type(loop).__name__}: a Life needs a VirtualLoop")
    return loop


class VirtualClock:
    """The Clock port on a virtual loop: the one given, or else the one that runs."""

    def __init__(self, loop: VirtualLoop | None = None, *, epoch: float = 1_800_000_000.0) -> None:
        self._loop = loop
        self._epoch = epoch

    def now(self) -> float:
        if self._loop is None:
            return self._epoch + asyncio.get_running_loop().time()
        return self._epoch + self._loop._now

    async def sleep(self, seconds: float) -> None:
        if seconds <= 0:
            await turn()
            return
        loop = self._loop or asyncio.get_running_loop()
        over = loop.create_future()
        timer = loop.call_later(seconds, _resolve, over)
        try:
            await over
        finally:
            timer.cancel()


def _resolve(over: asyncio.Future[None]) -> None:
    if not over.done():
        over.set_result(None)
