"""When a run with interrupted jobs is run again: never against a person, never for honest failures."""

from dataclasses import replace
from typing import Any

import pytest

from muster.domain.ids import JobId
from muster.domain.jobs import Job, JobState
from muster.integrations.github.rerun_decisions import Never, RerunFailed, RerunJob, Wait, decide, used
from muster.integrations.github.runners import RunStatus, WorkflowJob, WorkflowRun

RUN = WorkflowRun(
    repository="acme/shop", run_id=7, attempt=1, status=RunStatus.COMPLETED, conclusion="failure"
)


def lost(number: int, **more: Any) -> Job:
    facts: dict[str, Any] = {"attempt": 1, "runner": f"r{number}", "interrupted": True, **more}
    name = JobId(f"github-{number}")
    return Job(id=name, source="github", state=JobState.RUNNING, created_at=1.0, updated_at=1.0, **facts)


def shown(number: int, conclusion: str = "failure", runner: str | None = None) -> WorkflowJob:
    name = runner or f"r{number}"
    return WorkflowJob(id=number, run_id=7, status="completed", conclusion=conclusion, runner_name=name)


def decided(run: WorkflowRun | None, jobs: list[Job], listed: list[WorkflowJob], **more: int) -> Any:
    return decide(run, jobs, listed, **{"budget": 2, "spent": 0, **more})


def test_all_interrupted_jobs_are_asked_for_together() -> None:
    listed = [shown(1), shown(2), shown(3, "success"), shown(4, "cancelled"), shown(5, "skipped")]
    assert decided(RUN, [lost(1), lost(2)], listed) == RerunFailed((1, 2))


def test_a_run_that_goes_on_is_waited_for() -> None:
    assert decided(replace(RUN, status=RunStatus.ACTIVE, conclusion=""), [lost(1)], [shown(1)]) == Wait()


@pytest.mark.parametrize("conclusion", ["cancelled", "success", "skipped", "neutral", ""])
def test_a_run_that_did_not_fail_is_left_alone(conclusion: str) -> None:
    assert isinstance(decided(replace(RUN, conclusion=conclusion), [lost(1)], [shown(1)]), Never)


def test_one_interrupted_job_beside_honest_failures_is_asked_for_alone() -> None:
    assert decided(RUN, [lost(1)], [shown(1), shown(2)]) == RerunJob(1)


def test_several_interrupted_jobs_beside_an_honest_failure_are_left_alone() -> None:
    found = decided(RUN, [lost(1), lost(2)], [shown(1), shown(2), shown(3)])
    assert found == Never("1 other jobs of the run failed by themselves")


def test_an_interrupted_job_that_ended_well_is_no_reason() -> None:
    assert decided(RUN, [lost(1)], [shown(1, "success"), shown(2)]) == Never("no interrupted job failed")


def test_a_run_that_was_begun_anew_or_that_is_gone_is_left_alone() -> None:
    assert decided(replace(RUN, attempt=2), [lost(1)], [shown(1)]) == Never("attempt 2 has begun")
    assert isinstance(decided(None, [lost(1)], []), Never)


def test_the_budget_is_per_run_over_all_attempts() -> None:
    assert isinstance(decided(RUN, [lost(1)], [shown(1)], spent=1), RerunFailed)
    assert isinstance(decided(RUN, [lost(1)], [shown(1)], spent=2), Never)
    assert used([lost(1, rerun_at=5.0), lost(2), lost(3, rerun_at=9.0, attempt=2)]) == 2
