"""Those who ask for nodes: they provision, hold, release, cancel, run again, and repeat what got no answer.

Owns the load on the control plane and the callers' memory of what was acknowledged. Every session is one task
of the world.
"""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from random import Random
from typing import Any, TypeVar

from muster.domain.errors import Ambiguous, Conflict, MusterError, NotCancellable, StoreUnavailable
from muster.domain.ids import AssignmentId, OperationId
from muster.domain.operation import Operation
from muster.domain.requests import ProvisionRequest, ReleaseRequest
from muster.domain.template import UsageClass
from muster.plane import ControlPlane
from muster_simulation.invariants.judge import Judge
from muster_simulation.network import Network, Unreachable
from muster_simulation.trace import FaultCounts

T = TypeVar("T")
PATIENCE = 15.0
TRIES = 8
HOLD = 300.0
"""Seconds for which failed nodes of some runs are kept for a look."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    every: float = 60.0
    """Mean seconds between two requests."""
    largest: int = 4
    owners: int = 2
    hold: tuple[float, float] = (5.0, 240.0)
    keyed: float = 0.8
    queued: float = 0.4
    hurried: float = 0.2
    """With an explicit timeout."""
    special: float = 0.2
    """Of another class, usage or instance type than the template's."""
    cancelled: float = 0.15
    forgotten: float = 0.1
    """Never released: the maximum run time ends it."""
    rerun: float = 0.15
    repeated: float = 0.1
    """Sent once more although it was answered."""


