"""1,000 provisions of one warm node each, 64 in flight, all of it over HTTP.

Callers, server and agents are a process each. The agents are light ones that attach at once: a thousand real
ones would measure the machine's scheduler. Each caller asks, then follows its operation's stream to the end.
"""

import asyncio
import time
from collections.abc import Sequence

from bench import Figure
from bench.children import child
from bench.empty_server import empty
from bench.http_client import Wire, provisioned
from bench.server_process import Server, data_directory, served
from bench.warm_store import warm

PROVISIONS = 1000
SPARE = 64
"""More nodes than provisions, so that no caller waits for the last one."""
IN_FLIGHT = 64
WITHIN = 300.0


async def measure() -> Sequence[Figure]:
    with data_directory() as data:
        nodes = await warm(data, PROVISIONS + SPARE)
        async with served(data) as server:
            given = {"port": server.port, "nodes": [(node.token, node.version) for node in nodes]}
            async with child("bench.agents", given) as agents, asyncio.timeout(WITHIN):
                await agents.line()
                await asyncio.sleep(2.0)  # the beats are written, the polls are held
                before = server.child.usage()
                seconds, took = await _flood(server)
                cpu = server.child.usage().cpu - before.cpu
    floor = await _floor()
    took.sort()
    p50, p99 = took[len(took) // 2] * 1e3, took[len(took) * 99 // 100] * 1e3
    name = f"{PROVISIONS:,} provisions of one warm node over HTTP, {IN_FLIGHT} in flight"
    note = (
        f"all succeeded; light agents; {cpu / PROVISIONS * 1e3:.1f} ms of the server's time each;"
        " floor: the callers' two requests at an empty server"
    )
    return [
        Figure(
            name=name, value=PROVISIONS / seconds, unit="provisions/s", floor=floor, limit=150.0, note=note
        ),
        Figure(
            name=f"{name}, p99",
            value=p99,
            unit="ms",
            limit=300.0,
            lower_is_better=True,
            note=f"p50 {p50:.0f} ms",
        ),
    ]


async def _floor() -> float:
    """As many times two requests, by as many callers, at a server that does nothing."""
    numbers = iter(range(PROVISIONS))
    async with empty() as (port, _):

        async def caller() -> None:
            async with Wire(port) as wire:
                for _number in numbers:
                    await wire.ask("POST", "/", said={"template": "warm"})
                    await wire.ask("GET", "/")

        began = time.perf_counter()
        async with asyncio.TaskGroup() as group:
            for _ in range(IN_FLIGHT):
                group.create_task(caller())
        return PROVISIONS / (time.perf_counter() - began)


async def _flood(server: Server) -> tuple[float, list[float]]:
    took: list[float] = []
    numbers = iter(range(PROVISIONS))

    async def caller() -> None:
        async with Wire(server.port) as wire:
            for number in numbers:
                started = time.perf_counter()
                await provisioned(wire, server.admin, template="warm", count=1, run=f"run-{number}")
                took.append(time.perf_counter() - started)

    began = time.perf_counter()
    async with asyncio.TaskGroup() as group:
        for _ in range(IN_FLIGHT):
            group.create_task(caller())
    assert len(took) == PROVISIONS
    return time.perf_counter() - began, took
