"""Jobs that name labels: each gets one runner, whatever happens to webhooks, servers, runners and caps."""

from typing import Any

import pytest

from muster.domain.ids import JobId
from muster.domain.job_figures import with_source
from muster.domain.jobs import Job, JobResult, JobSighting, JobState, Unserved
from muster.domain.lifecycle import LIVE, NodeState
from muster.domain.node import Node
from muster.domain.operation import Kind
from muster.domain.template import Reuse, UsageClass
from muster.integrations.github.reruns import BATCH
from muster.ports.duties import Delivery
from muster_simulation.github.state import Job as FakeJob
from muster_simulation.github.webhooks import event_of, signed
from muster_simulation.life import Life
from muster_simulation.loop import GATE
from tests.harness.github import REPOSITORY, GitHubHarness
from tests.harness.harness import Harness, Replica, with_harness

LINUX: dict[str, Any] = {"reuse": Reuse.NEVER, "tables": {"runner": {"labels": ["muster-linux"]}}}


class JobHarness:
    """A harness with one template for jobs, and one replica."""

    def __init__(self, harness: Harness, github: GitHubHarness, replica: Replica) -> None:
        self.harness = harness
        self.github = github
        self.replica = replica
        self.run = github.begin()

    @classmethod
    async def opened(cls, harness: Harness, **more: Any) -> "JobHarness":
        github = await GitHubHarness.set(harness, **{**LINUX, **more})
        return cls(harness, github, await harness.replica())

    def queue(self, *labels: str) -> FakeJob:
        return self.github.world.queue(self.run, "build", labels or ("muster-linux",))

    async def said(self, job: FakeJob, action: str = "queued", **more: Any) -> tuple[int, str]:
        answer = await self.github.deliver(self.replica, job, action, **more)
        return answer.status, answer.words

    async def job(self, job: FakeJob) -> Job:
        return await self.harness.store.jobs.job(JobId(f"github-{job.id}"))

    async def provisions(self) -> int:
        return len(await self.harness.of_kind(Kind.PROVISION))

    async def until_job(self, job: FakeJob, holds: Any, *, within: float = 3600.0) -> Job:
        async def fits() -> bool:
            return bool(holds(await self.job(job)))

        await self.harness.until(fits, within=within)
        return await self.job(job)

    async def running(self, count: int = 1) -> list[Node]:
        return await self.harness.count(count, NodeState.RUNNING)

    async def done(self, node: Node, job: FakeJob) -> None:
        """The runner of the node finishes the job."""
        self.github.world.finish(self.github.runner_of(node), job.id, "success", "")
        await self.said(job, "completed")
        await self.github.detached(node)


@with_harness
async def test_a_queued_job_gets_one_runner_with_all_its_labels_runs_and_its_machine_goes(
    harness: Harness,
) -> None:
    setup = await JobHarness.opened(harness)
    queued = setup.queue("muster-linux/xlarge")
    status, words = await setup.said(queued)
    assert (status, "gets its runner" in words) == (202, True)
    (node,) = await setup.running()
    assert node.resource_class == "xlarge"
    assert setup.github.runner_of(node).labels == ("muster-linux/xlarge", "muster-linux")
    assert setup.github.take(node) is queued
    await setup.said(queued, "in_progress")
    job = await setup.until_job(queued, lambda job: job.node_id is not None)
    assert (job.state, job.node_id, job.warm, job.template) == (JobState.RUNNING, node.id, False, "ci")
    (line,) = await harness.events(job.id, "placed")
    assert line.detail == f"build of {REPOSITORY} ran on {node.id}"
    await setup.done(node, queued)
    assert (await setup.job(queued)).result is JobResult.SUCCEEDED
    await harness.nothing_is_left()
    assert await setup.provisions() == 1


@with_harness
async def test_a_warm_node_serves_a_job_and_the_next_one_of_its_repository(harness: Harness) -> None:
    setup = await JobHarness.opened(harness, reuse=Reuse.SAME_OWNER)
    for warm in (False, True):
        queued = setup.queue()
        await setup.said(queued)
        (node,) = await setup.running()
        setup.github.take(node)
        await setup.said(queued, "in_progress")
        job = await setup.until_job(queued, lambda job: job.warm is not None)
        assert job.warm is warm
        await setup.done(node, queued)
        await harness.count(1, NodeState.IDLE)
    assert setup.github.runners() == []


