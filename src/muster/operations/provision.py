"""Advance a provision: claim first, launch the rest, all or nothing.

Carries out what `domain.provision_decisions.decide` says, one action at a time. Each action is one guarded
write or a set of independent ones. A crash between two of them is just another state to decide from.
"""

from collections.abc import Sequence
from dataclasses import replace

from muster.domain import deadlines, progress_view
from muster.domain import node as nodes
from muster.domain import operation as operations
from muster.domain.decisions import CallProvider, ExtendDeadline, Finish, Wait
from muster.domain.errors import (
    CapReached,
    IllegalTransition,
    InvalidRequest,
    Paused,
    ProviderError,
    Refused,
)
from muster.domain.ids import AssignmentId
from muster.domain.launch import Launch
from muster.domain.lifecycle import NodeState
from muster.domain.node import Binding, Node, NodeChange
from muster.domain.operation import Member, Operation, OperationChange, Status, Verdict
from muster.domain.progress import Progress
from muster.domain.provision_decisions import (
    CANCELLED,
    HELD,
    Acquire,
    Commit,
    CondemnSilent,
    GiveUp,
    HandOver,
    MakeWay,
    Queue,
    RollBack,
    Situation,
    decide,
    demand,
    waiting_for,
)
from muster.domain.reasons import Reason
from muster.domain.requests import ProvisionRequest
from muster.domain.settings import Settings
from muster.domain.steps import PROVISION_STEPS
from muster.domain.template import Template
from muster.domain.text import counted
from muster.operations.boot_history import BootHistory
from muster.operations.capacity import Capacity
from muster.operations.concurrency import concurrently
from muster.operations.driven_lease import DrivenLease, Next, ProgressPublisher, still_driven
from muster.operations.launcher import AdoptionPlan, Launcher, planned
from muster.operations.watch import WatchTracker
from muster.ports.bundle import Ports
from muster.ports.store import OperationView
from muster.ports.wakeups import LINE, ROOM

NEAR = 30
"""So many at the front of a queue are woken when it moves up. The others look whether they have come near."""
REFUSAL_FRESH = 5.0
"""Seconds after a refusal in which idle nodes make way for it."""
MAKE_WAY_WITHIN = 60.0
"""Seconds in which nodes that make way must be gone, before the provider is asked all the same."""
FAR = 300
FAR_EVERY = 30.0
"""Seconds. Those further back look seldom: what a look costs is then not multiplied by the queue's length."""


