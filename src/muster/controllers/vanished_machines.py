"""Condemn nodes whose machine has ended without a request from Muster.

A machine that the provider calls gone or stopping is believed at once. A machine that is merely not listed
must be missing twice, after the visibility window, and without a heartbeat.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress

from muster.domain import node as nodes
from muster.domain.errors import Conflict, ProviderError, StoreUnavailable
from muster.domain.ids import NodeId
from muster.domain.lifecycle import LIVE, NodeState
from muster.domain.node import Node
from muster.domain.reasons import Reason
from muster.operations.concurrency import each_provider
from muster.operations.watch import WatchTracker
from muster.ports.bundle import Ports
from muster.ports.paging import node_pages
from muster.ports.provider import EndingsSource, Machine, MachineState, NodeProvider
from muster.ports.wakeups import ENDED

WITHIN = 120.0
"""Seconds for all of a provider's machines."""
STRIKES = 2
_OVER = (MachineState.STOPPING, MachineState.GONE)
logger = logging.getLogger(__name__)

PAUSE = 1.0
"""Seconds after a failure, and between attempts at a machine whose record isn't written yet."""
ATTEMPTS = 30
"""More than a launch takes to be settled. After that, the duty `vanished` finds the machine."""


class VanishedMachines:
    def __init__(self, ports: Ports, watch_tracker: WatchTracker) -> None:
        self._ports = ports
        self._store = ports.store
        self._watch_tracker = watch_tracker
        self._strikes: dict[str, dict[NodeId, int]] = {}
        """By provider: how often each of its nodes was missed in a row."""

    async def reconcile(self) -> None:
        providers = list(self._ports.providers.values())
        await each_provider(providers, self._look, self._ports.clock, within=WITHIN)

    async def _look(self, provider: NodeProvider) -> None:
        """Compare one provider's list with the records. If the list fails, its strikes begin anew."""
        before, strikes = self._strikes.pop(provider.name, {}), dict[NodeId, int]()
        as_of = self._ports.clock.now()
        listed = {machine.id: machine async for machine in provider.list()}
        async for nodes_there in self._live(provider):
            missing = [node for node in nodes_there if node.machine_id not in listed]
            said = {**listed, **await self._known(provider, missing)}
            ended = [node for node in nodes_there if _has_ended(node, said.get(node.machine_id))]
            silent = await self._silent(provider, [node for node in missing if node not in ended], as_of)
            strikes |= {node.id: before.get(node.id, 0) + 1 for node in silent}
            for node in [*ended, *(node for node in silent if strikes[node.id] >= STRIKES)]:
                await self._condemn(node, said.get(node.machine_id))
        self._strikes[provider.name] = strikes

    async def _live(self, provider: NodeProvider) -> AsyncIterator[list[Node]]:
        async for page in node_pages(self._store, states=LIVE):
            yield [node for node in page.items if node.provider == provider.name]

    async def _silent(self, provider: NodeProvider, missing: list[Node], as_of: float) -> list[Node]:
        """Return missing nodes without a fresh heartbeat that were old enough to be listed."""
        if not missing:
            return []
        stale_after = (await self._watch_tracker.limits()).stale_after
        now = self._ports.clock.now()
        seen = await self._store.last_seen([node.id for node in missing])
        return [
            node
            for node in missing
            if as_of >= node.created_at + provider.visibility_window
            and now - seen.get(node.id, 0.0) > stale_after
        ]

    async def _known(self, provider: NodeProvider, missing: list[Node]) -> Mapping[str, Machine]:
        """Describe machines that are no longer listed; empty if the provider can't say."""
        if not missing:
            return {}
        try:
            async with asyncio.timeout(provider.call_timeout):
                return await provider.describe([node.machine_id for node in missing])
        except (ProviderError, TimeoutError):
            return {}

    async def _condemn(self, node: Node, machine: Machine | None) -> None:
        why = f": {machine.why}" if machine is not None and machine.why else ""
        change = nodes.condemn(
            node,
            now=self._ports.clock.now(),
            reason=Reason.MACHINE_GONE if machine is None else machine.reason,
            detail=(
                f"{node.provider} no longer lists machine {node.machine_id}{why}"
                if machine is None
                else f"machine {node.machine_id} of {node.provider} has ended{why}"
            ),
        )
        with suppress(Conflict):
            await self._store.apply(change)


def _has_ended(node: Node, machine: Machine | None) -> bool:
    """Return whether the provider says that the machine has ended. The boot watch judges booting nodes."""
    booting = node.state is NodeState.CREATED and node.booted_at is None
    return not booting and machine is not None and machine.state in _OVER


class EndingsListener:
    """Condemn nodes whose machine has ended, from providers that report it at once.

    Each replica listens to its own providers, so this is not a leased duty. A booting node is left to the
    boot watch, which reports the cause; a terminating one to the reaper. Both are woken.
    """

    def __init__(self, ports: Ports) -> None:
        self._ports = ports
        self._store = ports.store

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            for source in self._ports.endings:
                group.create_task(self._listen(source))

    async def _listen(self, source: EndingsSource) -> None:
        async with asyncio.TaskGroup() as group:
            while True:
                try:
                    for machine in await source.ended():
                        group.create_task(self._act(source.name, machine))
                except ProviderError as error:
                    logger.info("cannot listen now", extra={"provider": source.name, "error": repr(error)})
                    await self._ports.clock.sleep(PAUSE)

    async def _act(self, provider: str, machine: Machine) -> None:
        for _ in range(ATTEMPTS):
            try:
                node = await self._store.node_by_machine(provider, machine.id)
                if node is not None and await self._done(node, machine):
                    self._ports.wakeups.notify(ENDED)
                    return
            except StoreUnavailable as error:
                logger.info("cannot act on an ending now", extra={"provider": provider, "error": repr(error)})
            await self._ports.clock.sleep(PAUSE)

    async def _done(self, node: Node, machine: Machine) -> bool:
        if node.state not in LIVE or (node.state is NodeState.CREATED and node.booted_at is None):
            return True
        why = f": {machine.why}" if machine.why else ""
        change = nodes.condemn(
            node,
            now=self._ports.clock.now(),
            reason=machine.reason,
            detail=f"machine {machine.id} of {node.provider} has ended{why}",
        )
        try:
            await self._store.apply(change)
        except Conflict:
            return False
        return True