@with_harness
async def test_deliveries_in_any_order_and_number_make_one_provision(harness: Harness) -> None:
    setup = await JobHarness.opened(harness)
    queued = setup.queue()
    for _ in range(3):
        assert (await setup.said(queued))[0] == 202
    (node,) = await setup.running()
    setup.github.take(node)
    setup.github.world.finish(setup.github.runner_of(node), queued.id, "failure", "")
    await setup.said(queued, "completed")
    await setup.said(queued, "in_progress")
    await setup.said(queued)
    job = await setup.job(queued)
    assert (job.state, job.result) == (JobState.COMPLETED, JobResult.FAILED)
    await setup.github.detached(node)
    await harness.nothing_is_left()
    assert await setup.provisions() == 1

    late = setup.queue()
    late.status, late.conclusion = "completed", "cancelled"
    await setup.said(late, "completed")
    await setup.said(late)  # the news that it was queued comes last
    assert (await setup.job(late)).state is JobState.COMPLETED
    assert await setup.provisions() == 1


@pytest.mark.parametrize("boundary", range(0, 20, 2))
@with_harness
async def test_a_server_killed_anywhere_between_webhook_and_answer_leaves_one_provision(
    harness: Harness, boundary: int
) -> None:
    setup = await JobHarness.opened(harness)
    first, queued = setup.replica, setup.queue()

    async def kill() -> None:
        await first.life.die()

    first.interceptor.armed = True
    first.interceptor.run_at(boundary, kill)
    try:
        answered = (await setup.said(queued))[0] == 202
    except ConnectionError:
        answered = False
    first.interceptor.armed = False
    setup.replica = await harness.replica()
    heard = [job.id for job in (await harness.store.jobs.jobs(states=tuple(JobState), limit=9)).items]
    assert heard or not answered, "what was answered is durable"
    if not heard:
        await setup.said(queued)  # GitHub redelivers, or the look-up finds it
    (node,) = await setup.running()
    await harness.pass_time(60.0)
    assert await setup.provisions() == 1, harness.cloud
    assert setup.github.take(node) is queued
    await setup.said(queued, "in_progress")
    await setup.done(node, queued)
    await harness.nothing_is_left()


@with_harness
async def test_a_forged_or_unreadable_delivery_changes_nothing(harness: Harness) -> None:
    setup = await JobHarness.opened(harness)
    hook = setup.replica.plane.hooks["github"]
    event = event_of(setup.queue(), "queued")
    good, body = signed(event)
    for headers, content, status in (
        (signed(event, secret="another")[0], body, 401),
        ({**good, "x-hub-signature-256": ""}, body, 401),
        ({**good, "x-hub-signature-256": good["x-hub-signature-256"].upper()}, body, 401),
        ({**good, "x-hub-signature-256": "sha256=é"}, body, 401),
        (good, body + b" ", 401),
        ({name: value for name, value in good.items() if not name.startswith("x-hub")}, body, 401),
        (*signed(b"{"), 400),
        (*signed(b"[]"), 400),
        (*signed(b'{"a": ' * 5000), 400),
        (*signed({**event, "repository": {"full_name": "../../etc"}}), 400),
        (*signed({"zen": "Keep it simple"}, kind="ping"), 200),
        (*signed(event, kind="push"), 200),
    ):
        answer = await hook.take(Delivery(headers=headers, body=content))
        assert answer.status == status, (status, answer)
    assert (await harness.store.jobs.jobs(states=tuple(JobState), limit=9)).items == ()
    assert await setup.provisions() == 0


@with_harness
async def test_a_job_outside_of_its_template_s_scope_gets_no_machine_and_says_why(harness: Harness) -> None:
    runner = {"labels": ["muster-linux"], "scope": "beta"}
    setup = await JobHarness.opened(harness, tables={"runner": runner})
    queued = setup.queue()
    words = f"has its runners at beta, not for {REPOSITORY}"
    assert words in (await setup.said(queued))[1]
    job = await setup.job(queued)
    assert job.unserved is Unserved.NO_TEMPLATE and words in job.detail
    await harness.pass_time(60.0)
    assert await setup.provisions() == 0


