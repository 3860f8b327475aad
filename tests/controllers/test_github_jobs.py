"""Jobs that name labels: each gets one runner, whatever happens to webhooks, servers, runners and caps."""

from typing import Any

import pytest

from muster.domain.ids import JobId
from muster.domain.job_causes import Unserved
from muster.domain.job_figures import with_source
from muster.domain.jobs import Job, JobResult, JobSighting, JobState
from muster.domain.lifecycle import LIVE, NodeState
from muster.domain.node import Node
from muster.domain.operation import Kind
from muster.domain.template import Reuse, UsageClass
from muster.integrations.github.reruns import BATCH
from muster.ports.hooks import Delivery
from muster_simulation.github.state import Job as FakeJob
from muster_simulation.github.webhooks import event_of, signed
from muster_simulation.life import Life
from muster_simulation.loop import GATE
from tests.stage.github import REPOSITORY, GitHubStage
from tests.stage.stage import Replica, Stage, play

LINUX: dict[str, Any] = {"reuse": Reuse.NEVER, "tables": {"runner": {"labels": ["muster-linux"]}}}


class Shop:
    """A stage with one template for jobs, and one replica."""

    def __init__(self, stage: Stage, github: GitHubStage, replica: Replica) -> None:
        self.stage = stage
        self.github = github
        self.replica = replica
        self.run = github.begin()

    @classmethod
    async def opened(cls, stage: Stage, **more: Any) -> "Shop":
        github = await GitHubStage.set(stage, **{**LINUX, **more})
        return cls(stage, github, await stage.replica())

    def queue(self, *labels: str) -> FakeJob:
        return self.github.world.queue(self.run, "build", labels or ("muster-linux",))

    async def said(self, job: FakeJob, action: str = "queued", **more: Any) -> tuple[int, str]:
        answer = await self.github.deliver(self.replica, job, action, **more)
        return answer.status, answer.words

    async def job(self, job: FakeJob) -> Job:
        return await self.stage.store.jobs.job(JobId(f"github-{job.id}"))

    async def provisions(self) -> int:
        return len(await self.stage.of_kind(Kind.PROVISION))

    async def until_job(self, job: FakeJob, holds: Any, *, within: float = 3600.0) -> Job:
        async def fits() -> bool:
            return bool(holds(await self.job(job)))

        await self.stage.until(fits, within=within)
        return await self.job(job)

    async def running(self, count: int = 1) -> list[Node]:
        return await self.stage.count(count, NodeState.RUNNING)

    async def done(self, node: Node, job: FakeJob) -> None:
        """The runner of the node finishes the job."""
        self.github.world.finish(self.github.runner_of(node), job.id, "success", "")
        await self.said(job, "completed")
        await self.github.detached(node)


def test_a_queued_job_gets_one_runner_with_all_its_labels_runs_and_its_machine_goes() -> None:
    async def scenario(stage: Stage) -> None:
        shop = await Shop.opened(stage)
        queued = shop.queue("muster-linux/xlarge")
        status, words = await shop.said(queued)
        assert (status, "gets its runner" in words) == (202, True)
        (node,) = await shop.running()
        assert node.resource_class == "xlarge"
        assert shop.github.runner_of(node).labels == ("muster-linux/xlarge", "muster-linux")
        assert shop.github.take(node) is queued
        await shop.said(queued, "in_progress")
        job = await shop.until_job(queued, lambda job: job.node_id is not None)
        assert (job.state, job.node_id, job.warm, job.template) == (JobState.RUNNING, node.id, False, "ci")
        (line,) = await stage.events(job.id, "placed")
        assert line.detail == f"build of {REPOSITORY} ran on {node.id}"
        await shop.done(node, queued)
        assert (await shop.job(queued)).result is JobResult.SUCCEEDED
        await stage.nothing_is_left()
        assert await shop.provisions() == 1

    play(scenario)


