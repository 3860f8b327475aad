"""One look of status and sweep over 10,000 and 100,000 nodes, beside plain indexed queries in the same run.

Two looks: one that finds nothing, as nearly all do, and one that finds what has become overdue and silent
among many. What is loaded is bounded by what is found; the peak of what Python allocates shows it.
"""

import tempfile
import time
import tracemalloc
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from bench import Figure
from bench.claims import home
from bench.pool import fill
from bench.provisions import Nobody
from muster.controllers.deadlines import Sweep
from muster.controllers.status import StatusKeeper
from muster.domain.deadlines import Watch
from muster.domain.ids import NodeId
from muster.domain.lifecycle import NodeState
from muster.domain.settings import Settings
from muster.domain.template import TemplateSpec
from muster.operations.watching import Watching
from muster.ports.bundle import Ports
from muster.ports.clock import Clock
from muster.ports.store import Beat
from muster.stores.sql import SqlStore, open_sqlite
from muster.stores.wakeups import LocalWakeups
from muster.system import SystemClock, SystemIds

SIZES = (10_000, 100_000)
SHARE = 100
"""One in so many has something to be judged for."""
TIMES = 5


class _Always(Watching):
    async def look(self) -> Watch:
        return Watch(since=0.0)


class _Ahead(SystemClock):
    """A clock that can be moved on."""

    ahead = 0.0

    def now(self) -> float:
        return super().now() + self.ahead


async def measure() -> Sequence[Figure]:
    figures: list[Figure] = []
    for size in SIZES:
        figures.extend(await _of(size))
    return figures


async def _of(size: int) -> Sequence[Figure]:
    with tempfile.TemporaryDirectory(prefix="bench-", dir=home()) as folder:
        store = open_sqlite(Path(folder, "muster.db"), ids=SystemIds())
        await store.apply_template(TemplateSpec(name="warm", provider="bench", max_nodes=10**6), now=0.0)
        now = time.time()
        await fill(store, "warm", size, provider="bench", now=now, until=now + 86_400.0)
        settings = Settings()
        clock = _Ahead()
        ports = _ports(store, clock)
        watching = _Always(store, ports.clock, settings.limits)
        status, sweep = StatusKeeper(ports, settings, watching), Sweep(ports, settings, watching)

        async def look() -> None:
            await status.reconcile()
            await sweep.reconcile()

        await look()  # all have just booted: their first word is judged once
        ids = [NodeId(f"node-warm-{number:07d}") for number in range(size)]
        await _beaten(store, ids, clock.now())
        walk = await _best(lambda: _walk(store), 2)
        quiet = await _best(look, TIMES)
        peak = await _peak(look)
        some = ids[::SHARE]
        found = await _found(store, look, clock, ids, some)
        await store.close()
    name = f"status and sweep over {size:,} nodes"
    return [
        Figure(
            name=f"{name}, nothing to judge",
            value=quiet * 1e3,
            unit="ms",
            floor=walk * 1e3,
            target=3.0,
            lower_is_better=True,
            note=f"floor: every node read once by index; {peak / 1e6:.2f} MB allocated at most",
        ),
        Figure(
            name=f"{name}, {len(some):,} silent",
            value=found * 1e3,
            unit="ms",
            floor=walk * 1e3,
            target=3.0,
            lower_is_better=True,
            note=f"{found / len(some) * 1e6:.0f} µs for each verdict, written with its event",
        ),
    ]


def _ports(store: SqlStore, clock: Clock) -> Ports:
    return Ports(
        store=store,
        commands=store.commands,
        access=store.access,
        overview=store.overview,
        clusters=store.clusters,
        clock=clock,
        ids=SystemIds(),
        wakeups=LocalWakeups(),
        providers={},
        verifier=Nobody(),
    )


async def _beaten(store: SqlStore, ids: Sequence[NodeId], now: float) -> None:
    """They were just seen."""
    await store.record_beats([Beat(node_id=node_id, seen_at=now) for node_id in ids])


def _others(ids: Sequence[NodeId], some: Sequence[NodeId]) -> list[NodeId]:
    silent = set(some)
    return [each for each in ids if each not in silent]


async def _walk(store: SqlStore) -> None:
    cursor = None
    while True:
        page = await store.nodes(states=(NodeState.IDLE,), template=None, after=cursor, limit=500)
        cursor = page.next
        if cursor is None:
            return


async def _best(work: Callable[[], Awaitable[None]], times: int) -> float:
    best = float("inf")
    for _ in range(times):
        started = time.perf_counter()
        await work()
        best = min(best, time.perf_counter() - started)
    return best


async def _peak(work: Callable[[], Awaitable[None]]) -> int:
    tracemalloc.start()
    try:
        await work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


async def _found(
    store: SqlStore,
    look: Callable[[], Awaitable[None]],
    clock: _Ahead,
    ids: Sequence[NodeId],
    some: Sequence[NodeId],
) -> float:
    """Time passes, and some of them don't beat any more."""
    clock.ahead += 3600.0
    await _beaten(store, _others(ids, some), clock.now())
    started = time.perf_counter()
    await look()
    return time.perf_counter() - started
