"""Heartbeats, and the desired state that a node follows."""

import asyncio

import pytest

from muster.domain import node as nodes
from muster.domain.boot import MARKS_MOST
from muster.domain.desired_state import Desired, Directive
from muster.domain.errors import Gone, NotFound, StoreUnavailable
from muster.domain.health import Health
from muster.domain.ids import NodeId
from muster.domain.lifecycle import NodeState
from muster.domain.reasons import Reason
from muster.enrolment.heartbeats import Heartbeats
from muster.enrolment.reports import Report
from muster.ports.wakeups import HEALTH
from muster_simulation.life import Life, outside
from tests.stage import NEVER_ATTACHES, NEVER_BOOTS, Manner, Stage, staged
from tests.stage.ambush import Ambush, watched_store

SILENT = Manner(beats=False)


@staged
async def test_beats_move_when_a_node_was_last_seen_and_nothing_else(stage: Stage) -> None:
    await stage.template()
    stage.agents.script(SILENT)
    (node,) = await stage.warm(1)
    before = await stage.events()

    for _ in range(10):
        await stage.pass_time(5.0)
        assert (await stage.enrolment.beat(node.id)).version == node.version
    await stage.pass_time(stage.settings.flush_every)

    assert await stage.node(node.id) == node
    assert await stage.events() == before
    seen = await stage.store.last_seen([node.id])
    # No later than is known for sure: two pulses ago at the most, when it came.
    came = stage.now - stage.settings.flush_every
    assert came - 2 * stage.settings.flush_every <= seen[node.id] <= came


@staged
async def test_beats_are_gathered_and_written_together(stage: Stage) -> None:
    await stage.template()
    stage.agents.script(SILENT, SILENT)
    warm = await stage.warm(2)
    ambush = Ambush()
    ambush.armed = True
    heartbeats = Heartbeats(watched_store(stage.store, ambush), stage.clock, stage.wakeups, flush_every=1.0)

    for _ in range(5):
        for node in warm:
            heartbeats.beat(node.id)
    await heartbeats.flush()
    await heartbeats.flush()

    assert ambush.calls == ["record_beats"]


@staged
async def test_beats_that_could_not_be_written_are_kept(stage: Stage) -> None:
    await stage.template()
    stage.agents.script(SILENT)
    (node,) = await stage.warm(1)
    await stage.pass_time(100.0)
    ambush = Ambush()
    ambush.deny["record_beats"] = StoreUnavailable("the store is away")
    heartbeats = Heartbeats(watched_store(stage.store, ambush), stage.clock, stage.wakeups, flush_every=1.0)
    heartbeats.beat(node.id)
    beaten_at = stage.now
    with pytest.raises(StoreUnavailable):
        await heartbeats.flush()

    await stage.pass_time(10.0)
    ambush.deny.clear()
    await heartbeats.flush()

    assert await stage.store.last_seen([node.id]) == {node.id: beaten_at}


@staged
async def test_an_error_that_nobody_foresaw_ends_neither_the_flushing_nor_the_beats(stage: Stage) -> None:
    await stage.template()
    stage.agents.script(SILENT)
    (node,) = await stage.warm(1)
    await stage.pass_time(100.0)
    ambush = Ambush()
    ambush.deny["record_beats"] = RuntimeError("a bug")
    heartbeats = Heartbeats(watched_store(stage.store, ambush), stage.clock, stage.wakeups, flush_every=1.0)
    heartbeats.beat(node.id)
    beaten_at = stage.now
    running = asyncio.create_task(heartbeats.run())
    await stage.pass_time(10.0)
    assert not running.done()

    ambush.deny.clear()
    await stage.pass_time(1.5)
    running.cancel()

    assert stage.complaints, "and it was told"
    stage.complaints.clear()
    assert await stage.store.last_seen([node.id]) == {node.id: beaten_at}


