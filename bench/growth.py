"""How the cost of a provision grows with the nodes that the server knows: 100, 1,000 and 10,000 of them.

One-node provisions over HTTP, a few at a time, with their releases. A hundred nodes have light agents and do
the work; the others are idle nodes of another template, kept alive in the store. What the server spends while
nothing is asked is taken off. The floor of each size is the smallest one.
"""

import asyncio
import sqlite3
import time
from collections.abc import Awaitable, Sequence
from pathlib import Path

from bench import Figure
from bench.children import child
from bench.http_client import Wire, provisioned, released
from bench.server_process import Server, data_directory, served
from bench.warm_store import DAY, warm

KNOWN = (100, 1_000, 10_000)
WORKING = 100
PROVISIONS = 200
CALLERS = 4
IDLE = 5.0
WITHIN = 300.0


async def measure() -> Sequence[Figure]:
    found: list[Figure] = []
    for known in KNOWN:
        took = await _cost(known)
        found.append(
            Figure(
                name=f"server CPU per provision with its release, {known:,} known nodes",
                value=took * 1e3,
                unit="ms",
                floor=found[0].value if found else None,
                target=1.5,
                lower_is_better=True,
                note="" if found else "the floor of the sizes below",
            )
        )
    return found


async def _cost(known: int) -> float:
    """Seconds of the server's time for each."""
    with data_directory() as data:
        nodes = await warm(data, min(known, WORKING))
        if known > WORKING:
            await warm(data, known - WORKING, template="other")
        _keep_alive(data / "muster.db")
        async with served(data) as server:
            given = {"port": server.port, "nodes": [(node.token, node.version) for node in nodes]}
            async with child("bench.agents", given) as agents, asyncio.timeout(WITHIN):
                await agents.line()
                await _cycles(server, 2 * CALLERS, "first")
                at_rest = await _spent(server, asyncio.sleep(IDLE))
                began = time.perf_counter()
                spent = await _spent(server, _cycles(server, PROVISIONS, "run"))
                seconds = time.perf_counter() - began
    return (spent - at_rest / IDLE * seconds) / PROVISIONS


async def _spent(server: Server, work: Awaitable[None]) -> float:
    before = server.child.usage().cpu
    await work
    return server.child.usage().cpu - before


async def _cycles(server: Server, count: int, name: str) -> None:
    numbers = iter(range(count))

    async def caller() -> None:
        async with Wire(server.port) as wire:
            for number in numbers:
                ended = await provisioned(
                    wire, server.admin, template="warm", count=1, run=f"{name}-{number}"
                )
                await released(wire, server.admin, ended["operation_id"])

    async with asyncio.TaskGroup() as group:
        for _ in range(CALLERS):
            group.create_task(caller())


def _keep_alive(database: Path) -> None:
    """Let the nodes without agents count as seen until the end."""
    with sqlite3.connect(database) as connection:
        connection.execute("UPDATE liveness SET seen_at = ?", (time.time() + DAY,))
    connection.close()
