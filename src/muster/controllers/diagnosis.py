"""Diagnosis: collects, once, what is known of a node that failed, and then lets it go.

Concurrent and bounded: whatever hangs costs its own section, not another node's bundle. Nothing is kept that
was not redacted: a section whose redaction fails is withheld, and without a redactor there is no bundle.
A node that can't be rescued is condemned as soon as its bundle is filed; the sweep ends those that could have
been and weren't.
"""

import asyncio

from muster.controllers.working import work_off
from muster.domain import node as nodes
from muster.domain.deadlines import COLLECTING, rescuable
from muster.domain.diagnosing import classify
from muster.domain.diagnosis import Bundle, Source
from muster.domain.errors import Conflict
from muster.domain.node import Node
from muster.domain.reasons import Reason
from muster.domain.redaction import redact
from muster.operations.failures import last_words, phases
from muster.operations.sections import Redactor, console, heard, section
from muster.ports.bundle import Ports

BATCH = 256
AT_ONCE = 16
STARTING = 10.0
"""Seconds of a tick in which collections are started; with COLLECTING still inside the duty's lease."""


class Collector:
    def __init__(self, ports: Ports, redactor: Redactor | None = redact) -> None:
        self._ports = ports
        self._store = ports.store
        self._redactor = redactor

    async def reconcile(self) -> None:
        failed = await self._store.undiagnosed(limit=BATCH)
        await work_off(failed, self._finish, self._ports.clock, at_once=AT_ONCE, starting=STARTING)

    async def _finish(self, node: Node) -> None:
        if self._redactor is not None:
            bundle = await self._collected(node, self._redactor)
            await self._store.file_bundle(bundle, cause=classify(bundle).cause)
        template = await self._store.template(node.template, node.revision)
        if rescuable(node, template.spec):
            return
        try:
            change = nodes.condemn(
                node, now=self._ports.clock.now(), reason=node.reason or Reason.INTERNAL, detail=node.detail
            )
            await self._store.apply(change)
        except Conflict:
            return

    async def _collected(self, node: Node, redactor: Redactor) -> Bundle:
        """Whatever could be had in time."""
        reading = {
            Source.PHASES: self._phases,
            Source.AGENT: self._agent,
            Source.CONSOLE: self._console,
            Source.PROVIDER: self._provider,
        }
        tasks = {name: asyncio.ensure_future(heard(read(node))) for name, read in reading.items()}
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

    async def _phases(self, node: Node) -> str | None:
        return await phases(self._store, node)

    async def _agent(self, node: Node) -> str | None:
        return await last_words(self._store, node)

    async def _console(self, node: Node) -> str | None:
        return await console(self._ports, node)

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