@with_harness
async def test_jobs_that_are_not_ours_old_or_not_allowed_get_no_machine_and_say_why(harness: Harness) -> None:
    setup = await JobHarness.opened(harness)
    assert await setup.said(setup.queue("ubuntu-latest")) == (
        200,
        "ignored: its labels are of no template here",
    )
    approval = setup.queue()
    waiting = event_of(approval, "queued")
    waiting["workflow_job"]["status"] = approval.status = "waiting"
    status, words = await setup.said(approval, **waiting)
    assert (status, "something else than a runner" in words) == (200, True)
    foreign = setup.github.world.queue(setup.github.world.begin("evil/shop"), "build", ("muster-linux",))
    status, words = await setup.said(foreign)
    assert (status, "evil/shop is not in [github] repositories" in words) == (403, True)
    assert (await setup.job(foreign)).unserved is Unserved.NOT_ALLOWED
    odd = setup.queue("muster-linux/huge")
    assert (await setup.said(odd))[0] == 202
    assert (await setup.job(odd)).unserved is Unserved.NO_TEMPLATE
    many = setup.queue(*["muster-linux"] * 21)
    assert "must be 1 to 20 labels" in (await setup.said(many))[1]
    assert (await setup.job(many)).unserved is Unserved.INVALID
    old = setup.queue()
    old.queued_at = harness.now - 86401.0
    assert "queued for a day" in (await setup.said(old))[1]
    await harness.pass_time(60.0)
    assert await setup.provisions() == 0


@with_harness
async def test_a_job_whose_runner_another_job_took_gets_the_others_runner(harness: Harness) -> None:
    setup = await JobHarness.opened(harness)
    one, two = setup.queue(), setup.queue()
    await setup.said(two)
    (node,) = await setup.running()
    assert setup.github.take(node) is one, "GitHub gives any job with the labels"
    await setup.said(one, "in_progress")
    await setup.until_job(one, lambda job: job.node_id == node.id)
    await setup.done(node, one)
    (other,) = await setup.running()
    assert setup.github.take(other) is two
    await setup.said(two, "in_progress")
    await setup.done(other, two)
    await harness.nothing_is_left()
    assert await setup.provisions() == 2


@with_harness
async def test_a_job_behind_a_long_one_that_took_its_runner_gets_a_runner_of_its_own(
    harness: Harness,
) -> None:
    setup = await JobHarness.opened(harness, max_runtime=7200.0)
    long, two = setup.queue(), setup.queue()
    await setup.said(two)  # and the webhook of the other is lost
    (node,) = await setup.running()
    assert setup.github.take(node) is long
    setup.github.runner_of(node).seen_at = float("inf")
    await setup.said(long, "in_progress")
    other = next(each for each in await setup.running(2) if each.id != node.id)
    assert setup.github.take(other) is two
    await setup.said(two, "in_progress")
    await harness.pass_time(300.0)
    assert await setup.provisions() == 2
    await setup.done(other, two)
    await setup.done(node, long)
    await harness.nothing_is_left()


@with_harness
async def test_a_runner_on_its_way_is_spared_for_the_job_whose_runner_was_taken(harness: Harness) -> None:
    setup = await JobHarness.opened(harness, max_nodes=1)
    one, two = setup.queue(), setup.queue()
    await setup.said(two)
    (node,) = await setup.running()
    await setup.said(one)  # waits for room
    assert setup.github.take(node) is one
    setup.github.runner_of(node).seen_at = float("inf")
    await setup.said(one, "in_progress")
    held = await setup.until_job(two, lambda job: job.unserved is not None)
    assert held.unserved is Unserved.TAKEN
    await harness.pass_time(300.0)
    assert await setup.provisions() == 2, "the one that waits for room is enough"
    await setup.done(node, one)
    (other,) = await setup.running()
    assert setup.github.take(other) is two
    await setup.said(two, "in_progress")
    await setup.done(other, two)
    await harness.nothing_is_left()


