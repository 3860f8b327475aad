"""Measure what several servers on one PostgreSQL cost and give.

Provisions of warm nodes through three servers, beside one, with the time of all servers for each. First as
many as they can, then at a steady rate. Load, servers and database share this machine. At its limit one
server meets more work in each turn of its loop than each of three. At a steady rate each server gets the
same. Three servers with a database each show what three processes cost that share nothing.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace

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
STEADY = 200
EACH_SECOND = 25.0
"""Provisions of each server at a steady rate: a quarter of what the machine can do, with three of them."""


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
    one, three, apart = await _shared(url, 1), await _shared(url, 3), await _apart(url, 3)
    cost = "server CPU per provision, three servers on one PostgreSQL"
    return [
        Figure(
            name=f"{PROVISIONS} provisions of one warm node over HTTP, three servers on one PostgreSQL",
            value=three.rate,
            unit="provisions/s",
            floor=one.rate,
            target=1.0,
            note="floor: one server; two cores for servers, database, agents and callers;"
            f" three servers with a database each: {apart.rate:.0f} /s",
        ),
        Figure(
            name=cost,
            value=three.spent,
            unit="ms",
            floor=one.spent,
            target=1.0,
            lower_is_better=True,
            note="of all servers together, warm, while they provision; floor: one server",
        ),
        Figure(
            name=f"{cost}, beside three with a database each",
            value=three.spent,
            unit="ms",
            floor=apart.spent,
            target=1.0,
            lower_is_better=True,
            note="what it costs to share; the rest is what three processes cost on this machine",
        ),
        Figure(
            name=f"{cost}, {EACH_SECOND:.0f}/s each",
            value=three.steady,
            unit="ms",
            floor=one.steady,
            target=1.0,
            lower_is_better=True,
            note="with what they do at rest; floor: one server at its rate",
        ),
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Measured:
    rate: float
    """Provisions per second."""
    spent: float
    """Milliseconds of all servers' time for each."""
    steady: float
    """The same, at a steady rate."""


async def _shared(url: str, count: int) -> _Measured:
    """Measure servers that share a database."""
    store = database(url, f"provisions_{count}")
    nodes = await warm_copy(hurried(store), _nodes(count))
    async with replicas(store, count) as servers:
        return await _measured({each: nodes[place::count] for place, each in enumerate(servers)})


async def _apart(url: str, count: int) -> _Measured:
    """Measure as many servers that share nothing but the machine and the database's process."""
    async with AsyncExitStack() as stack:
        servers: dict[Server, Sequence[Warm]] = {}
        for place in range(count):
            store = database(url, f"apart_{place}")
            nodes = await warm_copy(hurried(store), _nodes(count) // count)
            (server,) = await stack.enter_async_context(replicas(store, 1))
            servers[server] = nodes
        return await _measured(servers)


def _nodes(count: int) -> int:
    """Return how many warm nodes so many servers need. Callers that end late take from one server more than
    from another."""
    return (PROVISIONS // count + WARMING + STEADY + IN_FLIGHT + PROVISIONS // 4) * count


async def _measured(given: Mapping[Server, Sequence[Warm]]) -> _Measured:
    servers = list(given)
    async with AsyncExitStack() as stack:
        for each, nodes in given.items():
            told = {"port": each.port, "nodes": [(node.token, node.version) for node in nodes]}
            agents = await stack.enter_async_context(child("bench.agents", told))
            await agents.line(120.0)
        await asyncio.sleep(2.0)  # the beats are written, the streams are open
        await _flood(servers, "warming", WARMING * len(servers))
        before = _used(servers)
        seconds = await _flood(servers, "run", PROVISIONS)
        flooded = _used(servers)
        await _stream(servers, "steady", STEADY * len(servers))
        steady = _used(servers)
    return _Measured(
        rate=PROVISIONS / seconds,
        spent=(flooded - before) / PROVISIONS * 1e3,
        steady=(steady - flooded) / (STEADY * len(servers)) * 1e3,
    )


def _used(servers: Sequence[Server]) -> float:
    return sum(each.child.usage().cpu for each in servers)


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


async def _stream(servers: Sequence[Server], name: str, count: int) -> None:
    """Provision at a steady rate, whether or not earlier ones have ended, by all servers in turn."""
    began = time.perf_counter()
    free: dict[str, list[Wire]] = {each.url: [] for each in servers}

    async def one(server: Server, number: int) -> None:
        wires = free[server.url]
        wire = wires.pop() if wires else await stack.enter_async_context(Wire(server.port))
        await provisioned(wire, server.admin, template="warm", count=1, run=f"{name}-{number}")
        wires.append(wire)

    async with AsyncExitStack() as stack, asyncio.TaskGroup() as group:
        for number in range(count):
            due = began + number / (EACH_SECOND * len(servers))
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            group.create_task(one(servers[number % len(servers)], number))