def test_a_warm_node_serves_a_job_and_the_next_one_of_its_repository() -> None:
    async def scenario(stage: Stage) -> None:
        shop = await Shop.opened(stage, reuse=Reuse.SAME_OWNER)
        for warm in (False, True):
            queued = shop.queue()
            await shop.said(queued)
            (node,) = await shop.running()
            shop.github.take(node)
            await shop.said(queued, "in_progress")
            job = await shop.until_job(queued, lambda job: job.warm is not None)
            assert job.warm is warm
            await shop.done(node, queued)
            await stage.count(1, NodeState.IDLE)
        assert shop.github.runners() == []

    play(scenario)


def test_deliveries_in_any_order_and_number_make_one_provision() -> None:
    async def scenario(stage: Stage) -> None:
        shop = await Shop.opened(stage)
        queued = shop.queue()
        for _ in range(3):
            assert (await shop.said(queued))[0] == 202
        (node,) = await shop.running()
        shop.github.take(node)
        shop.github.world.finish(shop.github.runner_of(node), queued.id, "failure", "")
        await shop.said(queued, "completed")
        await shop.said(queued, "in_progress")
        await shop.said(queued)
        job = await shop.job(queued)
        assert (job.state, job.result) == (JobState.COMPLETED, JobResult.FAILED)
        await shop.github.detached(node)
        await stage.nothing_is_left()
        assert await shop.provisions() == 1

        late = shop.queue()
        late.status, late.conclusion = "completed", "cancelled"
        await shop.said(late, "completed")
        await shop.said(late)  # the news that it was queued comes last
        assert (await shop.job(late)).state is JobState.COMPLETED
        assert await shop.provisions() == 1

    play(scenario)


@pytest.mark.parametrize("boundary", range(0, 20, 2))
def test_a_server_killed_anywhere_between_webhook_and_answer_leaves_one_provision(boundary: int) -> None:
    async def scenario(stage: Stage) -> None:
        shop = await Shop.opened(stage)
        first, queued = shop.replica, shop.queue()

        async def kill() -> None:
            await first.life.die()

        first.ambush.armed = True
        first.ambush.lay(boundary, kill)
        try:
            answered = (await shop.said(queued))[0] == 202
        except ConnectionError:
            answered = False
        first.ambush.armed = False
        shop.replica = await stage.replica()
        heard = [job.id for job in (await stage.store.jobs.jobs(states=tuple(JobState), limit=9)).items]
        assert heard or not answered, "what was answered is durable"
        if not heard:
            await shop.said(queued)  # GitHub redelivers, or the look-up finds it
        (node,) = await shop.running()
        await stage.pass_time(60.0)
        assert await shop.provisions() == 1, stage.cloud
        assert shop.github.take(node) is queued
        await shop.said(queued, "in_progress")
        await shop.done(node, queued)
        await stage.nothing_is_left()

    play(scenario)


def test_a_forged_or_unreadable_delivery_changes_nothing() -> None:
    async def scenario(stage: Stage) -> None:
        shop = await Shop.opened(stage)
        hook = shop.replica.plane.hooks["github"]
        event = event_of(shop.queue(), "queued")
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
        assert (await stage.store.jobs.jobs(states=tuple(JobState), limit=9)).items == ()
        assert await shop.provisions() == 0

    play(scenario)


def test_a_job_outside_of_its_template_s_scope_gets_no_machine_and_says_why() -> None:
    async def scenario(stage: Stage) -> None:
        runner = {"labels": ["muster-linux"], "scope": "beta"}
        shop = await Shop.opened(stage, tables={"runner": runner})
        queued = shop.queue()
        words = f"has its runners at beta, not for {REPOSITORY}"
        assert words in (await shop.said(queued))[1]
        job = await shop.job(queued)
        assert job.unserved is Unserved.NO_TEMPLATE and words in job.detail
        await stage.pass_time(60.0)
        assert await shop.provisions() == 0

    play(scenario)


