"""Heartbeats, and the desired state that a node follows."""

import asyncio
from collections.abc import Sequence
from typing import cast

import pytest

from muster.domain import node as nodes
from muster.domain.boot import MARKS_MOST
from muster.domain.deadlines import CLOCK_ERROR
from muster.domain.desired_state import Desired, Directive
from muster.domain.errors import Gone, NotFound, StoreUnavailable
from muster.domain.health import Health
from muster.domain.ids import NodeId
from muster.domain.lifecycle import NodeState
from muster.domain.reasons import Reason
from muster.enrolment.heartbeats import KEPT_MOST, Heartbeats
from muster.enrolment.reports import Report
from muster.ports.store import Alive, Beat, Store
from muster.ports.wakeups import HEALTH
from muster_simulation.life import Life, outside
from tests.harness import NEVER_ATTACHES, NEVER_BOOTS, Behaviour, Harness, with_harness
from tests.harness.interceptor import CallInterceptor, watched_store

SILENT = Behaviour(beats=False)


@pytest.mark.parametrize("wave", [False, True], ids=["one beat", "a wave of beats"])
@pytest.mark.parametrize("outage", [1.0, KEPT_MOST + 1.0], ids=["a moment", "an outage"])
@with_harness
async def test_what_a_node_said_outlives_the_plain_beats_after_it(
    harness: Harness, wave: bool, outage: float
) -> None:
    await harness.template()
    harness.agents.script(SILENT)
    (node,) = await harness.warm(1)
    await harness.pass_time(100.0)
    heartbeats = Heartbeats(harness.store, harness.clock, harness.wakeups, flush_every=1.0)

    def beat() -> None:
        if wave:
            heartbeats.alive([node.id], heartbeats.arrived_by)
        else:
            heartbeats.beat(node.id)

    heartbeats.beat(node.id, said=Health.DEGRADED, reason="disk")
    for _ in range(int(outage)):
        await harness.pass_time(1.0)
        beat()
    await heartbeats.flush()
    vitals = (await harness.store.vitals([node.id]))[node.id]
    assert (vitals.said, vitals.seen_at) == (Health.DEGRADED, harness.now)


@with_harness
async def test_beats_move_when_a_node_was_last_seen_and_nothing_else(harness: Harness) -> None:
    await harness.template()
    harness.agents.script(SILENT)
    (node,) = await harness.warm(1)
    before = await harness.events()

    for _ in range(10):
        await harness.pass_time(5.0)
        assert (await harness.enrolment.beat(node.id)).version == node.version
    await harness.pass_time(harness.settings.flush_every)

    assert await harness.node(node.id) == node
    assert await harness.events() == before
    seen = await harness.store.last_seen([node.id])
    # No later than is known for sure: two pulses ago at the most, when it came.
    came = harness.now - harness.settings.flush_every
    assert came - 2 * harness.settings.flush_every <= seen[node.id] <= came


@with_harness
async def test_beats_are_gathered_and_written_together(harness: Harness) -> None:
    await harness.template()
    harness.agents.script(SILENT, SILENT)
    warm = await harness.warm(2)
    interceptor = CallInterceptor()
    interceptor.armed = True
    heartbeats = Heartbeats(
        watched_store(harness.store, interceptor), harness.clock, harness.wakeups, flush_every=1.0
    )

    for _ in range(5):
        for node in warm:
            heartbeats.beat(node.id)
    await heartbeats.flush()
    await heartbeats.flush()

    assert interceptor.calls == ["record_beats"]


@with_harness
async def test_beats_that_could_not_be_written_are_kept(harness: Harness) -> None:
    await harness.template()
    harness.agents.script(SILENT)
    (node,) = await harness.warm(1)
    await harness.pass_time(100.0)
    interceptor = CallInterceptor()
    interceptor.deny["record_beats"] = StoreUnavailable("the store is away")
    heartbeats = Heartbeats(
        watched_store(harness.store, interceptor), harness.clock, harness.wakeups, flush_every=1.0
    )
    heartbeats.beat(node.id)
    beaten_at = harness.now
    with pytest.raises(StoreUnavailable):
        await heartbeats.flush()

    await harness.pass_time(10.0)
    interceptor.deny.clear()
    await heartbeats.flush()

    assert await harness.store.last_seen([node.id]) == {node.id: beaten_at}


@with_harness
async def test_of_beats_that_could_not_be_written_only_the_last_of_each_node_is_kept(
    harness: Harness,
) -> None:
    await harness.template()
    harness.agents.script(SILENT, SILENT)
    first, second = await harness.warm(2)
    await harness.pass_time(100.0)
    given: list[Alive] = []

    class Away:
        async def record_beats(self, beats: Sequence[Beat], alive: Alive) -> None:
            given.append(alive)
            raise StoreUnavailable("the store is away")

    heartbeats = Heartbeats(cast(Store, Away()), harness.clock, harness.wakeups, flush_every=1.0)
    beaten: dict[NodeId, float] = {}
    for nodes_there in ((first, second), (first,), (first,)):
        for node in nodes_there:
            heartbeats.beat(node.id)
            beaten[node.id] = harness.now
        with pytest.raises(StoreUnavailable):
            await heartbeats.flush()
        await harness.pass_time(10.0)

    with pytest.raises(StoreUnavailable):
        await heartbeats.flush()
    kept = [(node_id, at) for at, node_ids in given[-1].items() for node_id in node_ids]
    assert sorted(kept) == sorted(beaten.items()), "or a long outage would fill the memory"