class Callers:
    def __init__(
        self,
        load: Load,
        *,
        templates: tuple[str, ...],
        network: Network,
        judge: Judge,
        random: Random,
        counts: FaultCounts,
        spawn: Callable[[Coroutine[Any, Any, None]], None],
    ) -> None:
        self.stopped = False
        self._load = load
        self._templates = templates
        self._network = network
        self._judge = judge
        self._random = random
        self._counts = counts
        self._spawn = spawn
        self._sessions = 0
        self._keys = 0
        self._waiting: dict[str, asyncio.Future[None]] = {}
        judge.when_ended(self._ended)

    async def arrive(self) -> None:
        while not self.stopped:
            await asyncio.sleep(self._random.expovariate(1.0 / self._load.every))
            if not self.stopped:
                self._sessions += 1
                self._spawn(self._session(f"run-{self._sessions}"))

    async def _session(self, run: str) -> None:
        operation_id = await self._provision(run)
        if operation_id is not None:
            await self._use(run, operation_id)
        if self._chance(self._load.rerun) and not self.stopped:
            again = await self._provision(run)
            if again is not None:
                await self._use(run, again)

    # --- asking -----------------------------------------------------------------------------------

    async def _provision(self, run: str) -> OperationId | None:
        request = self._draw(run)
        operation = await self._ask(lambda plane, key: plane.desk.provision(request, key=key))
        return None if operation is None else operation.id

    async def _ask(
        self, message: Callable[[ControlPlane, str | None], Coroutine[Any, Any, Operation]]
    ) -> Operation | None:
        """Something that makes an operation. With a key it is repeated until there is an answer."""
        key: str | None = None
        if self._chance(self._load.keyed):
            self._keys += 1
            key = f"key-{self._keys}"
        answered = await self._insist(lambda plane: message(plane, key), tries=TRIES if key else 1)
        if answered is None:
            return None
        self._judge.acknowledged(answered.id, key)
        if key is not None and self._chance(self._load.repeated):
            await asyncio.sleep(self._random.uniform(0.0, 30.0))
            again = await self._insist(lambda plane: message(plane, key), tries=TRIES)
            if again is not None:
                self._judge.acknowledged(again.id, key)
        return answered

    async def _insist(
        self, message: Callable[[ControlPlane], Coroutine[Any, Any, T]], *, tries: int
    ) -> T | None:
        for _ in range(tries):
            try:
                return await self._network.call(message, timeout=PATIENCE)
            except (Unreachable, StoreUnavailable, Conflict):
                await asyncio.sleep(self._random.uniform(0.5, 10.0))
            except MusterError as error:
                self._counts.add(f"answer: {type(error).__name__}")
                return None
        return None

    def _draw(self, run: str) -> ProvisionRequest:
        random, load = self._random, self._load
        special = self._chance(load.special)
        return ProvisionRequest(
            template=random.choice(self._templates),
            count=random.randint(1, load.largest),
            run=run,
            owner=f"owner-{random.randrange(load.owners)}",
            resource_class=random.choice((None, "xlarge", "large")) if special else None,
            usage=random.choice((None, (UsageClass.SPOT,), (UsageClass.ON_DEMAND,))) if special else None,
            instance_types=random.choice((None, ("c*",), ("m*", "r*"))) if special else None,
            max_runtime=random.uniform(60.0, 600.0) if self._chance(0.3) else None,
            timeout=random.uniform(20.0, 300.0) if self._chance(load.hurried) else None,
            queue_timeout=random.uniform(10.0, 300.0) if self._chance(load.queued) else 0.0,
            hold_on_failure=HOLD if run.endswith(("3", "7")) else None,
        )

    # --- using ------------------------------------------------------------------------------------

    async def _use(self, run: str, operation_id: OperationId) -> None:
        if self._chance(self._load.cancelled):
            await asyncio.sleep(self._random.uniform(0.0, 120.0))
            if await self._cancel(operation_id):
                return
        else:
            await self._end_of(operation_id)
        if self._judge.records.operations[operation_id]["status"] != "succeeded":
            return
        await asyncio.sleep(self._random.uniform(*self._load.hold))
        if not self._chance(self._load.forgotten):
            await self._release(run, operation_id)

    async def _cancel(self, operation_id: OperationId) -> bool:
        """Whether it is (being) cancelled; else it was too late and must be released."""
        if self._chance(0.3):
            await self._ask(
                lambda plane, key: plane.desk.release(ReleaseRequest(operation_id=operation_id), key=key)
            )
            return True
        for _ in range(TRIES):
            try:
                await self._network.call(lambda plane: plane.desk.cancel(operation_id), timeout=PATIENCE)
            except NotCancellable:
                return False
            except (Unreachable, StoreUnavailable, Conflict):
                await asyncio.sleep(self._random.uniform(0.5, 10.0))
            except MusterError:
                return False
            else:
                return True
        return False

    async def _release(self, run: str, operation_id: OperationId) -> None:
        if self._chance(0.3):
            try:
                await self._by_run(run)
            except Ambiguous:
                await self._by_operation(operation_id)
            return
        members = self._judge.records.operations[operation_id]["members"]
        if len(members) > 1 and self._chance(0.2):
            part = tuple(AssignmentId(each["assignment_id"]) for each in members[: len(members) // 2])
            await self._by_operation(operation_id, part)
            await asyncio.sleep(self._random.uniform(1.0, 60.0))
        await self._by_operation(operation_id)
        if self._chance(self._load.repeated):
            await asyncio.sleep(self._random.uniform(0.0, 90.0))
            await self._by_operation(operation_id)

    async def _by_run(self, run: str) -> None:
        latest = self._chance(0.3)
        for _ in range(TRIES):
            try:
                found = await self._network.call(
                    lambda plane: plane.desk.release_run(run, latest=latest), timeout=PATIENCE
                )
            except (Unreachable, StoreUnavailable, Conflict):
                await asyncio.sleep(self._random.uniform(0.5, 10.0))
            except Ambiguous:
                raise
            except MusterError:
                return
            else:
                self._judge.acknowledged(found.id, None)
                return

    async def _by_operation(
        self, operation_id: OperationId, assignment_ids: tuple[AssignmentId, ...] | None = None
    ) -> None:
        request = ReleaseRequest(operation_id=operation_id, assignment_ids=assignment_ids)
        await self._ask(lambda plane, key: plane.desk.release(request, key=key))

    # --- winding up -------------------------------------------------------------------------------

    async def give_back(self) -> None:
        """Cancel what is under way and release what runs, once; the rest is a matter of time."""
        records = self._judge.records
        provisions = [each for each in records.operations.values() if each["kind"] == "provision"]
        for operation in provisions:
            operation_id = OperationId(operation["id"])
            running = any(node["state"] == "running" for node in records.nodes_of(operation_id))
            if operation["ended_at"] is None or running:
                await self._insist(
                    lambda plane, operation_id=operation_id: plane.desk.release(  # type: ignore[misc]
                        ReleaseRequest(operation_id=operation_id)
                    ),
                    tries=TRIES,
                )

    async def _end_of(self, operation_id: str) -> None:
        """Until it has ended; by and by the caller also asks what it waits for."""
        if operation_id not in self._judge.records.unfinished:
            return
        ended = self._waiting.get(operation_id)
        if ended is None:
            ended = self._waiting[operation_id] = asyncio.get_running_loop().create_future()
        if self._chance(0.2):
            await self._insist(lambda plane: plane.desk.why(OperationId(operation_id)), tries=1)
        await asyncio.shield(ended)

    def _ended(self, operation_id: str) -> None:
        waiting = self._waiting.pop(operation_id, None)
        if waiting is not None and not waiting.done():
            waiting.set_result(None)

    def _chance(self, probability: float) -> bool:
        return self._random.random() < probability
