"""What people see while an operation is under way: steps, percent, and why it waits."""

from itertools import pairwise

import pytest

from muster.domain.errors import NotFound, Throttled
from muster.domain.events import Event
from muster.domain.ids import OperationId
from muster.domain.lifecycle import NodeState
from muster.domain.operation import Kind, Operation
from muster.domain.progress import GROUP_ABOVE, Tone
from muster.domain.progress_view import Why
from tests.harness import (
    FULL,
    NEVER_ATTACHES,
    Behaviour,
    Harness,
    Outcome,
    Replica,
    refuses,
    with_harness,
)


async def why(replica: Replica, operation: Operation) -> Why:
    return await replica.ask(replica.plane.desk.why(operation.id))


async def phase_of(harness: Harness, operation: Operation) -> str | None:
    progress = (await harness.operation(operation.id)).progress
    return progress.phase if progress is not None else None


def shown(events: list[Event]) -> list[tuple[int, float]]:
    """(step, percent) of every event that changed the progress."""
    progress = [event.changes["progress"] for event in events if event.changes.get("progress")]
    return [(each["step"], each["percent"]) for each in progress if isinstance(each, dict)]


@with_harness
async def test_why_says_what_a_provision_waits_for_at_each_stage(harness: Harness) -> None:
    await harness.template()
    await harness.warm(1)
    harness.cloud.script(refuses(Throttled("slow down", 20.0)))
    harness.agents.script(Behaviour(boot=100.0, attach=10.0), Behaviour(boot=50.0))
    replica = await harness.replica()
    operation = await replica.provision(3)

    await harness.pass_time(5.0)
    answer = await why(replica, operation)
    assert answer.waits_for == "waiting for cloud to create 2 nodes"
    assert (answer.since, answer.until) == (operation.created_at, operation.deadline_at)
    assert answer.position is None
    await harness.pass_time(25.0)
    assert (await why(replica, operation)).waits_for == "waiting for 2 nodes to boot"
    await harness.pass_time(50.0)
    assert (await why(replica, operation)).waits_for == "waiting for 1 node to boot"
    await harness.pass_time(45.0)
    assert (await why(replica, operation)).waits_for == "waiting for 1 node to attach"
    operation = await harness.succeeded(operation)
    assert (await why(replica, operation)).waits_for == "nothing: the operation has ended"


@with_harness
async def test_why_tells_a_queued_provision_its_place_and_its_end(harness: Harness) -> None:
    await harness.template(max_nodes=1)
    replica = await harness.replica()
    await harness.succeeded(await replica.provision(1))
    first = await replica.provision(1, run="run-2", queue_timeout=300.0)
    await harness.pass_time(20.0)
    second = await replica.provision(1, run="run-3", queue_timeout=500.0)
    await harness.pass_time(20.0)

    ahead, behind = await why(replica, first), await why(replica, second)

    assert (ahead.position, behind.position) == (1, 2)
    assert "1 ahead in the queue" in behind.waits_for
    assert ahead.until == first.created_at + 300.0
    assert behind.until == second.created_at + 500.0
    assert behind.since == second.created_at


@with_harness
async def test_why_answers_for_releases_too(harness: Harness) -> None:
    await harness.template()
    harness.agents.script(Behaviour(detach=60.0))
    replica = await harness.replica()
    operation = await harness.succeeded(await replica.provision(1))
    release = await replica.release(operation.id)
    await harness.pass_time(10.0)

    assert (await why(replica, release)).waits_for == "waiting until the nodes are clean"
    with pytest.raises(NotFound):
        await replica.ask(replica.plane.desk.why(OperationId("op-nobody")))


@with_harness
async def test_steps_and_percent_never_go_back_whatever_happens(harness: Harness) -> None:
    await harness.template(max_nodes=4, replacements=2, attach_timeout=20.0, rescue_window=0.0)
    harness.agents.script(NEVER_ATTACHES)
    await harness.warm(1)
    harness.cloud.script(refuses(Throttled("slow down", 5.0)))
    harness.agents.script(Behaviour(boot=60.0, fails="exit 1"), Behaviour(boot=30.0))
    replica = await harness.replica()
    await harness.replica()
    operation = await replica.provision(3)
    await harness.pass_time(10.0)
    replica.life.kill()

    await harness.succeeded(operation)

    steps = shown(await harness.events(operation.id))
    assert steps == sorted(steps)
    assert steps[-1] == (5, 100.0)
    assert {step for step, _ in steps} >= {2, 3, 4, 5}