class ProvisionHandler:
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
        self.boot_history = boot_history
        self._publisher = ProgressPublisher(ports.store, settings)
        self._limits = settings.limits
        self._launcher = launcher
        self._capacity = Capacity(ports)

    async def advance(self, driven: DrivenLease) -> Next | None:
        view = await self._store.view(driven.operation_id)
        if not still_driven(view.operation, driven):
            return None
        then: Situation | Next | None = await self.situation(view)
        while isinstance(then, Situation):
            then = await self._act(then, driven)
        return then

    async def _act(self, at: Situation, driven: DrivenLease) -> Situation | Next | None:
        """Do the next thing. Gives the situation after it where that is known without another look; every
        write in it is guarded all the same."""
        action = decide(at)
        driven.queued = isinstance(action, Queue)
        match action:
            case Queue(until=until):
                return await self._queue(at, until, driven)
            case Acquire() as wanted:
                return await self._acquire(at, wanted, driven)
            case CallProvider(launch=launch):
                return await self._call(at, launch, driven)
            case CondemnSilent(nodes=dead):
                await self._condemn_silent(dead, at, driven)
            case ExtendDeadline(until=until):
                change = operations.extended(
                    at.operation, deadline_at=until, source=deadlines.EXTENSION, now=at.now
                )
                return replace(at, operation=await self._write(change, driven))
            case Commit(members=members):
                await self._complete(members, at, driven)
                return None
            case HandOver(nodes=ready):
                running = await self._store.apply_all(_handed_over(ready, at), fence=driven.fence)
                return _with_nodes(at, running)
            case MakeWay(launch=launch, verdict=verdict):
                return await self._make_way(at, launch, verdict, driven)
            case GiveUp(verdict=verdict):
                await self._write(operations.failing(at.operation, verdict, now=at.now), driven)
            case RollBack() as undo:
                await self._roll_back(undo, at, driven)
            case Finish() as end:
                await self._write(_ended(end, at), driven)
                return None
            case Wait(until=until):
                return await self._wait(at, driven, until)
        return Next(at=at.now)

    async def situation(self, view: OperationView) -> Situation:
        request = view.operation.request
        if not isinstance(request, ProvisionRequest):
            raise IllegalTransition(f"operation {view.operation.id} is not a provision")
        held = sum(1 for node in view.nodes if node.state in HELD)
        stands = view.operation.committed or view.operation.ended
        wants = not stands and held < request.count and not any(each.pending for each in view.launches)
        template = await self._store.template(request.template)
        booting = any(node.state is NodeState.CREATED and not node.up for node in view.nodes)
        now, watch = self._ports.clock.now(), await self._watch_tracker.look()
        return Situation(
            operation=view.operation,
            request=request,
            template=template,
            nodes=view.nodes,
            launches=view.launches,
            seen=view.seen,
            ahead=view.ahead,
            now=now,
            limits=watch.limits(self._limits, now=now),
            watched_since=watch.since,
            grace_until=self._watch_tracker.due_by(watch, view.operation),
            boots=await self.boot_history.boots(template) if booting else (),
            makes_way=self._makes_way(template),
            advice=self._ports.advice.get(template.spec.provider, {}),
            paused=wants and await self._ports.access.paused(request.template),
        )

    def _makes_way(self, template: Template) -> frozenset[Reason]:
        provider = self._ports.providers.get(template.spec.provider)
        return frozenset() if provider is None else provider.makes_way

    # --- acquiring --------------------------------------------------------------------------------

    async def _acquire(self, at: Situation, wanted: Acquire, driven: DrivenLease) -> Situation | Next:
        if at.paused:
            return await self._hold_back(at, driven)
        if at.ahead:
            return await self._enqueue(
                at,
                f"{counted(at.ahead, 'older request')} {'waits' if at.ahead == 1 else 'wait'} for room",
                driven,
            )
        refused = await self._refused(at)
        if refused is not None:
            return refused if isinstance(refused, Next) else await self._give_up(at, refused, driven)
        try:
            return await self._take(at, wanted, driven)
        except Paused:  # since this replica looked
            return await self._hold_back(replace(at, paused=True), driven)

    async def _hold_back(self, at: Situation, driven: DrivenLease) -> Next:
        """Wait until the template is resumed."""
        due = await self._publish(at, driven, keep_place=True)
        return Next(at=min(due, at.now + self._settings.poll_every, at.due_at), also=ROOM)

    async def _take(self, at: Situation, wanted: Acquire, driven: DrivenLease) -> Situation | Next:
        """Claim idle nodes, and reserve room for the rest. Raises Paused."""
        kind = demand(at.request, at.template)
        claimed = await self._store.claim(
            kind,
            self._bindings(at, wanted.count),
            fence=driven.fence,
            seen_since=at.now - at.limits.stale_after,
            now=at.now,
            deadline_at=at.now + deadlines.attach_timeout(at.template.spec, self._limits),
        )
        missing = wanted.count - len(claimed)
        if not missing:
            return replace(at, nodes=(*at.nodes, *claimed))
        installation = await self._store.installation()
        launch = planned(
            at.operation.id,
            len(at.launches) + 1,
            installation_id=installation.id,
            template=at.template,
            resource_class=kind.resource_class,
            usage_class=wanted.usage_class,
            instance_types=kind.instance_types,
            count=missing,
            now=at.now,
        )
        try:
            await self._store.reserve(
                launch,
                cap=at.template.spec.max_nodes,
                total_cap=installation.max_nodes,
                fence=driven.fence,
            )
        except CapReached as short:
            if await self._capacity.make(kind, short, now=at.now):
                due = await self._publish(at, driven, keep_place=True)
                return Next(at=min(due, at.now + self._settings.poll_every), also=ROOM)
            return await self._enqueue(at, str(short), driven, claimed=tuple(claimed))
        return Next(at=at.now)

    async def _make_way(
        self, at: Situation, launch: Launch, verdict: Verdict, driven: DrivenLease
    ) -> Situation | Next:
        """End surplus idle nodes of the provider that has no room, and ask it once more. A while after the
        refusal it is only asked again: a replica that is gone may have ended some already."""
        kind = demand(at.request, at.template)
        # What came of the launch in part is on its way out too, and was room before.
        own = sum(node.launch_id == launch.id and node.state is NodeState.TERMINATING for node in at.nodes)
        short = launch.count - launch.adopted + own
        fresh = at.now < (launch.closed_at or 0.0) + REFUSAL_FRESH
        its_turn = not at.paused and not at.ahead
        if fresh and its_turn and not await self._capacity.make_at(launch.provider, kind, short, now=at.now):
            return await self._give_up(at, verdict, driven)
        missing = at.request.count - len(at.held)
        return await self._acquire(at, Acquire(count=missing, usage_class=launch.usage_class), driven)

    async def _call(self, at: Situation, launch: Launch, driven: DrivenLease) -> Next:
        if await self._waits_for_room(at, launch):
            due = await self._publish(at, driven)
            return Next(at=min(due, at.now + self._settings.poll_every, at.due_at), also=ROOM)
        # A call may take long, and nothing can be shown while it lasts.
        await self._publish(at, driven, at_once=True)
        await self._launcher.call(launch, driven, await self._adoption_plan(at, launch.count))
        return Next(at=min(driven.retry_at, at.due_at))

    async def _waits_for_room(self, at: Situation, launch: Launch) -> bool:
        """Return whether nodes that make way for a launch are still being terminated: a bounded wait."""
        if not at.provider_full or launch.calls or at.now >= launch.created_at + MAKE_WAY_WITHIN:
            return False
        return await self._capacity.leaving(launch.provider) > 0

    async def _refused(self, at: Situation) -> Next | Verdict | None:
        """Return why the runtime refuses new nodes at present. None: it does not."""
        spec = at.template.spec
        runtime = self._ports.runtimes.get(spec.runtime)
        if runtime is None and spec.kitted:
            message = f"the runtime {spec.runtime} is not configured on this server any more"
            return Verdict(reason=Reason.PROVIDER_REFUSED, message=message)
        if runtime is None:
            return None
        try:
            await runtime.check(at.request, spec)
        except (Refused, InvalidRequest) as error:
            return Verdict(reason=Reason.PROVIDER_REFUSED, message=str(error))
        except ProviderError:
            return Next(at=min(at.now + self._settings.poll_every, at.due_at))
        return None

    async def _give_up(self, at: Situation, verdict: Verdict, driven: DrivenLease) -> Next:
        await self._write(operations.failing(at.operation, verdict, now=at.now), driven)
        return Next(at=at.now)

    async def _enqueue(
        self, at: Situation, message: str, driven: DrivenLease, claimed: tuple[Node, ...] = ()
    ) -> Next:
        """Put the provision into the queue without any nodes, or give up."""
        held = (*at.held, *claimed)
        patient = at.now < at.operation.created_at + at.request.queue_timeout
        largest = min(at.template.spec.max_nodes, (await self._store.installation()).max_nodes)
        if at.request.count > largest:
            # It would hold up all requests behind it for nothing.
            message = f"{counted(at.request.count, 'node')} never fit under a cap of {largest}"
            return await self._give_up(at, Verdict(reason=Reason.ABOVE_CAP, message=message), driven)
        if not patient or any(node.state is NodeState.CREATED for node in held):
            return await self._give_up(at, Verdict(reason=Reason.CAP_REACHED, message=message), driven)
        await concurrently(self._return_node(node, at, Reason.CAP_REACHED, driven) for node in held)
        progress = progress_view.at_step(PROVISION_STEPS, 1, message=message)
        # Letting go moved the operation's version: read it again rather than guess.
        fresh = await self._store.operation(at.operation.id)
        if still_driven(fresh, driven):
            await self._write(operations.queued(fresh, progress, now=at.now), driven)
        return Next(at=at.now + self._look_every(at), also=_woken_by(at))

    def _look_every(self, at: Situation) -> float:
        return self._settings.poll_every if at.ahead < FAR else max(FAR_EVERY, self._settings.poll_every)

    async def _queue(self, at: Situation, until: float, driven: DrivenLease) -> Next:
        kind = demand(at.request, at.template)
        fresh = at.now - at.limits.stale_after
        if not at.ahead and await self._capacity.suffices(
            kind, at.template, at.request.count, seen_since=fresh, now=at.now
        ):
            await self._write(operations.resumed(at.operation, now=at.now), driven)
            return Next(at=at.now)
        await self._publish_queued(at, driven)
        return Next(at=min(until, at.now + self._look_every(at)), also=_woken_by(at))

    def _bindings(self, at: Situation, count: int) -> list[Binding]:
        return [
            Binding(
                operation_id=at.operation.id,
                assignment_id=AssignmentId(self._ports.ids.new("as")),
                run=at.request.run,
                owner=at.request.owner,
            )
            for _ in range(count)
        ]

    async def _adoption_plan(self, at: Situation, count: int) -> AdoptionPlan:
        boot = await self.boot_history.deadlines(at.template, timeout=at.request.timeout)
        return AdoptionPlan(bindings=self._bindings(at, count), boot=boot)

    # --- the commit, and after it -----------------------------------------------------------------

    async def _complete(self, members: tuple[Member, ...], at: Situation, driven: DrivenLease) -> None:
        """Commit, hand over and end in one go. Where only a part of it is written, the next look goes on."""
        commit = operations.committed(
            at.operation,
            members,
            progress_view.at_step(PROVISION_STEPS, 4, parts=progress_view.chips(at.held), since=at.now),
            now=at.now,
            fresh_for=at.limits.stale_after,
            warm=sum(node.state is NodeState.CLAIMED for node in at.held),
        )
        committed = replace(at, operation=commit.after)
        handed_over = _handed_over(at.held, committed)
        running = _with_nodes(committed, [change.after for change in handed_over])
        end = _ended(Finish(status=Status.SUCCEEDED), running)
        await self._store.complete(commit, handed_over, end, fence=driven.fence, clock=self._ports.clock.now)

    # --- rollback ---------------------------------------------------------------------------------

    async def _roll_back(self, undo: RollBack, at: Situation, driven: DrivenLease) -> None:
        reason = (at.operation.verdict or CANCELLED).reason
        await self._launcher.abandon(undo.launches, driven, now=at.now, reason=reason)
        await concurrently(self._return_node(node, at, reason, driven) for node in undo.nodes)

    async def _return_node(self, node: Node, at: Situation, reason: Reason, driven: DrivenLease) -> None:
        """Release a node that is up and may serve again; condemn any other."""
        if node.up and at.template.spec.pools and not node.drain:
            until = at.now + self._limits.releasing
            change = nodes.release(node, now=at.now, deadline_at=until, reason=reason)
        else:
            change = nodes.condemn(node, now=at.now, reason=reason, rolled_back=True)
        await self._store.apply(change, fence=driven.fence)

    async def _condemn_silent(self, dead: tuple[Node, ...], at: Situation, driven: DrivenLease) -> None:
        silence = at.now - self._limits.silence_limit
        for node in dead:
            change = nodes.condemn(node, now=at.now, reason=Reason.HEARTBEAT_LOST, silent_since=silence)
            await self._store.apply(change, fence=driven.fence)

    # --- showing ----------------------------------------------------------------------------------

    async def _wait(self, at: Situation, driven: DrivenLease, until: float | None) -> Next:
        due = await self._publish(at, driven)
        poll = at.now + self._settings.poll_every
        return Next(at=min(due, at.due_at, poll, poll if until is None else until))

    async def _publish(
        self, at: Situation, driven: DrivenLease, *, keep_place: bool = False, at_once: bool = False
    ) -> float:
        return await self._publisher.publish(
            at.operation,
            progress_view.of_provision(at),
            driven,
            now=at.now,
            keep_place=keep_place,
            at_once=at_once,
        )

    async def _publish_queued(self, at: Situation, driven: DrivenLease) -> None:
        message = waiting_for(at)
        shown = at.operation.progress
        if shown is not None and shown.message == message:
            return
        progress = progress_view.at_step(PROVISION_STEPS, 1, message=message)
        await self._write(operations.queued(at.operation, progress, now=at.now), driven)

    async def _write(self, change: OperationChange, driven: DrivenLease) -> Operation:
        return await self._store.write_operation(change, fence=driven.fence, clock=self._ports.clock.now)


