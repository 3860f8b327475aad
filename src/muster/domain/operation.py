"""An operation: one long piece of work with steps, progress and an outcome, kept as a row.

Owns its statuses and every way its record may change. The driver that holds the lease writes it
(fenced by the epoch, guarded by the version); a cancel is the one write that others make. Whatever is
needed to resume is derived from the operation's nodes and launches, never from its step.
"""

from dataclasses import dataclass, replace
from enum import StrEnum

from muster.domain.errors import IllegalTransition, NotCancellable
from muster.domain.ids import AssignmentId, NodeId, OperationId
from muster.domain.progress import Progress, advanced, stopped
from muster.domain.reasons import Reason
from muster.domain.requests import ProvisionRequest, Request, RunRequest


class Kind(StrEnum):
    PROVISION = "provision"
    RELEASE = "release"
    REFILL = "refill"
    RUN = "run"
    CLUSTER_CREATE = "cluster_create"
    CLUSTER_DELETE = "cluster_delete"


class Status(StrEnum):
    QUEUED = "queued"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"


TO_THE_END = {Kind.RELEASE: "a release", Kind.CLUSTER_DELETE: "the deletion of a cluster"}
"""What takes back is never left half done."""
CLUSTERS = (Kind.CLUSTER_CREATE, Kind.CLUSTER_DELETE)
ENDED = (Status.SUCCEEDED, Status.FAILED, Status.CANCELLED)


class OperationEvent(StrEnum):
    """Names of operation writes, as they appear in the event feed."""

    SUBMITTED = "submitted"
    TAKEN_OVER = "taken_over"
    QUEUED = "queued"
    RESUMED = "resumed"
    PROGRESSED = "progressed"
    EXTENDED = "extended"
    CANCEL_REQUESTED = "cancel_requested"
    FAILING = "failing"
    COMMITTED = "committed"
    ERRED = "erred"
    RECOVERED = "recovered"
    ENDED = "ended"


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Why an operation fails. Written before the rollback, so that a resumed rollback stays one."""

    reason: Reason
    message: str
    node_id: NodeId | None = None
    """The node whose failure it was: its diagnosis tells more."""
    advice: str = ""
    """What to do, if that is something else than the reason alone says."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """One node of a committed provision, under the assignment it was handed over with."""

    node_id: NodeId
    assignment_id: AssignmentId


@dataclass(frozen=True, slots=True, kw_only=True)
class Fence:
    """Proof of the right to write for an operation: refused once another replica took it over."""

    operation_id: OperationId
    epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    id: OperationId
    kind: Kind
    request: Request
    template: str | None
    run: str | None
    idempotency_key: str | None = None
    status: Status = Status.QUEUED
    queued_since: float | None = None
    """Set while it waits in its template's queue for room, holding nothing."""
    version: int = 1
    created_at: float
    updated_at: float
    ended_at: float | None = None
    deadline_at: float
    deadline_source: str
    cancel_requested_at: float | None = None
    committed_at: float | None = None
    members: tuple[Member, ...] = ()
    verdict: Verdict | None = None
    result: str = ""
    progress: Progress | None = None
    lease_owner: str | None = None
    lease_until: float = 0.0
    epoch: int = 0
    warm: int = 0
    """How many of its members came from the pool."""
    errors: int = 0
    """Unforeseen errors in a row while it was driven. Stored, so that the count survives a takeover."""
    trace: str = ""
    """The `traceparent` of its caller; empty: the caller named none."""

    @property
    def ended(self) -> bool:
        return self.status in ENDED

    @property
    def committed(self) -> bool:
        return self.committed_at is not None

    @property
    def waiting_owner(self) -> str | None:
        """Return the owner whose queued operations are counted together. None: it waits for no room."""
        match self.request:
            case ProvisionRequest(owner=owner, queue_timeout=patience):
                return owner if patience else None
            case RunRequest(provision=ProvisionRequest(owner=owner, queue_timeout=patience)):
                return owner if patience else None
            case _:
                return None

    @property
    def fence(self) -> Fence:
        return Fence(operation_id=self.id, epoch=self.epoch)


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationChange:
    name: OperationEvent
    before: Operation
    after: Operation
    first_in_line: bool = False
    """Refused with Conflict while an older operation stands in its template's queue."""
    fresh_for: float | None = None
    """Seconds within which every member must have been seen, judged at the time of the write.

    Else the write is refused with Conflict, and with LeaseLost once the lease has run out.
    """
    actor: str = ""
    """Who did it, if it was a person or a program of theirs."""

    def __post_init__(self) -> None:
        if self.before.ended:
            raise IllegalTransition(f"cannot write operation {self.before.id}: it has {self.before.status}")
        shown, new = self.before.progress, self.after.progress
        if shown and (not new or new.step < shown.step or new.percent < shown.percent):
            raise IllegalTransition(f"cannot write operation {self.before.id}: its progress would go back")


def progressed(
    operation: Operation, progress: Progress, *, now: float, keep_place: bool = False
) -> OperationChange:
    """Publish progress. An operation that holds what it needs gives up its place in the queue."""
    change = _changed(operation, OperationEvent.PROGRESSED, now=now, status=Status.RUNNING, progress=progress)
    if keep_place:
        return change
    return replace(change, after=replace(change.after, queued_since=None))


