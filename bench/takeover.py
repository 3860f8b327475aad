"""Measure how long an operation stands still when its server is killed: on PostgreSQL, and on DynamoDB.

Two real servers share a store. One provisions a warm node that never attaches, and is killed at once. What is
measured ends with the moment at which the other server says that it drives the operation.
"""

import asyncio
import json
import os
import signal
import time
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from bench import Figure
from bench.http_client import Wire
from bench.postgres import database, server
from bench.replicas import replicas
from bench.server_process import Server
from bench.warm_store import warmed
from muster.domain.settings import PRICED_LEASE, Settings
from muster.stores.dynamodb import DynamoStore, Location, open_dynamodb
from muster.stores.sql import SqlStore
from muster.stores.sql.postgres.store import open_postgres
from muster.system import SystemClock, SystemIds
from tests.stores import emulator

TIMES = 2
LIMIT = 20.0
PATIENCE = 60.0
WRITTEN = 2.0
"""Seconds after which a heartbeat is in the store."""
LOOK_EVERY = 0.1


async def measure() -> Sequence[Figure]:
    with server() as url:
        on_postgres = [await _taken_over(database(url, f"takeover_{number}")) for number in range(TIMES)]
    stores = [await asyncio.to_thread(emulator.address) for _ in range(TIMES)]
    on_dynamodb = [await _taken_over(store) for store in stores]
    return [
        _figure("PostgreSQL", on_postgres, Settings().lease),
        _figure("DynamoDB's emulator", on_dynamodb, PRICED_LEASE),
    ]


def _figure(engine: str, took: Sequence[float], lease: float) -> Figure:
    return Figure(
        name=f"kill -9 of a server until another drives its operation, on {engine}",
        value=max(took),
        unit="s",
        limit=LIMIT,
        lower_is_better=True,
        note=f"the longest of {len(took)}, the shortest {min(took):.1f} s; leases last {lease:g} s,"
        f" silence counts after {Settings().gone_after:g} s",
    )


async def _taken_over(store: str) -> float:
    (node,) = await warmed(await _opened(store), 1)
    async with replicas(store, 2) as (doomed, other), Wire(other.port) as wire:
        await wire.ask("POST", "/api/v1/agent/beat", token=node.token, said={})
        await asyncio.sleep(WRITTEN)
        async with Wire(doomed.port) as first:
            asked = {"template": "warm", "count": 1, "run": "run"}
            made = json.loads(await first.ask("POST", "/api/v1/provisions", token=doomed.admin, said=asked))
        operation = f"/api/v1/operations/{made['operation_id']}"
        await _until(wire, other, operation, lambda said: said["phase"] == "booting")
        os.kill(doomed.child.pid, signal.SIGKILL)
        killed_at = time.time()
        events = f"/api/v1/events?entity_id={made['operation_id']}&limit=1000"
        told = await _until(wire, other, events, lambda said: _takeover(said) is not None)
        taken_at = _takeover(told)
    assert taken_at is not None
    return taken_at - killed_at


async def _opened(store: str) -> SqlStore | DynamoStore:
    if store.startswith("dynamodb:"):
        return await open_dynamodb(Location.of(store), ids=SystemIds(), clock=SystemClock())
    return open_postgres(store, ids=SystemIds(), connections=2)


def _takeover(page: Any) -> float | None:
    for event in page["items"]:
        if event["name"] == "taken_over":
            return datetime.fromisoformat(event["at"]).timestamp()
    return None


async def _until(wire: Wire, asked: Server, path: str, holds: Any) -> Any:
    latest = time.monotonic() + PATIENCE
    while not holds(said := json.loads(await wire.ask("GET", path, token=asked.admin))):
        assert time.monotonic() < latest, f"{path} still says {said}"
        await asyncio.sleep(LOOK_EVERY)
    return said
