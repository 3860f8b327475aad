"""What a server of 10,000 nodes costs while each beats every five seconds on its own connection.

Memory and time of the server's process, from /proc, over a settled stretch. The second pair of figures adds
what real agents do beside beating: each holds its stream, on another connection. The floor is an empty raw
handler on the same uvicorn settings under the same beats.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from bench import Figure
from bench.children import Child, child
from bench.empty_server import empty
from bench.server_process import data_directory, served
from bench.warm_store import Warm, warm

NODES = 10_000
STREAMING_NODES = 9_000
"""Two connections per node: as many as 20,000 descriptors allow, with some left for the server itself."""
EVERY = 5.0
SECONDS = 25.0
CONNECTED_WITHIN = 180.0


async def measure() -> Sequence[Figure]:
    with data_directory() as data:
        nodes = await warm(data, NODES)
        async with empty() as (port, process):
            floors = await _figures(process, port, nodes, "", streaming=False, settle=2 * EVERY)
        async with served(data) as server:
            figures = await _figures(
                server.child, server.port, nodes, "beating every 5 s", streaming=False, settle=2 * EVERY
            )
        async with served(data) as server:
            few = nodes[:STREAMING_NODES]
            also = await _figures(
                server.child, server.port, few, "also holding their streams", streaming=True, settle=4 * EVERY
            )
    (least, idlest), found = floors, []
    for memory, cpu in (figures, also):
        found += [_wished(memory, 200.0, floor=least.value), _wished(cpu, 25.0, floor=idlest.value)]
    return found


def _wished(figure: Figure, limit: float, *, floor: float) -> Figure:
    return Figure(**{**asdict(figure), "limit": limit, "floor": floor})


async def _figures(
    server: Child, port: int, nodes: Sequence[Warm], doing: str, *, streaming: bool, settle: float
) -> tuple[Figure, Figure]:
    given = {
        "mode": "paced",
        "port": port,
        "tokens": [node.token for node in nodes],
        "every": EVERY,
        "streaming": streaming,
        "settle": settle,
        "seconds": SECONDS,
    }
    async with child("bench.load_generator", given) as generator:
        await generator.line(CONNECTED_WITHIN)
        await generator.line()
        before = server.usage()
        resident = before.resident
        for _ in range(int(SECONDS) - 1):
            await asyncio.sleep(1.0)
            resident = max(resident, server.usage().resident)
        after = server.usage()
        end = await generator.line()
    core = (after.cpu - before.cpu) / (int(SECONDS) - 1)
    return _pair(f"server with {len(nodes):,} nodes {doing}", resident, core, end)


def _pair(name: str, resident: int, core: float, end: Any) -> tuple[Figure, Figure]:
    p50, p99 = end["p50"] * 1e3, end["p99"] * 1e3
    note = f"{end['rate']:,.0f} beats/s answered in p50 {p50:.1f}, p99 {p99:.1f} ms, {end['late']} late"
    memory = Figure(name=name, value=resident / 1e6, unit="MB", lower_is_better=True, note=note)
    return memory, Figure(name=name, value=core * 100, unit="% of a core", lower_is_better=True)