@staged
async def test_a_beat_of_an_unknown_or_terminated_node_is_refused(stage: Stage) -> None:
    await stage.template()
    (node,) = await stage.warm(1)
    with pytest.raises(NotFound):
        await stage.enrolment.beat(NodeId("node-nobody"))
    await stage.store.apply(nodes.condemn(node, now=stage.now, reason=Reason.OPERATOR))
    await stage.enrolment.beat(node.id)

    stage.cloud.end(node.machine_id)
    await stage.replica()
    await stage.count(1, NodeState.TERMINATED)
    with pytest.raises(Gone):
        await stage.enrolment.beat(node.id)


@staged
async def test_the_desired_state_follows_the_record(stage: Stage) -> None:
    await stage.template()
    stage.agents.script(Manner(detach=30.0))
    (node,) = await stage.warm(1)
    replica = await stage.replica()
    told: list[Directive] = [(await stage.enrolment.desired(node.id)).directive]

    operation = await stage.succeeded(await replica.provision(1))
    desired = await stage.enrolment.desired(node.id)
    assert desired.assignment_id == operation.members[0].assignment_id
    assert desired.run == "run-1"
    told.append(desired.directive)
    await replica.release(operation.id)
    await stage.count(1, NodeState.RELEASING)
    told.append((await stage.enrolment.desired(node.id)).directive)
    await stage.count(1, NodeState.IDLE)
    idle = await stage.enrolment.desired(node.id)
    assert (idle.assignment_id, idle.run) == (None, None)
    told.append(idle.directive)
    current = await stage.node(node.id)
    await stage.store.apply(nodes.condemn(current, now=stage.now, reason=Reason.OPERATOR))
    told.append((await stage.enrolment.desired(node.id)).directive)

    assert told == [Directive.STAY, Directive.ATTACH, Directive.DETACH, Directive.STAY, Directive.STOP]


@staged
async def test_asking_again_gives_the_same_answer_and_starts_nothing_anew(stage: Stage) -> None:
    await stage.template()
    await stage.warm(1)
    replica = await stage.replica()
    operation = await stage.succeeded(await replica.provision(1))
    (member,) = operation.members

    answers = [await stage.enrolment.desired(member.node_id) for _ in range(3)]
    await stage.pass_time(100.0)

    assert answers == [answers[0]] * 3
    assert stage.agents.of(member.node_id).attached == [member.assignment_id]


@staged
async def test_a_poll_is_answered_as_soon_as_the_record_moves(stage: Stage) -> None:
    await stage.template()
    stage.agents.script(NEVER_ATTACHES)
    (node,) = await stage.warm(1)
    replica = await stage.replica()
    answered: list[tuple[float, Desired]] = []

    async def poll() -> None:
        desired = await stage.enrolment.poll(node.id, known=node.version, timeout=60.0)
        answered.append((stage.now, desired))

    stage.keep(asyncio.create_task(poll()))
    await stage.pass_time(10.0)
    assert answered == []
    await replica.provision(1)
    asked_at = stage.now
    await stage.pass_time(1.0)

    ((at, desired),) = answered
    assert at == asked_at
    assert desired.directive is Directive.ATTACH


@staged
async def test_a_poll_by_somebody_who_is_behind_is_answered_at_once(stage: Stage) -> None:
    await stage.template()
    (node,) = await stage.warm(1)
    began = stage.now

    desired = await stage.enrolment.poll(node.id, known=node.version - 1, timeout=60.0)

    assert stage.now == began
    assert desired.version == node.version


@staged
async def test_a_poll_of_a_record_that_does_not_move_ends_at_its_timeout(stage: Stage) -> None:
    await stage.template()
    (node,) = await stage.warm(1)
    began = stage.now

    desired = await stage.enrolment.poll(node.id, known=node.version, timeout=60.0)

    assert stage.now - began == 60.0
    assert desired.version == node.version


