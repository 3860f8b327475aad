"""Beats that slow down as nodes come, and quicken as they go, with no node called lost for it."""

from dataclasses import replace

from muster.domain.deadlines import Limits
from muster.domain.health import Health
from muster.domain.lifecycle import NodeState
from muster.domain.node import Node, condemn
from muster.domain.pace import stale_after
from muster.domain.reasons import Reason
from tests.controllers.test_status import TICK, until_it_is, vitals_of, words
from tests.stage import Stage, staged

LIMITS = Limits(beats_per_second=1)
NODES = 26
SLOW = 30.0
"""Six steps of five seconds: the nodes send at most one beat a second."""
PACED = 30.0
"""How often the pace is looked at."""


async def many(stage: Stage) -> list[Node]:
    stage.settings = replace(stage.settings, limits=LIMITS)
    await stage.template(max_nodes=NODES, idle_timeout=10**5)
    await stage.replica()
    return list(await stage.warm(NODES))


async def told(stage: Stage) -> float:
    """As their streams tell them."""
    seconds = await stage.watch_tracker.beat_seconds()
    for agent in stage.agents.by_machine.values():
        agent.beat_every = seconds
    return seconds


@staged
async def test_many_nodes_beat_more_slowly_and_their_silence_is_judged_by_that(stage: Stage) -> None:
    nodes = await many(stage)
    await stage.pass_time(PACED + 1.0)
    assert await told(stage) == SLOW
    await stage.pass_time(300.0)
    for node in nodes:
        assert await words(stage, node.id) == ["ready"]

    lost = nodes[0]
    stage.agents.of(lost.id).silence()
    await stage.pass_time(stale_after(SLOW) - SLOW - 1.0)
    assert (await vitals_of(stage, lost.id)).health is Health.READY
    await stage.pass_time(SLOW + TICK + 3.0)
    assert (await vitals_of(stage, lost.id)).health is Health.OFFLINE


@staged
async def test_a_node_whose_last_beat_is_one_slow_interval_old_can_be_claimed(stage: Stage) -> None:
    await many(stage)
    await stage.pass_time(PACED + 1.0)
    await told(stage)
    await stage.pass_time(100.0)
    for agent in stage.agents.by_machine.values():
        agent.silence()
    await stage.pass_time(SLOW + LIMITS.stale_after)
    replica = await stage.replica()
    operation = await replica.provision(4)
    await stage.succeeded(operation)


@staged
async def test_fewer_nodes_beat_faster_and_none_is_called_lost_before_it_heard_of_that(stage: Stage) -> None:
    nodes = await many(stage)
    await stage.pass_time(PACED + 1.0)
    assert await told(stage) == SLOW
    await stage.pass_time(60.0)
    kept, ended = nodes[:2], nodes[2:]
    for node in ended:
        now = stage.clock.now()
        await stage.store.apply(condemn(await stage.node(node.id), now=now, reason=Reason.OPERATOR))
    await stage.count(len(ended), NodeState.TERMINATED)
    await stage.pass_time(PACED + 1.0)
    assert await stage.watch_tracker.beat_seconds() == LIMITS.beat_seconds
    await stage.pass_time(25.0)  # the longest that a stream is silent: until then all beat slowly
    await told(stage)
    await stage.pass_time(200.0)
    for node in kept:
        assert await words(stage, node.id) == ["ready"]

    stage.agents.of(kept[0].id).silence()
    await stage.pass_time(LIMITS.stale_after + TICK + 3.0)
    await until_it_is(stage, kept[0].id, Health.OFFLINE)
