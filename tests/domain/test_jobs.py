"""Jobs: what sources say is joined without order, what Muster does is written beside it."""

from dataclasses import replace
from itertools import permutations

import pytest

from muster.domain.errors import InvalidRequest
from muster.domain.ids import AssignmentId, JobId, NodeId, OperationId
from muster.domain.job_figures import grouped
from muster.domain.job_figures import served as served_since
from muster.domain.jobs import (
    CAUSES,
    LABELS_MOST,
    TEXT_MOST,
    Job,
    JobResult,
    JobSighting,
    JobState,
    Unserved,
    interrupted,
    job_id,
    merge,
    placed,
    served,
    unserved,
)


def seen(state: JobState = JobState.QUEUED, **facts: object) -> JobSighting:
    return JobSighting(id=JobId("forge-1"), source="forge", state=state, **facts)  # type: ignore[arg-type]  # named by tests


def folded(*sightings: JobSighting) -> Job:
    job: Job | None = None
    for each in sightings:
        change = merge(job, each, now=1.0)
        job = job if change is None else change.after
    assert job is not None
    return replace(job, version=0)


QUEUED = seen(queued_at=10.0, labels=("muster",), repository="acme/shop")
STARTED = seen(
    JobState.RUNNING, queued_at=10.0, started_at=14.0, runner="r1", assignment_id=AssignmentId("a1")
)
DONE = seen(JobState.COMPLETED, completed_at=60.0, result=JobResult.FAILED, runner="r1")
FIRST_TURN = seen(assigned_at=20.0)
TAKEN_BACK = seen(JobState.COMPLETED, assigned_at=20.0, completed_at=25.0, result=JobResult.CANCELLED)
SECOND_TURN = seen(assigned_at=30.0)
STARTED_SECOND = seen(JobState.RUNNING, assigned_at=30.0, started_at=31.0, runner="r2")


def test_completed_before_queued_is_completed() -> None:
    for order in permutations([QUEUED, STARTED, DONE]):
        job = folded(*order, *order)
        assert (job.state, job.result, job.runner, job.startup) == (
            JobState.COMPLETED, JobResult.FAILED, "r1", 4.0,
        )  # fmt: skip
        assert job.assignment_id == "a1"


def test_a_job_that_its_source_took_back_and_assigned_anew_waits_again() -> None:
    for order in permutations([QUEUED, FIRST_TURN, TAKEN_BACK, SECOND_TURN]):
        job = folded(*order)
        assert (job.state, job.result, job.completed_at, job.assigned_at) == (
            JobState.QUEUED, None, None, 30.0,
        )  # fmt: skip


def test_every_order_of_two_turns_gives_the_same_job() -> None:
    turns = [FIRST_TURN, TAKEN_BACK, SECOND_TURN, STARTED_SECOND, QUEUED]
    assert len({str(folded(*order)) for order in permutations(turns)}) == 1


def test_what_is_known_already_is_no_change() -> None:
    first = merge(None, STARTED, now=1.0)
    assert first is not None
    assert merge(first.after, QUEUED, now=2.0) is not None  # its repository and labels are new
    assert merge(first.after, STARTED, now=2.0) is None


def test_a_job_that_runs_is_no_longer_unserved() -> None:
    job = folded(QUEUED)
    held = unserved(job, Unserved.CAP, detail="3 of 3", now=2.0)
    assert held is not None
    assert unserved(held.after, Unserved.CAP, detail="3 of 3", now=3.0) is None
    going = merge(held.after, STARTED, now=4.0)
    assert going is not None
    assert (going.after.unserved, going.after.detail) == (None, "")


def test_each_new_provision_for_a_job_counts_as_a_try() -> None:
    job = served(folded(QUEUED), template="ci", operation_id=OperationId("op-1"), now=2.0).after
    again = served(job, template="ci", operation_id=OperationId("op-1"), now=3.0).after
    other = served(again, template="ci", operation_id=OperationId("op-2"), now=4.0).after
    assert [each.tries for each in (job, again, other)] == [1, 1, 2]


def test_what_held_a_job_back_is_said_until_a_further_try_gets_on() -> None:
    held = unserved(folded(QUEUED), Unserved.NOT_ALLOWED, now=2.0)
    assert held is not None
    first = served(held.after, template="ci", operation_id=OperationId("op-1"), now=3.0).after
    assert first.unserved is None
    full = unserved(first, Unserved.CAP, now=4.0)
    assert full is not None
    second = served(full.after, template="ci", operation_id=OperationId("op-2"), now=5.0).after
    assert second.unserved is Unserved.CAP


def test_a_new_turn_forgets_the_machine_of_the_one_before() -> None:
    job = placed(folded(FIRST_TURN), node_id=NodeId("n1"), operation_id=None, warm=True, now=2.0).after
    lost = interrupted(job, now=3.0).after
    anew = merge(lost, SECOND_TURN, now=4.0)
    assert anew is not None
    assert (anew.after.node_id, anew.after.warm, anew.after.interrupted) == (None, None, False)


def test_long_texts_are_cut_and_odd_ids_refused() -> None:
    long = seen(name="x" * 1000, labels=("l" * 1000,) * 1000)
    assert len(long.name) == TEXT_MOST
    assert (len(long.labels), len(long.labels[0])) == (LABELS_MOST, TEXT_MOST)
    assert job_id("forge", "8f2e-1") == "forge-8f2e-1"
    for odd in ("", "a/b", "a b", "é", "x" * 200):
        with pytest.raises(InvalidRequest):
            job_id("forge", odd)


def test_every_cause_has_words_and_advice() -> None:
    assert set(CAUSES) == set(Unserved)
    assert all(words and advice for words, advice in CAUSES.values())


def test_causes_are_grouped_with_the_oldest_first() -> None:
    jobs = [
        replace(folded(seen(queued_at=at)), id=JobId(f"forge-{at}"), unserved=cause)
        for at, cause in ((9.0, Unserved.CAP), (5.0, Unserved.PAUSED), (3.0, Unserved.CAP), (1.0, None))
    ]
    found = grouped(jobs)
    assert [(each.cause, each.count, each.oldest_since, each.example) for each in found] == [
        (Unserved.CAP, 2, 3.0, "forge-3.0"),
        (Unserved.PAUSED, 1, 5.0, "forge-5.0"),
    ]


def test_figures_leave_out_what_is_unknown() -> None:
    nothing = served_since([folded(QUEUED)], since=0.0)
    assert (nothing.started, nothing.waited, nothing.warm_rate) == (0, None, None)
    ran = folded(QUEUED, STARTED)
    found = served_since([replace(ran, warm=True), replace(ran, warm=False), ran], since=14.0)
    assert found.waited is not None
    assert (found.started, found.waited.p50, found.warm_rate) == (3, 4.0, 0.5)
    assert served_since([ran], since=14.1).started == 0
