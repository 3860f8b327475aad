"""One look of status and sweep over 10,000 and 100,000 nodes, beside one plain indexed query in the same run.

Two looks: one that finds nothing, as nearly all do, and one that finds what has become silent and overdue
among many. What is loaded is bounded by a batch; the peak of what Python allocates shows that. What a look
costs for each node must not grow with their number.
"""

import sqlite3
import tempfile
import time
import tracemalloc
from collections.abc import Awaitable, Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from bench import Figure
from bench.claims import home
from bench.node_copies import date, multiply
from bench.pool import fill
from bench.provisions import NoVerifier
from muster.controllers.deadlines import DeadlineSweep
from muster.controllers.node_health import StatusKeeper
from muster.domain.deadlines import Watch
from muster.domain.health import Health
from muster.domain.ids import NodeId
from muster.domain.lifecycle import NodeState
from muster.domain.settings import Settings
from muster.domain.template import TemplateSpec
from muster.operations.watch import WatchTracker
from muster.ports.bundle import Ports
from muster.ports.clock import Clock
from muster.ports.store import Beat
from muster.stores.sql import SqlStore, open_sqlite
from muster.stores.sql.sqlite import connect
from muster.stores.wakeups import LocalWakeups
from muster.system import SystemClock, SystemIds

SIZES = (10_000, 100_000)
PATTERN = 100
"""Nodes that are written through the port; the others are copies of them."""
SILENT, OVERDUE = 100, 1_000
"""One in so many falls silent; one in so many outstays its time."""
HOUR = 3600.0
TIMES = 5
ROUNDS = 3
"""In which some are found, beside one more for the memory that it takes: an hour each."""
LINEAR = 1.5
"""What a node may cost among ten times as many: the rest is noise."""
MEMORY = 2.0
"""Megabytes: a batch of what is found, however many there are."""
PLAIN = "SELECT node_id, seen_at FROM liveness WHERE seen_at >= 0 ORDER BY seen_at, node_id"


class _Always(WatchTracker):
    async def look(self) -> Watch:
        return Watch(since=0.0)


class _Stopped(SystemClock):
    """A clock that stands still unless it is moved on: however slow the machine, no other node falls
    silent."""

    def __init__(self) -> None:
        self.time = super().now()

    def now(self) -> float:
        return self.time


@dataclass(frozen=True, slots=True, kw_only=True)
class _Took:
    """Seconds, by the clock and of the processor: others on the machine don't add to the latter."""

    wall: float
    cpu: float


@dataclass(frozen=True, slots=True, kw_only=True)
class _Seen:
    """Seconds and bytes, of a look at so many nodes and of what it is measured by."""

    size: int
    verdicts: int
    query: float
    bare: float
    """The query, and as many bare writes as there are verdicts."""
    quiet: _Took
    found: _Took
    quiet_peak: int
    found_peak: int
    all_peak: int
    """Of what the query gives, held at once."""


async def measure() -> Sequence[Figure]:
    few, many = [await _look_at(size) for size in SIZES]
    return [*_figures(few), *_figures(many), *_growth(few, many)]


def _figures(seen: _Seen) -> Sequence[Figure]:
    name = f"status and sweep over {seen.size:,} nodes"
    return [
        Figure(
            name=f"{name}, nothing to judge",
            value=seen.quiet.wall * 1e3,
            unit="ms",
            floor=seen.query * 1e3,
            target=3.0,
            lower_is_better=True,
            note=f"floor: one indexed query over all; {seen.quiet_peak / 1e6:.2f} MB allocated at most",
        ),
        Figure(
            name=f"{name}, {seen.verdicts:,} to judge",
            value=seen.found.wall * 1e3,
            unit="ms",
            floor=seen.bare * 1e3,
            target=3.0,
            lower_is_better=True,
            note=f"floor: the same query, and a bare transaction for each verdict;"
            f" {seen.found.wall / seen.verdicts * 1e6:.0f} µs each",
        ),
        Figure(
            name=f"{name}, memory for {seen.verdicts:,} to judge",
            value=seen.found_peak / 1e6,
            unit="MB",
            floor=seen.all_peak / 1e6,
            limit=MEMORY,
            lower_is_better=True,
            note="allocated at most; floor: what the query gives, held at once",
        ),
    ]


def _growth(few: _Seen, many: _Seen) -> Sequence[Figure]:
    larger = many.size / few.size
    pairs = (
        ("CPU time for each node, nothing to judge", many.quiet.cpu / few.quiet.cpu / larger),
        ("CPU time for each node, one in a hundred to judge", many.found.cpu / few.found.cpu / larger),
    )
    return [
        Figure(
            name=f"{what}: {many.size:,} nodes beside {few.size:,}",
            value=value,
            unit="x",
            limit=LINEAR,
            lower_is_better=True,
        )
        for what, value in pairs
    ]


