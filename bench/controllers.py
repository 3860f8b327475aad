"""One reconcile of every controller over 100,000 nodes, beside one indexed query over the same store."""

import asyncio
import tempfile
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path

from bench import Figure
from bench.claims import home
from bench.pool import fill
from bench.provisions import NoVerifier
from muster.domain.lifecycle import NodeState
from muster.domain.reasons import Reason
from muster.domain.template import TemplateSpec, UsageClass
from muster.plane import ControlPlane, Ports
from muster.ports.duties import Duty
from muster.ports.provider import LaunchAnswer, LaunchRequest, Machine, MachineState
from muster.stores.sql import SqlStore, open_sqlite
from muster.stores.wakeups import LocalWakeups
from muster.system import SystemClock, SystemIds

NODES = 100_000


class _Listing:
    """A provider that lists exactly what is recorded: nothing is orphaned, nothing has vanished."""

    name = "bench"
    visibility_window = 300.0
    call_timeout = 30.0
    makes_way: frozenset[Reason] = frozenset()

    def __init__(self, installation_id: str) -> None:
        self._machines = {
            f"machine-warm-{number:07d}": Machine(
                id=f"machine-warm-{number:07d}",
                installation_id=installation_id,
                token="token",  # noqa: S106 — no secret, a label
                instance_type="m5.large",
                usage_class=UsageClass.ON_DEMAND,
                state=MachineState.RUNNING,
            )
            for number in range(NODES)
        }

    async def launch(self, request: LaunchRequest) -> LaunchAnswer:
        raise NotImplementedError(request.token)

    async def find(self, token: str) -> Sequence[Machine]:
        return ()

    async def list(self) -> AsyncIterator[Machine]:
        for machine in self._machines.values():
            yield machine

    async def describe(self, machine_ids: Sequence[str]) -> Mapping[str, Machine]:
        return {machine_id: self._machines[machine_id] for machine_id in machine_ids}

    async def console(self, machine_id: str, *, lines: int) -> str | None:
        return None

    async def terminate(self, machine_ids: Sequence[str]) -> None:
        raise NotImplementedError(str(machine_ids))


async def measure() -> Sequence[Figure]:
    with tempfile.TemporaryDirectory(prefix="bench-", dir=home()) as folder:
        store = open_sqlite(Path(folder, "muster.db"), ids=SystemIds())
        installation = await store.limit_installation(10**6, now=0.0)
        spec = TemplateSpec(name="warm", provider="bench", max_nodes=10**6, idle_timeout=86_400.0)
        await store.apply_template(spec, now=0.0)
        now = time.time()
        await fill(store, "warm", NODES, provider="bench", now=now, until=now + 86_400.0)
        ports = Ports(
            store=store,
            commands=store.commands,
            access=store.access,
            overview=store.overview,
            clusters=store.clusters,
            jobs=store.jobs,
            messages=store.messages,
            clock=SystemClock(),
            ids=SystemIds(),
            wakeups=LocalWakeups(),
            providers={"bench": _Listing(installation.id)},
            verifier=NoVerifier(),
        )
        query = await _query(store)
        figures = [await _time(duty, query) for duty in ControlPlane(ports, owner="bench").duties]
        await store.close()
    return figures


async def _time(duty: Duty, query: float) -> Figure:
    started = time.perf_counter()
    await duty.work.reconcile()
    milliseconds = (time.perf_counter() - started) * 1e3
    return Figure(
        name=f"{duty.name} over {NODES:,} nodes",
        value=milliseconds,
        unit="ms",
        floor=query,
        note="floor: all nodes read once through the port, in pages of 500",
    )


async def _query(store: SqlStore) -> float:
    """Read every node once, in order, by index: the floor of a controller that must see them all."""
    best = float("inf")
    for _ in range(2):
        started = time.perf_counter()
        cursor = None
        while True:
            page = await store.nodes(states=(NodeState.IDLE,), template=None, after=cursor, limit=500)
            cursor = page.next
            if cursor is None:
                break
        best = min(best, time.perf_counter() - started)
        await asyncio.sleep(0)
    return best * 1e3