@with_harness
async def test_provisions_of_jobs_that_were_cancelled_are_stopped(harness: Harness) -> None:
    setup = await JobHarness.opened(harness, max_nodes=1)
    first, *others = [setup.queue() for _ in range(4)]
    for job in (first, *others):
        await setup.said(job)
    (node,) = await setup.running()
    for job in others:
        job.status, job.conclusion = "completed", "cancelled"
        await setup.said(job, "completed")

    async def stopped() -> bool:
        return sum(each.ended for each in await harness.of_kind(Kind.PROVISION)) == 4

    await harness.until(stopped, within=120.0)
    assert setup.github.take(node) is first
    await setup.said(first, "in_progress")
    await setup.done(node, first)
    await harness.nothing_is_left()


@with_harness
async def test_a_runner_that_no_job_needs_any_more_is_withdrawn(harness: Harness) -> None:
    setup = await JobHarness.opened(harness)
    queued = setup.queue()
    await setup.said(queued)
    await setup.running()
    queued.status, queued.conclusion = "completed", "cancelled"
    await setup.said(queued, "completed")
    await harness.nothing_is_left()
    assert setup.github.runners() == []


@with_harness
async def test_a_runner_that_waits_in_vain_is_bounded_by_idle_timeout_and_visible(harness: Harness) -> None:
    setup = await JobHarness.opened(harness, idle_timeout=300.0)
    queued = setup.queue()
    await setup.said(queued)
    (node,) = await setup.running()
    queued.status, queued.runner = "in_progress", "another-company's"
    await setup.said(queued, "in_progress")

    async def idle() -> bool:
        return [each.idle for each in await harness.store.jobs.source_counts()] == [1]

    await harness.until(idle, within=60.0)
    await harness.pass_time(200.0)
    assert (await harness.node(node.id)).state is NodeState.RUNNING
    began = harness.now
    await harness.nothing_is_left()
    assert harness.now - began < 200.0


@with_harness
async def test_a_busy_runner_is_never_withdrawn_although_its_webhook_is_lost(harness: Harness) -> None:
    setup = await JobHarness.opened(harness, idle_timeout=60.0, max_runtime=7200.0)
    queued = setup.queue()
    await setup.said(queued)
    (node,) = await setup.running()
    setup.github.take(node)
    await harness.pass_time(600.0)
    assert (await harness.node(node.id)).state is NodeState.RUNNING
    await setup.done(node, queued)
    await harness.nothing_is_left()


@with_harness
async def test_a_job_over_the_cap_says_so_and_runs_when_there_is_room(harness: Harness) -> None:
    setup = await JobHarness.opened(harness, max_nodes=1)
    one, two = setup.queue(), setup.queue()
    await setup.said(one)
    await setup.said(two)
    (node,) = await setup.running()
    held = await setup.until_job(two, lambda job: job.unserved is Unserved.CAP)
    assert "max_nodes of ci" in held.detail
    assert setup.github.take(node) is one
    await setup.said(one, "in_progress")
    await setup.done(node, one)
    (other,) = await setup.running()
    assert setup.github.take(other) is two
    await setup.said(two, "in_progress")
    assert (await setup.job(two)).unserved is None
    await setup.done(other, two)
    await harness.nothing_is_left()


@with_harness
async def test_a_paused_template_is_named_as_the_cause(harness: Harness) -> None:
    setup = await JobHarness.opened(harness)
    await harness.store.access.pause("ci", paused=True, now=harness.now)
    queued = setup.queue()
    await setup.said(queued)
    await setup.until_job(queued, lambda job: job.unserved is Unserved.PAUSED)
    await harness.store.access.pause("ci", paused=False, now=harness.now)
    await setup.running()


@with_harness
async def test_a_registration_that_github_refuses_is_named_and_tried_again(harness: Harness) -> None:
    setup = await JobHarness.opened(harness)
    setup.github.world.tokens.clear()
    queued = setup.queue()
    assert (await setup.said(queued))[0] == 202
    held = await setup.until_job(queued, lambda job: job.unserved is Unserved.REGISTRATION)
    assert "401" in held.detail
    setup.github.world.tokens.add("a-personal-token")
    (node,) = await setup.running()
    assert setup.github.take(node) is queued