@staged
async def test_the_dead_man_of_an_assigned_node_covers_the_provision_and_the_longest_run(
    stage: Stage,
) -> None:
    await stage.template(max_runtime=1000.0, rescue_window=50.0)
    stage.agents.script(NEVER_ATTACHES)
    await stage.warm(1)
    replica = await stage.replica()
    operation = await replica.provision(1, max_runtime=4000.0)
    (node,) = await stage.count(1, NodeState.CLAIMED)

    desired = await stage.enrolment.desired(node.id)

    assert stage.now + desired.dead_man >= operation.deadline_at + 4000.0 + 50.0


@staged
async def test_a_beat_that_lay_before_a_replica_that_stood_still_is_not_fresh(stage: Stage) -> None:
    life = Life("replica")
    heartbeats = Heartbeats(stage.store, stage.clock, stage.wakeups, flush_every=1.0)
    running = outside(life.spawn, heartbeats.run())
    await stage.pass_time(10.5)
    asleep = stage.now
    life.pause(asyncio.get_running_loop().time() + 90.0)
    lain = outside(life.spawn, _vouched(heartbeats))
    await stage.pass_time(90.1)
    assert lain.result() <= asleep, "it came while nobody listened"
    await stage.pass_time(2.1)
    assert stage.now - heartbeats.arrived_by <= 2.0
    assert not running.done()
    life.kill()


async def _vouched(heartbeats: Heartbeats) -> float:
    return heartbeats.arrived_by


@staged
async def test_an_older_beat_never_replaces_a_younger_one(stage: Stage) -> None:
    await stage.template()
    stage.agents.script(SILENT)
    (node,) = await stage.warm(1)
    await stage.pass_time(100.0)
    heartbeats = Heartbeats(stage.store, stage.clock, stage.wakeups, flush_every=1.0)
    heartbeats.beat(node.id)
    heartbeats.beat(node.id, arrived_at=stage.now - 50.0)
    await heartbeats.flush()
    assert await stage.store.last_seen([node.id]) == {node.id: stage.now}


@staged
async def test_a_word_that_is_not_written_yet_outlives_the_beats_after_it(stage: Stage) -> None:
    await stage.template()
    stage.agents.script(SILENT)
    (node,) = await stage.warm(1)
    heartbeats = Heartbeats(stage.store, stage.clock, stage.wakeups, flush_every=1.0)
    heartbeats.beat(node.id, said=Health.DEGRADED, reason="disk", activity=7)
    heartbeats.beat(node.id, activity=3)
    heartbeats.beat(node.id)
    heartbeats.beat(node.id, said=Health.STARTING)
    await heartbeats.flush()
    vitals = (await stage.store.vitals([node.id]))[node.id]
    assert (vitals.said, vitals.said_reason, vitals.activity) == (Health.DEGRADED, "disk", 7)


@staged
async def test_a_new_word_has_health_looked_at_and_the_same_again_has_not(stage: Stage) -> None:
    await stage.template()
    stage.agents.script(SILENT)
    (node,) = await stage.warm(1)
    heartbeats = Heartbeats(stage.store, stage.clock, stage.wakeups, flush_every=1.0)
    listener = stage.wakeups.listen((HEALTH,))
    heard = []
    for word in (Health.READY, Health.READY, Health.DEGRADED, None):
        await stage.pass_time(1.0)
        heartbeats.beat(node.id, said=word)
        await heartbeats.flush()
        heard.append(await listener.wait(0.0))
    assert heard == [True, False, True, False]
    listener.close()


@staged
async def test_a_boot_that_names_steps_in_a_loop_does_not_fill_the_store(stage: Stage) -> None:
    await stage.template(stall_after=9000.0, provision_timeout=9000.0)
    stage.agents.script(NEVER_BOOTS)
    replica = await stage.replica()
    await replica.provision(1)
    (node,) = await stage.count(1, NodeState.CREATED)
    for number in range(MARKS_MOST + 20):
        await stage.enrolment.report(node.id, Report(phase="boot_script", step=f"round {number}"))
    assert len(await stage.store.marks(node.id)) == MARKS_MOST
