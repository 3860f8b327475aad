"""Workflow runs without a waiting step: over, cancelled, re-run in part."""

from collections.abc import Awaitable, Callable, Sequence
from itertools import pairwise
from typing import Any

from muster.domain.errors import StoreUnavailable
from muster.domain.lifecycle import NodeState
from muster.domain.operation import Kind, Operation, Status
from muster.integrations.github.registry import GitHubRegistry
from muster.integrations.github.runners import WorkflowJob, WorkflowRun
from muster.integrations.github.workflows import (
    DELETED_AFTER,
    PAUSE,
    PAUSE_MOST,
    REPOSITORIES_MOST,
    TRIES,
    WorkflowKeeper,
)
from tests.harness import Harness, with_harness
from tests.harness.github import GitHubHarness, context


class Watched:
    """Repositories by the dozen, and how often each was asked for its runs."""

    def __init__(self, count: int) -> None:
        self.asked = {f"acme/r-{number}": 0 for number in range(count)}

    async def repositories(self) -> list[str]:
        return list(self.asked)

    async def active(self, repository: str) -> list[WorkflowRun]:
        self.asked[repository] += 1
        return []


@with_harness
async def test_many_repositories_take_turns_instead_of_all_being_asked_every_round(harness: Harness) -> None:
    watched: Any = Watched(2 * REPOSITORIES_MOST)
    keeper = WorkflowKeeper(context(harness), watched, watched)
    await keeper.reconcile()
    assert sum(watched.asked.values()) == REPOSITORIES_MOST
    await keeper.reconcile()
    assert set(watched.asked.values()) == {1}


@with_harness
async def test_nodes_are_given_back_when_their_workflow_run_is_over(harness: Harness) -> None:
    github = await GitHubHarness.set(harness)
    run = github.begin()
    await harness.succeeded(await github.provision(await harness.replica(), run, 2))
    await harness.pass_time(100)
    assert len(await harness.nodes(NodeState.RUNNING)) == 2, "it still goes on"
    github.world.complete(run)
    await harness.count(2, NodeState.IDLE, within=60)
    assert not github.runners()
    (release,) = await harness.of_kind(Kind.RELEASE)
    assert (await harness.ended(release)).status is Status.SUCCEEDED


@with_harness
async def test_a_cancelled_workflow_ends_a_provision_that_is_still_under_way(harness: Harness) -> None:
    github = await GitHubHarness.set(harness)
    github.connects = False
    run = github.begin()
    operation = await github.provision(await harness.replica(), run)
    await harness.count(1, NodeState.CREATED)
    github.world.cancel(run)
    ended = await harness.ended(operation, within=60)
    assert ended.status is Status.CANCELLED


@with_harness
async def test_a_cancelled_workflow_leaves_the_line_and_its_place_goes_to_the_next(harness: Harness) -> None:
    """It holds no node yet: nothing but the provision itself tells that a step waits."""
    github = await GitHubHarness.set(harness, max_nodes=1)
    replica = await harness.replica()
    first, dead, live = github.begin(), github.begin(), github.begin()
    held = await harness.succeeded(await github.provision(replica, first))
    given_up = await github.provision(replica, dead, queue_timeout=3000.0)
    await harness.pass_time(5)
    waiting = await github.provision(replica, live, queue_timeout=3000.0)
    await harness.pass_time(60)
    assert not (await harness.operation(given_up.id)).ended, "while its run goes on"
    github.world.cancel(dead)
    assert (await harness.ended(given_up, within=60)).status is Status.CANCELLED
    await harness.succeeded(await replica.release(held.id))
    await harness.succeeded(waiting)
    assert [node.operation_id for node in await harness.nodes(NodeState.RUNNING)] == [waiting.id]


@with_harness
async def test_a_run_that_cant_be_looked_up_is_left_alone(harness: Harness) -> None:
    github = await GitHubHarness.set(harness)
    run = github.begin()
    await harness.succeeded(await github.provision(await harness.replica(), run))
    for status in (404, 500):
        github.world.fault(f"runs/{run.id}$", status, times=3)
    await harness.pass_time(200)
    assert len(await harness.nodes(NodeState.RUNNING)) == 1


@with_harness
async def test_a_run_that_was_deleted_is_over_once_it_has_been_missing_for_a_while(harness: Harness) -> None:
    github = await GitHubHarness.set(harness)
    run = github.begin()
    await harness.succeeded(await github.provision(await harness.replica(), run))
    del github.world.runs[run.repository, run.id]
    await harness.pass_time(DELETED_AFTER - 5)
    assert len(await harness.nodes(NodeState.RUNNING)) == 1
    await harness.count(1, NodeState.IDLE, within=90)


