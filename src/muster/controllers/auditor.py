"""Recount the nodes and launches that the caps count. A difference is a bug: it is corrected and reported."""

import logging

from muster.ports.bundle import Ports

logger = logging.getLogger(__name__)


class Auditor:
    def __init__(self, ports: Ports) -> None:
        self._ports = ports

    async def reconcile(self) -> None:
        """Log each difference. The store corrects the counter and appends the event."""
        for drift in await self._ports.store.audit(now=self._ports.clock.now()):
            logger.error(
                "counter drift",
                extra={"scope": drift.scope, "counted": drift.counted, "stored": drift.stored},
            )
