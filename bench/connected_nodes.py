"""What a server of 10,000 nodes costs while all of them beat and hold their streams, as real agents do.

Memory and time of the server's process, from /proc, over a settled stretch. The nodes beat as often as the
server would tell so many. The floor is an empty handler on the same uvicorn settings under the same load: it
holds as many streams, and says as many lines.
"""

import asyncio
from collections.abc import Sequence
from typing import Any

from bench import Figure
from bench.children import Child, child
from bench.empty_server import empty
from bench.server_process import data_directory, served
from bench.warm_store import Warm, warm
from muster.domain.deadlines import Limits
from muster.domain.pace import interval

NODES = 10_000
EVERY = interval(NODES, least=Limits().beat_seconds, rate=Limits().beats_per_second)
SETTLE = 30.0
SECONDS = 25.0
CONNECTED_WITHIN = 180.0


async def measure() -> Sequence[Figure]:
    with data_directory() as data:
        nodes = await warm(data, NODES)
        async with empty() as (port, process):
            least, idlest, _ = await _usage(process, port, nodes)
        async with served(data) as server:
            resident, core, end = await _usage(server.child, server.port, nodes)
    p50, p99 = end["p50"] * 1e3, end["p99"] * 1e3
    name = f"server with {NODES:,} nodes that beat and hold streams"
    note = (
        f"each beats every {EVERY:g} s: {end['rate']:,.0f} beats/s answered in p50 {p50:.1f},"
        f" p99 {p99:.1f} ms, {end['late']} late; floor: an empty handler with as many streams and beats"
    )
    return [
        Figure(
            name=f"{name}: time",
            value=core * 100,
            unit="% of a core",
            floor=idlest * 100,
            limit=25.0,
            lower_is_better=True,
            note=note,
        ),
        Figure(
            name=f"{name}: memory",
            value=resident / 1e6,
            unit="MB",
            floor=least / 1e6,
            limit=200.0,
            lower_is_better=True,
        ),
    ]


async def _usage(server: Child, port: int, nodes: Sequence[Warm]) -> tuple[int, float, Any]:
    """Bytes at the most, cores, and how the beats went."""
    given = {
        "mode": "paced",
        "port": port,
        "tokens": [node.token for node in nodes],
        "every": EVERY,
        "streaming": True,
        "settle": SETTLE,
        "seconds": SECONDS,
    }
    async with child("bench.load_generator", given) as generator:
        await generator.line(CONNECTED_WITHIN)
        await generator.line(CONNECTED_WITHIN)
        before = server.usage()
        resident = before.resident
        for _ in range(int(SECONDS) - 1):
            await asyncio.sleep(1.0)
            resident = max(resident, server.usage().resident)
        after = server.usage()
        end = await generator.line()
    return resident, (after.cpu - before.cpu) / (int(SECONDS) - 1), end
