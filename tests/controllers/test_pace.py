"""Beats that slow down as nodes come, and quicken as they go, with no node called lost for it."""

from dataclasses import replace

from muster.domain.deadlines import Limits
from muster.domain.health import Health
from muster.domain.lifecycle import NodeState
from muster.domain.node import Node, condemn
from muster.domain.pace import stale_after
from muster.domain.reasons import Reason
from tests.controllers.test_status import TICK, until_it_is, vitals_of, words
from tests.harness import Harness, with_harness

LIMITS = Limits(beats_per_second=1)
NODES = 26
SLOW = 30.0
"""Six steps of five seconds: the nodes send at most one beat a second."""
PACED = 30.0
"""How often the pace is looked at."""


async def many(harness: Harness) -> list[Node]:
    harness.settings = replace(harness.settings, limits=LIMITS)
    await harness.template(max_nodes=NODES, idle_timeout=10**5)
    await harness.replica()
    return list(await harness.warm(NODES))


async def told(harness: Harness) -> float:
    """As their streams tell them."""
    seconds = await harness.watch_tracker.beat_seconds()
    for agent in harness.agents.by_machine.values():
        agent.beat_every = seconds
    return seconds


@with_harness
async def test_many_nodes_beat_more_slowly_and_their_silence_is_judged_by_that(harness: Harness) -> None:
    nodes = await many(harness)
    await harness.pass_time(PACED + 1.0)
    assert await told(harness) == SLOW
    await harness.pass_time(300.0)
    for node in nodes:
        assert await words(harness, node.id) == ["ready"]

    lost = nodes[0]
    harness.agents.of(lost.id).silence()
    await harness.pass_time(stale_after(SLOW) - SLOW - 1.0)
    assert (await vitals_of(harness, lost.id)).health is Health.READY
    await harness.pass_time(SLOW + TICK + 3.0)
    assert (await vitals_of(harness, lost.id)).health is Health.OFFLINE


@with_harness
async def test_a_node_whose_last_beat_is_one_slow_interval_old_can_be_claimed(harness: Harness) -> None:
    await many(harness)
    await harness.pass_time(PACED + 1.0)
    await told(harness)
    await harness.pass_time(100.0)
    for agent in harness.agents.by_machine.values():
        agent.silence()
    await harness.pass_time(SLOW + LIMITS.stale_after)
    replica = await harness.replica()
    operation = await replica.provision(4)
    await harness.succeeded(operation)


@with_harness
async def test_fewer_nodes_beat_faster_and_none_is_called_lost_before_it_heard_of_that(
    harness: Harness,
) -> None:
    nodes = await many(harness)
    await harness.pass_time(PACED + 1.0)
    assert await told(harness) == SLOW
    await harness.pass_time(60.0)
    kept, ended = nodes[:2], nodes[2:]
    for node in ended:
        now = harness.clock.now()
        await harness.store.apply(condemn(await harness.node(node.id), now=now, reason=Reason.OPERATOR))
    await harness.count(len(ended), NodeState.TERMINATED)
    await harness.pass_time(PACED + 1.0)
    assert await harness.watch_tracker.beat_seconds() == LIMITS.beat_seconds
    await harness.pass_time(25.0)  # the longest that a stream is silent: until then all beat slowly
    await told(harness)
    await harness.pass_time(200.0)
    for node in kept:
        assert await words(harness, node.id) == ["ready"]

    harness.agents.of(kept[0].id).silence()
    await harness.pass_time(LIMITS.stale_after + TICK + 3.0)
    await until_it_is(harness, kept[0].id, Health.OFFLINE)