def queued(operation: Operation, progress: Progress, *, now: float) -> OperationChange:
    """Queue the operation, holding nothing. Its place is its age, however often it comes back."""
    since = operation.queued_since if operation.queued_since is not None else now
    change = _changed(operation, OperationEvent.QUEUED, now=now, status=Status.QUEUED, progress=progress)
    return replace(change, after=replace(change.after, queued_since=since))


def resumed(operation: Operation, *, now: float) -> OperationChange:
    """Try again from the head of the queue. The place is kept until the operation holds what it needs."""
    change = _changed(operation, OperationEvent.RESUMED, now=now, status=Status.RUNNING)
    return replace(change, first_in_line=True)


def extended(operation: Operation, *, deadline_at: float, source: str, now: float) -> OperationChange:
    if deadline_at <= operation.deadline_at:
        raise IllegalTransition(f"cannot extend operation {operation.id}: {deadline_at} is not later")
    change = _changed(operation, OperationEvent.EXTENDED, now=now)
    after = replace(change.after, deadline_at=deadline_at, deadline_source=source)
    return replace(change, after=after)


def cancel_requested(operation: Operation, *, now: float) -> OperationChange | None:
    """Return the operation with a cancel request. None: that is known, or it is cancelled."""
    if operation.cancel_requested_at is not None or operation.status is Status.CANCELLED:
        return None
    if operation.kind in TO_THE_END:
        what = TO_THE_END[operation.kind]
        raise NotCancellable(f"cannot cancel {operation.id}: {what} always runs to its end")
    if operation.committed or operation.ended:
        progress = operation.status if operation.ended else "been committed"
        instead = "delete the cluster" if operation.kind is Kind.CLUSTER_CREATE else "release it"
        raise NotCancellable(f"cannot cancel {operation.id}: it has {progress}; {instead} instead")
    change = _changed(operation, OperationEvent.CANCEL_REQUESTED, now=now)
    return replace(change, after=replace(change.after, cancel_requested_at=now))


def failing(operation: Operation, verdict: Verdict, *, now: float) -> OperationChange:
    if operation.committed:
        raise IllegalTransition(f"cannot fail operation {operation.id}: it is committed")
    change = _changed(operation, OperationEvent.FAILING, now=now, status=Status.RUNNING)
    return replace(change, after=replace(change.after, verdict=verdict, queued_since=None))


def committed(
    operation: Operation,
    members: tuple[Member, ...],
    progress: Progress,
    *,
    now: float,
    fresh_for: float,
    warm: int = 0,
) -> OperationChange:
    """Commit the operation.

    The cancel and every loss of a node move the version, so this write can't outrun them. A silent node
    writes nothing, so the write itself judges silence once more.
    """
    if operation.committed or operation.verdict or operation.cancel_requested_at is not None:
        raise IllegalTransition(f"cannot commit operation {operation.id}")
    change = _changed(operation, OperationEvent.COMMITTED, now=now, status=Status.RUNNING, progress=progress)
    after = replace(change.after, committed_at=now, members=members, queued_since=None, warm=warm)
    return replace(change, after=after, fresh_for=fresh_for)


def erred(operation: Operation, errors: int, *, now: float) -> OperationChange:
    """Count an unforeseen error that kept it from advancing."""
    change = _changed(operation, OperationEvent.ERRED, now=now)
    return replace(change, after=replace(change.after, errors=errors))


def recovered(operation: Operation, *, now: float) -> OperationChange:
    """Forget the errors of an operation that advances again."""
    change = _changed(operation, OperationEvent.RECOVERED, now=now)
    return replace(change, after=replace(change.after, errors=0))


def ended(
    operation: Operation,
    status: Status,
    *,
    now: float,
    progress: Progress | None,
    verdict: Verdict | None = None,
    result: str = "",
) -> OperationChange:
    if status not in ENDED:
        raise IllegalTransition(f"cannot end operation {operation.id} as {status}")
    change = _changed(operation, OperationEvent.ENDED, now=now, status=status, progress=progress)
    after = replace(
        change.after,
        ended_at=now,
        verdict=verdict or operation.verdict,
        result=result,
        queued_since=None,
        lease_owner=None,
        lease_until=0.0,
    )
    return replace(change, after=after)


_STOPS = (OperationEvent.CANCEL_REQUESTED, OperationEvent.FAILING)
"""From these writes on the work goes no further."""


def next_shown(operation: Operation, progress: Progress, *, now: float) -> Progress:
    """Return what a publish of `progress` would show. The bar stands still once the work was told to stop."""
    shown = advanced(operation.progress, progress, now=now)
    told_to_stop = operation.verdict is not None or operation.cancel_requested_at is not None
    return stopped(shown, now=now) if told_to_stop else shown


def _changed(
    operation: Operation,
    name: OperationEvent,
    *,
    now: float,
    status: Status | None = None,
    progress: Progress | None = None,
) -> OperationChange:
    """Return a change. What isn't given stays as it is."""
    status, progress = status or operation.status, progress or operation.progress
    shown = None if progress is None else next_shown(operation, progress, now=now)
    if shown is not None and (status is not Status.RUNNING or name in _STOPS):
        shown = stopped(shown, now=now)
    after = replace(operation, version=operation.version + 1, updated_at=now, status=status, progress=shown)
    return OperationChange(name=name, before=operation, after=after)
