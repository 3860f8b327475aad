"""Deliveries of webhooks as GitHub sends them: each once, in no order, and some never. Others forge some."""

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine
from random import Random
from typing import Any

from muster.domain.errors import MusterError
from muster.plane import ControlPlane
from muster.ports.duties import Delivery, HookAnswer
from muster_simulation.github import Job
from muster_simulation.github.webhooks import event_of, signed
from muster_simulation.invariants.broken import Broken
from muster_simulation.jobs.faults import GitHubFaults
from muster_simulation.life import outside
from muster_simulation.network import Network, Unreachable
from muster_simulation.trace import FaultCounts

PATIENCE = 10.0
"""Seconds that GitHub waits for the answer."""
REPLAYED = 20
UNSIGNED = 401
ANOTHER = "a-secret-of-somebody-else"


class WebhookSender:
    def __init__(
        self,
        network: Network,
        *,
        random: Random,
        counts: FaultCounts,
        faults: GitHubFaults,
        replays: float,
        spawn: Callable[[Coroutine[Any, Any, None]], None],
    ) -> None:
        self.faults = faults
        self._network = network
        self._random = random
        self._counts = counts
        self._replays = replays
        self._spawn = spawn
        self._last: deque[Delivery] = deque(maxlen=REPLAYED)

    def send(self, job: Job, action: str) -> None:
        """Send what is so now. It arrives later."""
        event = event_of(job, action)
        delivery = _delivery(*signed(event))
        self._last.append(delivery)
        if not self._strikes(self.faults.lost_webhooks, "lost"):
            self._later(delivery)
        if self._strikes(self.faults.repeated_webhooks, "repeated"):
            self._later(delivery)
        if self._strikes(self.faults.forged_webhooks, "forged"):
            self._later(_delivery(*signed(event, secret=ANOTHER)), forged=True)
        if self._strikes(self._replays if self.faults.repeated_webhooks else 0.0, "storm"):
            for each in list(self._last):
                self._later(each)

    def _later(self, delivery: Delivery, *, forged: bool = False) -> None:
        delay = self._random.uniform(*self.faults.late)
        loop = asyncio.get_running_loop()
        outside(loop.call_later, delay, lambda: self._spawn(self._deliver(delivery, forged=forged)))

    async def _deliver(self, delivery: Delivery, *, forged: bool) -> None:
        def taken(plane: ControlPlane) -> Coroutine[Any, Any, HookAnswer]:
            return plane.hooks["github"].take(delivery)

        try:
            answer = await self._network.call(taken, timeout=PATIENCE, repeatable=False)
        except (MusterError, Unreachable):
            return  # GitHub sends nothing twice
        if forged and answer.status != UNSIGNED:
            raise Broken("forged_webhooks_are_refused", f"one was answered with {answer.status}")

    def _strikes(self, probability: float, kind: str) -> bool:
        if probability <= 0.0 or self._random.random() >= probability:
            return False
        self._counts.add(f"webhook {kind}")
        return True


def _delivery(headers: dict[str, str], body: bytes) -> Delivery:
    return Delivery(headers=headers, body=body)