async def _look_at(size: int) -> _Seen:
    with tempfile.TemporaryDirectory(prefix="bench-", dir=home()) as folder:
        path = Path(folder, "muster.db")
        ids = await _crowd(path, size)
        clock = _Stopped()
        silent = [ids[number::SILENT] for number in range(ROUNDS + 1)]
        overdue = [ids[number + SILENT // 2 :: OVERDUE] for number in range(ROUNDS + 1)]
        verdicts = len(silent[0]) + len(overdue[0])
        now = clock.now()
        date(path, {now + HOUR * (number + 0.5): some for number, some in enumerate(overdue)})
        store = open_sqlite(path, ids=SystemIds())
        look = _looking(store, clock)
        await _beaten(store, ids, clock.now())
        quiet = _best([await _took(look) for _ in range(TIMES)])
        quiet_peak = await _peak(look)

        gone: set[NodeId] = set()

        async def an_hour_passes(number: int) -> None:
            clock.time += HOUR
            gone.update(silent[number])
            await _beaten(store, [each for each in ids if each not in gone], clock.now())

        looks = []
        for number in range(ROUNDS):
            await an_hour_passes(number)
            looks.append(await _took(look))
        await _check(store, silent=ROUNDS * len(silent[0]), overdue=ROUNDS * len(overdue[0]))
        query, bare, all_peak = _floors(path, silent[0], verdicts)
        await an_hour_passes(ROUNDS)
        found_peak = await _peak(look)
        await store.close()
    return _Seen(
        size=size,
        verdicts=verdicts,
        query=query,
        bare=bare,
        quiet=quiet,
        found=_best(looks),
        quiet_peak=quiet_peak,
        found_peak=found_peak,
        all_peak=all_peak,
    )


async def _crowd(path: Path, size: int) -> list[NodeId]:
    """Create so many idle and healthy nodes."""
    store = open_sqlite(path, ids=SystemIds())
    await store.apply_template(TemplateSpec(name="warm", provider="bench", max_nodes=10**6), now=0.0)
    clock = _Stopped()
    await fill(store, "warm", PATTERN, provider="bench", now=clock.now(), until=clock.now() + 24 * HOUR)
    pattern = [NodeId(f"node-warm-{number:07d}") for number in range(PATTERN)]
    clock.time += 2 * Settings().limits.max_transition  # their start-up is over
    await _beaten(store, pattern, clock.now())
    await _looking(store, clock)()
    well = await store.vitals(pattern)
    assert all(each.health is Health.READY and not each.news for each in well.values())
    await store.close()
    return multiply(path, size // PATTERN)


def _looking(store: SqlStore, clock: Clock) -> Callable[[], Awaitable[None]]:
    settings, ports = Settings(), _ports(store, clock)
    watch_tracker = _Always(store, clock, settings.limits)
    status, sweep = (
        StatusKeeper(ports, settings, watch_tracker),
        DeadlineSweep(ports, settings, watch_tracker),
    )

    async def look() -> None:
        await status.reconcile()
        await sweep.reconcile()

    return look


def _ports(store: SqlStore, clock: Clock) -> Ports:
    return Ports(
        store=store,
        commands=store.commands,
        access=store.access,
        overview=store.overview,
        clusters=store.clusters,
        jobs=store.jobs,
        messages=store.messages,
        clock=clock,
        ids=SystemIds(),
        wakeups=LocalWakeups(),
        providers={},
        verifier=NoVerifier(),
    )


async def _beaten(store: SqlStore, ids: Sequence[NodeId], now: float) -> None:
    """Record that these nodes were just seen."""
    await store.record_beats([Beat(node_id=node_id, seen_at=now) for node_id in ids])


async def _check(store: SqlStore, *, silent: int, overdue: int) -> None:
    """Check that the measured work was the intended work."""
    offline = await store.offline(states=(NodeState.IDLE,), since_before=float("inf"), limit=10**6)
    ended = await store.nodes(states=(NodeState.TERMINATING,), template=None, after=None, limit=500)
    assert (len(offline), len(ended.items)) == (silent, overdue), (len(offline), len(ended.items))


async def _took(work: Callable[[], Awaitable[None]]) -> _Took:
    wall, cpu = time.perf_counter(), time.process_time()
    await work()
    return _Took(wall=time.perf_counter() - wall, cpu=time.process_time() - cpu)


def _best(looks: Sequence[_Took]) -> _Took:
    return _Took(wall=min(each.wall for each in looks), cpu=min(each.cpu for each in looks))


async def _peak(work: Callable[[], Awaitable[None]]) -> int:
    tracemalloc.start()
    try:
        await work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


# --- floors ---------------------------------------------------------------------------------------


def _floors(path: Path, ids: Sequence[NodeId], verdicts: int) -> tuple[float, float, int]:
    with closing(connect(path)) as connection:
        connection.execute("CREATE TABLE told (id INTEGER PRIMARY KEY, node_id TEXT, words TEXT)")
        query = min(_timed(lambda: _ask(connection)) for _ in range(TIMES))
        bare = query + min(_timed(lambda: _write(connection, ids, verdicts)) for _ in range(ROUNDS))
        tracemalloc.start()
        held = connection.execute(PLAIN).fetchall()
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert held
        return query, bare, peak


def _ask(connection: sqlite3.Connection) -> None:
    for _row in connection.execute(PLAIN):
        pass


def _write(connection: sqlite3.Connection, ids: Sequence[NodeId], verdicts: int) -> None:
    for number in range(verdicts):
        node_id = ids[number % len(ids)]
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("UPDATE liveness SET health_reason = health_reason WHERE node_id = ?", (node_id,))
        connection.execute("INSERT INTO told (node_id, words) VALUES (?, ?)", (node_id, "no heartbeat"))
        connection.execute("COMMIT")


def _timed(work: Callable[[], None]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started