@with_harness
async def test_a_github_that_can_t_be_reached_is_named_with_the_time_since_when(harness: Harness) -> None:
    setup = await JobHarness.opened(harness)
    under_way = setup.queue()
    await setup.said(under_way)
    setup.github.world.fault("", 503, times=1_000_000)
    began, later = harness.now, setup.queue()
    await harness.pass_time(90.0)  # that GitHub was fine is believed for a minute
    (counts,) = await harness.store.jobs.source_counts()
    assert counts.failing_since is not None and began < counts.failing_since <= began + 80.0
    assert (await setup.said(later))[0] == 202
    for job in (under_way, later):
        waiting = with_source(await setup.job(job), [counts])
        assert waiting.unserved is Unserved.SOURCE and "503" in waiting.detail
    setup.github.world.faults.clear()
    await setup.running(2)
    await harness.pass_time(30.0)
    (counts,) = await harness.store.jobs.source_counts()
    assert (counts.failing_since, counts.problem) == (None, "")


@with_harness
async def test_a_runner_that_gets_no_job_points_to_its_group(harness: Harness) -> None:
    setup = await JobHarness.opened(harness, idle_timeout=3600.0)
    queued = setup.queue()
    await setup.said(queued)
    await setup.running()
    held = await setup.until_job(queued, lambda job: job.unserved is Unserved.GROUP)
    assert "has no job" in held.detail


@with_harness
async def test_a_job_whose_machine_dies_before_it_starts_gets_another(harness: Harness) -> None:
    setup = await JobHarness.opened(harness)
    queued = setup.queue()
    await setup.said(queued)
    (node,) = await setup.running()
    harness.cloud.end(node.machine_id)
    runner = setup.github.runner_of(node)
    runner.seen_at = 0.0

    async def replaced() -> bool:
        found = await harness.nodes(NodeState.RUNNING)
        return [each.id for each in found] not in ([], [node.id])

    await harness.until(replaced)
    (other,) = await harness.nodes(*LIVE)
    assert setup.github.take(other) is queued


@with_harness
async def test_runners_are_registered_within_github_s_limit(harness: Harness) -> None:
    setup = await JobHarness.opened(harness, attach_timeout=600.0)
    setup.github.github.directory.limit.per_minute = 2
    for _ in range(5):
        await setup.said(setup.queue())
    await harness.pass_time(30.0)
    assert setup.github.world.asked("generate-jitconfig") == 2
    began = harness.now
    await setup.running(5)
    assert 60.0 < harness.now - began < 180.0


# --- lost deliveries ---------------------------------------------------------------------------------


@with_harness
async def test_a_job_whose_webhooks_are_all_lost_is_found_served_and_closed(harness: Harness) -> None:
    setup = await JobHarness.opened(harness)
    queued = setup.queue()
    (node,) = await setup.running()
    assert setup.github.take(node) is queued
    setup.github.world.finish(setup.github.runner_of(node), queued.id, "success", "")
    await setup.github.detached(node)
    job = await setup.until_job(queued, lambda job: job.state is JobState.COMPLETED, within=600.0)
    assert job.result is JobResult.SUCCEEDED
    await setup.until_job(queued, lambda job: job.node_id == node.id, within=60.0)
    await harness.nothing_is_left()
    assert await setup.provisions() == 1


@with_harness
async def test_looking_for_lost_jobs_costs_a_bounded_number_of_requests(harness: Harness) -> None:
    setup = await JobHarness.opened(harness, max_nodes=0)
    world = setup.github.world
    for number in range(30):
        run = world.begin(f"acme/r{number}")
        await setup.said(world.queue(run, "build", ("muster-linux",)))
    await harness.pass_time(120.0)

    def lookups() -> int:
        return world.asked("GET /repos/acme/r") - world.asked("/actions/runners")

    before = lookups()
    await harness.pass_time(600.0)
    rounds, repositories, jobs = 11, 10, 50
    assert 0 < lookups() - before <= rounds * (3 * repositories + jobs)


@with_harness
async def test_a_job_of_a_run_that_was_deleted_is_over(harness: Harness) -> None:
    setup = await JobHarness.opened(harness, max_nodes=0)
    queued = setup.queue()
    await setup.said(queued)
    setup.github.world.runs.clear()
    job = await setup.until_job(queued, lambda job: job.state is JobState.COMPLETED, within=900.0)
    assert job.result is JobResult.UNKNOWN


# --- jobs whose machine is lost ----------------------------------------------------------------------


