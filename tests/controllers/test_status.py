"""Health as it is lived: real duties, agents that beat or fall silent, replicas that come and go."""

import asyncio
from dataclasses import replace

import pytest

from muster.controllers.node_health import StatusKeeper
from muster.domain.health import Health, HealthChange, Vitals
from muster.domain.ids import NodeId
from muster.domain.lifecycle import NodeState
from muster.domain.reasons import Reason
from muster.operations.watch import WatchTracker
from tests.harness import NEVER_BOOTS, Behaviour, Harness, with_harness
from tests.harness.interceptor import CallInterceptor, watched_store

TICK = 10.0
SILENT = Behaviour(beats=False)


async def vitals_of(harness: Harness, node_id: NodeId) -> Vitals:
    return (await harness.store.vitals([node_id]))[node_id]


async def words(harness: Harness, node_id: NodeId) -> list[str]:
    return [event.name for event in await harness.events(node_id) if event.entity == "health"]


async def until_it_is(harness: Harness, node_id: NodeId, health: Health) -> None:
    async def so() -> bool:
        return (await vitals_of(harness, node_id)).health is health

    await harness.until(so)


@with_harness
async def test_a_node_is_starting_until_it_has_booted_and_then_ready(harness: Harness) -> None:
    await harness.template()
    harness.agents.script(Behaviour(boot=60.0))
    replica = await harness.replica()
    await replica.provision(1)
    (node,) = await harness.count(1, NodeState.CREATED)
    await harness.pass_time(50.0)
    assert (await vitals_of(harness, node.id)).health is Health.STARTING
    await until_it_is(harness, node.id, Health.READY)
    assert await words(harness, node.id) == ["ready"]


@with_harness
async def test_a_boot_that_goes_on_for_long_counts_as_alive(harness: Harness) -> None:
    await harness.template(stall_after=3000.0)
    harness.agents.script(NEVER_BOOTS)
    replica = await harness.replica()
    await replica.provision(1)
    (node,) = await harness.count(1, NodeState.CREATED)
    limit = harness.settings.limits.max_transition
    await harness.pass_time(limit - 1.0)
    assert (await vitals_of(harness, node.id)).health is Health.STARTING
    await harness.pass_time(1.0 + 2 * TICK)
    assert (await vitals_of(harness, node.id)).health is Health.READY
    assert (await harness.node(node.id)).state is NodeState.CREATED


@with_harness
async def test_one_event_per_change_however_long_it_lasts(harness: Harness) -> None:
    await harness.template(idle_timeout=3000.0)
    await harness.replica()
    (node,) = await harness.warm(1)
    await until_it_is(harness, node.id, Health.READY)
    agent = harness.agents.of(node.id)
    beating = agent.manner
    agent.silence()
    await until_it_is(harness, node.id, Health.OFFLINE)
    version = (await harness.node(node.id)).version
    await harness.pass_time(3 * TICK)
    agent.manner = beating
    await until_it_is(harness, node.id, Health.READY)
    await harness.pass_time(300.0)
    assert await words(harness, node.id) == ["ready", "offline", "ready"]
    assert (await harness.node(node.id)).version == version


def beating(harness: Harness, beat_seconds: float) -> float:
    """Let nodes beat this often. Return after which silence a node is offline."""
    limits = replace(harness.settings.limits, beat_seconds=beat_seconds, stale_after=4 * beat_seconds)
    harness.settings = replace(harness.settings, limits=limits)
    return limits.stale_after


@pytest.mark.parametrize("beat_seconds", [1.0, 2.0, 5.0])
@with_harness
async def test_a_silent_node_is_noticed_however_quickly_nodes_beat(
    harness: Harness, beat_seconds: float
) -> None:
    stale_after = beating(harness, beat_seconds)
    await harness.template()
    harness.agents.script(SILENT)
    (node,) = await harness.warm(1)
    await harness.replica()
    await harness.pass_time(2 * stale_after)
    assert (await vitals_of(harness, node.id)).health is Health.OFFLINE


