"""Authenticated heartbeats per second over HTTP: one server process, one process that sends them.

The floor is an empty raw handler on the same uvicorn settings, asked by the same generator with the same
bytes, in turns with ours.
"""

from collections.abc import Sequence
from typing import Any

from bench import Figure
from bench.beating import BEAT
from bench.children import child
from bench.empty import empty
from bench.served import data_directory, served
from bench.warm import warm

NODES = 1024
CONNECTIONS = 64
SECONDS = 4.0
TURNS = 3


async def measure() -> Sequence[Figure]:
    with data_directory() as data:
        tokens = [each.token for each in await warm(data, NODES)]
        ours: list[Any] = []
        bare: list[Any] = []
        async with served(data) as server, empty() as floor:
            await _load(server.port, tokens, 1.0)
            # Alternating runs share whatever else the machine does; the best of each is the least disturbed.
            for _ in range(TURNS):
                bare.append(await _load(floor, tokens, SECONDS))
                ours.append(await _load(server.port, tokens, SECONDS))
    best = max(ours, key=lambda turn: float(turn["rate"]))
    most = max(bare, key=lambda turn: float(turn["rate"]))
    return [
        Figure(
            name=f"authenticated heartbeats of {NODES:,} nodes, {CONNECTIONS} connections",
            value=best["rate"],
            unit="beats/s",
            floor=most["rate"],
            target=0.7,
            note="floor: an empty raw handler on the same server; the generator was busy for"
            f" {best['busy']:.0%} of a core (floor: {most['busy']:.0%})",
        )
    ]


async def _load(port: int, tokens: Sequence[str], seconds: float) -> Any:
    given = {
        "mode": "flat_out",
        "port": port,
        "path": BEAT,
        "tokens": tokens,
        "connections": CONNECTIONS,
        "seconds": seconds,
    }
    async with child("bench.beating", given) as generator:
        return await generator.line()
