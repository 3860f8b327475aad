"""Diagnosis: collects, once, what is known of a node that failed, and then lets it go.

Concurrent and bounded: whatever hangs costs its own section, not another node's bundle. Nothing is kept that
was not redacted: a section whose redaction fails is withheld, and without a redactor there is no bundle.
A node that failed for anything but time is condemned as soon as its bundle is filed; the others may yet be
rescued, and the sweep ends those that weren't.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from muster.controllers.working import work_off
from muster.domain import node as nodes
from muster.domain.deadlines import COLLECTING, RESCUABLE
from muster.domain.diagnosis import Bundle, Section, Source, ending
from muster.domain.errors import Conflict, MusterError
from muster.domain.node import Node
from muster.domain.reasons import Reason
from muster.domain.redaction import redact
from muster.operations.failures import last_words, phases
from muster.ports.bundle import Ports

logger = logging.getLogger(__name__)

BATCH = 256
AT_ONCE = 16
STARTING = 10.0
"""Seconds of a tick in which collections are started; with COLLECTING still inside the duty's lease."""
PATIENCE = 15.0
"""Seconds for one section."""
LINES = 200
Redactor = Callable[[str], str]


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
            await self._store.file_bundle(await self._collected(node, self._redactor))
        if node.reason in RESCUABLE:
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
        tasks = {name: asyncio.ensure_future(_heard(read(node))) for name, read in reading.items()}
        try:
            await asyncio.wait(tasks.values(), timeout=COLLECTING)
        finally:
            for task in tasks.values():
                task.cancel()
        sections = tuple(
            _section(name, task.result() if task.done() and not task.cancelled() else None, redactor)
            for name, task in tasks.items()
        )
        detail = _section(Source.PHASES, node.detail or None, redactor).text
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
        provider = self._ports.providers.get(node.provider)
        return None if provider is None else await provider.console(node.machine_id, lines=LINES)

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


_NOTHING = {
    Source.PHASES: "the boot left no marks",
    Source.AGENT: "the agent reported no end of its boot script; its log is on the console, if anywhere",
    Source.CONSOLE: "the provider has no console of this machine, or not yet",
    Source.PROVIDER: "the provider is not there any more",
}


async def _heard(asked: Awaitable[str | None]) -> str | Exception | None:
    try:
        async with asyncio.timeout(PATIENCE):
            return await asked
    except TimeoutError:
        return TimeoutError(f"no answer within {PATIENCE:.0f} s")
    except MusterError as error:
        return error
    except Exception as error:
        # A bug in one provider must not cost the rest of the bundle.
        logger.exception("a section could not be collected")
        return error


def _section(name: Source, found: str | Exception | None, redactor: Redactor) -> Section:
    try:
        match found:
            case None | "":
                return Section(name=name, missing=_NOTHING[name])
            case str():
                return Section(name=name, text=redactor(ending(found, lines=LINES)))
            case Exception():
                return Section(
                    name=name, missing=f"cannot be read: {redactor(ending(str(found), lines=LINES))}"
                )
    except Exception:
        # Nobody must see the text, so not the exception either: it may quote it.
        logger.error("a section was withheld: it could not be redacted", extra={"section": str(name)})  # noqa: TRY400
        return Section(name=name, missing="withheld: it could not be redacted")
