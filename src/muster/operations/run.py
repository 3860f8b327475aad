"""A run: provision, execute on every node, give back; one operation that outlives whoever asked for it."""

from muster.domain import operation as operations
from muster.domain import running, showing
from muster.domain.counting import counted
from muster.domain.deadlines import EXTENSION
from muster.domain.errors import Gone, IllegalTransition, InvalidRequest, NotCancellable, NotFound
from muster.domain.ids import CommandId
from muster.domain.lifecycle import NodeState
from muster.domain.operation import Member, Operation, Status, Verdict
from muster.domain.progress import Progress, percent
from muster.domain.reasons import Reason
from muster.domain.requests import ProvisionRequest, ReleaseRequest, RunRequest
from muster.domain.running import (
    CancelProvision,
    Execute,
    Extend,
    Finish,
    Situation,
    SubmitProvision,
    SubmitRelease,
    Wait,
)
from muster.domain.settings import Settings
from muster.operations.cancelling import request_cancel
from muster.operations.commanding import Commander
from muster.operations.desk import FrontDesk
from muster.operations.operating import BY_OPERATOR
from muster.operations.publishing import Publisher
from muster.operations.tenure import Next, Tenure, goes_on
from muster.operations.together import together
from muster.operations.watching import Watching
from muster.ports.bundle import Ports
from muster.ports.wakeups import operation_topic


class Running:
    def __init__(self, ports: Ports, settings: Settings, commander: Commander, watching: Watching) -> None:
        self._ports = ports
        self._watching = watching
        self._store = ports.store
        self._settings = settings
        self._publisher = Publisher(ports.store, settings)
        self._commander = commander
        self.desk: FrontDesk | None = None
        """Where its provision and release are submitted; set when the desk is built, which knows us too."""

    async def advance(self, tenure: Tenure) -> Next | None:
        operation = await self._store.operation(tenure.operation_id)
        if not goes_on(operation, tenure):
            return None
        request = operation.request
        if not isinstance(request, RunRequest):
            raise IllegalTransition(f"operation {operation.id} is not a run")
        at = await self._situation(operation)
        match running.decide(at):
            case SubmitProvision():
                await self._provision(at, request, tenure)
            case CancelProvision():
                await self._cancel(at)
            case Extend(deadline_at=until):
                extended_by_us = at.provision is not None and at.provision.deadline_source == EXTENSION
                source = EXTENSION if extended_by_us else BY_OPERATOR
                change = operations.extended(operation, deadline_at=until, source=source, now=at.now)
                await self._store.write_operation(change, fence=tenure.fence)
            case Execute(members=members):
                await self._execute(at, request, members, tenure)
            case SubmitRelease():
                await self._release(at, tenure)
            case Finish() as end:
                await self._finish(end, at, tenure)
                return None
            case Wait():
                await self._publisher.publish(at.operation, _progress(at), tenure, now=at.now)
                return self._later(at)
        return Next(at=at.now)

    @property
    def _desk(self) -> FrontDesk:
        if self.desk is None:
            raise IllegalTransition("a run was driven before its desk was open")
        return self.desk

    async def _situation(self, operation: Operation) -> Situation:
        now = self._ports.clock.now()
        provision = await self._store.operation_by_key(running.provision_key(operation.id))
        release = await self._store.operation_by_key(running.release_key(operation.id))
        commands = await self._ports.commands.of_operation(provision.id) if provision else ()
        overdue = provision is not None and release is None and now >= operation.deadline_at
        return Situation(
            operation=operation,
            provision=provision,
            commands=[command for command in commands if command.id.startswith(f"{operation.id}.")],
            release=release,
            now=now,
            grace_until=await self._watching.due(operation),
            extended_until=await self._extended_until(provision) if provision and overdue else None,
        )

    async def _extended_until(self, provision: Operation) -> float | None:
        """Until when the nodes may run, or (while they boot) could run, and time for giving them back."""
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

    async def _provision(self, at: Situation, request: RunRequest, tenure: Tenure) -> None:
        """Fenced: a replica that wakes up late must not ask for nodes that nobody would give back."""
        key = running.provision_key(at.operation.id)
        try:
            await self._desk.provision(request.provision, key=key, fence=tenure.fence)
        except (InvalidRequest, NotFound) as error:
            # The template or this server's providers changed since the run was accepted.
            await self._fail(at, Verdict(reason=Reason.PROVIDER_REFUSED, message=str(error)), tenure)

    async def _cancel(self, at: Situation) -> None:
        if at.provision is None:
            return
        try:
            await request_cancel(self._store, at.provision.id, now=at.now)
        except NotCancellable:
            return  # its commit won: the release goes on from there

    async def _execute(
        self, at: Situation, request: RunRequest, members: tuple[Member, ...], tenure: Tenure
    ) -> None:
        provision = at.provision
        if provision is None:
            return
        try:
            await together(
                self._commander.start(
                    provision,
                    member,
                    request.execution,
                    command_id=CommandId(f"{at.operation.id}.{provision.members.index(member)}"),
                )
                for member in members
            )
        except Gone as gone:
            await self._fail(at, Verdict(reason=Reason.MACHINE_GONE, message=str(gone)), tenure)

    async def _fail(self, at: Situation, verdict: Verdict, tenure: Tenure) -> None:
        await self._store.write_operation(
            operations.failing(at.operation, verdict, now=at.now), fence=tenure.fence
        )

    async def _release(self, at: Situation, tenure: Tenure) -> None:
        if at.provision is not None:
            request = ReleaseRequest(operation_id=at.provision.id)
            await self._desk.release(request, key=running.release_key(at.operation.id), fence=tenure.fence)

    async def _finish(self, end: Finish, at: Situation, tenure: Tenure) -> None:
        progress: Progress | None = None
        if end.status is Status.SUCCEEDED:
            progress = showing.completed(showing.RUN_STEPS, end.result, ())
        change = operations.ended(
            at.operation,
            end.status,
            now=at.now,
            progress=progress,
            verdict=end.verdict,
            result=end.result,
        )
        await self._store.write_operation(change, fence=tenure.fence)

    def _later(self, at: Situation) -> Next:
        """Woken by whatever its present child does: the provision's topic also hears of its commands."""
        child = at.release or at.provision
        return Next(
            at=min(at.now + self._settings.poll_every, max(at.operation.deadline_at, at.now + 1.0)),
            also=None if child is None else operation_topic(child.id),
        )


def _progress(at: Situation) -> Progress:
    """The child's progress as its own, shifted into the run's steps."""
    if at.release is not None:
        return showing.at_step(showing.RUN_STEPS, 6, message="giving the nodes back")
    provision = at.provision
    if provision is not None and provision.status is Status.SUCCEEDED:
        done = sum(1 for command in at.commands if command.ended)
        total = max(1, len(provision.members))
        message = f"{done} of {counted(total, 'command')} ended"
        return showing.at_step(showing.RUN_STEPS, 5, fraction=done / total, message=message)
    shown = provision.progress if provision is not None else None
    if shown is None:
        return showing.at_step(showing.RUN_STEPS, 1, message="asking for nodes")
    step = min(shown.step, 4)
    phase, label = showing.RUN_STEPS[step - 1]
    inside = shown.percent / 100.0 * shown.total_steps - (shown.step - 1)
    return Progress(
        step=step,
        total_steps=len(showing.RUN_STEPS),
        phase=phase,
        label=label,
        message=shown.message,
        percent=percent(step=step, total_steps=len(showing.RUN_STEPS), fraction=inside),
        parts=shown.parts,
    )
