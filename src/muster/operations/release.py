"""Advance a release: take the nodes of a provision back, and wait until each is clean or condemned.

The nodes prove to the enrolment that they are clean; it pools or condemns them. This operation starts that
and waits. Releasing an unfinished provision cancels it first.
"""

from contextlib import suppress

from muster.domain import node as nodes
from muster.domain import operation as operations
from muster.domain import progress_view
from muster.domain.decisions import Finish, Wait
from muster.domain.errors import IllegalTransition, NotCancellable
from muster.domain.node import Node
from muster.domain.operation import Status
from muster.domain.progress import Progress
from muster.domain.release_decisions import CancelTarget, Release, Situation, decide
from muster.domain.requests import ReleaseRequest
from muster.domain.settings import Settings
from muster.domain.steps import RELEASE_STEPS
from muster.operations.driven_lease import DrivenLease, Next, ProgressPublisher, still_driven
from muster.operations.submission import request_cancel
from muster.operations.watch import WatchTracker
from muster.ports.bundle import Ports
from muster.ports.wakeups import operation_topic


class ReleaseHandler:
    def __init__(self, ports: Ports, settings: Settings, watch_tracker: WatchTracker) -> None:
        self._ports = ports
        self._watch_tracker = watch_tracker
        self._store = ports.store
        self._settings = settings
        self._publisher = ProgressPublisher(ports.store, settings)

    async def advance(self, driven: DrivenLease) -> Next | None:
        operation = await self._store.operation(driven.operation_id)
        if not still_driven(operation, driven):
            return None
        request = operation.request
        if not isinstance(request, ReleaseRequest):
            raise IllegalTransition(f"operation {operation.id} is not a release")
        target = await self._store.view(request.operation_id)
        at = Situation(
            operation=operation,
            request=request,
            target=target.operation,
            nodes=target.nodes,
            now=self._ports.clock.now(),
            returning=self._settings.limits.release_operation,
            grace_until=await self._watch_tracker.due(operation),
        )
        due = at.now + self._settings.poll_every
        match decide(at):
            case CancelTarget():
                await self._cancel(at)
            case Release(nodes=running):
                await self._release(running, at, driven)
            case Finish() as end:
                await self._finish(end, at, driven)
                return None
            case Wait():
                due = min(due, await self._publish(at, driven))
        if at.now < operation.deadline_at:  # past it, it may still wait for its provision to end
            due = min(due, operation.deadline_at)
        return Next(at=due, also=operation_topic(request.operation_id))

    async def _cancel(self, at: Situation) -> None:
        with suppress(NotCancellable):  # its commit won: the release goes on from there
            await request_cancel(self._store, at.target.id, now=at.now)

    async def _release(self, running: tuple[Node, ...], at: Situation, driven: DrivenLease) -> None:
        until = at.now + self._settings.limits.releasing
        changes = [nodes.release(node, now=at.now, deadline_at=until) for node in running]
        await self._store.apply_all(changes, fence=driven.fence)

    async def _finish(self, end: Finish, at: Situation, driven: DrivenLease) -> None:
        progress: Progress | None = None
        if end.status is Status.SUCCEEDED:
            progress = progress_view.completed(RELEASE_STEPS, end.result, ())
        change = operations.ended(
            at.operation, end.status, now=at.now, progress=progress, verdict=end.verdict
        )
        await self._store.write_operation(change, fence=driven.fence)

    async def _publish(self, at: Situation, driven: DrivenLease) -> float:
        waiting = "for the provision to stop" if not at.target.ended else "until the nodes are clean"
        progress = progress_view.at_step(
            RELEASE_STEPS,
            2 if at.target.ended else 1,
            message=f"waiting {waiting}",
            parts=progress_view.chips(at.selected),
            since=at.now,
        )
        return await self._publisher.publish(at.operation, progress, driven, now=at.now)
