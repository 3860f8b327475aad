"""Collect once what is known of a failed node, then let the node be terminated.

Works on several nodes at once, with a time limit for each section. Stores only redacted text: a section
whose redaction fails is withheld, and without a redactor there is no bundle. Condemns a node that can't be
rescued as soon as its bundle is stored; `deadlines` condemns the others.
"""

import asyncio
from contextlib import suppress

from muster.domain import node as nodes
from muster.domain.deadlines import COLLECTING, RESCUABLE, rescuable
from muster.domain.diagnosis import Bundle, Source, said_by_agent
from muster.domain.diagnosis_rules import classify
from muster.domain.errors import Conflict
from muster.domain.node import Node
from muster.domain.reasons import Reason
from muster.domain.redaction import redact
from muster.operations.concurrency import run_bounded
from muster.operations.evidence import Redactor, console, phases, read_section, script_end, section
from muster.ports.bundle import Ports

BATCH = 256
AT_ONCE = 16
STARTING = 10.0
"""Seconds of a tick in which collections are started; with COLLECTING still inside the duty's lease."""


class EvidenceCollector:
    def __init__(self, ports: Ports, redactor: Redactor | None = redact) -> None:
        self._ports = ports
        self._store = ports.store
        self._redactor = redactor

    async def reconcile(self) -> None:
        failed = await self._store.undiagnosed(limit=BATCH)
        await run_bounded(failed, self._finish, self._ports.clock, at_once=AT_ONCE, starting=STARTING)

    async def _finish(self, node: Node) -> None:
        if self._redactor is not None:
            bundle = await self._collected(node, self._redactor)
            await self._store.file_bundle(bundle, cause=classify(bundle).cause)
        template = await self._store.template(node.template, node.revision)
        if rescuable(node, template.spec) or node.held:
            return
        with suppress(Conflict):
            change = nodes.condemn(
                node, now=self._ports.clock.now(), reason=node.reason or Reason.INTERNAL, detail=node.detail
            )
            await self._store.apply(change)

    async def _collected(self, node: Node, redactor: Redactor) -> Bundle:
        """Collect every section that can be read in time."""
        shown = asyncio.ensure_future(console(self._ports, node))
        reading = {
            Source.PHASES: phases(self._store, node),
            Source.AGENT: self._agent(node, shown),
            Source.CONSOLE: shown,
            Source.PROVIDER: self._provider(node),
        }
        tasks = {name: asyncio.ensure_future(read_section(read)) for name, read in reading.items()}
        try:
            await asyncio.wait(tasks.values(), timeout=COLLECTING)
        finally:
            for task in tasks.values():
                task.cancel()
        sections = tuple(
            section(name, task.result() if task.done() and not task.cancelled() else None, redactor)
            for name, task in tasks.items()
        )
        detail = section(Source.PHASES, node.detail or None, redactor).text
        return Bundle(
            node_id=node.id,
            collected_at=self._ports.clock.now(),
            reason=node.reason,
            detail=detail,
            sections=sections,
        )

    async def _agent(self, node: Node, shown: asyncio.Future[str | None]) -> str | None:
        """Return what the agent reported about its script's end.

        Of a script that didn't end: what the agent logged, if that is on the machine's console.
        """
        said = await script_end(self._store, node)
        if said is None and node.joined_at is not None and node.reason in RESCUABLE:
            logged = await asyncio.shield(shown)
            return None if logged is None else said_by_agent(logged)
        return said

    async def _provider(self, node: Node) -> str | None:
        provider = self._ports.providers.get(node.provider)
        if provider is None:
            return None
        machine = (await provider.describe([node.machine_id])).get(node.machine_id)
        if machine is None:
            return f"machine: {node.machine_id}\nstate: not found"
        return (
            f"machine: {machine.id}\ntype: {machine.instance_type}\nusage: {machine.usage_class}\n"
            f"state: {machine.state}"
        )
