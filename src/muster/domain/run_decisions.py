"""Decide what a run does next: provision, execute on every node, release.

A run owns no nodes and outlives its caller. It submits a provision and a release under keys derived from its
own id. So a replica that takes over finds them instead of making new ones.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from muster.domain.command import Command, CommandState, exit_status
from muster.domain.deadlines import HARD, hold_of
from muster.domain.decisions import ExtendDeadline, Finish, Wait
from muster.domain.ids import OperationId
from muster.domain.operation import Member, Operation, Status, Verdict
from muster.domain.reasons import Reason
from muster.domain.requests import RunRequest
from muster.domain.text import counted

RESERVED = "muster/"
"""The prefix of Muster's own idempotency keys; callers may not use it."""
RERUN = f"{RESERVED}rerun/"
"""How those of provisions begin that a re-run got without asking."""


def provision_key(run_id: OperationId) -> str:
    """Return the idempotency key of a run's provision."""
    return f"{RESERVED}{run_id}/provision"


def run_of(key: str | None) -> OperationId | None:
    """Return the run that a provision's key belongs to; None: the key is a caller's own."""
    inside = (key or "").removeprefix(RESERVED)
    run_id = OperationId(inside.partition("/")[0])
    return run_id if key == provision_key(run_id) else None


def release_key(run_id: OperationId) -> str:
    return f"{RESERVED}{run_id}/release"


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    operation: Operation
    provision: Operation | None
    commands: Sequence[Command]
    release: Operation | None
    now: float
    grace_until: float = 0.0
    """Its deadline doesn't count as passed before this: no replica watched for a while."""
    serving: int = 0
    """Nodes that could be kept for a look. Counted only if the caller asked for it and a command failed."""
    held: int = 0
    """How many of them are kept."""
    extended_until: float | None = None
    """When the run should end at the latest, if its nodes or its provision were given more time."""


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
class Hold:
    """Keep the nodes for a look, instead of their release."""

    until: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmitRelease:
    pass


Action = SubmitProvision | CancelProvision | ExtendDeadline | Execute | Hold | SubmitRelease | Finish | Wait


def decide(at: Situation) -> Action:
    if _extended(at) and at.extended_until is not None:
        return ExtendDeadline(until=at.extended_until)
    stopped = _stopped(at)
    provision = at.provision
    if provision is None:
        return _ended_by(stopped) if stopped is not None else SubmitProvision()
    if not provision.ended:
        undecided = not provision.committed and provision.cancel_requested_at is None
        return CancelProvision() if stopped is not None and undecided else Wait()
    if provision.status is Status.FAILED:
        return Finish(status=Status.FAILED, verdict=provision.verdict)
    if provision.status is Status.CANCELLED:
        return _ended_by(stopped or provision.verdict or CANCELLED)
    return _with_nodes(at, provision, stopped)


def _extended(at: Situation) -> bool:
    """Return whether the run gets more time. A deadline that the caller named is hard."""
    later = at.extended_until is not None and at.extended_until > at.operation.deadline_at
    return later and at.operation.deadline_source != HARD


def _with_nodes(at: Situation, provision: Operation, stopped: Verdict | None) -> Action:
    started = {command.assignment_id for command in at.commands}
    missing = tuple(member for member in provision.members if member.assignment_id not in started)
    if stopped is None and at.release is None:
        if missing:
            return Execute(members=missing)
        if not all(command.ended for command in at.commands):
            return Wait()
    if stopped is None and at.release is None and at.serving:
        return _finished(at) if at.held == at.serving else Hold(until=at.now + hold_of(at.operation))
    if at.release is None:
        return SubmitRelease()
    if not at.release.ended and not _waited_long_enough(at):
        return Wait()
    if stopped is None or (not missing and at.release.created_at < _stopped_at(at)):
        return _finished(at)
    return _ended_by(stopped)


def wants_hold(operation: Operation, commands: Sequence[Command]) -> bool:
    """Return whether the nodes are kept for a look: the caller asked for it, and a command failed."""
    exited = [command for command in commands if command.state is CommandState.EXITED]
    failed = any(exit_status(command) != 0 for command in exited)
    return failed and hold_of(operation) > 0 and all(command.ended for command in commands)


