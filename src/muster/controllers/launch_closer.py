"""Close open launches of operations that have ended.

Calls no provider to make machines. Until the visibility window has passed, machines of the launch may still
appear: each is adopted as terminating. Then the launch is abandoned and its room is free. A machine that
joins for it later is told to power off.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from dataclasses import replace

from muster.domain import launch as launches
from muster.domain.errors import Conflict, ProviderError
from muster.domain.ids import LaunchId
from muster.domain.launch import Launch, LaunchState
from muster.domain.reasons import Reason
from muster.operations.concurrency import UNREACHABLE, each_provider, run_bounded
from muster.operations.launcher import condemned
from muster.ports.bundle import Ports
from muster.ports.provider import Machine, NodeProvider

logger = logging.getLogger(__name__)

BATCH = 100
WITHIN = 40.0
"""Seconds for all launches at one provider."""


class LaunchCloser:
    def __init__(self, ports: Ports) -> None:
        self._ports = ports
        self._store = ports.store
        self._looked: dict[LaunchId, float] = {}
        """When each one's machines were last looked for. Only a shortcut: it decides who comes first."""

    async def reconcile(self) -> None:
        to_close: dict[str, list[Launch]] = {}
        async for launch in self._launches_to_close():
            if launch.state is LaunchState.PLANNED or launch.provider not in self._ports.providers:
                with suppress(Conflict):
                    await self._close_unused(launch)
            else:
                to_close.setdefault(launch.provider, []).append(launch)
        known = [launch.id for some in to_close.values() for launch in some]
        self._looked = {each: self._looked[each] for each in known if each in self._looked}

        async def look(provider: NodeProvider) -> None:
            async def one(launch: Launch) -> None:
                self._looked[launch.id] = self._ports.clock.now()
                with suppress(Conflict, ProviderError, TimeoutError):
                    await self._settle(provider, launch)

            # The longest wait first: one whose look hangs doesn't delay the others for ever.
            waiting = sorted(to_close[provider.name], key=lambda each: self._looked.get(each.id, 0.0))
            await run_bounded(waiting, one, self._ports.clock, at_once=1, starting=WITHIN)

        providers = [self._ports.providers[name] for name in to_close]
        await each_provider(providers, look, self._ports.clock, within=WITHIN)

    async def _launches_to_close(self) -> AsyncIterator[Launch]:
        last: Launch | None = None
        while True:
            batch = await self._store.launches_to_close(limit=BATCH, after=last)
            for launch in batch:
                yield launch
            if len(batch) < BATCH:
                return
            last = batch[-1]

    async def _settle(self, provider: NodeProvider, launch: Launch) -> None:
        now = self._ports.clock.now()
        reason = await self._reason(launch)
        surprises = launches.may_surprise(
            launch,
            now=now,
            call_timeout=provider.call_timeout,
            visibility_window=provider.visibility_window,
        )
        async with asyncio.timeout(provider.call_timeout):
            machines = await provider.find(launch.token)
        launch = await self._adopt(launch, machines, now, reason)
        if launch.adopted >= launch.count or not surprises:
            await self._abandon(launch, now, reason)

    async def _close_unused(self, launch: Launch) -> None:
        """Close a launch that made no machines, or whose provider can't be asked."""
        now = self._ports.clock.now()
        if launch.state is LaunchState.PLANNED:
            await self._abandon(launch, now, await self._reason(launch))
        else:
            await self._give_up(launch, now)

    async def _give_up(self, launch: Launch, now: float) -> None:
        """Close a launch whose provider is no longer configured. Its room is free again."""
        if launch.called_at is not None and now < launch.called_at + UNREACHABLE:
            return
        logger.warning("the provider is no longer configured", extra={"provider": launch.provider})
        message = f"provider {launch.provider} is not configured: check it for machines tagged {launch.token}"
        gone = launches.abandoned(launch, now=now, reason=Reason.PROVIDER_REFUSED, message=message)
        await self._store.write_launch(launch, gone, fence=None)

    async def _adopt(self, launch: Launch, machines: Sequence[Machine], now: float, reason: Reason) -> Launch:
        known = await self._store.recorded(launch.provider, [machine.id for machine in machines])
        found = [
            condemned(self._ports.ids.new("node"), launch, machine, now=now, reason=reason)
            for machine in machines
            if machine.id not in known
        ]
        if not found:
            return launch
        after = replace(launch, version=launch.version + 1, adopted=launch.adopted + len(found))
        return await self._store.settle(launch, after, found, fence=None, now=now)

    async def _abandon(self, launch: Launch, now: float, reason: Reason) -> None:
        gone = launches.abandoned(launch, now=now, reason=reason, message="its operation has ended")
        await self._store.write_launch(launch, gone, fence=None)

    async def _reason(self, launch: Launch) -> Reason:
        operation = await self._store.operation(launch.operation_id)
        return operation.verdict.reason if operation.verdict is not None else Reason.CANCELLED
