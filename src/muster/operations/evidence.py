"""Read what is known of a failed node, one section at a time, redacted before it is stored or shown.

Fails closed: a section whose redaction fails is withheld. A read that hangs costs only its own section.
Before a node's bundle is stored, its boot marks and its agent's report give a first description. Does not
classify: that may take half a second, so callers decide where it runs.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from muster.domain.boot import given_up_at, spans
from muster.domain.diagnosis import Bundle, Section, Source, ending
from muster.domain.errors import MusterError
from muster.domain.lifecycle import ENDING, NodeState, Verb
from muster.domain.node import Node
from muster.domain.operation import Operation
from muster.domain.reasons import Reason
from muster.domain.redaction import redact
from muster.ports.bundle import Ports
from muster.ports.store import Store, if_found

logger = logging.getLogger(__name__)

PATIENCE = 15.0
"""Seconds for one section."""
LINES = 200
EVENTS = 20
"""How many of a failed node's last events are read. Its failure is among them."""
_AFTER_FAILURE = (NodeState.FAILED, *ENDING)
Redactor = Callable[[str], str]
_NOTHING = {
    Source.PHASES: "the boot recorded no phases",
    Source.AGENT: "the agent reported no end of its boot script, and the console has none of its log",
    Source.CONSOLE: "the provider has no console of this machine, or not yet",
    Source.PROVIDER: "the provider is no longer configured",
}


async def read_section(read: Awaitable[str | None]) -> str | Exception | None:
    """Await a read of one section. Return its error instead of raising it, so that the others are read."""
    try:
        async with asyncio.timeout(PATIENCE):
            return await read
    except TimeoutError:
        return TimeoutError(f"no answer within {PATIENCE:.0f} s")
    except MusterError as error:
        return error
    except Exception as error:
        # A bug in one provider must not cost the rest of the bundle.
        logger.exception("a section could not be collected")
        return error


def section(name: Source, found: str | Exception | None, redactor: Redactor) -> Section:
    """Build a section: the redacted end of the text, or why the text is missing."""
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
        # The text must not be shown, so not the exception either: it may quote it.
        logger.error("a section was withheld: it could not be redacted", extra={"section": str(name)})  # noqa: TRY400
        return Section(name=name, missing="withheld: it could not be redacted")


async def console(ports: Ports, node: Node) -> str | None:
    """Return the last lines of a machine's console, not redacted: `section` does that."""
    provider = ports.providers.get(node.provider)
    return None if provider is None else await provider.console(node.machine_id, lines=LINES)


async def console_section(ports: Ports, node: Node, redactor: Redactor = redact) -> Section:
    """Read the console of a node as a section."""
    return section(Source.CONSOLE, await read_section(console(ports, node)), redactor)


async def evidence(store: Store, operation: Operation, *, now: float) -> Bundle | None:
    """Return the bundle of the node that failed the operation.

    None: no node's failure was the reason, or the node's record is deleted.
    """
    if operation.verdict is None or operation.verdict.node_id is None:
        return None
    node = await if_found(store.node(operation.verdict.node_id))
    if node is None:
        return None
    bundle = await store.bundle(node.id)
    if bundle is None and node.state in _AFTER_FAILURE:
        known = {Source.PHASES: await phases(store, node), Source.AGENT: await script_end(store, node)}
        return Bundle(
            node_id=node.id,
            collected_at=now,
            reason=node.reason,
            detail=node.detail,
            sections=tuple(Section(name=name, text=text) for name, text in known.items() if text),
        )
    return bundle


async def phases(store: Store, node: Node) -> str:
    """Return how far the boot came, and how long each part took. The script names the steps: redacted."""
    marks = await store.marks(node.id)
    found = spans(node.created_at, marks, given_up_at(marks) or node.entered_at)
    return "\n".join(f"{redact(span.name)}  {span.seconds:.1f} s" for span in found)


async def script_end(store: Store, node: Node) -> str | None:
    """Return what the agent reported about the end of the boot script. Enrolment redacted it."""
    if node.joined_at is None or node.reason is not Reason.BOOT_SCRIPT_FAILED:
        return None
    page = await store.last_events(limit=EVENTS, entity_id=node.id)
    told = [event.detail for event in page.items if event.name == Verb.FAIL]
    return told[-1] if told else None
