from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from muster.domain import operation as operations
from muster.domain.errors import IllegalTransition, NotCancellable
from muster.domain.ids import AssignmentId, NodeId, OperationId
from muster.domain.operation import (
    ENDED,
    Fence,
    Kind,
    Member,
    Operation,
    OperationChange,
    OperationEvent,
    Status,
    Verdict,
    committed,
    extended,
    resumed,
)
from muster.domain.progress import Progress
from muster.domain.reasons import Reason
from muster.domain.requests import Request
from tests.domain.builders import NOW, REFILL, RELEASE, RUN, SMALLEST, operation, progress, provision

VERDICT = Verdict(reason=Reason.CAPACITY, message="none left")
MEMBERS = (Member(node_id=NodeId("node-1"), assignment_id=AssignmentId("as-1")),)
REQUESTS: dict[Kind, Request] = {
    Kind.PROVISION: provision(),
    Kind.RELEASE: RELEASE,
    Kind.REFILL: REFILL,
    Kind.RUN: RUN,
}
Write = Callable[[Operation], OperationChange | None]
WRITES: dict[OperationEvent, Write] = {
    OperationEvent.PROGRESSED: lambda op: operations.progressed(op, progress(2), now=NOW),
    OperationEvent.QUEUED: lambda op: operations.queued(op, progress(2), now=NOW),
    OperationEvent.RESUMED: lambda op: operations.resumed(op, now=NOW),
    OperationEvent.FAILING: lambda op: operations.failing(op, VERDICT, now=NOW),
    OperationEvent.COMMITTED: lambda op: operations.committed(
        op, MEMBERS, progress(4), now=NOW, fresh_for=20.0
    ),
    OperationEvent.ENDED: lambda op: operations.ended(op, Status.FAILED, now=NOW, progress=None),
    OperationEvent.CANCEL_REQUESTED: lambda op: operations.cancel_requested(op, now=NOW),
}


@pytest.mark.parametrize("step", WRITES)
def test_a_write_is_named_stamped_and_counted(step: OperationEvent) -> None:
    before = operation()
    change = WRITES[step](before)
    assert change is not None
    assert (change.name, change.before) == (step, before)
    assert change.after.version == before.version + 1
    assert change.after.updated_at == NOW
    assert change.after.created_at == before.created_at


@pytest.mark.parametrize("status", ENDED)
@pytest.mark.parametrize("step", [step for step in WRITES if step is not OperationEvent.CANCEL_REQUESTED])
def test_an_ended_operation_is_never_written_again(step: OperationEvent, status: Status) -> None:
    over = operation(status=status)
    assert over.ended
    with pytest.raises(IllegalTransition, match=f"cannot write operation op-1: it has {status}"):
        WRITES[step](over)


def test_an_operation_has_ended_in_three_statuses_only() -> None:
    ended = {status for status in Status if operation(status=status).ended}
    assert ended == {Status.SUCCEEDED, Status.FAILED, Status.CANCELLED}


@pytest.mark.parametrize("status", Status)
def test_an_operation_ends_only_in_an_ended_status(status: Status) -> None:
    if status in ENDED:
        assert operations.ended(operation(), status, now=NOW, progress=None).after.status is status
    else:
        with pytest.raises(IllegalTransition, match=f"as {status}"):
            operations.ended(operation(), status, now=NOW, progress=None)


def test_ending_gives_up_the_lease_and_the_place_and_keeps_the_epoch() -> None:
    before = operation(queued_since=NOW - 9, progress=progress(1, 5.0))
    after = operations.ended(
        before, Status.SUCCEEDED, now=NOW, progress=progress(5, 100.0), result="ok"
    ).after
    assert (after.ended_at, after.result, after.progress) == (NOW, "ok", progress(5, 100.0))
    assert (after.lease_owner, after.lease_until, after.queued_since) == (None, 0.0, None)
    assert after.epoch == before.epoch


def test_ending_without_news_keeps_what_was_shown() -> None:
    shown = progress(3, 44.0)
    after = operations.ended(operation(progress=shown), Status.FAILED, now=NOW, progress=None).after
    assert after.progress == shown


def test_the_verdict_given_at_the_end_wins_over_the_one_written_before() -> None:
    other = Verdict(reason=Reason.QUOTA, message="full")
    before = operation(verdict=VERDICT)
    assert operations.ended(before, Status.FAILED, now=NOW, progress=None).after.verdict == VERDICT
    ended = operations.ended(before, Status.FAILED, now=NOW, progress=None, verdict=other)
    assert ended.after.verdict == other


def test_a_write_that_would_take_progress_back_is_refused() -> None:
    before = operation(progress=progress(3, 50.0))
    for worse in (None, progress(2, 60.0), progress(3, 49.0), progress(4, 49.0)):
        with pytest.raises(IllegalTransition, match="go back"):
            OperationChange(
                name=OperationEvent.PROGRESSED, before=before, after=replace(before, progress=worse)
            )
    for fine in (progress(3, 50.0), progress(4, 50.0), progress(3, 51.0)):
        OperationChange(name=OperationEvent.PROGRESSED, before=before, after=replace(before, progress=fine))


# --- the queue ------------------------------------------------------------------------------------


def test_the_place_in_the_queue_is_the_first_time_it_came() -> None:
    first = operations.queued(operation(), progress(), now=NOW).after
    assert (first.status, first.queued_since) == (Status.QUEUED, NOW)
    resumed = operations.resumed(first, now=NOW + 5).after
    assert (resumed.status, resumed.queued_since) == (Status.RUNNING, NOW)
    again = operations.queued(resumed, progress(), now=NOW + 10).after
    assert (again.status, again.queued_since) == (Status.QUEUED, NOW)


