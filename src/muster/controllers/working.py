"""Work on many items at once, with a limit on their number and on the start time.

Items that are not started are left for the next tick. An error that concerns all (the store is away) ends
the batch; a bug affects only its own item.
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
