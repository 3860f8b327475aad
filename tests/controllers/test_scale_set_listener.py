"""A scale set from its first job to its last runner, in virtual time, with every fault of the service."""

import asyncio
import re
from collections.abc import Callable
from dataclasses import replace

import pytest

from fakes.github import Job
from muster.domain.jobs import JobResult, JobState
from muster.domain.lifecycle import NodeState
from muster.domain.operation import Kind, Status
from muster.domain.template import Reuse
from muster.integrations.github.runners import RunnerSpec
from muster_simulation.life import Life
from muster_simulation.loop import GATE
from tests.harness import Harness, with_harness
from tests.harness.github import REPOSITORY
from tests.harness.scale_sets import ScaleSetHarness


@with_harness
async def test_jobs_that_just_say_runs_on_are_served_and_nothing_is_left(harness: Harness) -> None:
    github = await ScaleSetHarness.listening(harness, reuse=Reuse.NEVER, runner={"max_runners": 3})
    await harness.replica()
    jobs = github.queue(5)
    await github.done(jobs)
    await github.tidy()
    assert github.crowd <= 3
    assert max(github.scale_set.capacities) == 3
    assert github.scale_set.queue == [], "every message was acknowledged"


@with_harness
async def test_warm_nodes_serve_job_after_job(harness: Harness) -> None:
    github = await ScaleSetHarness.listening(harness, runner={"max_runners": 2}, idle_timeout=3600.0)
    await harness.warm(2)
    await harness.replica()
    await github.done(github.queue(6))
    await github.tidy(idle=2)
    assert len(await harness.nodes()) == 2, "no machine was made"
    assert len(await harness.nodes(NodeState.IDLE)) == 2


# --- how many ------------------------------------------------------------------------------------------


@with_harness
async def test_sixty_jobs_come_as_two_messages_and_all_are_served(harness: Harness) -> None:
    github = await ScaleSetHarness.listening(harness, reuse=Reuse.NEVER, max_nodes=60)
    await harness.cap(100)
    await harness.replica()
    await github.done(github.queue(60, lasts=60.0))
    await github.tidy()
    assert github.crowd == 60


@with_harness
async def test_idle_runners_wait_on_top_of_what_is_assigned_and_are_replaced_in_time(
    harness: Harness,
) -> None:
    github = await ScaleSetHarness.listening(
        harness, runner={"min_idle": 2}, idle_timeout=60.0, max_runtime=600.0
    )
    await harness.replica()
    await harness.count(2, NodeState.RUNNING)
    await github.done(github.queue(3, lasts=30.0))
    names = {runner.name for runner in github.runners()}
    await harness.pass_time(900.0)
    assert len(github.runners()) == 2 and names.isdisjoint(runner.name for runner in github.runners())
    failures = await harness.ports.overview.failures(since=0.0, limit=10)
    assert not failures, "none was ended by max_runtime"


@with_harness
async def test_the_capacity_told_follows_caps_pauses_and_others_machines(harness: Harness) -> None:
    github = await ScaleSetHarness.listening(harness, runner={"max_runners": 8}, max_nodes=10)
    replica = await harness.replica()
    await github.has_session()
    await harness.pass_time(10.0)
    assert github.scale_set.capacity == 8
    await replica.provision(5, run="by-hand", owner=REPOSITORY)
    await harness.pass_time(20.0)
    assert github.scale_set.capacity == 5
    await harness.ports.access.pause("ci", paused=True, now=harness.now)
    await harness.pass_time(20.0)
    assert github.scale_set.capacity == 0
    jobs = github.queue(2)
    await harness.pass_time(60.0)
    assert not any(job.set_id for job in jobs), "GitHub assigns nothing while paused"
    await harness.ports.access.pause("ci", paused=False, now=harness.now)
    await github.done(jobs, within=60.0)


