"""What a run does next: provision, execute on every node, give back. One operation that outlives its caller.

A run owns no nodes. It submits a provision and a release under keys derived from its own id, so a replica
that takes over finds them instead of making new ones.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from muster.domain.command import Command, exit_status
from muster.domain.operation import Member, Operation, Status, Verdict
from muster.domain.reasons import Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    operation: Operation
    provision: Operation | None
    commands: Sequence[Command]
    release: Operation | None
    now: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmitProvision:
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelProvision:
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class Execute:
    members: tuple[Member, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmitRelease:
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class Finish:
    status: Status
    verdict: Verdict | None = None
    result: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    pass


Action = SubmitProvision | CancelProvision | Execute | SubmitRelease | Finish | Wait


def decide(at: Situation) -> Action:
    stopped = _stopped(at)
    provision = at.provision
    if provision is None:
        return _ended_by(stopped) if stopped is not None else SubmitProvision()
    if not provision.ended:
        undecided = not provision.committed and provision.cancel_requested_at is None
        return CancelProvision() if stopped is not None and undecided else Wait()
    if provision.status is not Status.SUCCEEDED:
        return Finish(status=provision.status, verdict=stopped or provision.verdict)
    return _with_nodes(at, provision, stopped)


def _with_nodes(at: Situation, provision: Operation, stopped: Verdict | None) -> Action:
    started = {command.assignment_id for command in at.commands}
    missing = tuple(member for member in provision.members if member.assignment_id not in started)
    if stopped is None and at.release is None:
        if missing:
            return Execute(members=missing)
        if not all(command.ended for command in at.commands):
            return Wait()
    if at.release is None:
        return SubmitRelease()
    if not at.release.ended:
        return Wait()
    return _ended_by(stopped) if stopped is not None else _finished(at)


def _stopped(at: Situation) -> Verdict | None:
    operation = at.operation
    if operation.cancel_requested_at is not None:
        return Verdict(reason=Reason.CANCELLED, message="the run was cancelled")
    if at.now >= operation.deadline_at:
        return Verdict(reason=Reason.DEADLINE_EXCEEDED, message="the run did not end in time")
    return operation.verdict


def _ended_by(verdict: Verdict) -> Finish:
    status = Status.CANCELLED if verdict.reason is Reason.CANCELLED else Status.FAILED
    return Finish(status=status, verdict=verdict)


def _finished(at: Situation) -> Finish:
    """A command that fails is a result, not a failure of the run: everything was done that was asked for."""
    worst = max((exit_status(command) for command in at.commands), default=0)
    return Finish(status=Status.SUCCEEDED, result=f"exit {worst}")
