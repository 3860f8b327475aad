"""When a job counts as interrupted: its machine went away under it, and it did not end well before."""

from dataclasses import replace

import pytest

from muster.controllers.job_placements import is_interrupted
from muster.domain.ids import JobId
from muster.domain.jobs import Job, JobResult, JobState
from muster.domain.lifecycle import NodeState
from muster.domain.reasons import Reason
from tests.domain.builders import node

RUNNING = Job(id=JobId("forge-1"), source="forge", state=JobState.RUNNING, created_at=1.0, updated_at=1.0)
FAILED = replace(RUNNING, state=JobState.COMPLETED, result=JobResult.FAILED, completed_at=200.0)
LOST = replace(node(), state=NodeState.TERMINATING, reason=Reason.INTERRUPTED, entered_at=100.0)


@pytest.mark.parametrize("reason", [Reason.INTERRUPTED, Reason.MACHINE_GONE, Reason.HEARTBEAT_LOST])
@pytest.mark.parametrize("state", [NodeState.TERMINATING, NodeState.TERMINATED])
def test_a_job_whose_machine_went_away_is_interrupted(reason: Reason, state: NodeState) -> None:
    gone = replace(LOST, reason=reason, state=state)
    assert is_interrupted(RUNNING, gone)
    assert is_interrupted(FAILED, gone)


@pytest.mark.parametrize("reason", [Reason.REUSE, Reason.OPERATOR, Reason.MAX_RUNTIME, Reason.RETIRED, None])
def test_a_machine_that_ended_in_order_interrupts_nothing(reason: Reason | None) -> None:
    assert not is_interrupted(RUNNING, replace(LOST, reason=reason))


def test_a_notice_alone_interrupts_nothing() -> None:
    assert not is_interrupted(RUNNING, replace(LOST, state=NodeState.RUNNING))


def test_a_job_that_ended_well_or_before_its_machine_was_not_interrupted() -> None:
    assert not is_interrupted(replace(FAILED, result=JobResult.SUCCEEDED), LOST)
    assert not is_interrupted(replace(FAILED, result=JobResult.CANCELLED), LOST)
    assert not is_interrupted(replace(FAILED, completed_at=99.0), LOST)
    assert is_interrupted(replace(FAILED, completed_at=100.0), LOST)


def test_it_is_said_once() -> None:
    assert not is_interrupted(replace(RUNNING, interrupted=True), LOST)