@pytest.mark.parametrize("beat_seconds", [1.0, 2.0, 5.0])
@with_harness
async def test_no_node_is_offline_for_a_time_in_which_no_replica_watched(
    harness: Harness, beat_seconds: float
) -> None:
    stale_after = beating(harness, beat_seconds)
    limits = harness.settings.limits
    await harness.template()
    harness.agents.script(SILENT)
    (node,) = await harness.warm(1)
    watch = WatchTracker(harness.store, harness.clock, limits)
    keeper = StatusKeeper(harness.ports, harness.settings, watch)
    await keeper.reconcile()
    await harness.pass_time(stale_after + 1.0)
    await keeper.reconcile()
    assert (await vitals_of(harness, node.id)).health is not Health.OFFLINE


@with_harness
async def test_two_replicas_give_one_verdict(harness: Harness) -> None:
    await harness.template(idle_timeout=3000.0)
    for _ in range(3):
        await harness.replica()
    nodes = await harness.warm(5)
    for node in nodes:
        harness.agents.of(node.id).silence()
    await harness.count(5, NodeState.TERMINATED)
    for node in nodes:
        assert (await words(harness, node.id)).count("offline") == 1


@with_harness
async def test_of_two_judges_at_once_one_writes(harness: Harness) -> None:
    """The lease keeps them apart; if it fails, the guarded write decides."""
    await harness.template()
    harness.agents.script(SILENT)
    (node,) = await harness.warm(1)
    limits = harness.settings.limits
    keepers = [
        StatusKeeper(harness.ports, harness.settings, WatchTracker(harness.store, harness.clock, limits))
        for _ in range(2)
    ]
    for passed in (0.0, limits.stale_after + 1.0):
        for _ in range(int(passed // TICK) + 1):
            await harness.pass_time(passed / (int(passed // TICK) + 1))
            await asyncio.gather(*(keeper.reconcile() for keeper in keepers))
    assert await words(harness, node.id) == ["ready", "offline"]


@with_harness
async def test_a_restart_of_the_control_plane_calls_no_node_offline(harness: Harness) -> None:
    await harness.template(idle_timeout=30_000.0)
    replica = await harness.replica()
    nodes = await harness.warm(10)
    for node in nodes:
        await until_it_is(harness, node.id, Health.READY)
    replica.life.kill()
    for node in nodes:  # no replica can hear them either
        harness.agents.of(node.id).silence()
    await harness.pass_time(1000.0)
    for node in nodes:
        agent = harness.agents.of(node.id)
        agent.manner = Behaviour()
    await harness.replica()
    await harness.pass_time(600.0)
    for node in nodes:
        assert await words(harness, node.id) == ["ready"]
        assert (await harness.node(node.id)).state is NodeState.IDLE


@with_harness
async def test_who_stays_silent_after_a_restart_is_offline_in_bounded_time(harness: Harness) -> None:
    await harness.template(idle_timeout=30_000.0)
    replica = await harness.replica()
    (node,) = await harness.warm(1)
    await until_it_is(harness, node.id, Health.READY)
    replica.life.kill()
    harness.agents.of(node.id).silence()
    await harness.pass_time(1000.0)
    back = harness.now
    await harness.replica()
    limits = harness.settings.limits
    await until_it_is(harness, node.id, Health.OFFLINE)
    assert limits.stale_after < harness.now - back <= limits.stale_after + 3 * TICK
    await harness.count(1, NodeState.TERMINATED)
    assert harness.now - back <= limits.stale_after + limits.dead_after + 8 * TICK


@with_harness
async def test_a_verdict_that_lost_its_race_leaves_the_news_unheard(harness: Harness) -> None:
    await harness.template()
    harness.agents.script(SILENT)
    (node,) = await harness.warm(1)
    interceptor = CallInterceptor()
    ports = replace(harness.ports, store=watched_store(harness.store, interceptor))
    watch_tracker = WatchTracker(harness.store, harness.clock, harness.settings.limits)

    async def another_write_is_quicker() -> None:
        before = await vitals_of(harness, node.id)
        after = replace(before, health=Health.DEGRADED, health_version=before.health_version + 1)
        await harness.store.write_health(HealthChange(before=before, after=after, at=harness.now))

    interceptor.before("write_health", another_write_is_quicker)
    await StatusKeeper(ports, harness.settings, watch_tracker).reconcile()
    assert (await vitals_of(harness, node.id)).news
    await StatusKeeper(ports, harness.settings, watch_tracker).reconcile()
    assert (await vitals_of(harness, node.id)).health is Health.READY
    assert not (await vitals_of(harness, node.id)).news


@with_harness
async def test_nodes_whose_health_changes_together_are_written_side_by_side(harness: Harness) -> None:
    await harness.template()
    harness.agents.script(SILENT, SILENT)
    warm = await harness.warm(2)
    interceptor = CallInterceptor()
    ports = replace(harness.ports, store=watched_store(harness.store, interceptor))
    both = asyncio.Barrier(2)

    async def first() -> None:
        interceptor.before("write_health", second)
        await both.wait()

    async def second() -> None:
        await both.wait()

    interceptor.before("write_health", first)
    watch_tracker = WatchTracker(harness.store, harness.clock, harness.settings.limits)
    async with asyncio.timeout(TICK):
        await StatusKeeper(ports, harness.settings, watch_tracker).reconcile()
    for node in warm:
        vitals = await vitals_of(harness, node.id)
        assert (vitals.health, vitals.news) == (Health.READY, False)


# --- consequences ---------------------------------------------------------------------------------


@with_harness
async def test_a_running_node_that_falls_silent_is_told_at_once_and_given_up_later(harness: Harness) -> None:
    await harness.template(max_runtime=30_000.0)
    replica = await harness.replica()
    operation = await harness.succeeded(await replica.provision(1))
    (node,) = await harness.nodes(NodeState.RUNNING)
    harness.agents.of(node.id).silence()
    silent = harness.now
    limits = harness.settings.limits
    await until_it_is(harness, node.id, Health.OFFLINE)
    assert harness.now - silent <= limits.stale_after + 2 * TICK
    assert (await harness.node(node.id)).state is NodeState.RUNNING
    offline = harness.now

    async def given_up() -> bool:
        return (await harness.node(node.id)).state is not NodeState.RUNNING

    await harness.until(given_up)
    assert limits.lost_after <= harness.now - offline <= limits.lost_after + 2 * TICK
    lost = await harness.node(node.id)
    assert (lost.reason, lost.operation_id) == (Reason.HEARTBEAT_LOST, operation.id)
    assert "offline" in lost.detail


@with_harness
async def test_a_run_survives_a_partition_that_heals_in_time(harness: Harness) -> None:
    await harness.template(max_runtime=30_000.0)
    replica = await harness.replica()
    await harness.succeeded(await replica.provision(1))
    (node,) = await harness.nodes(NodeState.RUNNING)
    agent = harness.agents.of(node.id)
    agent.silence()
    limits = harness.settings.limits
    await harness.pass_time(limits.stale_after + limits.lost_after - 1.0)
    agent.manner = Behaviour()
    await until_it_is(harness, node.id, Health.READY)
    await harness.pass_time(1000.0)
    assert (await harness.node(node.id)).state is NodeState.RUNNING


@with_harness
async def test_no_node_is_given_up_for_time_in_which_no_replica_watched(harness: Harness) -> None:
    """It was offline for a moment when the control plane went away, and beats again when that is back."""
    await harness.template(max_runtime=30_000.0)
    replica = await harness.replica()
    await harness.succeeded(await replica.provision(1))
    (node,) = await harness.nodes(NodeState.RUNNING)
    agent = harness.agents.of(node.id)
    agent.silence()
    await until_it_is(harness, node.id, Health.OFFLINE)
    replica.life.kill()
    await harness.pass_time(5000.0)
    await harness.replica()
    await harness.pass_time(60.0)
    agent.manner = Behaviour()
    await until_it_is(harness, node.id, Health.READY)
    assert (await harness.node(node.id)).state is NodeState.RUNNING


@with_harness
async def test_an_idle_node_that_is_dead_is_never_handed_out(harness: Harness) -> None:
    await harness.template(idle_timeout=3000.0)
    (dead,) = await harness.warm(1)
    harness.agents.of(dead.id).silence()
    await harness.pass_time(harness.settings.limits.stale_after + 6.0)
    replica = await harness.replica()
    operation = await harness.succeeded(await replica.provision(1))
    assert dead.id not in {member.node_id for member in operation.members}