def _waited_long_enough(at: Situation) -> bool:
    """Return whether a hard deadline ends the caller's wait. The release of the nodes goes on by itself."""
    operation = at.operation
    return operation.deadline_source == HARD and at.now >= max(operation.deadline_at, at.grace_until)


def _stopped_at(at: Situation) -> float:
    """Return when the run was stopped. Events after the release began change no result."""
    operation = at.operation
    if operation.verdict is not None:
        return 0.0
    cancelled = operation.cancel_requested_at
    return operation.deadline_at if cancelled is None else min(cancelled, operation.deadline_at)


CANCELLED = Verdict(reason=Reason.CANCELLED, message="the run was cancelled")


def _stopped(at: Situation) -> Verdict | None:
    """Return the verdict of a stopped run. A stored verdict stands, whatever happens during the release."""
    operation = at.operation
    if operation.verdict is not None:
        return operation.verdict
    if operation.cancel_requested_at is not None:
        return CANCELLED
    if at.now >= max(operation.deadline_at, at.grace_until):
        return Verdict(reason=Reason.DEADLINE_EXCEEDED, message=f"the run did not end {_in_time(operation)}")
    return None


def _in_time(operation: Operation) -> str:
    request = operation.request
    timeout = request.provision.timeout if isinstance(request, RunRequest) else None
    return "in time" if timeout is None else f"within its timeout of {timeout:g} s"


def _ended_by(verdict: Verdict) -> Finish:
    status = Status.CANCELLED if verdict.reason is Reason.CANCELLED else Status.FAILED
    return Finish(status=status, verdict=verdict)


CODES_SHOWN = 10
"""Exit codes that a message names; each command's record has its own."""


def _finished(at: Situation) -> Finish:
    """Finish the run: one command that failed, or did not end, fails the run."""
    result = f"exit {max((exit_status(command) for command in at.commands), default=0)}"
    for judge in (_cut, _lost, _failed):
        verdict = judge(at.commands)
        if verdict is not None:
            verdict = _held(verdict, at) if at.held else verdict
            return Finish(status=Status.FAILED, verdict=verdict, result=result)
    return Finish(status=Status.SUCCEEDED, result=result)


def _held(verdict: Verdict, at: Situation) -> Verdict:
    request = at.operation.request
    run = request.provision.run if isinstance(request, RunRequest) else at.operation.id
    told = f"its nodes are kept for a look: `muster shell {run}`, and `muster release {run}` ends it"
    return replace(verdict, message=f"{verdict.message}; {told}")


def _cut(commands: Sequence[Command]) -> Verdict | None:
    cut = [command for command in commands if command.reason is Reason.MAX_RUNTIME]
    if not cut:
        return None
    message = f"{_of(cut, commands)} did not end in time: {cut[0].detail}"
    return Verdict(reason=Reason.MAX_RUNTIME, message=message)


def _lost(commands: Sequence[Command]) -> Verdict | None:
    """Return the verdict for lost commands, with the reason for which their node was taken away."""
    lost = [command for command in commands if command.state is CommandState.LOST and command.reason]
    if not lost or lost[0].reason is None:
        return None
    message = f"{_of(lost, commands)} lost: {lost[0].detail}"
    return Verdict(reason=lost[0].reason, message=message, node_id=lost[0].node_id)


def _failed(commands: Sequence[Command]) -> Verdict | None:
    failed = [command for command in commands if exit_status(command) != 0]
    if not failed:
        return None
    codes = ", ".join(f"exit {exit_status(each)} on [{each.ordinal}]" for each in failed[:CODES_SHOWN])
    more = len(failed) - CODES_SHOWN
    rest = f" and {more} more" if more > 0 else ""
    message = f"{_of(failed, commands)} failed: {codes}{rest}"
    return Verdict(reason=Reason.COMMAND_FAILED, message=message)


def _of(some: Sequence[Command], commands: Sequence[Command]) -> str:
    return f"{len(some)} of {counted(len(commands), 'command')}"
