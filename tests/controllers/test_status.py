"""Health as it is lived: real duties, agents that beat or fall silent, replicas that come and go."""

import asyncio
from dataclasses import replace

from muster.controllers.node_health import StatusKeeper
from muster.domain.health import Health, HealthChange, Vitals
from muster.domain.ids import NodeId
from muster.domain.lifecycle import NodeState
from muster.domain.reasons import Reason
from muster.operations.watch import WatchTracker
from tests.stage import NEVER_BOOTS, Manner, Stage, staged
from tests.stage.ambush import Ambush, watched_store

TICK = 10.0
SILENT = Manner(beats=False)


async def vitals_of(stage: Stage, node_id: NodeId) -> Vitals:
    return (await stage.store.vitals([node_id]))[node_id]


async def words(stage: Stage, node_id: NodeId) -> list[str]:
    return [event.name for event in await stage.events(node_id) if event.entity == "health"]


async def until_it_is(stage: Stage, node_id: NodeId, health: Health) -> None:
    async def so() -> bool:
        return (await vitals_of(stage, node_id)).health is health

    await stage.until(so)


@staged
async def test_a_node_is_starting_until_it_has_booted_and_then_ready(stage: Stage) -> None:
    await stage.template()
    stage.agents.script(Manner(boot=60.0))
    replica = await stage.replica()
    await replica.provision(1)
    (node,) = await stage.count(1, NodeState.CREATED)
    await stage.pass_time(50.0)
    assert (await vitals_of(stage, node.id)).health is Health.STARTING
    await until_it_is(stage, node.id, Health.READY)
    assert await words(stage, node.id) == ["ready"]


@staged
async def test_a_boot_that_goes_on_for_long_counts_as_alive(stage: Stage) -> None:
    await stage.template(stall_after=3000.0)
    stage.agents.script(NEVER_BOOTS)
    replica = await stage.replica()
    await replica.provision(1)
    (node,) = await stage.count(1, NodeState.CREATED)
    limit = stage.settings.limits.max_transition
    await stage.pass_time(limit - 1.0)
    assert (await vitals_of(stage, node.id)).health is Health.STARTING
    await stage.pass_time(1.0 + 2 * TICK)
    assert (await vitals_of(stage, node.id)).health is Health.READY
    assert (await stage.node(node.id)).state is NodeState.CREATED


@staged
async def test_one_event_per_change_however_long_it_lasts(stage: Stage) -> None:
    await stage.template(idle_timeout=3000.0)
    await stage.replica()
    (node,) = await stage.warm(1)
    await until_it_is(stage, node.id, Health.READY)
    agent = stage.agents.of(node.id)
    beating = agent.manner
    agent.silence()
    await until_it_is(stage, node.id, Health.OFFLINE)
    version = (await stage.node(node.id)).version
    await stage.pass_time(3 * TICK)
    agent.manner = beating
    await until_it_is(stage, node.id, Health.READY)
    await stage.pass_time(300.0)
    assert await words(stage, node.id) == ["ready", "offline", "ready"]
    assert (await stage.node(node.id)).version == version


@staged
async def test_two_replicas_give_one_verdict(stage: Stage) -> None:
    await stage.template(idle_timeout=3000.0)
    for _ in range(3):
        await stage.replica()
    nodes = await stage.warm(5)
    for node in nodes:
        stage.agents.of(node.id).silence()
    await stage.count(5, NodeState.TERMINATED)
    for node in nodes:
        assert (await words(stage, node.id)).count("offline") == 1


