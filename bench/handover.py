"""Measure how soon nodes run: with real agents, as processes of this machine, over HTTP.

Warm: ten callers at once ask for four nodes each. The time runs from the request to the end of the
operation's stream, which comes after its nodes run. The floor is what can't be left out: the commits in
sequence, and one long poll that is held and answered. Cold: the time runs from the last node's `booted` to
the operation's success, as a follower of the event feed sees them. The feed's own timestamps are in the note.
"""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from bench import Figure
from bench.counts import PUSHES, REQUESTS, STORE, Counts, counted, told
from bench.empty_server import empty
from bench.http_client import Wire, provisioned, released
from bench.server_process import Server, data_directory, served
from muster.client import calls
from muster.domain.template import Reuse, TemplateSpec
from muster.stores.sql import open_sqlite, sqlite
from muster.system import SystemIds
from muster.wire.events import Event
from tests.harness.async_client import AsyncClient

CALLERS = 10
EACH = 4
ROUNDS = 30
ALONE = 40
"""Hand-overs to one caller, one after the other."""
COLD = 30
COLD_EACH = 2
IDLE = 6.0
"""Seconds in which the server's own work is watched, which isn't the hand-overs'."""
COMMITS = 4
"""In a row: submitted, claimed, attached, completed."""
WITHIN = 400.0


async def measure() -> Sequence[Figure]:
    with data_directory() as data:
        await _templates(data)
        async with served(data, capacity=CALLERS * EACH + 8) as server, asyncio.timeout(WITHIN):
            cold, stamped = await _cold(server)
            try:
                async with _wires(server, CALLERS) as wires:
                    await _round(server, wires, 0)  # the first is cold
                    await _until_idle(server, wires[0])
                    async with counted(server, idle=IDLE) as counts:
                        took = await _warm(server, wires)
                    alone = await _alone(server, wires[0])
            finally:
                await _end_all(server)
        commits = await asyncio.to_thread(_commits, data / "floor.db")
        async with empty() as (port, _):
            polls = await _long_polls(port)
    floor = [COMMITS * _share(commits, share) + _share(polls, share) for share in (0.5, 0.99)]
    name = f"warm hand-over of {EACH} nodes, {CALLERS} callers at once"
    note = f"{len(took)} of them, real agents; floor: {COMMITS} bare commits and one long poll"
    return [
        _figure(f"{name}, p50", _share(took, 0.5), floor=floor[0], limit=60.0, note=note),
        _figure(f"{name}, p99", _share(took, 0.99), floor=floor[1], limit=150.0, note=""),
        _figure(
            f"warm hand-over of {EACH} nodes, one caller, p50",
            _share(alone, 0.5),
            floor=floor[0],
            limit=12.0,
            note=f"{len(alone)} of them, p99 {_share(alone, 0.99):.0f} ms",
        ),
        *_costs(counts, len(took)),
        _figure(
            "cold: last node booted → succeeded, p99",
            _share(cold, 0.99),
            floor=None,
            limit=50.0,
            note=f"{len(cold)} of {COLD_EACH} nodes, p50 {_share(cold, 0.5):.1f} ms;"
            f" by timestamps p50 {_share(stamped, 0.5):.1f}, p99 {_share(stamped, 0.99):.1f} ms",
        ),
    ]


def _figure(name: str, value: float, *, floor: float | None, limit: float, note: str) -> Figure:
    return Figure(
        name=name, value=value, unit="ms", floor=floor, limit=limit, lower_is_better=True, note=note
    )


def _costs(counts: Counts, hand_overs: int) -> list[Figure]:
    """Return what one hand-over with its release costs the server, and each of its nodes."""
    nodes = hand_overs * EACH
    found = [
        _figure(
            f"server CPU per hand-over of {EACH} with its release",
            counts.cpu / hand_overs * 1e3,
            floor=None,
            limit=9.0,
            note=f"real agents; {counts.cpu / nodes * 1e3:.2f} ms per node and cycle",
        )
    ]
    for name, kind, limit in (
        ("agent requests", REQUESTS, 2.0),
        ("pushes to agents", PUSHES, 2.0),
        ("store calls", STORE, 8.0),
    ):
        names = counts.of(kind, nodes)
        found.append(
            Figure(
                name=f"{name} per node and cycle",
                value=sum(names.values()),
                unit="",
                limit=limit,
                lower_is_better=True,
                note=told(names),
            )
        )
    return found


def _share(took: Sequence[float], share: float) -> float:
    ordered = sorted(took)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


async def _templates(data: Path) -> None:
    store = open_sqlite(data / "muster.db", ids=SystemIds())
    await store.limit_installation(CALLERS * EACH + 8, now=time.time())
    for name, reuse in (("warm", Reuse.SAME_OWNER), ("cold", Reuse.NEVER)):
        spec = TemplateSpec(
            name=name, provider="process", resource_class="small", max_nodes=CALLERS * EACH, reuse=reuse
        )
        await store.apply_template(spec, now=time.time())
    await store.close()


# --- warm ------------------------------------------------------------------------------------------


async def _warm(server: Server, wires: Sequence[Wire]) -> list[float]:
    took: list[float] = []
    for number in range(1, ROUNDS + 1):
        took += await _round(server, wires, number)
        await _until_idle(server, wires[0])
    return took