@with_harness
async def test_an_unforeseen_error_ends_neither_the_flushing_nor_the_beats(harness: Harness) -> None:
    await harness.template()
    harness.agents.script(SILENT)
    (node,) = await harness.warm(1)
    await harness.pass_time(100.0)
    interceptor = CallInterceptor()
    interceptor.deny["record_beats"] = RuntimeError("a bug")
    heartbeats = Heartbeats(
        watched_store(harness.store, interceptor), harness.clock, harness.wakeups, flush_every=1.0
    )
    heartbeats.beat(node.id)
    beaten_at = harness.now
    running = asyncio.create_task(heartbeats.run())
    await harness.pass_time(10.0)
    assert not running.done()

    interceptor.deny.clear()
    await harness.pass_time(1.5)
    running.cancel()

    assert harness.complaints, "and it was told"
    harness.complaints.clear()
    assert await harness.store.last_seen([node.id]) == {node.id: beaten_at}


@with_harness
async def test_a_beat_of_an_unknown_or_terminated_node_is_refused(harness: Harness) -> None:
    await harness.template()
    (node,) = await harness.warm(1)
    with pytest.raises(NotFound):
        await harness.enrolment.beat(NodeId("node-nobody"))
    await harness.store.apply(nodes.condemn(node, now=harness.now, reason=Reason.OPERATOR))
    await harness.enrolment.beat(node.id)

    harness.cloud.end(node.machine_id)
    await harness.replica()
    await harness.count(1, NodeState.TERMINATED)
    with pytest.raises(Gone):
        await harness.enrolment.beat(node.id)


@with_harness
async def test_the_desired_state_follows_the_record(harness: Harness) -> None:
    await harness.template()
    harness.agents.script(Behaviour(detach=30.0))
    (node,) = await harness.warm(1)
    replica = await harness.replica()
    told: list[Directive] = [(await harness.enrolment.desired(node.id)).directive]

    operation = await harness.succeeded(await replica.provision(1))
    desired = await harness.enrolment.desired(node.id)
    assert desired.assignment_id == operation.members[0].assignment_id
    assert desired.run == "run-1"
    told.append(desired.directive)
    await replica.release(operation.id)
    await harness.count(1, NodeState.RELEASING)
    told.append((await harness.enrolment.desired(node.id)).directive)
    await harness.count(1, NodeState.IDLE)
    idle = await harness.enrolment.desired(node.id)
    assert (idle.assignment_id, idle.run) == (None, None)
    told.append(idle.directive)
    current = await harness.node(node.id)
    await harness.store.apply(nodes.condemn(current, now=harness.now, reason=Reason.OPERATOR))
    told.append((await harness.enrolment.desired(node.id)).directive)

    assert told == [Directive.STAY, Directive.ATTACH, Directive.DETACH, Directive.STAY, Directive.STOP]


@with_harness
async def test_asking_again_gives_the_same_answer_and_starts_nothing_anew(harness: Harness) -> None:
    await harness.template()
    await harness.warm(1)
    replica = await harness.replica()
    operation = await harness.succeeded(await replica.provision(1))
    (member,) = operation.members

    answers = [await harness.enrolment.desired(member.node_id) for _ in range(3)]
    await harness.pass_time(100.0)

    assert answers == [answers[0]] * 3
    assert harness.agents.of(member.node_id).attached == [member.assignment_id]


@with_harness
async def test_a_poll_is_answered_as_soon_as_the_record_moves(harness: Harness) -> None:
    await harness.template()
    harness.agents.script(NEVER_ATTACHES)
    (node,) = await harness.warm(1)
    replica = await harness.replica()
    answered: list[tuple[float, Desired]] = []

    async def poll() -> None:
        desired = await harness.enrolment.poll(node.id, known=node.version, timeout=60.0)
        answered.append((harness.now, desired))

    harness.keep(asyncio.create_task(poll()))
    await harness.pass_time(10.0)
    assert answered == []
    await replica.provision(1)
    asked_at = harness.now
    await harness.pass_time(1.0)

    ((at, desired),) = answered
    assert at == asked_at
    assert desired.directive is Directive.ATTACH


@with_harness
async def test_a_poll_by_a_node_that_is_behind_is_answered_at_once(harness: Harness) -> None:
    await harness.template()
    (node,) = await harness.warm(1)
    began = harness.now

    desired = await harness.enrolment.poll(node.id, known=node.version - 1, timeout=60.0)

    assert harness.now == began
    assert desired.version == node.version


@with_harness
async def test_a_poll_of_a_record_that_does_not_move_ends_at_its_timeout(harness: Harness) -> None:
    await harness.template()
    (node,) = await harness.warm(1)
    began = harness.now

    desired = await harness.enrolment.poll(node.id, known=node.version, timeout=60.0)

    assert harness.now - began == 60.0
    assert desired.version == node.version


