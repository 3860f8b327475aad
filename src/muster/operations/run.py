"""Advance a run: provision, execute on every node, release. One operation that outlives its client."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime

from muster.domain import node as nodes
from muster.domain import operation as operations
from muster.domain import progress_view, run_decisions
from muster.domain.command import Command
from muster.domain.deadlines import EXTENSION
from muster.domain.decisions import ExtendDeadline, Finish, Wait
from muster.domain.errors import (
    Conflict,
    Gone,
    IllegalTransition,
    InvalidRequest,
    NotCancellable,
    NotFound,
)
from muster.domain.ids import CommandId
from muster.domain.lifecycle import NodeState
from muster.domain.node import Node
from muster.domain.operation import Member, Operation, Status, Verdict
from muster.domain.progress import Progress
from muster.domain.reasons import Reason
from muster.domain.requests import ProvisionRequest, ReleaseRequest, RunRequest
from muster.domain.run_decisions import (
    CancelProvision,
    Execute,
    Hold,
    Situation,
    SubmitProvision,
    SubmitRelease,
)
from muster.domain.settings import Settings
from muster.domain.steps import RUN_STEPS
from muster.domain.text import counted
from muster.operations.commands import CommandDesk
from muster.operations.concurrency import concurrently
from muster.operations.desk import OperationDesk
from muster.operations.driven_lease import DrivenLease, Next, ProgressPublisher, still_driven
from muster.operations.operator_desk import BY_OPERATOR
from muster.operations.submission import request_cancel
from muster.operations.watch import SilentNodes, WatchTracker
from muster.ports.bundle import Ports
from muster.ports.wakeups import operation_topic

SILENT_SHOWN = 3
"""Silent nodes that a message names."""


class RunHandler:
    def __init__(
        self,
        ports: Ports,
        settings: Settings,
        command_desk: CommandDesk,
        watch_tracker: WatchTracker,
        silent_nodes: SilentNodes,
    ) -> None:
        self._ports = ports
        self._watch_tracker = watch_tracker
        self._store = ports.store
        self._settings = settings
        self._publisher = ProgressPublisher(ports.store, settings)
        self._command_desk = command_desk
        self._silent_nodes = silent_nodes
        self.desk: OperationDesk | None = None
        """Where its provision and release are submitted; set when the desk is built, which knows us too."""

    async def advance(self, driven: DrivenLease) -> Next | None:
        operation = await self._store.operation(driven.operation_id)
        if not still_driven(operation, driven):
            return None
        request = operation.request
        if not isinstance(request, RunRequest):
            raise IllegalTransition(f"operation {operation.id} is not a run")
        at = await self._situation(operation)
        match run_decisions.decide(at):
            case SubmitProvision():
                await self._provision(at, request, driven)
            case CancelProvision():
                await self._cancel(at)
            case ExtendDeadline(until=until):
                extended_by_us = at.provision is not None and at.provision.deadline_source == EXTENSION
                source = EXTENSION if extended_by_us else BY_OPERATOR
                change = operations.extended(operation, deadline_at=until, source=source, now=at.now)
                await self._store.write_operation(change, fence=driven.fence)
            case Execute(members=members):
                await self._execute(at, request, members, driven)
            case Hold(until=until):
                await self._hold(at, until, driven)
            case SubmitRelease():
                await self._release(at, driven)
            case Finish() as end:
                await self._finish(end, at, driven)
                return None
            case Wait():
                progress = await self._with_silences(_progress(at), at)
                due = await self._publisher.publish(at.operation, progress, driven, now=at.now)
                return self._later(at, due)
        return Next(at=at.now)

    async def _with_silences(self, progress: Progress, at: Situation) -> Progress:
        """Say which nodes do not answer: who waits for a command can't tell a silent one from a dead one."""
        if at.release is not None:
            return progress
        silent = await self._silent_nodes.under(at.commands)
        if not silent:
            return progress
        told = [
            f"{node_id} has not answered since {_clock(each.since)}"
            f" and will count as lost at {_clock(each.given_up_at)}"
            for node_id, each in list(silent.items())[:SILENT_SHOWN]
        ]
        more = len(silent) - len(told)
        rest = [f"{more} more do not answer"] if more > 0 else []
        return replace(progress, message="; ".join([progress.message, *told, *rest]))

    @property
    def _desk(self) -> OperationDesk:
        if self.desk is None:
            raise IllegalTransition("a run was driven before its desk was open")
        return self.desk

    async def _situation(self, operation: Operation) -> Situation:
        now = self._ports.clock.now()
        provision = await self._store.operation_by_key(run_decisions.provision_key(operation.id))
        release = await self._store.operation_by_key(run_decisions.release_key(operation.id))
        commands = await self._ports.commands.of_operation(provision.id) if provision else ()
        own = [command for command in commands if command.id.startswith(f"{operation.id}.")]
        kept = release is None and run_decisions.wants_hold(operation, own)
        serving = await self._serving(provision) if provision is not None and kept else []
        overdue = provision is not None and release is None and now >= operation.deadline_at
        return Situation(
            operation=operation,
            provision=provision,
            commands=own,
            release=release,
            now=now,
            grace_until=await self._watch_tracker.due(operation),
            serving=len(serving),
            held=sum(1 for node in serving if node.held),
            extended_until=await self._extended_until(provision) if provision and overdue else None,
        )

    async def _serving(self, provision: Operation) -> list[Node]:
        view = await self._store.view(provision.id)
        return [node for node in view.nodes if node.state is NodeState.RUNNING]

    async def _hold(self, at: Situation, until: float, driven: DrivenLease) -> None:
        """Keep the nodes until then. Those that a crash leaves out are kept by the next replica."""
        if at.provision is None:
            return
        await self._show(at, _holding(at.now), driven)
        for node in await self._serving(at.provision):
            if not node.held:
                change = nodes.held(node, now=at.now, until=until, detail="a command of its run failed")
                with suppress(Conflict):  # it moved: the next look decides again
                    await self._store.apply(change)

    async def _extended_until(self, provision: Operation) -> float | None:
        """Return until when the nodes may run, or could run while they boot, plus the time to
        give them back."""
        view = await self._store.view(provision.id)
        latest = max(
            (
                node.deadline_at or 0.0
                for node in view.nodes
                if node.state is NodeState.RUNNING
                and (node.deadline_source == BY_OPERATOR or provision.deadline_source == EXTENSION)
            ),
            default=None,
        )
        if latest is None and provision.deadline_source == EXTENSION and not provision.ended:
            template = await self._store.template(provision.template or "")
            request = provision.request
            asked = request.max_runtime if isinstance(request, ProvisionRequest) else None
            latest = provision.deadline_at + (asked or template.spec.max_runtime)
        return None if latest is None else latest + self._settings.limits.launching

    async def _provision(self, at: Situation, request: RunRequest, driven: DrivenLease) -> None:
        """Submit the provision, fenced: a replica that wakes up late must not ask for nodes that no release
        returns."""
        key = run_decisions.provision_key(at.operation.id)
        try:
            await self._desk.provision(request.provision, key=key, fence=driven.fence)
        except (InvalidRequest, NotFound) as error:
            # The template or this server's providers changed since the run was accepted.
            await self._fail(at, Verdict(reason=Reason.PROVIDER_REFUSED, message=str(error)), driven)

    async def _cancel(self, at: Situation) -> None:
        if at.provision is None:
            return
        with suppress(NotCancellable):  # its commit won: the release goes on from there
            await request_cancel(self._store, at.provision.id, now=at.now)

    async def _execute(
        self, at: Situation, request: RunRequest, members: tuple[Member, ...], driven: DrivenLease
    ) -> None:
        provision = at.provision
        if provision is None:
            return
        # Before anything comes out of the commands, and again once all of them can be followed.
        at = await self._show(at, _starting(at.now), driven)
        try:
            await concurrently(
                self._command_desk.start(
                    provision,
                    member,
                    request.execution,
                    command_id=CommandId(f"{at.operation.id}.{provision.members.index(member)}"),
                )
                for member in members
            )
        except Gone as gone:
            await self._fail(at, Verdict(reason=Reason.MACHINE_GONE, message=str(gone)), driven)
        else:
            await self._show(at, _commanding(provision, at.commands, now=at.now), driven)

    async def _show(self, at: Situation, progress: Progress, driven: DrivenLease) -> Situation:
        """Write what begins now, however recent the last publish is."""
        driven.published_at = at.now
        change = operations.progressed(at.operation, progress, now=at.now)
        return replace(at, operation=await self._store.write_operation(change, fence=driven.fence))

    async def _fail(self, at: Situation, verdict: Verdict, driven: DrivenLease) -> None:
        await self._store.write_operation(
            operations.failing(at.operation, verdict, now=at.now), fence=driven.fence
        )

    async def _release(self, at: Situation, driven: DrivenLease) -> None:
        if at.provision is not None:
            await self._show(at, _returning(at.now), driven)
            request = ReleaseRequest(operation_id=at.provision.id)
            await self._desk.release(
                request, key=run_decisions.release_key(at.operation.id), fence=driven.fence
            )

    async def _finish(self, end: Finish, at: Situation, driven: DrivenLease) -> None:
        progress: Progress | None = None
        if end.result:  # its commands ran and its nodes are back: it went all its steps, however they ended
            verdict = end.verdict
            codes = verdict is not None and verdict.reason is Reason.COMMAND_FAILED
            told = verdict.message if verdict is not None and codes else end.result
            progress = progress_view.completed(RUN_STEPS, told, ())
        change = operations.ended(
            at.operation,
            end.status,
            now=at.now,
            progress=progress,
            verdict=end.verdict,
            result=end.result,
        )
        await self._store.write_operation(change, fence=driven.fence)

    def _later(self, at: Situation, due: float) -> Next:
        """Return when to look again. The topic of the provision also tells of its commands."""
        child = at.release or at.provision
        return Next(
            at=min(due, at.now + self._settings.poll_every, max(at.operation.deadline_at, at.now + 1.0)),
            also=None if child is None else operation_topic(child.id),
        )