@with_harness
async def test_a_runner_whose_job_another_took_is_removed_after_its_idle_timeout(harness: Harness) -> None:
    github = await ScaleSetHarness.listening(harness, reuse=Reuse.NEVER, idle_timeout=60.0)
    await harness.replica()
    await github.has_session()
    harness.agents.usual = replace(harness.agents.usual, boot=30.0)
    (job,) = github.queue(1)
    await harness.count(1, NodeState.CREATED)
    github.world.cancel(github.run_of(job))
    await harness.count(1, NodeState.RUNNING)
    handed_over = harness.now
    await github.tidy()
    assert 60.0 <= harness.now - handed_over <= 120.0
    assert (await github.counts()).assigned == 0


@with_harness
async def test_a_busy_runner_is_left_alone_before_it_is_known_to_be_busy(harness: Harness) -> None:
    """The listener that heard of its start died; the next one asks GitHub, and believes it."""
    github = await ScaleSetHarness.listening(harness, reuse=Reuse.NEVER, idle_timeout=30.0)
    first, _ = await harness.replica(), await harness.replica()
    (job,) = github.queue(1, lasts=400.0)
    await harness.count(1, NodeState.RUNNING)
    await harness.pass_time(10.0)
    first.life.kill()
    github.world.sets.stale_assigned = -1  # GitHub's counts say that no runner is needed
    await github.done([job])
    assert job.conclusion == "success"
    github.world.sets.stale_assigned = 0
    await github.tidy()


@with_harness
async def test_counts_that_stay_high_for_no_job_are_bounded_and_said(harness: Harness) -> None:
    github = await ScaleSetHarness.listening(
        harness, reuse=Reuse.NEVER, idle_timeout=60.0, runner={"max_runners": 3}
    )
    github.world.sets.stale_assigned = 9
    await harness.replica()
    said = ""
    for _ in range(60):
        await harness.pass_time(10.0)
        said = said or (await github.counts()).problem
    assert github.crowd <= 3
    assert "jobs wait at GitHub, and it gives idle runners none of them" in said
    github.world.sets.stale_assigned = 0
    await github.done(github.queue(1))
    await github.tidy()


class Limited(ScaleSetHarness):
    runners_per_minute = 20


