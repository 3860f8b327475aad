"""Many pieces of the same work at once, but not too many, and none begun too late.

What isn't begun is simply left: a duty comes back to it. An error that tells the caller what to do (the store
is away) ends all of it; a bug costs only the item that met it.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from muster.domain.errors import MusterError
from muster.ports.clock import Clock

logger = logging.getLogger(__name__)

T = TypeVar("T")


async def work_off(
    items: Sequence[T],
    work: Callable[[T], Awaitable[None]],
    clock: Clock,
    *,
    at_once: int,
    starting: float,
) -> None:
    """`starting`: seconds after which nothing more is begun. What was begun is waited for."""
    latest = clock.now() + starting
    left = iter(items)

    async def hand() -> None:
        for item in left:
            try:
                await work(item)
            except MusterError:
                raise
            except Exception:
                # A bug that one item meets must not keep the others waiting for ever.
                logger.exception("cannot do this work", extra={"item": repr(item)[:200]})
            if clock.now() >= latest:
                return

    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(min(at_once, len(items))):
                group.create_task(hand())
    except ExceptionGroup as errors:
        raise errors.exceptions[0] from None
