"""The auditor: recounts what the caps count. A difference is a bug, and is said aloud as one."""

import logging

from muster.domain.reasons import Reason
from muster.ports.bundle import Ports

logger = logging.getLogger(__name__)


class Auditor:
    def __init__(self, ports: Ports) -> None:
        self._ports = ports

    async def reconcile(self) -> None:
        now = self._ports.clock.now()
        for drift in await self._ports.store.audit(now=now):
            detail = f"{drift.scope} counted {drift.counted}, stored {drift.stored}; set right"
            logger.error("counter drift", extra={"reason": detail})
            await self._ports.store.note(
                drift.scope, "counter_drift", reason=Reason.INTERNAL, detail=detail, now=now
            )