async def _alone(server: Server, wire: Wire) -> list[float]:
    took: list[float] = []
    for number in range(ALONE):
        took += await _round(server, [wire], ROUNDS + 1 + number)
        await _until_idle(server, wire, pause=0.05)
    return took


async def _round(server: Server, wires: Sequence[Wire], number: int) -> list[float]:
    async def caller(wire: Wire, place: int) -> tuple[float, str]:
        started = time.perf_counter()
        ended = await provisioned(
            wire, server.admin, template="warm", count=EACH, run=f"run-{number}-{place}"
        )
        return (time.perf_counter() - started) * 1e3, ended["operation_id"]

    ends = await asyncio.gather(*(caller(wire, place) for place, wire in enumerate(wires)))
    await asyncio.gather(
        *(released(wire, server.admin, end[1]) for wire, end in zip(wires, ends, strict=True))
    )
    return [took for took, _ in ends]


async def _until_idle(server: Server, wire: Wire, *, pause: float = 0.5) -> None:
    """Wait until all nodes are back and know it."""
    while True:
        path = "/api/v1/nodes?state=idle&template=warm&limit=200"
        page = json.loads(await wire.ask("GET", path, token=server.admin))
        if len(page["items"]) == CALLERS * EACH:
            break
        await asyncio.sleep(min(0.1, pause))
    await asyncio.sleep(pause)


@asynccontextmanager
async def _wires(server: Server, count: int) -> AsyncIterator[list[Wire]]:
    wires = [Wire(server.port) for _ in range(count)]
    for wire in wires:
        await wire.__aenter__()
    try:
        yield wires
    finally:
        for wire in wires:
            await wire.__aexit__(None, None, None)


async def _end_all(server: Server) -> None:
    """End all nodes: they outlive their server, so none may be left when it goes."""
    async with AsyncClient(server.url, server.admin) as client:
        async with asyncio.timeout(60):
            while True:
                page = await client.send(calls.nodes(limit=200))
                left = [node for node in page.items if node.state not in ("terminated",)]
                if not left:
                    return
                for node in left:
                    if node.state not in ("terminating",):
                        await client.send(calls.terminate(node.id))
                await asyncio.sleep(0.5)


# --- cold ------------------------------------------------------------------------------------------


async def _cold(server: Server) -> tuple[list[float], list[float]]:
    arrived: list[tuple[float, Event]] = []

    async def follow() -> None:
        async with AsyncClient(server.url, server.admin) as client:
            async for event in client.stream(calls.follow_events()):
                arrived.append((time.perf_counter(), event))  # noqa: PERF401 — seen while it goes on

    following = asyncio.create_task(follow())
    operations: list[tuple[str, list[str]]] = []
    async with Wire(server.port) as wire:
        for number in range(COLD):
            ended = await provisioned(
                wire, server.admin, template="cold", count=COLD_EACH, run=f"cold-{number}"
            )
            operations.append((ended["operation_id"], [part["id"] for part in ended["parts"]]))
            await released(wire, server.admin, ended["operation_id"])
    await asyncio.sleep(0.5)
    following.cancel()
    with suppress(asyncio.CancelledError):
        await following
    return _between(arrived, operations)


def _between(
    arrived: Sequence[tuple[float, Event]], operations: Sequence[tuple[str, list[str]]]
) -> tuple[list[float], list[float]]:
    booted = {event.entity_id: (at, _stamp(event)) for at, event in arrived if event.name == "booted"}
    ended = {
        event.entity_id: (at, _stamp(event))
        for at, event in arrived
        if event.entity == "operation" and event.changes.get("status") == "succeeded"
    }
    seen: list[float] = []
    stamped: list[float] = []
    for operation_id, nodes in operations:
        last = [max(booted[node][kind] for node in nodes) for kind in (0, 1)]
        seen.append((ended[operation_id][0] - last[0]) * 1e3)
        stamped.append((ended[operation_id][1] - last[1]) * 1e3)
    return seen, stamped


def _stamp(event: Event) -> float:
    return event.at.timestamp()


# --- floors ----------------------------------------------------------------------------------------


def _commits(path: Path) -> list[float]:
    """Return the milliseconds of one durable row of an event's size at a time."""
    connection = sqlite.connect(path)
    connection.execute("CREATE TABLE events (seq INTEGER PRIMARY KEY, changes TEXT)")
    took: list[float] = []
    for _ in range(300):
        started = time.perf_counter()
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("INSERT INTO events (changes) VALUES (?)", ("x" * 300,))
        connection.execute("COMMIT")
        took.append((time.perf_counter() - started) * 1e3)
    connection.close()
    return took


async def _long_polls(port: int) -> list[float]:
    """Return milliseconds from the waking request to the answer of the held one."""
    took: list[float] = []
    async with Wire(port) as held, Wire(port) as waking:
        for _ in range(300):
            holding = asyncio.create_task(held.ask("GET", "/hold"))
            await asyncio.sleep(0.005)
            started = time.perf_counter()
            await asyncio.gather(waking.ask("GET", "/wake"), holding)
            took.append((time.perf_counter() - started) * 1e3)
    return took