@with_harness
async def test_a_repository_that_cant_be_seen_any_more_gives_nothing_back(harness: Harness) -> None:
    github = await GitHubHarness.set(harness)
    run = github.begin()
    await harness.succeeded(await github.provision(await harness.replica(), run))
    github.world.fault("GET /repos/acme/shop/actions/runs", 404, times=10_000)
    await harness.pass_time(DELETED_AFTER * 3)
    assert len(await harness.nodes(NodeState.RUNNING)) == 1


@with_harness
async def test_rerunning_failed_jobs_gets_runners_under_the_label_that_was_given_out(
    harness: Harness,
) -> None:
    github = await GitHubHarness.set(harness)
    run = github.begin()
    replica = await harness.replica()
    await harness.succeeded(await github.provision(replica, run, 2))
    label = f"{run.id}-1"
    await github.fail_its_job(run, label, nodes=2)
    github.world.rerun_failed(run)
    await harness.count(2, NodeState.RUNNING, within=60)
    assert [runner.labels for runner in github.runners()] == [(label,)] * 2
    await harness.pass_time(120)
    provisions = await harness.of_kind(Kind.PROVISION)
    assert [operation.run for operation in provisions] == [f"acme/shop/{run.id}-{n}" for n in (1, 2)]
    for each in github.world.latest(run):
        each.status, each.conclusion = "completed", "success"
    await harness.count(2, NodeState.IDLE, within=60)


@with_harness
async def test_a_rerun_whose_provision_failed_is_provisioned_again_after_a_while(harness: Harness) -> None:
    github = await GitHubHarness.set(harness, attach_timeout=50)
    run = github.begin()
    await harness.succeeded(await github.provision(await harness.replica(), run, timeout=100))
    await github.fail_its_job(run)
    github.connects = False
    github.world.rerun_failed(run)
    await harness.pass_time(130)
    assert [each.status for each in await harness.of_kind(Kind.PROVISION)][1:] == [Status.FAILED]
    github.connects = True
    await harness.count(1, NodeState.RUNNING, within=200)
    await harness.pass_time(300)
    statuses = [each.status for each in await harness.of_kind(Kind.PROVISION)]
    assert statuses == [Status.SUCCEEDED, Status.FAILED, Status.SUCCEEDED]


@with_harness
async def test_a_rerun_that_fails_is_tried_ever_more_rarely_and_then_not_again(harness: Harness) -> None:
    github = await GitHubHarness.set(harness, attach_timeout=50)
    run = github.begin()
    await harness.succeeded(await github.provision(await harness.replica(), run, timeout=100))
    await github.fail_its_job(run)
    github.connects = False
    github.world.rerun_failed(run)
    await harness.pass_time(4 * 3600)
    tries = (await harness.of_kind(Kind.PROVISION))[1:]
    assert [each.status for each in tries] == [Status.FAILED] * TRIES
    waited = [after.created_at - before.updated_at for before, after in pairwise(tries)]
    pauses = [min(PAUSE * 2**number, PAUSE_MOST) for number in range(TRIES - 1)]
    assert all(pause <= each <= pause + 60 for each, pause in zip(waited, pauses, strict=True)), waited


@with_harness
async def test_every_label_of_a_rerun_is_served_however_many_there_were(harness: Harness) -> None:
    github = await GitHubHarness.set(harness, max_nodes=60)
    run = github.begin()
    replica = await harness.replica()
    labels = [f"{run.id}-{number}" for number in range(25)]
    made = [await github.provision(replica, run, label=label) for label in labels]
    for operation in made:
        await harness.succeeded(operation)
    await github.fail_its_job(run, *labels, nodes=25, within=120)
    github.world.rerun_failed(run)
    await harness.count(25, NodeState.RUNNING, within=120)
    assert sorted(runner.labels for runner in github.runners()) == sorted((label,) for label in labels)


@with_harness
async def test_a_rerun_that_the_store_was_too_busy_for_gets_its_runners_all_the_same(
    harness: Harness,
) -> None:
    github = await GitHubHarness.set(harness)
    run = github.begin()
    replica = await harness.replica()
    await harness.succeeded(await github.provision(replica, run))
    await github.fail_its_job(run)
    submit = replica.plane.desk.provision

    async def busy(*_: object, **__: object) -> Operation:
        replica.plane.desk.provision = submit  # type: ignore[method-assign]
        raise StoreUnavailable("cannot use the store: it is busy")

    replica.plane.desk.provision = busy  # type: ignore[method-assign]
    github.world.rerun_failed(run)
    await harness.count(1, NodeState.RUNNING, within=300)


@with_harness
async def test_a_rerun_s_label_is_known_in_whichever_case(harness: Harness) -> None:
    github = await GitHubHarness.set(harness)
    run = github.begin()
    await harness.succeeded(await github.provision(await harness.replica(), run, label="Nightly"))
    await github.fail_its_job(run, "NIGHTLY")
    github.world.rerun_failed(run)
    await harness.count(1, NodeState.RUNNING, within=60)


