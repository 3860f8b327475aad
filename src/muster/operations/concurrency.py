"""Run pieces of work at once: all of them, a bounded number, or one per provider."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from typing import Any, TypeVar

from muster.domain.errors import MusterError, ProviderError
from muster.ports.clock import Clock
from muster.ports.provider import NodeProvider

logger = logging.getLogger(__name__)

T = TypeVar("T")
UNREACHABLE = 3600.0
"""Seconds after which what is left at a provider that isn't configured any more is given up."""


async def concurrently(works: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """Run all works at once and return their results in order.

    Raises the first error once none of them runs any more. Unlike `asyncio.gather`, no work continues after
    an error or a cancel. The caller must read again what the others wrote.
    """
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(work) for work in works]
    except BaseExceptionGroup as errors:
        raise errors.exceptions[0] from None
    return [task.result() for task in tasks]


async def run_bounded(
    items: Sequence[T],
    work: Callable[[T], Awaitable[None]],
    clock: Clock,
    *,
    at_once: int,
    starting: float,
) -> None:
    """Work on items, `at_once` at a time. Start nothing after `starting` seconds; wait for what was started.

    A MusterError ends the batch. Another error is a bug and affects only its own item.
    """
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


async def each_provider(
    providers: Sequence[NodeProvider],
    look: Callable[[NodeProvider], Awaitable[None]],
    clock: Clock,
    *,
    within: float,
) -> None:
    """Call `look` for every provider at once, each for at most `within` seconds.

    A provider that hangs or fails delays only its own machines. The next tick continues.
    """

    async def one(provider: NodeProvider) -> None:
        try:
            async with asyncio.timeout(within):
                await look(provider)
        except (ProviderError, TimeoutError) as error:
            logger.info("cannot look now", extra={"provider": provider.name, "error": repr(error)})

    await run_bounded(providers, one, clock, at_once=len(providers), starting=within)