@staged
async def test_of_two_judges_at_once_one_writes(stage: Stage) -> None:
    """The lease keeps them apart; if it fails, the guarded write decides."""
    await stage.template()
    stage.agents.script(SILENT)
    (node,) = await stage.warm(1)
    limits = stage.settings.limits
    keepers = [
        StatusKeeper(stage.ports, stage.settings, WatchTracker(stage.store, stage.clock, limits))
        for _ in range(2)
    ]
    for passed in (0.0, limits.stale_after + 1.0):
        for _ in range(int(passed // TICK) + 1):
            await stage.pass_time(passed / (int(passed // TICK) + 1))
            await asyncio.gather(*(keeper.reconcile() for keeper in keepers))
    assert await words(stage, node.id) == ["ready", "offline"]


@staged
async def test_a_restart_of_the_control_plane_calls_nobody_offline(stage: Stage) -> None:
    await stage.template(idle_timeout=30_000.0)
    replica = await stage.replica()
    nodes = await stage.warm(10)
    for node in nodes:
        await until_it_is(stage, node.id, Health.READY)
    replica.life.kill()
    for node in nodes:  # nobody can hear them either
        stage.agents.of(node.id).silence()
    await stage.pass_time(1000.0)
    for node in nodes:
        agent = stage.agents.of(node.id)
        agent.manner = Manner()
    await stage.replica()
    await stage.pass_time(600.0)
    for node in nodes:
        assert await words(stage, node.id) == ["ready"]
        assert (await stage.node(node.id)).state is NodeState.IDLE


@staged
async def test_who_stays_silent_after_a_restart_is_offline_in_bounded_time(stage: Stage) -> None:
    await stage.template(idle_timeout=30_000.0)
    replica = await stage.replica()
    (node,) = await stage.warm(1)
    await until_it_is(stage, node.id, Health.READY)
    replica.life.kill()
    stage.agents.of(node.id).silence()
    await stage.pass_time(1000.0)
    back = stage.now
    await stage.replica()
    limits = stage.settings.limits
    await until_it_is(stage, node.id, Health.OFFLINE)
    assert limits.stale_after < stage.now - back <= limits.stale_after + 3 * TICK
    await stage.count(1, NodeState.TERMINATED)
    assert stage.now - back <= limits.stale_after + limits.dead_after + 8 * TICK


@staged
async def test_a_verdict_that_lost_its_race_leaves_the_news_unheard(stage: Stage) -> None:
    await stage.template()
    stage.agents.script(SILENT)
    (node,) = await stage.warm(1)
    ambush = Ambush()
    ports = replace(stage.ports, store=watched_store(stage.store, ambush))
    watch_tracker = WatchTracker(stage.store, stage.clock, stage.settings.limits)

    async def somebody_is_quicker() -> None:
        before = await vitals_of(stage, node.id)
        after = replace(before, health=Health.DEGRADED, health_version=before.health_version + 1)
        await stage.store.write_health(HealthChange(before=before, after=after, at=stage.now))

    ambush.before("write_health", somebody_is_quicker)
    await StatusKeeper(ports, stage.settings, watch_tracker).reconcile()
    assert (await vitals_of(stage, node.id)).news
    await StatusKeeper(ports, stage.settings, watch_tracker).reconcile()
    assert (await vitals_of(stage, node.id)).health is Health.READY
    assert not (await vitals_of(stage, node.id)).news


# --- consequences ---------------------------------------------------------------------------------


@staged
async def test_a_running_node_that_falls_silent_is_told_at_once_and_given_up_later(stage: Stage) -> None:
    await stage.template(max_runtime=30_000.0)
    replica = await stage.replica()
    operation = await stage.succeeded(await replica.provision(1))
    (node,) = await stage.nodes(NodeState.RUNNING)
    stage.agents.of(node.id).silence()
    silent = stage.now
    limits = stage.settings.limits
    await until_it_is(stage, node.id, Health.OFFLINE)
    assert stage.now - silent <= limits.stale_after + 2 * TICK
    assert (await stage.node(node.id)).state is NodeState.RUNNING
    offline = stage.now

    async def given_up() -> bool:
        return (await stage.node(node.id)).state is not NodeState.RUNNING

    await stage.until(given_up)
    assert limits.lost_after <= stage.now - offline <= limits.lost_after + 2 * TICK
    lost = await stage.node(node.id)
    assert (lost.reason, lost.operation_id) == (Reason.HEARTBEAT_LOST, operation.id)
    assert "offline" in lost.detail


@staged
async def test_a_run_survives_a_partition_that_heals_in_time(stage: Stage) -> None:
    await stage.template(max_runtime=30_000.0)
    replica = await stage.replica()
    await stage.succeeded(await replica.provision(1))
    (node,) = await stage.nodes(NodeState.RUNNING)
    agent = stage.agents.of(node.id)
    agent.silence()
    limits = stage.settings.limits
    await stage.pass_time(limits.stale_after + limits.lost_after - 1.0)
    agent.manner = Manner()
    await until_it_is(stage, node.id, Health.READY)
    await stage.pass_time(1000.0)
    assert (await stage.node(node.id)).state is NodeState.RUNNING


@staged
async def test_nobody_is_given_up_for_time_in_which_nobody_watched(stage: Stage) -> None:
    """It was offline for a moment when the control plane went away, and beats again when that is back."""
    await stage.template(max_runtime=30_000.0)
    replica = await stage.replica()
    await stage.succeeded(await replica.provision(1))
    (node,) = await stage.nodes(NodeState.RUNNING)
    agent = stage.agents.of(node.id)
    agent.silence()
    await until_it_is(stage, node.id, Health.OFFLINE)
    replica.life.kill()
    await stage.pass_time(5000.0)
    await stage.replica()
    await stage.pass_time(60.0)
    agent.manner = Manner()
    await until_it_is(stage, node.id, Health.READY)
    assert (await stage.node(node.id)).state is NodeState.RUNNING


@staged
async def test_an_idle_node_that_is_dead_is_never_handed_out(stage: Stage) -> None:
    await stage.template(idle_timeout=3000.0)
    (dead,) = await stage.warm(1)
    stage.agents.of(dead.id).silence()
    await stage.pass_time(stage.settings.limits.stale_after + 6.0)
    replica = await stage.replica()
    operation = await stage.succeeded(await replica.provision(1))
    assert dead.id not in {member.node_id for member in operation.members}
