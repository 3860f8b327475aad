"""Terminate machines of this installation that have no record.

A machine must be seen in two passes, have no live record and no open launch. Its launch must be past the
visibility window. If implausibly many machines have no record, the records are probably wrong. Then the duty
terminates none of them. It writes one event, and each tick reports a problem of the duty.
"""

import logging
from dataclasses import dataclass

from muster.domain import launch as launches
from muster.domain.errors import Implausible
from muster.domain.ids import NodeId
from muster.domain.launch import Launch
from muster.domain.lifecycle import NodeState
from muster.domain.node import Node
from muster.domain.reasons import Reason
from muster.domain.settings import Settings
from muster.operations.concurrency import each_provider
from muster.operations.launcher import condemned
from muster.ports.bundle import Ports
from muster.ports.provider import Machine, MachineState, NodeProvider

logger = logging.getLogger(__name__)

BATCH = 500
WITHIN = 120.0
"""Seconds for all of a provider's machines."""
PASSES = 2
UNKNOWN_TEMPLATE = "(unknown)"
"""No template can have this name."""


@dataclass(slots=True, kw_only=True)
class Sighting:
    first_at: float
    passes: int = 0


class Orphans:
    def __init__(self, ports: Ports, settings: Settings) -> None:
        self._ports = ports
        self._store = ports.store
        self._settings = settings
        self._sightings: dict[str, Sighting] = {}
        self._braked: dict[str, str] = {}
        """Providers whose orphans are left alone at present, and why; an event says it when it begins."""

    async def reconcile(self) -> None:
        installation = await self._store.installation()

        async def look(provider: NodeProvider) -> None:
            machines = [
                machine
                async for machine in provider.list()
                if machine.installation_id == installation.id and machine.state is not MachineState.GONE
            ]
            await self._judge(provider, machines)

        providers = list(self._ports.providers.values())
        await each_provider(providers, look, self._ports.clock, within=WITHIN)
        if self._braked:
            raise Implausible("; ".join(self._braked.values()))

    async def _judge(self, provider: NodeProvider, machines: list[Machine]) -> None:
        strange = await self._unrecorded(provider, machines)
        self._remember(provider, strange)
        orphans = [machine for machine in strange if await self._is_orphan(provider, machine)]
        traced = {machine.id: await self._store.launch_by_token(machine.token) for machine in orphans}
        # A machine of a launch that we closed is ours beyond doubt, however many there are.
        doubtful = [machine for machine in orphans if traced[machine.id] is None]
        known = len(machines) - len(strange)
        allowed = max(self._settings.orphans_floor, int(known * self._settings.orphans_share))
        braked = len(doubtful) > allowed
        if braked:
            await self._brake(provider, len(doubtful), allowed)
        else:
            self._braked.pop(provider.name, None)
        for machine in orphans:
            if traced[machine.id] is not None or not braked:
                await self._adopt(provider, machine, traced[machine.id])

    async def _unrecorded(self, provider: NodeProvider, machines: list[Machine]) -> list[Machine]:
        """Return the machines without a live record."""
        strange: list[Machine] = []
        for start in range(0, len(machines), BATCH):
            batch = machines[start : start + BATCH]
            ids = await self._store.recorded(provider.name, [machine.id for machine in batch])
            known = dict.fromkeys(ids)
            strange += [machine for machine in batch if machine.id not in known]
        return strange

    def _remember(self, provider: NodeProvider, strange: list[Machine]) -> None:
        now = self._ports.clock.now()
        prefix = f"{provider.name}/"
        met = {
            prefix + machine.id: self._sightings.get(prefix + machine.id, Sighting(first_at=now))
            for machine in strange
        }
        for sighting in met.values():
            sighting.passes += 1
        others = {key: value for key, value in self._sightings.items() if not key.startswith(prefix)}
        self._sightings = {**others, **met}

    async def _is_orphan(self, provider: NodeProvider, machine: Machine) -> bool:
        sighting = self._sightings[f"{provider.name}/{machine.id}"]
        if sighting.passes < PASSES:
            return False
        now = self._ports.clock.now()
        launch = await self._store.launch_by_token(machine.token)
        if launch is None:
            return now >= sighting.first_at + provider.visibility_window
        return not launch.open and not launches.may_surprise(
            launch,
            now=now,
            call_timeout=provider.call_timeout,
            visibility_window=provider.visibility_window,
        )

    async def _adopt(self, provider: NodeProvider, machine: Machine, launch: Launch | None) -> None:
        now = self._ports.clock.now()
        node_id = self._ports.ids.new("node")
        if launch is not None:
            node = condemned(node_id, launch, machine, now=now, reason=Reason.ORPHAN)
        else:
            node = Node(
                id=NodeId(node_id),
                template=UNKNOWN_TEMPLATE,
                revision=0,
                provider=provider.name,
                resource_class="",
                usage_class=machine.usage_class,
                instance_type=machine.instance_type,
                machine_id=machine.id,
                launch_id=None,
                state=NodeState.TERMINATING,
                created_at=now,
                entered_at=now,
                reason=Reason.ORPHAN,
            )
        await self._store.adopt_stray(node, now=now)

    async def _brake(self, provider: NodeProvider, found: int, allowed: int) -> None:
        name, begun = provider.name, provider.name not in self._braked
        detail = (
            f"{found} machines at {name} have no record, more than the {allowed} that are plausible;"
            " none was touched: check that this server uses the right store"
        )
        self._braked[name] = detail
        if begun:
            logger.error("orphans brake", extra={"provider": name, "reason": detail})
            await self._store.note(
                name, "orphans_brake", reason=Reason.ORPHAN, detail=detail, now=self._ports.clock.now()
            )
