"""Recount the nodes and launches that the caps count. A difference is a bug: it is corrected and reported."""

import logging

from muster.ports.bundle import Ports

logger = logging.getLogger(__name__)


class Auditor:
    def __init__(self, ports: Ports) -> None:
        self._ports = ports

    async def reconcile(self) -> None:
        """The store sets the counter right and appends the event; the log is for the person on call."""
        for drift in await self._ports.store.audit(now=self._ports.clock.now()):
            logger.error(
                "counter drift",
                extra={"scope": drift.scope, "counted": drift.counted, "stored": drift.stored},
            )
