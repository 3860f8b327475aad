"""A world for one seed: builds everything, lets it run, brings it to rest, and has it judged.

Owns the order of a run: set up, trouble, calm, books. The only place of the simulation that names adapters.
"""

import asyncio
import logging
import threading
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from muster.domain.ids import NodeId
from muster.domain.settings import PRICED_LEASE, PRICED_RENEW_EVERY, Settings
from muster.domain.template import UsageClass
from muster.plane import ControlPlane, Ports
from muster.ports.commits import Written
from muster.ports.store import Cursor
from muster.stores.announcements import announcer
from muster.stores.cache import CachedAccess, CachedStore
from muster.stores.sql import SqlStore, open_sqlite
from muster_simulation.agent import Program
from muster_simulation.bus import Bus
from muster_simulation.callers import Callers
from muster_simulation.cloud import (
    CloudFaults,
    Entry,
    SimulatedCloud,
    SimulatedProvider,
    SimulatedVerifier,
)
from muster_simulation.ids import SeededIds
from muster_simulation.invariants import Broken, Judge
from muster_simulation.invariants.context import Context
from muster_simulation.invariants.final_rules import check_books, check_counters, remains
from muster_simulation.invariants.truth import SIMULATED
from muster_simulation.jobs.side import JobSide
from muster_simulation.life import current_life
from muster_simulation.loop import VirtualClock, running_loop
from muster_simulation.network import QUIET as QUIET_NETWORK
from muster_simulation.network import Network
from muster_simulation.nodes import HEALTHY, Nodes
from muster_simulation.operators import Operator
from muster_simulation.plan import FaultPlan
from muster_simulation.replicas import Replicas
from muster_simulation.storage import QUIET as QUIET_STORE
from muster_simulation.storage import Bug, StoreFaults, StorePath
from muster_simulation.trace import FaultCounts, Trace

TICK = 30.0
"""How often the judge looks at what only time can break."""
REST = 2 * 3600.0
"""Within so much calm everything that was given back must be gone."""
CALM_CLOUD = CloudFaults(latency=(0.05, 0.5), start=(1.0, 5.0), stop=(1.0, 10.0))