async def lose(setup: JobHarness, node: Node) -> None:
    """The machine ends with the job on it; GitHub notices ten minutes later."""
    runner = setup.github.runner_of(node)
    setup.harness.cloud.end(node.machine_id)
    runner.seen_at = 0.0


async def started(setup: JobHarness, count: int) -> list[tuple[Node, FakeJob]]:
    jobs = [setup.queue() for _ in range(count)]
    for job in jobs:
        await setup.said(job)
    found = [(node, setup.github.take(node)) for node in await setup.running(count)]
    for _, job in found:
        await setup.said(job, "in_progress")
        await setup.until_job(job, lambda job: job.node_id is not None)
    return found


async def failed(setup: JobHarness, job: FakeJob) -> None:
    job.status, job.conclusion, job.finished_at = "completed", "failure", setup.harness.now
    await setup.said(job, "completed")


RERUN: dict[str, Any] = {"tables": {"runner": {"labels": ["muster-linux"], "rerun_interrupted": 1}}}


@with_harness
async def test_jobs_whose_machines_were_lost_are_run_again_once_together_and_on_demand(
    harness: Harness,
) -> None:
    setup = await JobHarness.opened(harness, usage=(UsageClass.SPOT,), **RERUN)
    found = await started(setup, 2)
    for node, job in found:
        await lose(setup, node)
        await setup.until_job(job, lambda job: job.interrupted)
    await harness.pass_time(300.0)
    assert setup.github.world.asked("rerun") == 0, "the run is not over"
    for _, job in found:
        await failed(setup, job)
    setup.github.world.complete(setup.run)

    async def again() -> bool:
        return setup.run.attempt == 2

    await harness.until(again)
    assert setup.github.world.asked("rerun-failed-jobs") == 1
    (line,) = await harness.events(name="rerun")
    assert "run 2 interrupted jobs of run" in line.detail
    anew = setup.github.world.latest(setup.run)
    assert len(anew) == 2
    for job in anew:
        await setup.said(job)
    nodes = await setup.running(2)
    assert {node.usage_class for node in nodes} == {UsageClass.ON_DEMAND}

    for node in nodes:
        job = setup.github.take(node)
        await setup.said(job, "in_progress")
        await setup.until_job(job, lambda job: job.node_id is not None)
        await lose(setup, node)
        await setup.until_job(job, lambda job: job.interrupted)
        await failed(setup, job)
    await harness.pass_time(300.0)
    assert setup.run.attempt == 2, "once is what rerun_interrupted allows"


@pytest.mark.parametrize("cause", ["cancelled", "failed", "not asked for"])
@with_harness
async def test_a_person_s_cancel_and_a_real_failure_are_never_undone(harness: Harness, cause: str) -> None:
    setup = await JobHarness.opened(harness, **({} if cause == "not asked for" else RERUN))
    ((node, job),) = await started(setup, 1)
    if cause == "failed":
        setup.github.world.finish(setup.github.runner_of(node), job.id, "failure", "")
        await setup.said(job, "completed")
        await setup.github.detached(node)
    else:
        await lose(setup, node)
        await setup.until_job(job, lambda job: job.interrupted)
        await failed(setup, job)
    setup.run.cancelled = cause == "cancelled"
    setup.github.world.complete(setup.run)
    await harness.pass_time(600.0)
    assert setup.github.world.asked("rerun") == 0


@with_harness
async def test_an_interrupted_job_is_found_behind_hundreds_of_newer_ones(harness: Harness) -> None:
    setup = await JobHarness.opened(harness, **RERUN)
    ((node, job),) = await started(setup, 1)
    await lose(setup, node)
    await setup.until_job(job, lambda job: job.interrupted)
    newer = [
        JobSighting(id=JobId(f"other-{number}"), source="other", state=JobState.COMPLETED)
        for number in range(BATCH + 1)
    ]
    for begin in range(0, len(newer), 50):
        await harness.store.jobs.note(newer[begin : begin + 50], now=harness.now)
    await failed(setup, job)
    setup.github.world.complete(setup.run)

    async def again() -> bool:
        return setup.run.attempt == 2

    await harness.until(again)