@with_harness
async def test_five_thousand_jobs_at_once_stay_below_the_limit_on_registrations(harness: Harness) -> None:
    github = await Limited.listening(harness, reuse=Reuse.NEVER, max_nodes=5000)
    await harness.cap(5000)
    await harness.replica()
    await github.has_session()
    since = harness.now
    github.queue(5000, lasts=3600.0)
    await harness.pass_time(175.0)
    registered = github.world.asked("generatejitconfig")
    assert 20 <= registered <= 20 * ((harness.now - since) // 60 + 1)
    counts = await github.counts()
    assert counts.assigned == 5000
    assert "Muster registers 20 in a minute at most" in counts.problem


# --- what GitHub does -----------------------------------------------------------------------------------


@with_harness
async def test_offered_jobs_are_acquired_and_served(harness: Harness) -> None:
    github = await ScaleSetHarness.listening(harness, reuse=Reuse.NEVER, runner={"max_runners": 2})
    github.world.sets.offers = True
    await harness.replica()
    await github.done(github.queue(5))
    await github.tidy()
    assert github.crowd <= 2


@with_harness
async def test_a_message_that_waits_for_room_counts_once_and_no_more_jobs_are_acquired_than_fit(
    harness: Harness,
) -> None:
    harness.agents.usual = replace(harness.agents.usual, boot=30.0)
    github = await ScaleSetHarness.listening(harness, reuse=Reuse.NEVER, runner={"max_runners": 2})
    github.world.sets.offers = True
    await harness.replica()
    await github.has_session()
    jobs = _offered_at_once(github, 5)
    await harness.pass_time(20.0)
    assert github.world.sets.statistics(github.scale_set)["totalAssignedJobs"] == 2
    await github.done(jobs)
    await github.tidy()
    assert {each.status for each in await harness.of_kind(Kind.PROVISION)} == {Status.SUCCEEDED}


@with_harness
async def test_an_offer_whose_answer_was_lost_is_not_forgotten(harness: Harness) -> None:
    github = await ScaleSetHarness.listening(harness, reuse=Reuse.NEVER)
    github.world.sets.offers = True
    github.world.fault("POST .*acquirejobs", 500, times=2)
    github.world.fault("POST .*acquirejobs", performed=True)
    await harness.replica()
    await github.done(github.queue(2))
    await github.tidy()


def _without_queue(github: ScaleSetHarness) -> None:
    github.world.sets.hides_queue = True
    github.world.sets.evict(github.scale_set)
    asyncio.get_running_loop().call_later(30.0, lambda: setattr(github.world.sets, "hides_queue", False))


def _offered_at_once(github: ScaleSetHarness, count: int) -> list[Job]:
    """Offer jobs whether they fit or not."""
    run = github.begin()
    jobs = [github.world.queue(run, f"job-{number}", ["muster-linux"], "5.0") for number in range(count)]
    for job in jobs:
        if job.id not in github.scale_set.offered:
            github.scale_set.offered.add(job.id)
            github.world.sets.say(github.scale_set, github.world.sets.entry("JobAvailable", job))
    return jobs


@with_harness
async def test_more_offers_in_one_message_than_fit_are_acquired_one_after_the_other(harness: Harness) -> None:
    github = await ScaleSetHarness.listening(harness, reuse=Reuse.NEVER, runner={"max_runners": 2})
    github.world.sets.offers = True
    await harness.replica()
    await github.has_session()
    await github.done(_offered_at_once(github, 5))
    await github.tidy()
    assert github.crowd <= 2


@with_harness
async def test_an_offer_whose_message_is_gone_is_found_and_acquired(harness: Harness) -> None:
    github = await ScaleSetHarness.listening(harness, reuse=Reuse.NEVER)
    github.world.sets.offers = True
    await harness.replica()
    await github.has_session()
    before = github.queue(1, lasts=20.0)
    await harness.count(1, NodeState.RUNNING)
    lost = github.queue(1)
    github.world.sets.restart_ids(github.scale_set)  # the queue is empty then
    await github.done([*before, *lost], within=180.0)
    await github.tidy()


TROUBLES: dict[str, Callable[[ScaleSetHarness], None]] = {
    "the admin token ended": lambda github: github.world.sets.expire("admin"),
    "the queue token ended": lambda github: github.world.sets.expire("queue"),
    "the session was evicted": lambda github: github.world.sets.evict(github.scale_set),
    "the set was deleted": lambda github: github.world.sets.vanish(github.scale_set),
    "message ids began again": lambda github: github.world.sets.restart_ids(github.scale_set),
    "bodies begin with a mark": lambda github: setattr(github.world.sets, "marks", True),
    "sessions come without a queue": _without_queue,
    "polls are answered with nothing": lambda github: setattr(github.world.sets, "empty_bodies", 5),
    "polls are limited": lambda github: github.world.fault("GET .*/queue/", 429, times=3),
    "polls are limited for a time": lambda github: github.world.fault(
        "GET .*/queue/", 429, headers={"retry-after": "20"}
    ),
    "the broker fails": lambda github: github.world.fault("GET .*/queue/", 500, times=6),
    "acknowledgements are unknown": lambda github: github.world.fault("DELETE .*/queue/", 404, times=3),
    "acknowledgements fail": lambda github: github.world.fault("DELETE .*/queue/", 500, times=3),
    "registrations fail": lambda github: github.world.fault("POST .*generatejitconfig", 503, times=2),
    "a registration's answer is lost": lambda github: github.world.fault(
        "POST .*generatejitconfig", performed=True
    ),
    "counts are zero": lambda github: setattr(github.world.sets, "zero_statistics", True),
    "an unknown message comes": lambda github: github.world.sets.say(
        github.scale_set, {"messageType": "JobWhatever", "jobId": 7}
    ),
}


@pytest.mark.parametrize("trouble", TROUBLES.values(), ids=list(TROUBLES))
def test_jobs_are_served_through_every_trouble_of_the_service(
    trouble: Callable[[ScaleSetHarness], None],
) -> None:
    @with_harness
    async def scenario(harness: Harness) -> None:
        github = await ScaleSetHarness.listening(harness, reuse=Reuse.NEVER, runner={"max_runners": 3})
        await harness.replica()
        await github.has_session()
        before = github.queue(2, lasts=20.0)
        await harness.count(2, NodeState.RUNNING)
        trouble(github)
        after = github.queue(2, lasts=20.0)
        await github.done([*before, *after])
        github.world.sets.zero_statistics = False
        await github.tidy()
        assert github.crowd <= 3

    scenario()


@with_harness
async def test_messages_that_come_twice_and_in_any_order_change_nothing(harness: Harness) -> None:
    github = await ScaleSetHarness.listening(harness, reuse=Reuse.NEVER)
    await harness.replica()
    await github.has_session()
    jobs = github.queue(3)
    github.world.sets.repeat(github.scale_set)
    await github.done(jobs)
    github.world.sets.repeat(github.scale_set)
    await github.tidy()
    assert len(await harness.of_kind(Kind.PROVISION)) == 3


@with_harness
async def test_a_job_whose_assignment_was_taken_back_keeps_the_machine_on_its_way(harness: Harness) -> None:
    github = await ScaleSetHarness.listening(harness, reuse=Reuse.NEVER)
    harness.agents.usual = replace(harness.agents.usual, boot=60.0)
    await harness.replica()
    await github.has_session()
    (job,) = github.queue(1)
    await harness.count(1, NodeState.CREATED)
    github.world.sets.take_back(job)
    await github.done([job])
    await github.tidy()
    assert len(await harness.of_kind(Kind.PROVISION)) == 1


@with_harness
async def test_a_job_that_github_calls_completed_while_it_runs_is_not_ended(harness: Harness) -> None:
    github = await ScaleSetHarness.listening(harness, reuse=Reuse.NEVER)
    await harness.replica()
    (job,) = github.queue(1, lasts=120.0)
    await harness.count(1, NodeState.RUNNING)
    await harness.pass_time(10.0)
    entry = {**github.world.sets.entry("JobCompleted", job), "result": "succeeded"}
    github.world.sets.say(github.scale_set, entry)
    await github.done([job])
    assert job.conclusion == "success"
    await github.tidy()


@with_harness
async def test_a_node_that_dies_with_its_runner_is_replaced_without_any_message(harness: Harness) -> None:
    github = await ScaleSetHarness.listening(harness, reuse=Reuse.NEVER)
    github.takes_jobs = False
    await harness.replica()
    (job,) = github.queue(1)
    (node,) = await harness.count(1, NodeState.RUNNING)
    harness.agents.of(node.id).die()
    harness.cloud.end(node.machine_id)
    github.takes_jobs = True
    await github.done([job])
    await github.tidy()


@with_harness
async def test_provisions_that_fail_are_tried_ever_more_rarely_and_one_job_is_let_in(
    harness: Harness,
) -> None:
    github = await ScaleSetHarness.listening(harness, reuse=Reuse.NEVER)
    harness.agents.usual = replace(harness.agents.usual, fails="no disk")
    await harness.replica()
    jobs = github.queue(4)
    await harness.pass_time(600.0)
    tried = len(await harness.of_kind(Kind.PROVISION))
    assert 4 <= tried <= 16
    assert "provisions failed" in (await github.counts()).problem
    assert github.scale_set.capacity <= 1
    harness.agents.usual = replace(harness.agents.usual, fails=None)
    await github.done(jobs, within=1200.0)
    await github.tidy()
    assert (await github.counts()).problem == ""


@with_harness
async def test_a_job_has_its_whole_time_however_long_its_runner_had_waited(harness: Harness) -> None:
    given = {"reuse": Reuse.NEVER, "max_runtime": 300.0, "idle_timeout": 300.0}
    github = await ScaleSetHarness.listening(harness, runner={"min_idle": 1, "max_runners": 1}, **given)
    await harness.replica()
    await harness.count(1, NodeState.RUNNING)
    await harness.pass_time(100.0)
    (job,) = github.queue(1, lasts=250.0)
    await github.done([job])
    assert job.conclusion == "success" and len(github.served) == 1


@with_harness
async def test_a_set_that_was_deleted_is_registered_with_under_its_new_number_at_once(
    harness: Harness,
) -> None:
    github = await ScaleSetHarness.listening(harness, reuse=Reuse.NEVER)
    await harness.replica()
    await github.done(github.queue(1))
    github.world.sets.vanish(github.scale_set)
    await github.done(github.queue(1), within=120.0)


# --- who listens ------------------------------------------------------------------------------------------


@with_harness
async def test_a_takeover_waits_out_the_old_session_visibly_and_serves_on(harness: Harness) -> None:
    github = await ScaleSetHarness.listening(harness, reuse=Reuse.NEVER)
    replicas = [await harness.replica(), await harness.replica()]
    await github.has_session()
    before = github.queue(2, lasts=30.0)
    await harness.count(2, NodeState.RUNNING)
    session = github.scale_set.session
    assert session is not None
    (holder,) = [each for each in replicas if each.name == session.owner]
    holder.life.kill()
    after = github.queue(1)
    await harness.pass_time(40.0)
    waiting = await github.counts()
    assert (waiting.state, waiting.problem) == ("waiting for the session", "")
    await github.done([*before, *after], within=200.0)
    assert (await github.counts()).state == "listening"
    await github.tidy()


@with_harness
async def test_a_session_of_another_program_is_named_and_never_taken(harness: Harness) -> None:
    github = await ScaleSetHarness.listening(harness)
    theirs = github.world.sets.make(REPOSITORY, "muster-linux", 1, ())
    session = github.world.sets.open(theirs, "another program")
    assert session is not None
    session.seen_at = float("inf")
    await harness.replica()
    await harness.pass_time(400.0)
    counts = await github.counts()
    assert counts.state == "waiting for the session"
    assert "another program has listened to the set for" in counts.problem
    assert "stop it, or choose another name" in counts.problem
    session.seen_at = 0.0
    await github.done(github.queue(1))


@with_harness
async def test_a_replica_that_was_stopped_asks_for_nothing_when_it_wakes(harness: Harness) -> None:
    github = await ScaleSetHarness.listening(harness, reuse=Reuse.NEVER)
    replicas = [await harness.replica(), await harness.replica()]
    await github.has_session()
    session = github.scale_set.session
    assert session is not None
    (holder,) = [each for each in replicas if each.name == session.owner]
    jobs = github.queue(3, lasts=300.0)
    holder.life.pause(asyncio.get_running_loop().time() + 150.0)
    await github.done(jobs)
    await github.tidy()
    assert len(await harness.of_kind(Kind.PROVISION)) == 3, "none twice"


REQUESTS = (
    "POST /actions/runner-registration",
    "POST /_actions/_apis/runtime/runnerscalesets",
    "POST .*/sessions",
    "GET .*/queue/[0-9]+",
    "DELETE .*/queue/[0-9]+/[0-9]+",
    "POST .*/acquirejobs",
)


@pytest.mark.parametrize("answered", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("request_", REQUESTS)
def test_no_job_is_lost_or_doubled_when_the_listener_dies_at_any_request(
    request_: str, answered: bool
) -> None:
    @with_harness
    async def scenario(harness: Harness) -> None:
        github = await ScaleSetHarness.listening(harness, reuse=Reuse.NEVER, runner={"max_runners": 2})
        github.world.sets.offers = "acquire" in request_
        struck: list[str] = []

        async def strike(request: str, done: bool) -> None:
            dying = GATE.get()
            if struck or done is not answered or not re.fullmatch(request_, request):
                return
            if isinstance(dying, Life):  # not the node that asks for its kit
                struck.append(request)
                await dying.die()

        github.transport.watch = strike
        for _ in range(2):
            await harness.replica()
        jobs = github.queue(3, lasts=10.0)
        await github.done(jobs)
        assert struck
        await github.tidy()
        assert github.crowd <= 2

    scenario()


@with_harness
async def test_a_template_that_is_retired_is_listened_to_no_more(harness: Harness) -> None:
    github = await ScaleSetHarness.listening(harness)
    await harness.replica()
    await github.has_session()
    spec = (await harness.store.template("ci")).spec
    await harness.store.apply_template(replace(spec, retired=True), now=harness.now)
    await harness.pass_time(30.0)
    assert github.scale_set.session is None
    assert (await github.counts()).state == "stopped"


@with_harness
async def test_labels_that_an_operator_changes_are_changed_at_github(harness: Harness) -> None:
    github = await ScaleSetHarness.listening(harness, runner={"labels": ("gpu",)})
    await harness.replica()
    await github.has_session()
    spec = (await harness.store.template("ci")).spec
    runner = RunnerSpec(scope=REPOSITORY, scale_set="muster-linux", labels=("arm",))
    await harness.store.apply_template(replace(spec, tables={"runner": runner}), now=harness.now)
    await harness.pass_time(30.0)
    assert github.scale_set.labels == ("muster-linux", "arm")
    await github.done(github.queue(1, labels=("muster-linux", "arm")))


@pytest.mark.parametrize(
    ("given", "words"),
    [("labels", "GitHub dropped the labels gpu"), ("taken", "another program made it with the labels")],
)
def test_what_is_odd_about_a_set_is_said_in_its_state(given: str, words: str) -> None:
    @with_harness
    async def scenario(harness: Harness) -> None:
        github = await ScaleSetHarness.listening(harness, runner={"labels": ("gpu",)})
        if given == "labels":
            github.world.sets.drops_labels = True
        else:
            github.world.sets.make(REPOSITORY, "muster-linux", 1, ("muster-linux", "theirs"))
        await harness.replica()
        await harness.pass_time(60.0)
        assert words in (await github.counts()).problem

    scenario()


@with_harness
async def test_since_when_github_fails_is_said_also_by_the_next_listener(harness: Harness) -> None:
    github = await ScaleSetHarness.listening(harness)
    replica = await harness.replica()
    await github.has_session()
    await harness.pass_time(30.0)
    assert (await github.counts()).failing_since is None
    began = harness.now
    github.world.fault("_actions|runner-registration", 503, times=1_000_000)
    await harness.pass_time(120.0)
    first = await github.counts()
    assert first.failing_since is not None and began <= first.failing_since <= began + 60.0
    assert "503" in first.problem
    replica.life.kill()
    await harness.replica()
    await harness.pass_time(200.0)
    taken_over = await github.counts()
    assert taken_over.at > first.at and taken_over.failing_since == first.failing_since
    github.world.faults.clear()
    await github.done(github.queue(1))
    assert (await github.counts()).failing_since is None


@with_harness
async def test_a_job_is_known_with_its_times_and_the_machine_that_it_ran_on(harness: Harness) -> None:
    github = await ScaleSetHarness.listening(harness, idle_timeout=3600.0)
    (warm,) = await harness.warm(1)
    await harness.replica()
    await github.done(github.queue(1))
    await harness.pass_time(10.0)
    (job,) = (await harness.store.jobs.jobs(states=tuple(JobState), limit=10)).items
    assert (job.state, job.result, job.queue) == (JobState.COMPLETED, JobResult.SUCCEEDED, "muster-linux")
    assert (job.node_id, job.warm, job.repository) == (warm.id, True, REPOSITORY)
    assert job.startup is not None and 0.0 < job.startup < 10.0


@with_harness
async def test_a_group_that_gets_no_jobs_of_public_repositories_is_said_in_the_state(
    harness: Harness,
) -> None:
    github = await ScaleSetHarness.listening(harness, reuse=Reuse.NEVER, runner={"scope": "acme"})
    github.world.sets.private_groups.add(1)
    await harness.replica()
    await harness.pass_time(30.0)
    counts = await github.counts()
    assert counts.state == "listening; its runner group gets no jobs of public repositories"
    assert counts.problem == ""
