"""What heartbeats at two servers on one PostgreSQL cost: 20,000 nodes that beat every five seconds.

Time and memory of the servers and of the database's processes, and how long a beat takes. The servers are
told to take in so many: by themselves they would slow the nodes down. Load, servers and database share this
machine.
"""

import os
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict

from bench import Figure
from bench.children import Child, child
from bench.postgres import database, server
from bench.replicas import hurried, replicas, warm_copy
from bench.warm_store import Warm

NODES = 20_000
EVERY = 5.0
SECONDS = 20.0


async def measure() -> Sequence[Figure]:
    with server() as url:
        return await _beating(url)


async def _beating(url: str) -> Sequence[Figure]:
    store = database(url, "beating")
    nodes = await warm_copy(hurried(store), NODES)
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
    """CPU time of this PostgreSQL's processes that are alive."""
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
