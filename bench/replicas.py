"""Measure what several servers on one PostgreSQL cost and give.

Provisions of warm nodes through three servers, beside one, with the time of all servers for each. Load,
servers and database share this machine.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace

from bench import Figure
from bench.children import child
from bench.http_client import Wire, provisioned
from bench.postgres import database, server
from bench.server_process import Server, data_directory, served
from bench.warm_store import Warm, warmed
from muster.stores.sql.postgres.store import open_postgres
from muster.system import SystemIds

PROVISIONS = 600
IN_FLIGHT = 48
WARMING = 60
"""Provisions of each server before it is measured: its first ones load modules and prepare statements."""


async def measure() -> Sequence[Figure]:
    with server() as url:
        return await _provisioning(url)


@asynccontextmanager
async def replicas(store: str, count: int) -> AsyncIterator[list[Server]]:
    async with AsyncExitStack() as stack:
        machines = stack.enter_context(data_directory())
        made: list[Server] = []
        for _ in range(count):
            data = stack.enter_context(data_directory())
            server = await stack.enter_async_context(served(data, store=store, machines=machines))
            # The first one made the admin token of them all.
            made.append(replace(server, admin=made[0].admin) if made else server)
        yield made


async def warm_copy(store: str, count: int) -> list[Warm]:
    return await warmed(open_postgres(store, ids=SystemIds(), connections=8), count)


def hurried(store: str) -> str:
    """Preparing needn't be durable; what is measured is."""
    return f"{store}&options=-csynchronous_commit%3Doff"


async def _provisioning(url: str) -> Sequence[Figure]:
    rates: dict[int, float] = {}
    spent: dict[int, float] = {}
    for count in (1, 3):
        store = database(url, f"provisions_{count}")
        nodes = await warm_copy(hurried(store), PROVISIONS + WARMING * count + IN_FLIGHT)
        async with replicas(store, count) as servers:
            rates[count], spent[count] = await _measured(servers, nodes)
    return [
        Figure(
            name=f"{PROVISIONS} provisions of one warm node over HTTP, three servers on one PostgreSQL",
            value=rates[3],
            unit="provisions/s",
            floor=rates[1],
            target=1.0,
            note="floor: one server; two cores for servers, database, agents and callers",
        ),
        Figure(
            name="server CPU per provision, three servers on one PostgreSQL",
            value=spent[3],
            unit="ms",
            floor=spent[1],
            target=1.0,
            lower_is_better=True,
            note="of all servers together, warm, while they provision; floor: one server",
        ),
    ]


async def _measured(servers: Sequence[Server], nodes: Sequence[Warm]) -> tuple[float, float]:
    """Return provisions per second, and milliseconds of all servers' time for each."""
    async with AsyncExitStack() as stack:
        for place, each in enumerate(servers):
            mine = nodes[place :: len(servers)]
            given = {"port": each.port, "nodes": [(node.token, node.version) for node in mine]}
            agents = await stack.enter_async_context(child("bench.agents", given))
            await agents.line(120.0)
        await asyncio.sleep(2.0)  # the beats are written, the streams are open
        await _flood(servers, "warming", WARMING * len(servers))
        before = sum(each.child.usage().cpu for each in servers)
        seconds = await _flood(servers, "run", PROVISIONS)
        cpu = sum(each.child.usage().cpu for each in servers) - before
    return PROVISIONS / seconds, cpu / PROVISIONS * 1e3


async def _flood(servers: Sequence[Server], name: str, count: int) -> float:
    """Provision through all servers alike; return how many seconds it took."""
    numbers = iter(range(count))

    async def caller(server: Server) -> None:
        async with Wire(server.port) as wire:
            for number in numbers:
                await provisioned(wire, server.admin, template="warm", count=1, run=f"{name}-{number}")

    began = time.perf_counter()
    async with asyncio.TaskGroup() as group:
        for place in range(IN_FLIGHT):
            group.create_task(caller(servers[place % len(servers)]))
    return time.perf_counter() - began