def test_jobs_that_are_not_ours_old_or_not_allowed_get_no_machine_and_say_why() -> None:
    async def scenario(stage: Stage) -> None:
        shop = await Shop.opened(stage)
        assert await shop.said(shop.queue("ubuntu-latest")) == (
            200,
            "ignored: its labels are of no template here",
        )
        approval = shop.queue()
        waiting = event_of(approval, "queued")
        waiting["workflow_job"]["status"] = approval.status = "waiting"
        status, words = await shop.said(approval, **waiting)
        assert (status, "something else than a runner" in words) == (200, True)
        foreign = shop.github.world.queue(shop.github.world.begin("evil/shop"), "build", ("muster-linux",))
        status, words = await shop.said(foreign)
        assert (status, "evil/shop is not in [github] repositories" in words) == (403, True)
        assert (await shop.job(foreign)).unserved is Unserved.NOT_ALLOWED
        odd = shop.queue("muster-linux/huge")
        assert (await shop.said(odd))[0] == 202
        assert (await shop.job(odd)).unserved is Unserved.NO_TEMPLATE
        many = shop.queue(*["muster-linux"] * 21)
        assert "must be 1 to 20 labels" in (await shop.said(many))[1]
        assert (await shop.job(many)).unserved is Unserved.INVALID
        old = shop.queue()
        old.queued_at = stage.now - 86401.0
        assert "queued for a day" in (await shop.said(old))[1]
        await stage.pass_time(60.0)
        assert await shop.provisions() == 0

    play(scenario)


def test_a_job_whose_runner_another_job_took_gets_the_others_runner() -> None:
    async def scenario(stage: Stage) -> None:
        shop = await Shop.opened(stage)
        one, two = shop.queue(), shop.queue()
        await shop.said(two)
        (node,) = await shop.running()
        assert shop.github.take(node) is one, "GitHub gives any job with the labels"
        await shop.said(one, "in_progress")
        await shop.until_job(one, lambda job: job.node_id == node.id)
        await shop.done(node, one)
        (other,) = await shop.running()
        assert shop.github.take(other) is two
        await shop.said(two, "in_progress")
        await shop.done(other, two)
        await stage.nothing_is_left()
        assert await shop.provisions() == 2

    play(scenario)


def test_a_job_behind_a_long_one_that_took_its_runner_gets_a_runner_of_its_own() -> None:
    async def scenario(stage: Stage) -> None:
        shop = await Shop.opened(stage, max_runtime=7200.0)
        long, two = shop.queue(), shop.queue()
        await shop.said(two)  # and the webhook of the other is lost
        (node,) = await shop.running()
        assert shop.github.take(node) is long
        shop.github.runner_of(node).seen_at = float("inf")
        await shop.said(long, "in_progress")
        other = next(each for each in await shop.running(2) if each.id != node.id)
        assert shop.github.take(other) is two
        await shop.said(two, "in_progress")
        await stage.pass_time(300.0)
        assert await shop.provisions() == 2
        await shop.done(other, two)
        await shop.done(node, long)
        await stage.nothing_is_left()

    play(scenario)


def test_a_runner_on_its_way_is_spared_for_the_job_whose_runner_was_taken() -> None:
    async def scenario(stage: Stage) -> None:
        shop = await Shop.opened(stage, max_nodes=1)
        one, two = shop.queue(), shop.queue()
        await shop.said(two)
        (node,) = await shop.running()
        await shop.said(one)  # waits for room
        assert shop.github.take(node) is one
        shop.github.runner_of(node).seen_at = float("inf")
        await shop.said(one, "in_progress")
        held = await shop.until_job(two, lambda job: job.unserved is not None)
        assert held.unserved is Unserved.TAKEN
        await stage.pass_time(300.0)
        assert await shop.provisions() == 2, "the one that waits for room is enough"
        await shop.done(node, one)
        (other,) = await shop.running()
        assert shop.github.take(other) is two
        await shop.said(two, "in_progress")
        await shop.done(other, two)
        await stage.nothing_is_left()

    play(scenario)


def test_provisions_of_jobs_that_were_cancelled_are_stopped() -> None:
    async def scenario(stage: Stage) -> None:
        shop = await Shop.opened(stage, max_nodes=1)
        first, *others = [shop.queue() for _ in range(4)]
        for job in (first, *others):
            await shop.said(job)
        (node,) = await shop.running()
        for job in others:
            job.status, job.conclusion = "completed", "cancelled"
            await shop.said(job, "completed")

        async def stopped() -> bool:
            return sum(each.ended for each in await stage.of_kind(Kind.PROVISION)) == 4

        await stage.until(stopped, within=120.0)
        assert shop.github.take(node) is first
        await shop.said(first, "in_progress")
        await shop.done(node, first)
        await stage.nothing_is_left()

    play(scenario)