class World:
    def __init__(self, plan: FaultPlan, *, replicas: int) -> None:
        self.plan = plan
        self.counts = FaultCounts()
        self.trace = Trace()
        self.clock = VirtualClock(running_loop())
        self._ids = SeededIds(self._random("ids"))
        self._bus = Bus(random=self._random("bus"), counts=self.counts, lost=plan.wakeups_lost)
        self._cursor: Cursor | None = None
        self._broken: Broken | None = None
        self._stopped: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.store: SqlStore = open_sqlite(
            ":memory:", ids=self._ids, inline=True, after_commit=self._committed
        )
        self._announce = announcer(self._bus)
        self._store_faults = StoreFaults(
            self.store, random=self._random("store"), counts=self.counts, rates=plan.store
        )
        self.cloud = SimulatedCloud(
            clock=self.clock, random=self._random("cloud"), faults=plan.cloud, capacity=plan.capacity
        )
        settings = Settings(
            lease=PRICED_LEASE, renew_every=PRICED_RENEW_EVERY, retention=plan.retention, limits=SIMULATED
        )
        self._settings = settings if replicas > 1 else replace(settings, absent_after=None)
        self._installation_id = ""
        self._replica_count = replicas
        self._jobs: JobSide | None = None
        self._caches: dict[str, tuple[CachedStore, CachedAccess]] = {}
        """What each replica keeps in memory, by its name."""

    async def run(self, hours: float) -> None:
        """Raises Broken."""
        self._installation_id = (await self.store.installation()).id
        self._build()
        await self._operator.set_up()
        self._add_foreigners()
        self._add_strays()
        for index in range(self._replica_count):
            self._replicas.start(index)
        self._start_everything()
        await self._wait(hours * 3600.0)
        await self._come_to_rest()
        await check_books(self.context, self.store)

    def close(self) -> None:
        """After the loop: whatever still waits in it must find the store open."""
        _at_once(self.store.close())

    # --- building ---------------------------------------------------------------------------------

    def _build(self) -> None:
        plan = self.plan
        self._replicas = Replicas(
            self._replica_count,
            build=self._plane,
            store_faults=self._store_faults,
            clock=self.clock,
            random=self._random("replicas"),
            counts=self.counts,
            trace=self.trace,
            failed=self.failed,
            faults=plan.replicas,
        )
        self._network = Network(
            random=self._random("network"),
            counts=self.counts,
            pick=self._replicas.pick,
            failed=self.failed,
            faults=plan.network,
        )
        self._replicas.connect(self._network)
        self._nodes = Nodes(
            cloud=self.cloud,
            network=self._network,
            clock=self.clock,
            random=self._random("nodes"),
            boots=self._random("boots"),
            counts=self.counts,
            trace=self.trace,
            installation_id=self._installation_id,
            stations=lambda: self._replicas.there,
            presence=self._replicas.presence,
            finished=self._finished,
            recognised=self._recognised,
            faults=plan.nodes,
            host=self._hosted,
        )
        self.context = Context(
            installation_id=self._installation_id,
            now=self.clock.now,
            ledger=self.cloud.ledger,
            agents=self._nodes.agents,
            truths=self._nodes.truths,
            presence=self._replicas.presence,
            bugs=self._store_faults.bugs,
        )
        self.judge = Judge(self.context, self.trace, self._stop)
        self._store_faults.admitted = self.judge.tokens.admitted
        if plan.jobs is not None:
            self._jobs = JobSide(
                plan.jobs,
                installation_id=self._installation_id,
                judge=self.judge,
                clock=self.clock,
                network=self._network,
                replicas=self._replicas,
                random=self._random,
                counts=self.counts,
                spawn=self._spawn,
            )
            self._store_faults.leased = self._jobs.rules.leased
        # The judge first: it must see a machine before its agent can do anything.
        self.cloud.watch(self.judge)
        self.cloud.watch(self._nodes)
        self._operator = Operator(
            plan.site,
            store=self.store,
            judge=self.judge,
            clock=self.clock,
            random=self._random("operator"),
            counts=self.counts,
            spawn=self._spawn,
        )
        self._callers = Callers(
            plan.load,
            templates=tuple(spec.name for spec in plan.site.templates if not spec.kitted),
            network=self._network,
            judge=self.judge,
            random=self._random("callers"),
            counts=self.counts,
            spawn=self._spawn,
        )

    def _plane(self, owner: str, path: StorePath) -> ControlPlane:
        provider = SimulatedProvider(
            self.cloud,
            clock=self.clock,
            installation_id=self._installation_id,
            on_call=self.judge.called,
        )
        alone = self._replica_count == 1
        cache = CachedStore(path.as_store(), self.clock, alone=alone)
        access = CachedAccess(self.store.access, self.clock, alone=alone)
        self._caches[owner] = (cache, access)
        ports = Ports(
            store=cache.as_store(),
            commands=self.store.commands,
            access=access.as_access(),
            overview=self.store.overview,
            clusters=self.store.clusters,
            jobs=self.store.jobs,
            messages=self.store.messages,
            clock=self.clock,
            ids=self._ids,
            wakeups=self._bus,
            providers={provider.name: provider},
            verifier=SimulatedVerifier(self.cloud),
        )
        if self._jobs is not None:
            ports = self._jobs.joined(ports, owner, path)
        return ControlPlane(ports, owner=owner, settings=self._settings)

    def _hosted(self, program: str) -> Program:
        if self._jobs is None:
            raise RuntimeError("there are kits only where there are jobs")
        return self._jobs.process(program)

    def _add_foreigners(self) -> None:
        for number in range(self.plan.foreign):
            self.cloud.ledger.add(self._relic(f"i-other-{number}", "another"))

    def _add_strays(self) -> None:
        for number in range(self.plan.strays):
            entry = self._relic(f"i-stray-{number}", self._installation_id)
            self.judge.launches.found(entry)
            self.cloud.ledger.add(entry)

    def _relic(self, machine_id: str, installation_id: str) -> Entry:
        """A machine that ran before this world began, without an agent."""
        now = self.clock.now()
        return Entry(
            machine_id=machine_id,
            installation_id=installation_id,
            token=f"{installation_id}/{machine_id}",
            template=self.plan.site.templates[0].name,
            instance_type="m7.large",
            usage_class=UsageClass.ON_DEMAND,
            sent_at=now,
            created_at=now,
            running_at=now,
            visible_at=now,
        )

    def _start_everything(self) -> None:
        self._spawn(self._nodes.waves.roll())
        self._spawn(self._tick_for_ever())
        self._spawn(self._callers.arrive())
        self._spawn(self._operator.change_things())
        self._spawn(self._replicas.black_out())
        self._spawn(self._replicas.go_away())
        for index in range(self._replica_count):
            self._spawn(self._replicas.trouble(index))
        if self._jobs is not None:
            self._jobs.start()

    # --- running ----------------------------------------------------------------------------------

    async def _tick_for_ever(self) -> None:
        while True:
            await asyncio.sleep(TICK)
            self.judge.tick(TICK, calm=self._replicas.calm)
            if self._jobs is not None:
                self._jobs.tick(calm=self._replicas.calm)
            try:
                await check_counters(self.context, self.store)
            except Broken as broken:
                self._stop(broken)

    async def _come_to_rest(self) -> None:
        """Faults end, everything is given back; then time alone must bring the rest."""
        self.cloud.faults = CALM_CLOUD
        self._network.faults = QUIET_NETWORK
        self._store_faults.rates = QUIET_STORE
        self._nodes.faults = HEALTHY
        self._bus.lost = 0.0
        self._callers.stopped = True
        self._replicas.settle()
        if self._jobs is not None:
            await self._jobs.come_to_rest(self._wait)
        await self._operator.close_down()
        self.trace.remark(self.clock.now(), "calm")
        self._spawn(self._callers.give_back())
        waited = 0.0
        left = self._remains()
        while left:
            if waited > REST:
                raise Broken("nothing_is_left", f"after {waited:.0f} s of calm there are {left}")
            await self._wait(TICK)
            waited += TICK
            left = self._remains()

    def _remains(self) -> str:
        return remains(self.context) or ("" if self._jobs is None else self._jobs.remains())

    async def _wait(self, seconds: float) -> None:
        await asyncio.wait((self._stopped,), timeout=seconds)
        if self._broken is not None:
            raise self._broken

    def _spawn(self, coro: Coroutine[Any, Any, None]) -> None:
        asyncio.get_running_loop().create_task(coro).add_done_callback(self._finished)

    def _finished(self, task: "asyncio.Task[None]") -> None:
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self.failed(error)

    def failed(self, error: BaseException) -> None:
        """Raise errors that no code of the control plane raised, so that the whole program ends."""
        if not isinstance(error, Exception | asyncio.CancelledError):
            raise error
        if isinstance(error, Bug):
            return
        self.judge.failed(error)

    def _recognised(self, token: str, node_id: NodeId) -> None:
        self.judge.recognised(token, node_id)

    def _stop(self, broken: Broken) -> None:
        if self._broken is None:
            self._broken = broken
            self._stopped.set_result(None)

    # --- watching the store -----------------------------------------------------------------------

    def _committed(self, written: Sequence[Written]) -> None:
        """Right after a commit: the judge reads the feed, then the wake-ups go out."""
        page = _at_once(self.store.events(after=self._cursor, limit=1000))
        self._cursor = page.next
        for event in page.items:
            self.judge.event(event)
            self._operator.saw(event)
            if self._jobs is not None:
                self._jobs.saw(event)
        writer = current_life()
        for owner, caches in self._caches.items():
            if writer is None or owner == writer.name:
                for cache in caches:
                    cache.saw(written)
        self._announce(written)

    def _random(self, part: str) -> Random:
        return Random(f"{part}/{self.plan.seed}")


def _at_once(coro: Coroutine[Any, Any, Any]) -> Any:
    """The result of a coroutine that never waits, as those of an inline store."""
    try:
        coro.send(None)
    except StopIteration as done:
        return done.value
    raise RuntimeError("the store waited: it must be inline")


@dataclass(slots=True)
class Alarm:
    """Catches what the control plane logs as its own bug, which it survives on purpose. What other threads of
    the program log is no business of this world."""

    world: World | None = None

    def listener(self) -> logging.Handler:
        alarm, here = self, threading.get_ident()

        class _Handler(logging.Handler):
            def emit(self, record: logging.LogRecord) -> None:
                error = record.exc_info[1] if record.exc_info else None
                if alarm.world is not None and error is not None and record.thread == here:
                    alarm.world.failed(error)

        return _Handler(level=logging.ERROR)
