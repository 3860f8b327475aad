"""Provisions of one warm node per second, through the whole operation, and what each costs the store.

The nodes attach at once, so what is measured is the control plane: submit, claim, attached, commit, hand
over, end. The floor makes as many durable writes per provision, batched the same way, with nothing decided.
"""

import asyncio
import sqlite3
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

from bench import Figure
from bench.claims import home
from bench.pool import fill
from muster.domain.events import Entity
from muster.domain.ids import AssignmentId, NodeId
from muster.domain.operation import Operation, Status
from muster.domain.requests import ProvisionRequest
from muster.domain.template import TemplateSpec
from muster.enrolment.reports import Report
from muster.enrolment.signals import Enrolment
from muster.plane import ControlPlane, Ports
from muster.ports.commits import Written
from muster.ports.identity import Identity
from muster.ports.wakeups import operation_topic
from muster.stores.announcements import announcer
from muster.stores.sql import SqlStore, open_sqlite, sqlite
from muster.stores.wakeups import LocalWakeups
from muster.system import SystemClock, SystemIds
from muster_simulation.cloud import SimulatedCloud, SimulatedProvider

PROVISIONS = 1000
IN_FLIGHT = 64
WRITES_TARGET = 6.0
UPKEEP = ("lease", "renew", "lease_duty", "lease_duties", "record_beats", "audit", "prune")
"""Writes that an idle replica makes too."""


class NoVerifier:
    async def verify(self, proof: str) -> Identity:
        raise NotImplementedError(proof)  # no machine joins here


class _Setup:
    """A control plane over a durable store whose claimed nodes attach the moment they are claimed."""

    def __init__(self, path: Path) -> None:
        self.wakeups = LocalWakeups()
        self._announce = announcer(self.wakeups)
        self.writes = 0
        self._enrolment: Enrolment | None = None
        self._attaching: dict[asyncio.Task[object], None] = {}
        self.store: SqlStore = open_sqlite(path, ids=SystemIds(), after_commit=self._committed)

    async def open(self) -> ControlPlane:
        clock = SystemClock()
        cloud = SimulatedCloud(clock=clock, random=Random(1))
        installation = await self.store.installation()
        provider = SimulatedProvider(cloud, clock=clock, installation_id=installation.id)
        ports = Ports(
            store=self.store,
            commands=self.store.commands,
            access=self.store.access,
            overview=self.store.overview,
            clusters=self.store.clusters,
            jobs=self.store.jobs,
            messages=self.store.messages,
            clock=clock,
            ids=SystemIds(),
            wakeups=self.wakeups,
            providers={provider.name: provider},
            verifier=NoVerifier(),
        )
        plane = ControlPlane(ports, owner="bench")
        self._enrolment = plane.enrolment
        return plane

    def _committed(self, written: Sequence[Written]) -> None:
        self._announce(written)
        for each in written:
            draft = each.draft
            if draft.entity is Entity.NODE and draft.name == "claim" and self._enrolment is not None:
                report = Report(attached=AssignmentId(str(draft.changes["assignment_id"])))
                task = asyncio.ensure_future(self._enrolment.report(NodeId(draft.entity_id), report))
                self._attaching[task] = None
                task.add_done_callback(self._attaching.pop)

    def count_writes(self) -> None:
        engine: Any = self.store._engine
        real = engine.write

        async def write(work: Any, **how: Any) -> Any:
            self.writes += 1
            return await real(work, **how)

        engine.write = write
        for verb in UPKEEP:
            setattr(self.store, verb, self._not_counted(getattr(self.store, verb)))

    def _not_counted(self, real: Any) -> Any:
        async def call(*args: Any, **kwargs: Any) -> Any:
            self.writes -= 1
            return await real(*args, **kwargs)

        return call


async def measure() -> Sequence[Figure]:
    with tempfile.TemporaryDirectory(prefix="bench-", dir=home()) as folder:
        setup = _Setup(Path(folder, "muster.db"))
        plane = await setup.open()
        spec = TemplateSpec(name="warm", provider="simulated", max_nodes=10**6, idle_timeout=86_400.0)
        await setup.store.apply_template(spec, now=0.0)
        now = time.time()
        await fill(setup.store, "warm", PROVISIONS, provider="simulated", now=now, until=now + 86_400.0)
        running = asyncio.create_task(plane.run())
        await asyncio.sleep(0)
        setup.count_writes()
        seconds, took = await _provision_all(plane, setup)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await setup.store.close()
        per_operation = setup.writes / PROVISIONS
        floor = _floor(Path(folder, "floor.db"), round(per_operation))
    took.sort()
    return [
        Figure(
            name=f"provisions of one warm node, {IN_FLIGHT} in flight",
            value=PROVISIONS / seconds,
            unit="provisions/s",
            floor=floor,
            note=f"p50 {took[len(took) // 2] * 1e3:.0f} ms, p99 {took[len(took) * 99 // 100] * 1e3:.0f} ms;"
            " floor: as many bare durable writes",
        ),
        Figure(
            name="store writes per warm provision",
            value=per_operation,
            unit="commits",
            floor=WRITES_TARGET,
            target=1.0,
            lower_is_better=True,
            note="floor is the target; a replica's own upkeep (leases, heartbeats) is not counted",
        ),
        Figure(name="time per warm provision", value=seconds / PROVISIONS * 1e6, unit="µs"),
    ]


async def _provision_all(plane: ControlPlane, setup: _Setup) -> tuple[float, list[float]]:
    turns = asyncio.Semaphore(IN_FLIGHT)
    took: list[float] = []

    async def one(number: int) -> None:
        async with turns:
            started = time.perf_counter()
            request = ProvisionRequest(template="warm", count=1, run=f"run-{number}")
            ended = await _ended(setup, await plane.desk.provision(request))
            assert ended.status is Status.SUCCEEDED, ended.verdict
            took.append(time.perf_counter() - started)

    began = time.perf_counter()
    async with asyncio.TaskGroup() as group:
        for number in range(PROVISIONS):
            group.create_task(one(number))
    return time.perf_counter() - began, took


async def _ended(setup: _Setup, operation: Operation) -> Operation:
    listener = setup.wakeups.listen((operation_topic(operation.id),))
    try:
        while not operation.ended:
            await listener.wait(5.0)
            operation = await setup.store.operation(operation.id)
    finally:
        listener.close()
    return operation


def _floor(path: Path, writes: int) -> float:
    """Return rows of an event's size per second, 64 per commit."""
    connection: sqlite3.Connection = sqlite.connect(path)
    connection.execute("CREATE TABLE events (seq INTEGER PRIMARY KEY, changes TEXT)")
    rows = PROVISIONS * writes
    started = time.perf_counter()
    for start in range(0, rows, IN_FLIGHT):
        connection.execute("BEGIN IMMEDIATE")
        for _ in range(min(IN_FLIGHT, rows - start)):
            connection.execute("INSERT INTO events (changes) VALUES (?)", ("x" * 300,))
        connection.execute("COMMIT")
    seconds = time.perf_counter() - started
    connection.close()
    return PROVISIONS / seconds