def test_a_runner_that_no_job_needs_any_more_is_withdrawn() -> None:
    async def scenario(stage: Stage) -> None:
        shop = await Shop.opened(stage)
        queued = shop.queue()
        await shop.said(queued)
        await shop.running()
        queued.status, queued.conclusion = "completed", "cancelled"
        await shop.said(queued, "completed")
        await stage.nothing_is_left()
        assert shop.github.runners() == []

    play(scenario)


def test_a_runner_that_waits_in_vain_is_bounded_by_idle_timeout_and_visible() -> None:
    async def scenario(stage: Stage) -> None:
        shop = await Shop.opened(stage, idle_timeout=300.0)
        queued = shop.queue()
        await shop.said(queued)
        (node,) = await shop.running()
        queued.status, queued.runner = "in_progress", "another-company's"
        await shop.said(queued, "in_progress")

        async def idle() -> bool:
            return [each.idle for each in await stage.store.jobs.source_counts()] == [1]

        await stage.until(idle, within=60.0)
        await stage.pass_time(200.0)
        assert (await stage.node(node.id)).state is NodeState.RUNNING
        began = stage.now
        await stage.nothing_is_left()
        assert stage.now - began < 200.0

    play(scenario)


def test_a_busy_runner_is_never_withdrawn_although_its_webhook_is_lost() -> None:
    async def scenario(stage: Stage) -> None:
        shop = await Shop.opened(stage, idle_timeout=60.0, max_runtime=7200.0)
        queued = shop.queue()
        await shop.said(queued)
        (node,) = await shop.running()
        shop.github.take(node)
        await stage.pass_time(600.0)
        assert (await stage.node(node.id)).state is NodeState.RUNNING
        await shop.done(node, queued)
        await stage.nothing_is_left()

    play(scenario)


def test_a_job_over_the_cap_says_so_and_runs_when_there_is_room() -> None:
    async def scenario(stage: Stage) -> None:
        shop = await Shop.opened(stage, max_nodes=1)
        one, two = shop.queue(), shop.queue()
        await shop.said(one)
        await shop.said(two)
        (node,) = await shop.running()
        held = await shop.until_job(two, lambda job: job.unserved is Unserved.CAP)
        assert "max_nodes of ci" in held.detail
        assert shop.github.take(node) is one
        await shop.said(one, "in_progress")
        await shop.done(node, one)
        (other,) = await shop.running()
        assert shop.github.take(other) is two
        await shop.said(two, "in_progress")
        assert (await shop.job(two)).unserved is None
        await shop.done(other, two)
        await stage.nothing_is_left()

    play(scenario)


def test_a_paused_template_is_named_as_the_cause() -> None:
    async def scenario(stage: Stage) -> None:
        shop = await Shop.opened(stage)
        await stage.store.access.pause("ci", paused=True, now=stage.now)
        queued = shop.queue()
        await shop.said(queued)
        await shop.until_job(queued, lambda job: job.unserved is Unserved.PAUSED)
        await stage.store.access.pause("ci", paused=False, now=stage.now)
        await shop.running()

    play(scenario)


def test_a_registration_that_github_refuses_is_named_and_tried_again() -> None:
    async def scenario(stage: Stage) -> None:
        shop = await Shop.opened(stage)
        shop.github.world.tokens.clear()
        queued = shop.queue()
        assert (await shop.said(queued))[0] == 202
        held = await shop.until_job(queued, lambda job: job.unserved is Unserved.REGISTRATION)
        assert "401" in held.detail
        shop.github.world.tokens.add("a-personal-token")
        (node,) = await shop.running()
        assert shop.github.take(node) is queued

    play(scenario)