@with_harness
async def test_the_dead_man_of_an_assigned_node_covers_the_provision_and_the_longest_run(
    harness: Harness,
) -> None:
    await harness.template(max_runtime=1000.0, rescue_window=50.0)
    harness.agents.script(NEVER_ATTACHES)
    await harness.warm(1)
    replica = await harness.replica()
    operation = await replica.provision(1, max_runtime=4000.0)
    (node,) = await harness.count(1, NodeState.CLAIMED)

    desired = await harness.enrolment.desired(node.id)

    assert harness.now + desired.dead_man >= operation.deadline_at + 4000.0 + 50.0


@with_harness
async def test_a_beat_that_lay_before_a_replica_that_stood_still_is_not_fresh(harness: Harness) -> None:
    life = Life("replica")
    heartbeats = Heartbeats(harness.store, harness.clock, harness.wakeups, flush_every=1.0)
    running = outside(life.spawn, heartbeats.run())
    await harness.pass_time(10.5)
    asleep = harness.now
    life.pause(asyncio.get_running_loop().time() + 90.0)
    lain = outside(life.spawn, _vouched(heartbeats))
    await harness.pass_time(90.1)
    assert lain.result() <= asleep, "it came while no listener was there"
    await harness.pass_time(2.1)
    assert harness.now - heartbeats.arrived_by <= 2.0
    assert not running.done()
    life.kill()


async def _vouched(heartbeats: Heartbeats) -> float:
    return heartbeats.arrived_by


@with_harness
async def test_an_older_beat_never_replaces_a_younger_one(harness: Harness) -> None:
    await harness.template()
    harness.agents.script(SILENT)
    (node,) = await harness.warm(1)
    await harness.pass_time(100.0)
    heartbeats = Heartbeats(harness.store, harness.clock, harness.wakeups, flush_every=1.0)
    heartbeats.beat(node.id)
    heartbeats.beat(node.id, arrived_at=harness.now - 50.0)
    await heartbeats.flush()
    assert await harness.store.last_seen([node.id]) == {node.id: harness.now}


@with_harness
async def test_a_beat_that_waited_for_long_is_not_taken_for_one_after_a_clock_was_set_back(
    harness: Harness,
) -> None:
    await harness.template()
    harness.agents.script(SILENT)
    (node,) = await harness.warm(1)
    await harness.pass_time(CLOCK_ERROR)
    kept = Heartbeats(harness.store, harness.clock, harness.wakeups, flush_every=1.0)
    elsewhere = Heartbeats(harness.store, harness.clock, harness.wakeups, flush_every=1.0)
    kept.beat(node.id)
    await harness.pass_time(CLOCK_ERROR + 1.0)
    elsewhere.beat(node.id)
    await elsewhere.flush()
    await kept.flush()
    assert await harness.store.last_seen([node.id]) == {node.id: harness.now}


@with_harness
async def test_a_word_that_is_not_written_yet_outlives_the_beats_after_it(harness: Harness) -> None:
    await harness.template()
    harness.agents.script(SILENT)
    (node,) = await harness.warm(1)
    heartbeats = Heartbeats(harness.store, harness.clock, harness.wakeups, flush_every=1.0)
    heartbeats.beat(node.id, said=Health.DEGRADED, reason="disk", activity=7)
    heartbeats.beat(node.id, activity=3)
    heartbeats.beat(node.id)
    heartbeats.beat(node.id, said=Health.STARTING)
    await heartbeats.flush()
    vitals = (await harness.store.vitals([node.id]))[node.id]
    assert (vitals.said, vitals.said_reason, vitals.activity) == (Health.DEGRADED, "disk", 7)


@with_harness
async def test_a_new_word_has_health_looked_at_and_the_same_again_has_not(harness: Harness) -> None:
    await harness.template()
    harness.agents.script(SILENT)
    (node,) = await harness.warm(1)
    heartbeats = Heartbeats(harness.store, harness.clock, harness.wakeups, flush_every=1.0)
    listener = harness.wakeups.listen((HEALTH,))
    heard = []
    for word in (Health.READY, Health.READY, Health.DEGRADED, None):
        await harness.pass_time(1.0)
        heartbeats.beat(node.id, said=word)
        await heartbeats.flush()
        heard.append(await listener.wait(0.0))
    assert heard == [True, False, True, False]
    listener.close()


@with_harness
async def test_a_boot_that_names_steps_in_a_loop_does_not_fill_the_store(harness: Harness) -> None:
    await harness.template(stall_after=9000.0, provision_timeout=9000.0)
    harness.agents.script(NEVER_BOOTS)
    replica = await harness.replica()
    await replica.provision(1)
    (node,) = await harness.count(1, NodeState.CREATED)
    for number in range(MARKS_MOST + 20):
        await harness.enrolment.report(node.id, Report(phase="boot_script", step=f"round {number}"))
    assert len(await harness.store.marks(node.id)) == MARKS_MOST
