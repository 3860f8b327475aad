"""Measure how long an operation stands still when its server is killed: on PostgreSQL, and on DynamoDB.

Two real servers share a store. One provisions a node that boots for long, and is killed while it does. What
is measured ends with the moment at which the other server says that it drives the operation.
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
from muster.domain.settings import PRICED_LEASE, Settings
from tests.stores import emulator

TIMES = 3
LIMIT = 20.0
BOOT = "sleep 600"
PATIENCE = 120.0
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
    async with replicas(store, 2) as (doomed, other), Wire(other.port) as wire:
        template = {"provider": "process", "resource_class": "small", "max_nodes": 1, "boot_script": BOOT}
        await wire.ask("PUT", "/api/v1/templates/slow", token=other.admin, said=template)
        async with Wire(doomed.port) as first:
            asked = {"template": "slow", "count": 1, "run": "run"}
            made = json.loads(await first.ask("POST", "/api/v1/provisions", token=doomed.admin, said=asked))
        operation = f"/api/v1/operations/{made['operation_id']}"
        await _until(wire, other, operation, lambda said: said["phase"] == "booting")
        os.kill(doomed.child.pid, signal.SIGKILL)
        killed_at = time.time()
        events = f"/api/v1/events?entity_id={made['operation_id']}&limit=1000"
        told = await _until(wire, other, events, lambda said: _takeover(said) is not None)
        taken_at = _takeover(told)
        await wire.ask("POST", f"{operation}/cancel", token=other.admin, said={})
        await _until(wire, other, "/api/v1/nodes", lambda said: not said["items"])
    assert taken_at is not None
    return taken_at - killed_at


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