def test_a_github_that_can_t_be_reached_is_named_with_the_time_since_when() -> None:
    async def scenario(stage: Stage) -> None:
        shop = await Shop.opened(stage)
        under_way = shop.queue()
        await shop.said(under_way)
        shop.github.world.fault("", 503, times=1_000_000)
        began, later = stage.now, shop.queue()
        await stage.pass_time(90.0)  # that GitHub was fine is believed for a minute
        (counts,) = await stage.store.jobs.source_counts()
        assert counts.failing_since is not None and began < counts.failing_since <= began + 80.0
        assert (await shop.said(later))[0] == 202
        for job in (under_way, later):
            waiting = with_source(await shop.job(job), [counts])
            assert waiting.unserved is Unserved.SOURCE and "503" in waiting.detail
        shop.github.world.faults.clear()
        await shop.running(2)
        await stage.pass_time(30.0)
        (counts,) = await stage.store.jobs.source_counts()
        assert (counts.failing_since, counts.problem) == (None, "")

    play(scenario)


def test_a_runner_that_gets_no_job_points_to_its_group() -> None:
    async def scenario(stage: Stage) -> None:
        shop = await Shop.opened(stage, idle_timeout=3600.0)
        queued = shop.queue()
        await shop.said(queued)
        await shop.running()
        held = await shop.until_job(queued, lambda job: job.unserved is Unserved.GROUP)
        assert "has no job" in held.detail

    play(scenario)


def test_a_job_whose_machine_dies_before_it_starts_gets_another() -> None:
    async def scenario(stage: Stage) -> None:
        shop = await Shop.opened(stage)
        queued = shop.queue()
        await shop.said(queued)
        (node,) = await shop.running()
        stage.cloud.end(node.machine_id)
        runner = shop.github.runner_of(node)
        runner.seen_at = 0.0

        async def replaced() -> bool:
            found = await stage.nodes(NodeState.RUNNING)
            return [each.id for each in found] not in ([], [node.id])

        await stage.until(replaced)
        (other,) = await stage.nodes(*LIVE)
        assert shop.github.take(other) is queued

    play(scenario)


def test_runners_are_registered_within_github_s_limit() -> None:
    async def scenario(stage: Stage) -> None:
        shop = await Shop.opened(stage, attach_timeout=600.0)
        shop.github.github.directory.limit.per_minute = 2
        for _ in range(5):
            await shop.said(shop.queue())
        await stage.pass_time(30.0)
        assert shop.github.world.asked("generate-jitconfig") == 2
        began = stage.now
        await shop.running(5)
        assert 60.0 < stage.now - began < 180.0

    play(scenario)


# --- lost deliveries ---------------------------------------------------------------------------------


def test_a_job_whose_webhooks_are_all_lost_is_found_served_and_closed() -> None:
    async def scenario(stage: Stage) -> None:
        shop = await Shop.opened(stage)
        queued = shop.queue()
        (node,) = await shop.running()
        assert shop.github.take(node) is queued
        shop.github.world.finish(shop.github.runner_of(node), queued.id, "success", "")
        await shop.github.detached(node)
        job = await shop.until_job(queued, lambda job: job.state is JobState.COMPLETED, within=600.0)
        assert job.result is JobResult.SUCCEEDED
        await shop.until_job(queued, lambda job: job.node_id == node.id, within=60.0)
        await stage.nothing_is_left()
        assert await shop.provisions() == 1

    play(scenario)


def test_looking_for_lost_jobs_costs_a_bounded_number_of_requests() -> None:
    async def scenario(stage: Stage) -> None:
        shop = await Shop.opened(stage, max_nodes=0)
        world = shop.github.world
        for number in range(30):
            run = world.begin(f"acme/r{number}")
            await shop.said(world.queue(run, "build", ("muster-linux",)))
        await stage.pass_time(120.0)

        def lookups() -> int:
            return world.asked("GET /repos/acme/r") - world.asked("/actions/runners")

        before = lookups()
        await stage.pass_time(600.0)
        rounds, repositories, jobs = 11, 10, 50
        assert 0 < lookups() - before <= rounds * (3 * repositories + jobs)

    play(scenario)


def test_a_job_of_a_run_that_was_deleted_is_over() -> None:
    async def scenario(stage: Stage) -> None:
        shop = await Shop.opened(stage, max_nodes=0)
        queued = shop.queue()
        await shop.said(queued)
        shop.github.world.runs.clear()
        job = await shop.until_job(queued, lambda job: job.state is JobState.COMPLETED, within=900.0)
        assert job.result is JobResult.UNKNOWN

    play(scenario)


