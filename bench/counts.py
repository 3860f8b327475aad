"""What a server counted while something was measured: its own metrics, before and after."""

import asyncio
import re
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from bench.http_client import Wire
from bench.server_process import Server

_COUNTED = re.compile(
    r'^muster_(store_seconds_count|agent_requests_total|agent_pushes_total)(?:\{\w+="(\w+)"\})? (\S+)$', re.M
)
STORE, REQUESTS, PUSHES = "store_seconds_count", "agent_requests_total", "agent_pushes_total"
UPKEEP = ("lease", "renew", "lease_duty", "lease_duties", "record_beats", "watch")
"""Store calls that an idle replica makes too."""


@dataclass(slots=True)
class Counts:
    cpu: float = 0.0
    """Seconds of the server's time."""
    names: Counter[tuple[str, str]] = field(default_factory=Counter)

    def of(self, kind: str, each: float) -> Mapping[str, float]:
        """Return how many per one of `each`, by name, the most frequent first."""
        found = {name: count / each for (of, name), count in self.names.items() if of == kind and count > 0}
        return dict(sorted(found.items(), key=lambda item: -item[1]))


@asynccontextmanager
async def counted(server: Server, *, idle: float = 0.0) -> AsyncIterator[Counts]:
    """Count what a server does in the block; filled when the block has ended.

    `idle`: seconds before the block in which the idle server is watched. What it does then is subtracted.
    """
    found = Counts()
    async with Wire(server.port) as wire:
        loop, rest = asyncio.get_running_loop(), Counter[tuple[str, str]]()
        if idle:
            before = await _counts(wire, server)
            await asyncio.sleep(idle)
            rest = await _counts(wire, server)
            rest.subtract(before)
        before, used, began = await _counts(wire, server), server.child.usage().cpu, loop.time()
        yield found
        found.cpu, took = server.child.usage().cpu - used, loop.time() - began
        found.names = await _counts(wire, server)
    found.names.subtract(before)
    for key, count in rest.items():
        found.names[key] -= round(count * took / idle)
    for verb in UPKEEP:
        del found.names[(STORE, verb)]


async def _counts(wire: Wire, server: Server) -> Counter[tuple[str, str]]:
    text = (await wire.ask("GET", "/metrics", token=server.admin)).decode()
    return Counter({(kind, name): int(float(value)) for kind, name, value in _COUNTED.findall(text)})


def told(counts: Mapping[str, float], most: int = 8) -> str:
    """Return the most frequent in words."""
    return ", ".join(f"{name} {count:.2f}" for name, count in list(counts.items())[:most])