def _clock(at: float) -> str:
    return f"{datetime.fromtimestamp(at, UTC):%H:%M:%S} UTC"


def _holding(now: float) -> Progress:
    return progress_view.at_step(RUN_STEPS, 6, message="keeping the nodes for a look", since=now)


def _returning(now: float) -> Progress:
    return progress_view.at_step(RUN_STEPS, 6, message="giving the nodes back", since=now)


def _starting(now: float) -> Progress:
    return progress_view.at_step(RUN_STEPS, 5, message="starting the commands", since=now)


def _commanding(provision: Operation, commands: Sequence[Command], *, now: float) -> Progress:
    done = sum(1 for command in commands if command.ended)
    total = max(1, len(provision.members))
    message = f"{done} of {counted(total, 'command')} ended"
    return progress_view.at_step(RUN_STEPS, 5, fraction=done / total, message=message, since=now)


def _progress(at: Situation) -> Progress:
    """Return the child's progress as the run's own, shifted into the run's steps."""
    if at.release is not None:
        return _returning(at.now)
    provision = at.provision
    if provision is not None and provision.status is Status.SUCCEEDED:
        return _commanding(provision, at.commands, now=at.now)
    shown = provision.progress if provision is not None else None
    if shown is None:
        return progress_view.at_step(RUN_STEPS, 1, message="asking for nodes", since=at.now)
    low = shown.motion.low if shown.motion is not None else shown.percent
    return progress_view.at_step(
        RUN_STEPS,
        min(shown.step, 4),
        fraction=low / 100.0 * shown.total_steps - (shown.step - 1),
        message=shown.message,
        parts=shown.parts,
        since=shown.motion.since if shown.motion is not None else None,
        expected=shown.motion.expected if shown.motion is not None else None,
    )