def test_a_place_since_time_zero_is_a_place() -> None:
    assert operations.queued(operation(queued_since=0.0), progress(), now=NOW).after.queued_since == 0.0


def test_progress_gives_up_the_place_unless_it_is_kept() -> None:
    waiting = operation(queued_since=NOW - 9, status=Status.QUEUED)
    kept = operations.progressed(waiting, progress(), now=NOW, keep_place=True).after
    assert (kept.status, kept.queued_since) == (Status.RUNNING, NOW - 9)
    assert operations.progressed(waiting, progress(), now=NOW).after.queued_since is None


@pytest.mark.parametrize("step", [OperationEvent.FAILING, OperationEvent.COMMITTED, OperationEvent.ENDED])
def test_what_is_decided_leaves_the_queue(step: OperationEvent) -> None:
    change = WRITES[step](operation(queued_since=NOW - 9))
    assert change is not None and change.after.queued_since is None


# --- the cancel and the commit compete ------------------------------------------------------------


@pytest.mark.parametrize("kind", REQUESTS)
@pytest.mark.parametrize("status", Status)
@pytest.mark.parametrize("committed", [False, True])
def test_only_what_is_unfinished_and_no_release_can_be_cancelled(
    kind: Kind, status: Status, committed: bool
) -> None:
    before = operation(request=REQUESTS[kind], status=status, committed_at=NOW - 1 if committed else None)
    if status is Status.CANCELLED:
        assert operations.cancel_requested(before, now=NOW) is None
    elif kind is Kind.RELEASE:
        with pytest.raises(NotCancellable, match="a release always runs to its end"):
            operations.cancel_requested(before, now=NOW)
    elif status in ENDED or committed:
        state = status if status in ENDED else "been committed"
        with pytest.raises(NotCancellable, match=f"it has {state}; release it instead"):
            operations.cancel_requested(before, now=NOW)
    else:
        change = operations.cancel_requested(before, now=NOW)
        assert change is not None
        assert change.after.cancel_requested_at == NOW
        assert change.after.status is status


@pytest.mark.parametrize("status", Status)
def test_a_second_cancel_changes_nothing(status: Status) -> None:
    asked = operation(status=status, cancel_requested_at=0.0)
    assert operations.cancel_requested(asked, now=NOW) is None


def test_the_commit_records_its_members_and_its_time() -> None:
    after = operations.committed(operation(), MEMBERS, progress(4, 60.0), now=NOW, fresh_for=20.0).after
    assert (after.committed_at, after.members, after.status) == (NOW, MEMBERS, Status.RUNNING)
    assert after.committed and after.progress == progress(4, 60.0)


@pytest.mark.parametrize(
    "lost", [{"committed_at": 0.0}, {"verdict": VERDICT}, {"cancel_requested_at": 0.0}], ids=str
)
def test_nothing_commits_after_a_commit_a_verdict_or_a_cancel(lost: dict[str, Any]) -> None:
    with pytest.raises(IllegalTransition, match="cannot commit operation op-1"):
        operations.committed(operation(**lost), MEMBERS, progress(4), now=NOW, fresh_for=20.0)


def test_a_committed_operation_cannot_fail() -> None:
    with pytest.raises(IllegalTransition, match="it is committed"):
        operations.failing(operation(committed_at=0.0), VERDICT, now=NOW)


def test_a_verdict_is_written_before_the_rollback() -> None:
    after = operations.failing(operation(status=Status.QUEUED), VERDICT, now=NOW).after
    assert (after.verdict, after.status, after.ended_at) == (VERDICT, Status.RUNNING, None)


def test_a_new_operation_waits_for_any_replica_and_has_done_nothing() -> None:
    new = Operation(
        id=OperationId("op-1"),
        kind=Kind.PROVISION,
        request=provision(),
        template="web",
        run="run-1",
        created_at=NOW,
        updated_at=NOW,
        deadline_at=NOW + 1,
        deadline_source="default",
    )
    assert (new.status, new.version, new.members, new.progress) == (Status.QUEUED, 1, (), None)
    assert (new.lease_owner, new.lease_until, new.epoch) == (None, 0.0, 0)
    assert not new.ended and not new.committed


def test_a_fence_carries_the_epoch_of_its_operation() -> None:
    assert operation(epoch=9).fence == Fence(operation_id=OperationId("op-1"), epoch=9)


@pytest.mark.parametrize("side", [-SMALLEST, 0.0, SMALLEST])
def test_an_operation_is_extended_only_to_a_later_time(side: float) -> None:
    running = operation()
    if side <= 0:
        with pytest.raises(IllegalTransition):
            extended(running, deadline_at=running.deadline_at + side, source="extension", now=NOW)
        return
    change = extended(running, deadline_at=running.deadline_at + side, source="extension", now=NOW)
    assert change.after == replace(
        running,
        version=running.version + 1,
        updated_at=NOW,
        deadline_at=running.deadline_at + side,
        deadline_source="extension",
    )


def test_who_resumes_must_be_first_in_line() -> None:
    assert resumed(operation(status=Status.QUEUED, queued_since=NOW - 5), now=NOW).first_in_line


def test_a_commit_says_how_fresh_its_members_must_be() -> None:
    progress = Progress(step=5, total_steps=5, phase="handing_over", label="Handing over")
    assert committed(operation(), (), progress, now=NOW, fresh_for=21.0).fresh_for == 21.0