# --- jobs whose machine is lost ----------------------------------------------------------------------


async def lose(shop: Shop, node: Node) -> None:
    """The machine ends with the job on it; GitHub notices ten minutes later."""
    runner = shop.github.runner_of(node)
    shop.stage.cloud.end(node.machine_id)
    runner.seen_at = 0.0


async def started(shop: Shop, count: int) -> list[tuple[Node, FakeJob]]:
    jobs = [shop.queue() for _ in range(count)]
    for job in jobs:
        await shop.said(job)
    found = [(node, shop.github.take(node)) for node in await shop.running(count)]
    for _, job in found:
        await shop.said(job, "in_progress")
        await shop.until_job(job, lambda job: job.node_id is not None)
    return found


async def failed(shop: Shop, job: FakeJob) -> None:
    job.status, job.conclusion, job.finished_at = "completed", "failure", shop.stage.now
    await shop.said(job, "completed")


RERUN: dict[str, Any] = {"tables": {"runner": {"labels": ["muster-linux"], "rerun_interrupted": 1}}}


def test_jobs_whose_machines_were_lost_are_run_again_once_together_and_on_demand() -> None:
    async def scenario(stage: Stage) -> None:
        shop = await Shop.opened(stage, usage=(UsageClass.SPOT,), **RERUN)
        found = await started(shop, 2)
        for node, job in found:
            await lose(shop, node)
            await shop.until_job(job, lambda job: job.interrupted)
        await stage.pass_time(300.0)
        assert shop.github.world.asked("rerun") == 0, "the run is not over"
        for _, job in found:
            await failed(shop, job)
        shop.github.world.complete(shop.run)

        async def again() -> bool:
            return shop.run.attempt == 2

        await stage.until(again)
        assert shop.github.world.asked("rerun-failed-jobs") == 1
        (line,) = await stage.events(name="rerun")
        assert "run 2 interrupted jobs of run" in line.detail
        anew = shop.github.world.latest(shop.run)
        assert len(anew) == 2
        for job in anew:
            await shop.said(job)
        nodes = await shop.running(2)
        assert {node.usage_class for node in nodes} == {UsageClass.ON_DEMAND}

        for node in nodes:
            job = shop.github.take(node)
            await shop.said(job, "in_progress")
            await shop.until_job(job, lambda job: job.node_id is not None)
            await lose(shop, node)
            await shop.until_job(job, lambda job: job.interrupted)
            await failed(shop, job)
        await stage.pass_time(300.0)
        assert shop.run.attempt == 2, "once is what rerun_interrupted allows"

    play(scenario)


@pytest.mark.parametrize("cause", ["cancelled", "failed", "not asked for"])
def test_a_person_s_cancel_and_a_real_failure_are_never_undone(cause: str) -> None:
    async def scenario(stage: Stage) -> None:
        shop = await Shop.opened(stage, **({} if cause == "not asked for" else RERUN))
        ((node, job),) = await started(shop, 1)
        if cause == "failed":
            shop.github.world.finish(shop.github.runner_of(node), job.id, "failure", "")
            await shop.said(job, "completed")
            await shop.github.detached(node)
        else:
            await lose(shop, node)
            await shop.until_job(job, lambda job: job.interrupted)
            await failed(shop, job)
        shop.run.cancelled = cause == "cancelled"
        shop.github.world.complete(shop.run)
        await stage.pass_time(600.0)
        assert shop.github.world.asked("rerun") == 0

    play(scenario)


def test_an_interrupted_job_is_found_behind_hundreds_of_newer_ones() -> None:
    async def scenario(stage: Stage) -> None:
        shop = await Shop.opened(stage, **RERUN)
        ((node, job),) = await started(shop, 1)
        await lose(shop, node)
        await shop.until_job(job, lambda job: job.interrupted)
        newer = [
            JobSighting(id=JobId(f"other-{number}"), source="other", state=JobState.COMPLETED)
            for number in range(BATCH + 1)
        ]
        for begin in range(0, len(newer), 50):
            await stage.store.jobs.note(newer[begin : begin + 50], now=stage.now)
        await failed(shop, job)
        shop.github.world.complete(shop.run)

        async def again() -> bool:
            return shop.run.attempt == 2

        await stage.until(again)

    play(scenario)


