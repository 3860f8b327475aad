"""Advance a refill: warm nodes for a pool. Accepts partial capacity, and fails without harm."""

from muster.domain import deadlines, progress_view
from muster.domain import node as nodes
from muster.domain import operation as operations
from muster.domain.decisions import CallProvider, ExtendDeadline, Finish, Wait
from muster.domain.errors import CapReached, IllegalTransition, Paused
from muster.domain.node import Binding, Node
from muster.domain.operation import Status, Verdict
from muster.domain.progress import Progress
from muster.domain.reasons import Reason
from muster.domain.refill_decisions import Discard, Launching, PoolIn, Situation, decide
from muster.domain.requests import RefillRequest
from muster.domain.settings import Settings
from muster.domain.steps import REFILL_STEPS
from muster.operations.boot_history import BootHistory
from muster.operations.capacity import Capacity
from muster.operations.concurrency import concurrently
from muster.operations.driven_lease import DrivenLease, Next, ProgressPublisher, still_driven
from muster.operations.launcher import AdoptionPlan, Launcher, planned
from muster.operations.watch import WatchTracker
from muster.ports.bundle import Ports
from muster.ports.wakeups import ROOM

BOOTING = 2
"""The step in which the nodes boot."""


class RefillHandler:
    def __init__(
        self,
        ports: Ports,
        settings: Settings,
        launcher: Launcher,
        watch_tracker: WatchTracker,
        boot_history: BootHistory,
    ) -> None:
        self._ports = ports
        self._store = ports.store
        self._settings = settings
        self._watch_tracker = watch_tracker
        self._boot_history = boot_history
        self._publisher = ProgressPublisher(ports.store, settings)
        self._launcher = launcher
        self._capacity = Capacity(ports)

    async def advance(self, driven: DrivenLease) -> Next | None:
        view = await self._store.view(driven.operation_id)
        operation = view.operation
        if not still_driven(operation, driven):
            return None
        request = operation.request
        if not isinstance(request, RefillRequest):
            raise IllegalTransition(f"operation {operation.id} is not a refill")
        at = Situation(
            operation=operation,
            request=request,
            template=await self._store.template(request.template),
            nodes=view.nodes,
            launches=view.launches,
            now=self._ports.clock.now(),
            grace_until=await self._watch_tracker.due(operation),
        )
        match decide(at):
            case Launching() as wanted:
                return await self._launch(at, wanted, driven)
            case CallProvider(launch=launch):
                await self._publish(at, 1, f"waiting for {launch.provider} to answer", driven)
                await self._launcher.call(launch, driven, await self._adoption_plan(at, launch.count))
                return Next(at=min(driven.retry_at, at.due_at))
            case ExtendDeadline(until=until):
                change = operations.extended(
                    operation, deadline_at=until, source=deadlines.EXTENSION, now=at.now
                )
                await self._store.write_operation(change, fence=driven.fence)
            case PoolIn(nodes=up):
                await self._pool_in(up, at, driven)
            case Discard() as discard:
                await self._discard(discard, at, driven)
            case Finish() as end:
                await self._finish(end, at, driven)
                return None
            case Wait(until=until):
                step, message = (BOOTING, "waiting for nodes to boot")
                if until is not None:
                    provider = at.launches[-1].provider
                    step, message = (1, f"waiting to ask {provider} again: it throttles requests")
                due = await self._publish(at, step, message, driven)
                poll = at.now + self._settings.poll_every
                return Next(at=min(due, poll, at.due_at, poll if until is None else until))
        return Next(at=at.now)

    async def _launch(self, at: Situation, wanted: Launching, driven: DrivenLease) -> Next:
        """Launch as many nodes as there is room for. A refill evicts no other nodes."""
        if await self._ports.access.paused(at.template.name):
            return await self._hold_back(at, driven)
        room = await self._capacity.left(at.template)
        installation = await self._store.installation()
        spec = at.template.spec
        launch = planned(
            at.operation.id,
            len(at.launches) + 1,
            installation_id=installation.id,
            template=at.template,
            resource_class=spec.resource_class,
            usage_class=wanted.usage_class,
            instance_types=spec.instance_types,
            count=max(1, min(wanted.count, room)),
            now=at.now,
        )
        try:
            await self._store.reserve(
                launch, cap=spec.max_nodes, total_cap=installation.max_nodes, fence=driven.fence
            )
        except Paused:  # since this replica looked
            return await self._hold_back(at, driven)
        except CapReached as short:
            verdict = Verdict(reason=Reason.CAP_REACHED, message=str(short))
            change = operations.failing(at.operation, verdict, now=at.now)
            await self._store.write_operation(change, fence=driven.fence)
        return Next(at=at.now)

    async def _hold_back(self, at: Situation, driven: DrivenLease) -> Next:
        """Wait until the template is resumed."""
        due = await self._publish(at, 1, "paused by an operator", driven, stands=True)
        return Next(at=min(due, at.now + self._settings.poll_every, at.due_at), also=ROOM)

    async def _adoption_plan(self, at: Situation, count: int) -> AdoptionPlan:
        waiting = Binding(operation_id=at.operation.id, assignment_id=None, run=None, owner=None)
        boot = await self._boot_history.deadlines(at.template)
        return AdoptionPlan(bindings=[waiting] * count, boot=boot, accepts_fewer=True)

    async def _pool_in(self, up: tuple[Node, ...], at: Situation, driven: DrivenLease) -> None:
        until = at.now + at.template.spec.idle_timeout
        changes = [nodes.pool_in(node, now=at.now, deadline_at=until) for node in up]
        await concurrently(self._store.apply(change, fence=driven.fence) for change in changes)

    async def _discard(self, discard: Discard, at: Situation, driven: DrivenLease) -> None:
        await self._launcher.abandon(discard.launches, driven, now=at.now, reason=discard.reason)
        changes = [
            nodes.condemn(node, now=at.now, reason=discard.reason, rolled_back=True) for node in discard.nodes
        ]
        await concurrently(self._store.apply(change, fence=driven.fence) for change in changes)

    async def _finish(self, end: Finish, at: Situation, driven: DrivenLease) -> None:
        progress: Progress | None = None
        if end.status is Status.SUCCEEDED:
            progress = progress_view.completed(REFILL_STEPS, "warm nodes are ready", ())
        change = operations.ended(
            at.operation, end.status, now=at.now, progress=progress, verdict=end.verdict
        )
        await self._store.write_operation(change, fence=driven.fence)

    async def _publish(
        self, at: Situation, step: int, message: str, driven: DrivenLease, *, stands: bool = False
    ) -> float:
        if step == BOOTING:
            progress = progress_view.booting(
                REFILL_STEPS, step, at.nodes, usual={}, message=message, now=at.now
            )
        else:
            parts, since = progress_view.chips(at.nodes), None if stands else at.now
            progress = progress_view.at_step(REFILL_STEPS, step, message=message, parts=parts, since=since)
        return await self._publisher.publish(at.operation, progress, driven, now=at.now)
