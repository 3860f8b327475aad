"""Run independent pieces of work at once, so that the store can write them in one commit."""

import asyncio
from collections.abc import Coroutine, Iterable
from typing import Any, TypeVar

T = TypeVar("T")


async def concurrently(works: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """All of them, in the order given. The first error is raised once none of them runs any more.

    Unlike `asyncio.gather`, nothing is left behind when one fails or the caller is cancelled; whether the
    others were written is for the next look to find out.
    """
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(work) for work in works]
    except BaseExceptionGroup as errors:
        raise errors.exceptions[0] from None
    return [task.result() for task in tasks]