def test_a_re_run_that_github_refuses_is_told_and_not_repeated() -> None:
    async def scenario(stage: Stage) -> None:
        shop = await Shop.opened(stage, **RERUN)
        ((node, job),) = await started(shop, 1)
        await lose(shop, node)
        await shop.until_job(job, lambda job: job.interrupted)
        shop.github.world.fault("rerun-failed-jobs", 403, message="Resource not accessible by integration")
        await failed(shop, job)
        shop.github.world.complete(shop.run)
        await stage.pass_time(600.0)
        (line,) = await stage.events(name="rerun_refused")
        assert "Resource not accessible" in line.detail
        assert shop.github.world.asked("rerun-failed-jobs") == 1

    play(scenario)


@pytest.mark.parametrize(
    ("fault", "asked"),
    [
        ({"status": 502}, 2),
        ({"status": 502, "times": 3}, 4),
        ({"status": 0, "performed": True}, 1),
    ],
    ids=["a bad gateway", "several", "a lost answer"],
)
def test_a_re_run_outlives_errors_that_pass_and_is_made_once(fault: dict[str, Any], asked: int) -> None:
    async def scenario(stage: Stage) -> None:
        shop = await Shop.opened(stage, **RERUN)
        ((node, job),) = await started(shop, 1)
        await lose(shop, node)
        await shop.until_job(job, lambda job: job.interrupted)
        shop.github.world.fault("rerun-failed-jobs", **fault)
        await failed(shop, job)
        shop.github.world.complete(shop.run)

        async def again() -> bool:
            return shop.run.attempt == 2

        await stage.until(again)
        await stage.pass_time(600.0)
        assert shop.run.attempt == 2
        assert shop.github.world.asked("rerun-failed-jobs") == asked
        assert await stage.events(name="rerun_refused") == []

    play(scenario)


@pytest.mark.parametrize("moment", ["decided", "before", "after"])
def test_a_re_run_is_made_once_although_the_server_is_killed(moment: str) -> None:
    """Between its decision and the request, when the request leaves, and when GitHub has carried it out."""

    async def scenario(stage: Stage) -> None:
        shop = await Shop.opened(stage, **RERUN)
        ((node, job),) = await started(shop, 1)
        await lose(shop, node)
        await shop.until_job(job, lambda job: job.interrupted)
        struck: list[str] = []

        async def strike(request: str, done: bool) -> None:
            dying = GATE.get()
            if struck or done is not (moment == "after") or not request.endswith("/rerun-failed-jobs"):
                return
            if isinstance(dying, Life):
                struck.append(request)
                await dying.die()

        shop.github.transport.watch = strike
        if moment == "decided":
            struck.append(moment)
            shop.github.watched = Dying
            shop.replica.life.kill()
            shop.replica = await stage.replica()
        await failed(shop, job)
        shop.github.world.complete(shop.run)
        await shop.until_job(job, lambda job: job.rerun_at is not None)
        shop.github.watched = lambda registry: registry
        await stage.pass_time(1.0)
        shop.replica = await stage.replica()

        async def again() -> bool:
            return shop.run.attempt == 2

        await stage.until(again, within=300.0)
        await stage.pass_time(900.0)
        assert struck
        assert shop.run.attempt == 2
        assert len(await stage.events(name="rerun")) == 1
        assert await stage.events(name="rerun_refused") == []

    play(scenario)


def test_a_re_run_that_github_refused_is_not_repeated_after_a_restart() -> None:
    async def scenario(stage: Stage) -> None:
        shop = await Shop.opened(stage, **RERUN)
        ((node, job),) = await started(shop, 1)
        await lose(shop, node)
        await shop.until_job(job, lambda job: job.interrupted)
        shop.github.world.fault("rerun-failed-jobs", 403, message="Resource not accessible by integration")
        await failed(shop, job)
        shop.github.world.complete(shop.run)
        await stage.pass_time(120.0)
        shop.replica.life.kill()
        shop.replica = await stage.replica()
        await stage.pass_time(600.0)
        assert shop.github.world.asked("rerun-failed-jobs") == 1

    play(scenario)


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
