"""Report early that a boot can't succeed, from the provider's state and the machine's console.

Fails a node only by a guarded write: same version, still created, not booted. A call that hangs delays only
the machines of its own provider. Knows no time limits: `deadlines` judges how long a boot may take.
"""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import groupby

from muster.domain import deadlines
from muster.domain.deadlines import Watch
from muster.domain.diagnosis import ending
from muster.domain.diagnosis_rules import fatal_sign, reason_of
from muster.domain.errors import Conflict, ProviderError
from muster.domain.ids import NodeId
from muster.domain.lifecycle import NodeState
from muster.domain.node import Node
from muster.domain.reasons import Reason
from muster.domain.redaction import redact
from muster.domain.settings import Settings
from muster.operations.concurrency import run_bounded
from muster.operations.watch import WatchTracker
from muster.ports.bundle import Ports
from muster.ports.paging import pages
from muster.ports.provider import Machine, MachineState, NodeProvider
from muster.ports.store import Cursor, operation_of

logger = logging.getLogger(__name__)

BATCH = 500
DESCRIBED = 100
AT_ONCE = 16
STARTING = 10.0
PATIENCE = 15.0
"""Seconds for one call; a look isn't worth more."""
AGAIN = 30.0
"""Seconds between two looks at one console: clouds renew it every minute or so, and count the calls."""
FIRST = 20.0
"""Seconds after which a machine whose agent is silent is worth a look."""
LINES = 400
_ENDED = (MachineState.GONE, MachineState.STOPPING)


class BootWatch:
    def __init__(
        self, ports: Ports, settings: Settings, watch_tracker: WatchTracker, hosts: Sequence[str] = ()
    ) -> None:
        """Compose the duty. `hosts` are the names by which machines reach this control plane."""
        self._ports = ports
        self._store = ports.store
        self._limits = settings.limits
        self._watch_tracker = watch_tracker
        self._hosts = tuple(hosts)
        self._looked: dict[NodeId, float] = {}
        """When a console was last read, if it was a moment ago."""
        self._cursor: Cursor | None = None

    async def reconcile(self) -> None:
        """Look at one page of booting nodes after the other. The next tick continues where this one stops."""
        began = self._ports.clock.now()
        self._looked = {node_id: at for node_id, at in self._looked.items() if began < at + AGAIN}
        async for page in pages(
            lambda after: self._store.nodes(
                states=(NodeState.CREATED,), template=None, after=after, limit=BATCH
            ),
            after=self._cursor,
        ):
            self._cursor = page.next
            await self._look([node for node in page.items if not node.up])
            if self._ports.clock.now() >= began + STARTING:
                return

    async def _look(self, booting: Sequence[Node]) -> None:
        watch = await self._watch_tracker.look()
        seen = await self._store.last_seen([node.id for node in booting])
        now = self._ports.clock.now()
        stale_after = watch.limits(self._limits, now=now).stale_after
        alive = frozenset(node_id for node_id, at in seen.items() if now - at <= stale_after)
        silent: list[Node] = []

        async def look(batch: _Batch) -> None:
            there = await self._describe(batch, alive, watch)
            silent.extend(node for node in there if node.id not in alive)

        batches = _batches(booting, self._ports.providers)
        await run_bounded(batches, look, self._ports.clock, at_once=AT_ONCE, starting=STARTING)
        await self._read_consoles(silent, watch)

    # --- the provider's word ----------------------------------------------------------------------

    async def _describe(self, batch: "_Batch", alive: frozenset[NodeId], watch: Watch) -> Sequence[Node]:
        """Fail the nodes whose machine is gone and return the others. A node that can't be described is not
        judged."""
        try:
            async with asyncio.timeout(min(PATIENCE, batch.provider.call_timeout)):
                known = await batch.provider.describe([node.machine_id for node in batch.nodes])
        except (ProviderError, TimeoutError) as error:
            logger.info("cannot look now", extra={"provider": batch.provider.name, "error": repr(error)})
            return batch.nodes
        there: list[Node] = []
        for node in batch.nodes:
            machine = known.get(node.machine_id)
            how = self._gone(batch.provider, node, machine, alive=node.id in alive, watch=watch)
            if how:
                detail = f"{node.provider}: machine {node.machine_id} {how}"
                await self._fail(node, Reason.MACHINE_GONE if machine is None else machine.reason, detail)
            else:
                there.append(node)
        return there

    def _gone(
        self, provider: NodeProvider, node: Node, machine: Machine | None, *, alive: bool, watch: Watch
    ) -> str:
        """Return in which way the machine is gone; empty if it is there, or may be."""
        if machine is not None:
            why = f": {machine.why}" if machine.why else ""
            return f"is {machine.state}{why}" if machine.state in _ENDED else ""
        now = self._ports.clock.now()
        settled = now >= node.created_at + provider.visibility_window
        # A beat may be on its way to a server that was just away.
        watched = now - watch.since > watch.limits(self._limits, now=now).stale_after
        return "is gone" if settled and watched and not alive else ""

    # --- the machine's own words ------------------------------------------------------------------

    async def _read_consoles(self, silent: Sequence[Node], watch: Watch) -> None:
        now = self._ports.clock.now()
        due = [
            node
            for node in silent
            if now >= node.created_at + FIRST and now >= self._looked.get(node.id, -AGAIN) + AGAIN
        ]
        due.sort(key=lambda node: self._looked.get(node.id, 0.0))

        async def read_console(node: Node) -> None:
            await self._read_console(node, watch)

        await run_bounded(due, read_console, self._ports.clock, at_once=AT_ONCE, starting=STARTING)

    async def _read_console(self, node: Node, watch: Watch) -> None:
        provider = self._ports.providers[node.provider]
        self._looked[node.id] = self._ports.clock.now()
        try:
            async with asyncio.timeout(min(PATIENCE, provider.call_timeout)):
                console = await provider.console(node.machine_id, lines=LINES)
        except (ProviderError, TimeoutError) as error:
            logger.info("cannot read a console now", extra={"node_id": node.id, "error": repr(error)})
            return
        if not console:
            return
        sign = fatal_sign(
            # Before anything else: what is said here ends up in an event.
            redact(ending(console, lines=LINES)),
            joined=node.joined_at is not None,
            watched=self._ports.clock.now() - max(watch.since, node.created_at),
            control_plane=self._hosts,
        )
        if sign is not None:
            line = f": {sign.evidence.text}" if sign.evidence is not None else ""
            await self._fail(node, reason_of(sign), f"{sign.summary.rstrip('.')}{line}")

    async def _fail(self, node: Node, reason: Reason, detail: str) -> None:
        template = await self._store.template(node.template, node.revision)
        change = deadlines.failed(
            node,
            reason=reason,
            template=template.spec,
            operation=await operation_of(self._store, node),
            now=self._ports.clock.now(),
            detail=detail,
        )
        with suppress(Conflict):  # it moved on: it booted, or another replica judged it
            await self._store.apply(change)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Batch:
    provider: NodeProvider
    nodes: Sequence[Node]


def _batches(booting: Sequence[Node], providers: Mapping[str, NodeProvider]) -> list[_Batch]:
    """Group the nodes by provider, in batches of one call each. Leaves out nodes without a provider."""
    ordered = sorted(booting, key=lambda node: node.provider)
    grouped = [(name, list(some)) for name, some in groupby(ordered, key=lambda node: node.provider)]
    return [
        _Batch(provider=providers[name], nodes=some[start : start + DESCRIBED])
        for name, some in grouped
        if name in providers
        for start in range(0, len(some), DESCRIBED)
    ]
