"""Authenticated heartbeats per second over HTTP: one server process, one process that sends them.

The floor is an empty raw handler on the same uvicorn settings, asked by the same generator with the same
bytes, in turns with ours. Agents have a connection each; a proxy may send the beats of many over a few.
"""

from collections.abc import Sequence
from typing import Any

from bench import Figure
from bench.children import Child, child
from bench.empty_server import empty
from bench.load_generator import BEAT
from bench.server_process import Server, data_directory, served
from bench.warm_store import warm

NODES = 1024
CONNECTIONS = 64
SECONDS = 4.0
TURNS = 3


async def measure() -> Sequence[Figure]:
    with data_directory() as data:
        tokens = [each.token for each in await warm(data, NODES)]
        async with served(data) as server, empty() as (port, floor):
            await _load(server.port, server.child, tokens, 1.0)
            own = tokens[:CONNECTIONS]
            return [
                *await _both(server, port, floor, own, "each on its connection"),
                *await _both(server, port, floor, tokens, f"over {CONNECTIONS} connections in turn"),
            ]


async def _both(
    server: Server, port: int, floor: Child, tokens: Sequence[str], how: str
) -> tuple[Figure, Figure]:
    ours: list[Any] = []
    bare: list[Any] = []
    # Alternating runs share whatever else the machine does; the best of each is the least disturbed.
    for _ in range(TURNS):
        bare.append(await _load(port, floor, tokens, SECONDS))
        ours.append(await _load(server.port, server.child, tokens, SECONDS))
    best = max(ours, key=lambda turn: float(turn["rate"]))
    most = max(bare, key=lambda turn: float(turn["rate"]))
    return (
        Figure(
            name=f"authenticated heartbeats of {len(tokens):,} nodes, {how}",
            value=best["rate"],
            unit="beats/s",
            floor=most["rate"],
            target=0.7,
            note="floor: an empty raw handler on the same server; the generator was busy for"
            f" {best['busy']:.0%} of a core (floor: {most['busy']:.0%})",
        ),
        Figure(
            name=f"the server's time for each of them, {how}",
            value=min(turn["each"] for turn in ours) * 1e6,
            unit="µs",
            floor=min(turn["each"] for turn in bare) * 1e6,
            lower_is_better=True,
            note="by its own CPU clock, which other processes disturb less than a rate",
        ),
    )


async def _load(port: int, server: Child, tokens: Sequence[str], seconds: float) -> Any:
    given = {
        "mode": "flat_out",
        "port": port,
        "path": BEAT,
        "tokens": tokens,
        "connections": CONNECTIONS,
        "seconds": seconds,
    }
    before = server.usage()
    async with child("bench.load_generator", given) as generator:
        end = await generator.line()
    return {**end, "each": (server.usage().cpu - before.cpu) / end["count"]}
