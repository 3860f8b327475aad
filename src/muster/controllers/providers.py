"""Ask all providers in parallel, so that one that hangs or fails delays only its own machines.

Each call runs in its own task with a time limit, so that a tick ends well inside the duty's lease.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence

from muster.controllers.working import work_off
from muster.domain.errors import ProviderError
from muster.ports.clock import Clock
from muster.ports.provider import NodeProvider

logger = logging.getLogger(__name__)

UNREACHABLE = 3600.0
"""Seconds after which what is left at a provider that isn't configured any more is given up."""


async def side_by_side(
    providers: Sequence[NodeProvider],
    look: Callable[[NodeProvider], Awaitable[None]],
    clock: Clock,
    *,
    within: float,
) -> None:
    """`within`: seconds for each of them. What it didn't get to is left to the next tick."""

    async def one(provider: NodeProvider) -> None:
        try:
            async with asyncio.timeout(within):
                await look(provider)
        except (ProviderError, TimeoutError) as error:
            logger.info("cannot look now", extra={"provider": provider.name, "error": repr(error)})

    await work_off(providers, one, clock, at_once=len(providers), starting=within)
