"""Let a synchronous function wait on the event loop without blocking it.

`bridged` runs the function in a greenlet. Where the function has to wait, it calls `wait_for`. Then the
greenlet stands still, and the coroutine awaits in its place. A thread would do the same, but each wait would
cost a switch of threads and a fight for the interpreter. Outside of `bridged` the same code blocks.
"""

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar, cast

from greenlet import getcurrent, greenlet

T = TypeVar("T")
_THREADS = ThreadPoolExecutor(64, "muster-store-blocking")
"""Not the loop's own few: all connections are made anew at once when the database was away, and each try may
take seconds."""


class _Bridge(greenlet):  # type: ignore[misc]  # greenlet has no types
    """Marks a greenlet whose parent awaits what it is handed."""


async def bridged(function: Callable[..., T], *args: object) -> T:
    """Run a function that may call `wait_for`; return what it returns."""
    bridge = _Bridge(function)
    handed: Any = bridge.switch(*args)
    while not bridge.dead:
        try:
            value = await handed
        except BaseException:  # it belongs to the function, which may be able to handle it
            handed = bridge.throw(*sys.exc_info())
        else:
            handed = bridge.switch(value)
    return cast("T", handed)


def is_bridged() -> bool:
    return isinstance(getcurrent(), _Bridge)


def wait_for(awaitable: Awaitable[T]) -> T:
    """Wait for an awaitable. Only inside of `bridged`."""
    current = getcurrent()
    assert current.parent is not None  # noqa: S101 — `is_bridged` was asked
    return cast("T", current.parent.switch(awaitable))


def in_thread(function: Callable[[], T]) -> T:
    """Call a function that blocks."""
    if not is_bridged():
        return function()
    running = _THREADS.submit(function)
    try:
        return wait_for(asyncio.wrap_future(running))
    except BaseException:
        running.add_done_callback(_close)
        raise


def _close(done: Future[Any]) -> None:
    """Close what a thread made for a caller that no longer waits for it, such as a connection."""
    made: Any = None if done.cancelled() or done.exception() is not None else done.result()
    if hasattr(made, "close"):
        made.close()


def pause(seconds: float) -> None:
    if is_bridged():
        wait_for(asyncio.sleep(seconds))
    else:
        time.sleep(seconds)