@with_harness
async def test_a_re_run_that_github_refuses_is_told_and_not_repeated(harness: Harness) -> None:
    setup = await JobHarness.opened(harness, **RERUN)
    ((node, job),) = await started(setup, 1)
    await lose(setup, node)
    await setup.until_job(job, lambda job: job.interrupted)
    setup.github.world.fault("rerun-failed-jobs", 403, message="Resource not accessible by integration")
    await failed(setup, job)
    setup.github.world.complete(setup.run)
    await harness.pass_time(600.0)
    (line,) = await harness.events(name="rerun_refused")
    assert "Resource not accessible" in line.detail
    assert setup.github.world.asked("rerun-failed-jobs") == 1


@pytest.mark.parametrize(
    ("fault", "asked"),
    [
        ({"status": 502}, 2),
        ({"status": 502, "times": 3}, 4),
        ({"status": 0, "performed": True}, 1),
    ],
    ids=["a bad gateway", "several", "a lost answer"],
)
@with_harness
async def test_a_re_run_outlives_errors_that_pass_and_is_made_once(
    harness: Harness, fault: dict[str, Any], asked: int
) -> None:
    setup = await JobHarness.opened(harness, **RERUN)
    ((node, job),) = await started(setup, 1)
    await lose(setup, node)
    await setup.until_job(job, lambda job: job.interrupted)
    setup.github.world.fault("rerun-failed-jobs", **fault)
    await failed(setup, job)
    setup.github.world.complete(setup.run)

    async def again() -> bool:
        return setup.run.attempt == 2

    await harness.until(again)
    await harness.pass_time(600.0)
    assert setup.run.attempt == 2
    assert setup.github.world.asked("rerun-failed-jobs") == asked
    assert await harness.events(name="rerun_refused") == []


@pytest.mark.parametrize("moment", ["decided", "before", "after"])
@with_harness
async def test_a_re_run_is_made_once_although_the_server_is_killed(harness: Harness, moment: str) -> None:
    """Between its decision and the request, when the request leaves, and when GitHub has carried it out."""

    setup = await JobHarness.opened(harness, **RERUN)
    ((node, job),) = await started(setup, 1)
    await lose(setup, node)
    await setup.until_job(job, lambda job: job.interrupted)
    struck: list[str] = []

    async def strike(request: str, done: bool) -> None:
        dying = GATE.get()
        if struck or done is not (moment == "after") or not request.endswith("/rerun-failed-jobs"):
            return
        if isinstance(dying, Life):
            struck.append(request)
            await dying.die()

    setup.github.transport.watch = strike
    if moment == "decided":
        struck.append(moment)
        setup.github.watched = Dying
        setup.replica.life.kill()
        setup.replica = await harness.replica()
    await failed(setup, job)
    setup.github.world.complete(setup.run)
    await setup.until_job(job, lambda job: job.rerun_at is not None)
    setup.github.watched = lambda registry: registry
    await harness.pass_time(1.0)
    setup.replica = await harness.replica()

    async def again() -> bool:
        return setup.run.attempt == 2

    await harness.until(again, within=300.0)
    await harness.pass_time(900.0)
    assert struck
    assert setup.run.attempt == 2
    assert len(await harness.events(name="rerun")) == 1
    assert await harness.events(name="rerun_refused") == []


@with_harness
async def test_a_re_run_that_github_refused_is_not_repeated_after_a_restart(harness: Harness) -> None:
    setup = await JobHarness.opened(harness, **RERUN)
    ((node, job),) = await started(setup, 1)
    await lose(setup, node)
    await setup.until_job(job, lambda job: job.interrupted)
    setup.github.world.fault("rerun-failed-jobs", 403, message="Resource not accessible by integration")
    await failed(setup, job)
    setup.github.world.complete(setup.run)
    await harness.pass_time(120.0)
    setup.replica.life.kill()
    setup.replica = await harness.replica()
    await harness.pass_time(600.0)
    assert setup.github.world.asked("rerun-failed-jobs") == 1


class Dying:
    """GitHub as a server sees it that is killed before it sends a re-run."""

    def __init__(self, registry: Any) -> None:
        self._registry = registry

    def __getattr__(self, name: str) -> Any:
        return getattr(self._registry, name)

    async def rerun_failed(self, repository: str, run_id: int) -> None:
        dying = GATE.get()
        assert isinstance(dying, Life)
        await dying.die()