@with_harness
async def test_a_failed_provision_keeps_what_it_had_reached(harness: Harness) -> None:
    await harness.template()
    harness.agents.script(Behaviour(boot=20.0, fails="exit 1"))
    replica = await harness.replica()
    operation = await harness.ended(await replica.provision(1))

    steps = shown(await harness.events(operation.id))
    assert steps == sorted(steps)
    assert operation.progress is not None
    assert operation.progress.percent < 100.0


@pytest.mark.parametrize("count", [1, GROUP_ABOVE + 1])
@with_harness
async def test_a_failed_provision_shows_what_became_of_its_nodes(harness: Harness, count: int) -> None:
    await harness.template(max_nodes=count)
    harness.agents.script(*[Behaviour(boot=20.0, fails="exit 1")] * count)
    replica = await harness.replica()
    operation = await harness.ended(await replica.provision(count))

    assert operation.progress is not None
    assert {part.tone for part in operation.progress.parts} <= {Tone.DANGER, Tone.WARNING}


@with_harness
async def test_a_provision_that_is_quick_publishes_nothing_on_its_way(harness: Harness) -> None:
    await harness.template()
    await harness.warm(1)
    replica = await harness.replica()
    await harness.pass_time(10.0)
    replica.interceptor.armed = True

    operation = await harness.succeeded(await replica.provision(1))

    names = [event.name for event in await harness.events(operation.id)]
    assert names == ["submitted", "committed", "ended"]
    writes = [verb for verb in replica.interceptor.writes() if verb not in ("lease", "renew", "watch")]
    assert writes == ["submit", "claim", "complete"]
    (node,) = await harness.nodes(NodeState.RUNNING)
    attached = [event for event in await harness.events(node.id) if event.name == "attached"]
    assert len(writes) + len(attached) <= 6


@with_harness
async def test_publishes_are_gathered_when_much_happens_at_once(harness: Harness) -> None:
    await harness.template(max_nodes=50)
    for number in range(40):
        harness.agents.script(Behaviour(boot=10.0 + number / 50))
    replica = await harness.replica()

    operation = await harness.succeeded(await replica.provision(40))

    progressed = await harness.events(operation.id, "progressed")
    times = [event.at for event in progressed]
    assert len(progressed) <= 10
    assert all(later - earlier >= harness.settings.publish_every * 0.99 for earlier, later in pairwise(times))


@with_harness
async def test_a_slow_call_is_shown_while_it_lasts(harness: Harness) -> None:
    await harness.template()
    harness.cloud.script(Outcome(after=20.0))
    replica = await harness.replica()
    operation = await replica.provision(2)
    await harness.pass_time(10.0)

    progress = (await harness.operation(operation.id)).progress

    assert progress is not None
    assert progress.phase == "creating"
    assert progress.message == "waiting for cloud to create 2 nodes"
    await harness.succeeded(operation)


@with_harness
async def test_what_a_run_and_a_release_do_is_shown_when_it_begins(harness: Harness) -> None:
    """Not at the next poll: a hint that comes too soon after the last publish is made up for."""
    await harness.template()
    harness.agents.script(Behaviour(works=60.0, detach=60.0))
    await harness.warm(1)
    replica = await harness.replica()

    run = await replica.run(1)
    await harness.pass_time(harness.settings.publish_every * 2)

    assert await phase_of(harness, run) == "running"
    (command,) = await harness.commands()
    began = [event.at for event in await harness.events(run.id, "progressed")]
    assert command.started_at is not None and began[0] <= command.started_at

    await harness.pass_time(60.0)
    assert await phase_of(harness, run) == "releasing"
    (release,) = await harness.of_kind(Kind.RELEASE)
    (shown,) = await harness.events(release.id, "progressed")
    assert shown.at - release.created_at <= harness.settings.publish_every * 2
    await harness.succeeded(run)


@with_harness
async def test_a_replacement_that_waits_for_the_provider_is_published_once(harness: Harness) -> None:
    """Its step is an earlier one than what is shown already, so the next look must not find it new again."""
    await harness.template(replacements=1)
    harness.agents.script(Behaviour(boot=10.0, fails="exit 1"), Behaviour(boot=200.0))
    harness.cloud.script(FULL, refuses(Throttled("slow down", 60.0)))
    replica = await harness.replica()
    operation = await replica.provision(2)
    await harness.pass_time(40.0)

    progress = (await harness.operation(operation.id)).progress
    assert progress is not None
    assert progress.phase == "booting"
    assert progress.message == "waiting for cloud to create 1 node"
    assert len(await harness.events(operation.id, "progressed")) <= 6
    await harness.succeeded(operation)