def _handed_over(ready: Sequence[Node], at: Situation) -> list[NodeChange]:
    committed_at = at.operation.committed_at or at.now
    until = committed_at + (at.request.max_runtime or at.template.spec.max_runtime)
    return [nodes.hand_over(node, now=at.now, deadline_at=until) for node in ready]


def _with_nodes(at: Situation, written: Sequence[Node]) -> Situation:
    after = {node.id: node for node in written}
    return replace(at, nodes=tuple(after.get(node.id, node) for node in at.nodes))


def _ended(end: Finish, at: Situation) -> OperationChange:
    operation, result = at.operation, ""
    if end.status is Status.SUCCEEDED:
        result = f"{counted(len(operation.members), 'node')} for {at.request.run}"
        progress: Progress | None = progress_view.completed(PROVISION_STEPS, result, at.nodes)
    else:
        progress = progress_view.stopped(operation.progress, at.nodes)
    return operations.ended(
        operation, end.status, now=at.now, progress=progress, verdict=end.verdict, result=result
    )


def _woken_by(at: Situation) -> str | None:
    """Return the topic that wakes it beside its own.

    Room concerns only the first in the queue. Those near it are told when the queue moves up, and no others:
    to wake all each time costs the square of the queue's length.
    """
    if not at.ahead:
        return ROOM
    return LINE if at.ahead < NEAR else None
