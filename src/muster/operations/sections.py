"""Read a node's evidence one section at a time, redacted before it is stored or shown.

Fails closed: a section whose redaction fails is withheld. A read that hangs costs only its own section.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from muster.domain.diagnosis import Section, Source, ending
from muster.domain.errors import MusterError
from muster.domain.node import Node
from muster.domain.redaction import redact
from muster.ports.bundle import Ports

logger = logging.getLogger(__name__)

PATIENCE = 15.0
"""Seconds for one section."""
LINES = 200
Redactor = Callable[[str], str]
_NOTHING = {
    Source.PHASES: "the boot recorded no phases",
    Source.AGENT: "the agent reported no end of its boot script, and the console has none of its log",
    Source.CONSOLE: "the provider has no console of this machine, or not yet",
    Source.PROVIDER: "the provider is no longer configured",
}


async def heard(asked: Awaitable[str | None]) -> str | Exception | None:
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


def section(name: Source, found: str | Exception | None, redactor: Redactor) -> Section:
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
    """The last lines of a machine's console, as they are: for `section` to redact."""
    provider = ports.providers.get(node.provider)
    return None if provider is None else await provider.console(node.machine_id, lines=LINES)


async def console_section(ports: Ports, node: Node, redactor: Redactor = redact) -> Section:
    return section(Source.CONSOLE, await heard(console(ports, node)), redactor)
