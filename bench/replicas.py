"""Measure what several servers on one PostgreSQL cost and give.

First, 20,000 nodes beat every five seconds at two servers. Measured are time and memory of the servers and of
the database's processes, and how long a beat takes. Then come provisions of warm nodes through three servers,
beside one. Last comes how long an operation waits for another server when its own is killed. Load, servers
and database share this machine.
"""

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict

from bench import Figure
from bench.children import Child, child
from bench.http_client import Wire, provisioned
from bench.postgres import database, server
from bench.server_process import Server, data_directory, served
from bench.warm_store import Warm, warmed
from muster.domain.settings import Settings
from muster.stores.sql.postgres.store import open_postgres
from muster.system import SystemIds

NODES = 20_000
EVERY = 5.0
SECONDS = 20.0
PROVISIONS = 300
IN_FLIGHT = 48
LEASE = Settings().lease


async def measure() -> Sequence[Figure]:
    with server() as url:
        return [*await _beating(url), *await _provisioning(url)]


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


async def _warm(store: str, count: int) -> list[Warm]:
    return await warmed(open_postgres(store, ids=SystemIds(), connections=8), count)


# --- beating ------------------------------------------------------------------------------------------


async def _beating(url: str) -> Sequence[Figure]:
    store = database(url, "beating")
    nodes = await _warm(_hurried(store), NODES)
    async with replicas(store, 2) as servers, AsyncExitStack() as stack:
        halves = (nodes[::2], nodes[1::2])
        generators = [
            await stack.enter_async_context(_generator(each.port, half))
            for each, half in zip(servers, halves, strict=True)
        ]
        for _ in range(2):  # connected, then settled
            for generator in generators:
                await generator.line(120.0)
        before = [each.child.usage() for each in servers], _database_seconds(store), _written(store)
        ends = [await generator.line(120.0) for generator in generators]
        after = [each.child.usage() for each in servers], _database_seconds(store), _written(store)
    cpu = sum(late.cpu - early.cpu for late, early in zip(after[0], before[0], strict=True)) / SECONDS
    name = f"{NODES:,} nodes beating every {EVERY:g} s at two servers on PostgreSQL"
    note = (
        f"{sum(end['rate'] for end in ends):,.0f} beats/s, {sum(end['late'] for end in ends)} came too late"
    )
    return [
        Figure(name=f"{name}: both servers' time", value=cpu, unit="cores", note=note),
        Figure(name=f"{name}: the database's time", value=(after[1] - before[1]) / SECONDS, unit="cores"),
        Figure(name=f"{name}: commits", value=(after[2] - before[2]) / SECONDS, unit="commits/s"),
        Figure(
            name=f"{name}: a server's memory",
            value=max(each.resident for each in after[0]) / 2**20,
            unit="MiB",
        ),
        Figure(name=f"{name}: p99 of a beat", value=max(end["p99"] for end in ends) * 1e3, unit="ms"),
    ]


@asynccontextmanager
async def _generator(port: int, nodes: Sequence[Warm]) -> AsyncIterator[Child]:
    given: dict[str, Any] = {
        "mode": "paced",
        "port": port,
        "tokens": [node.token for node in nodes],
        "every": EVERY,
        "streaming": False,
        "settle": 2 * EVERY,
        "seconds": SECONDS,
    }
    async with child("bench.load_generator", given) as generator:
        yield generator


def _database_seconds(store: str) -> float:
    """Return the CPU time of this PostgreSQL's living processes."""
    folder = Path(str(conninfo_to_dict(store)["host"]))
    postmaster = (folder / "postmaster.pid").read_text().split(maxsplit=1)[0]
    ticks = 0
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                stat = (entry / "stat").read_text()
            except OSError:
                continue
            fields = stat.rpartition(") ")[2].split()
            if postmaster in (entry.name, fields[1]):
                ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def _written(store: str) -> int:
    with psycopg.connect(store, autocommit=True) as connection:
        row = connection.execute(
            "SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()"
        ).fetchone()
    return 0 if row is None else int(row[0])


def _hurried(store: str) -> str:
    """Prepare without durability; what is measured is durable."""
    return f"{store}&options=-csynchronous_commit%3Doff"


# --- provisioning -------------------------------------------------------------------------------------


async def _provisioning(url: str) -> Sequence[Figure]:
    rates = {}
    for count in (1, 3):
        store = database(url, f"provisions_{count}")
        nodes = await _warm(_hurried(store), PROVISIONS + IN_FLIGHT)
        async with replicas(store, count) as servers:
            rates[count] = await _flooded(servers, nodes)
    store = database(url, "takeover")
    await _warm(_hurried(store), 1)
    return [
        Figure(
            name=f"{PROVISIONS} provisions of one warm node over HTTP, three servers on one PostgreSQL",
            value=rates[3],
            unit="provisions/s",
            floor=rates[1],
            note="floor: one server; two cores for servers, database, agents and callers",
        ),
        await _takeover(store),
    ]


async def _flooded(servers: Sequence[Server], nodes: Sequence[Warm]) -> float:
    async with AsyncExitStack() as stack:
        for place, each in enumerate(servers):
            mine = nodes[place :: len(servers)]
            given = {"port": each.port, "nodes": [(node.token, node.version) for node in mine]}
            agents = await stack.enter_async_context(child("bench.agents", given))
            await agents.line(120.0)
        numbers = iter(range(PROVISIONS))

        async def caller(server: Server) -> None:
            async with Wire(server.port) as wire:
                for number in numbers:
                    await provisioned(wire, server.admin, template="warm", count=1, run=f"run-{number}")

        await asyncio.sleep(2.0)  # the beats are written, the polls are held
        began = time.perf_counter()
        async with asyncio.TaskGroup() as group:
            for place in range(IN_FLIGHT):
                group.create_task(caller(servers[place % len(servers)]))
        return PROVISIONS / (time.perf_counter() - began)


async def _takeover(store: str) -> Figure:
    """Measure a takeover. The node never attaches, so the operation is under way when its server is
    killed."""
    async with replicas(store, 2) as (doomed, _other):
        with psycopg.connect(store, autocommit=True) as watching:
            watching.execute("UPDATE liveness SET seen_at = extract(epoch FROM now()) + 100")
            async with Wire(doomed.port) as wire:
                said = {"template": "warm", "count": 1, "run": "run"}
                await wire.ask("POST", "/api/v1/provisions", token=doomed.admin, said=said)
            os.kill(doomed.child.pid, signal.SIGKILL)
            began = time.perf_counter()
            while time.perf_counter() - began < 2 * LEASE:
                row = watching.execute("SELECT max(epoch) FROM operations WHERE ended_at IS NULL").fetchone()
                if row is not None and row[0] is not None and row[0] > 1:
                    break
                await asyncio.sleep(0.1)
    return Figure(
        name="time from kill -9 of a server until another leads its operation",
        value=time.perf_counter() - began,
        unit="s",
        limit=LEASE + 10.0,
        lower_is_better=True,
        note=f"leases last {LEASE:g} s",
    )