@with_harness
async def test_a_rerun_whose_jobs_want_other_labels_gets_nothing(harness: Harness) -> None:
    github = await GitHubHarness.set(harness)
    run = github.begin()
    replica = await harness.replica()
    operation = await harness.succeeded(await github.provision(replica, run))
    await harness.succeeded(await replica.release(operation.id))
    run.attempt = 2
    github.world.queue(run, "test", ["ubuntu-latest"])
    await harness.pass_time(100)
    assert len(await harness.of_kind(Kind.PROVISION)) == 1


@with_harness
async def test_a_rerun_whose_jobs_do_not_wait_for_the_label_gets_nothing(harness: Harness) -> None:
    """GitHub has listed jobs that weren't repeated among those of the new attempt; some run elsewhere."""
    github = await GitHubHarness.set(harness)
    run = github.begin()
    replica = await harness.replica()
    operation = await harness.succeeded(await github.provision(replica, run))
    await harness.succeeded(await replica.release(operation.id))
    run.attempt = 2
    github.world.queue(run, "lint", ["ubuntu-latest"])
    for status, conclusion in (("completed", "success"), ("in_progress", None)):
        job = github.world.queue(run, "test", [f"{run.id}-1"])
        job.status, job.conclusion = status, conclusion
    await harness.pass_time(100)
    assert len(await harness.of_kind(Kind.PROVISION)) == 1


@with_harness
async def test_a_rerun_s_own_step_gets_what_was_provisioned_for_it_before_it_asked(harness: Harness) -> None:
    """With a plain label and without `needs`, its jobs wait from the start; its step comes later."""
    github = await GitHubHarness.set(harness)
    run = github.begin()
    replica = await harness.replica()
    label = str(run.id)
    first = await harness.succeeded(await github.provision(replica, run, 2, label=label))
    await harness.succeeded(await replica.release(first.id))
    run.attempt = 2
    github.world.queue(run, "test", [label])
    await harness.count(2, NodeState.RUNNING, within=60)
    (_, unasked) = await harness.of_kind(Kind.PROVISION)
    asked = await github.provision(replica, run, 2, label=label, key="its-own")
    assert asked.id == unasked.id
    assert (await github.provision(replica, run, 2, label=label, key="its-own")).id == unasked.id

    other = await github.provision(replica, run, 1, label=label)
    assert other.id != unasked.id, "it asks for something else"
    await harness.succeeded(other)
    await harness.succeeded(await replica.release(other.id))
    await harness.succeeded(await replica.release(unasked.id))
    anew = await harness.succeeded(await github.provision(replica, run, 2, label=label))
    assert anew.id != unasked.id, "that one was given back"
    assert len(await harness.nodes(NodeState.RUNNING)) == 2


class Leisurely:
    """GitHub, whose list of jobs takes so long that another caller acts meanwhile."""

    def __init__(self, workflows: GitHubRegistry, meanwhile: Callable[[], Awaitable[object]]) -> None:
        self._workflows = workflows
        self._meanwhile = meanwhile

    def __getattr__(self, verb: str) -> Any:
        return getattr(self._workflows, verb)

    async def workflow_jobs(self, repository: str, run_id: int) -> Sequence[WorkflowJob]:
        found = await self._workflows.workflow_jobs(repository, run_id)
        await self._meanwhile()
        return found


@with_harness
async def test_a_rerun_whose_step_asks_while_github_answers_is_not_provisioned_twice(
    harness: Harness,
) -> None:
    github = await GitHubHarness.set(harness)
    run = github.begin()
    label = str(run.id)

    async def ask() -> None:
        await github.provision(replica, run, 2, label=label, key="its-own")

    github.watched = lambda registry: Leisurely(registry, ask)
    replica = await harness.replica()
    first = await harness.succeeded(await github.provision(replica, run, 2, label=label))
    await harness.succeeded(await replica.release(first.id))
    run.attempt = 2
    github.world.queue(run, "test", [label])
    await harness.count(2, NodeState.RUNNING, within=60)
    await harness.pass_time(60)
    assert len(await harness.nodes(NodeState.RUNNING)) == 2
    assert len(await harness.of_kind(Kind.PROVISION)) == 2


@with_harness
async def test_a_rerun_whose_own_job_provisions_is_not_provisioned_twice(harness: Harness) -> None:
    github = await GitHubHarness.set(harness)
    run = github.begin()
    replica = await harness.replica()
    label = str(run.id)
    first = await harness.succeeded(await github.provision(replica, run, label=label))
    await harness.succeeded(await replica.release(first.id))
    run.attempt = 2
    await harness.succeeded(await github.provision(replica, run, label=label))
    github.world.queue(run, "test", [label])
    await harness.pass_time(100)
    assert len(await harness.of_kind(Kind.PROVISION)) == 2
