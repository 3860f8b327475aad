"""The boot watcher: early, but only about what can't succeed, and never about who moved on."""

from itertools import pairwise
from pathlib import Path
from unittest.mock import patch

from muster.controllers import boot_watch
from muster.controllers.boot_watch import AGAIN, FIRST, PATIENCE, BootWatch
from muster.domain.deadlines import Watch
from muster.domain.errors import Uncertain
from muster.domain.lifecycle import NodeState
from muster.domain.node import Node
from muster.domain.reasons import Reason
from muster.enrolment.reports import Report
from muster.operations.watch import WatchTracker
from tests.stage import NEVER_BOOTS, Manner, Stage, staged
from tests.stage.ambush import Ambush, watched_provider
from tests.stage.cloud import HANG

CONSOLES = Path(__file__).parents[1] / "domain" / "consoles"
SILENT = Manner(join=False)
FATAL = (CONSOLES / "dnf_no_match.log").read_text()
PANIC = (CONSOLES / "kernel_panic.log").read_text()
HEALTHY = sorted(path.read_text() for path in CONSOLES.glob("healthy_*.log"))


class AllAlong(WatchTracker):
    """Somebody watched since the given time, although no replica is left to say so."""

    since = 0.0

    async def look(self) -> Watch:
        return Watch(since=self.since)


def watcher(stage: Stage, **more: object) -> BootWatch:
    watch_tracker = AllAlong(stage.store, stage.ports.clock, stage.settings.limits)
    for name, value in more.items():
        setattr(watch_tracker, name, value)
    return BootWatch(stage.ports, stage.settings, watch_tracker, ("muster.internal.example",))


async def booting(stage: Stage, *manners: Manner) -> list[Node]:
    """Nodes that boot, and nobody who judges them."""
    await stage.template(provision_timeout=5000.0)
    stage.agents.script(*manners)
    replica = await stage.replica()
    await replica.provision(len(manners))
    await stage.count(len(manners), NodeState.CREATED)
    await stage.pass_time(1.0)
    replica.life.kill()
    return await stage.nodes(NodeState.CREATED)


async def looks(stage: Stage, node: Node) -> tuple[NodeState, Reason | None]:
    found = await stage.node(node.id)
    return found.state, found.reason


STILL = (NodeState.CREATED, None)
GONE = (NodeState.FAILED, Reason.MACHINE_GONE)
NO_DISK = (NodeState.FAILED, Reason.QUOTA)


# --- the provider's word --------------------------------------------------------------------------


@staged
async def test_a_machine_that_its_provider_calls_gone_or_stopping_fails_its_node_at_once(
    stage: Stage,
) -> None:
    first, second, spared = await booting(stage, SILENT, SILENT, SILENT)
    stage.cloud.end(first.machine_id)
    stage.cloud.boxes[first.machine_id].why = "no more volumes"
    stage.cloud.boxes[first.machine_id].reason = Reason.QUOTA
    stage.cloud.boxes[second.machine_id].stopping_at = stage.now
    await watcher(stage).reconcile()
    assert [await looks(stage, node) for node in (first, second, spared)] == [NO_DISK, GONE, STILL]
    assert "is gone: no more volumes" in (await stage.node(first.id)).detail


@staged
async def test_a_missing_machine_counts_only_past_the_window_and_without_a_beat(stage: Stage) -> None:
    silent, beating = await booting(stage, SILENT, NEVER_BOOTS)
    for node in (silent, beating):
        stage.cloud.boxes[node.machine_id].visible_at = stage.now + 4000.0
    window = stage.cloud.visibility_window
    await stage.pass_time(silent.created_at + window - stage.now - 1.0)
    await watcher(stage).reconcile()
    assert await looks(stage, silent) == STILL
    await stage.pass_time(1.0)
    await watcher(stage).reconcile()
    assert await looks(stage, silent) == GONE
    assert await looks(stage, beating) == STILL


@staged
async def test_a_server_that_was_just_away_waits_for_beats_before_it_misses_a_machine(stage: Stage) -> None:
    (node,) = await booting(stage, SILENT)
    stage.cloud.end(node.machine_id, forgotten=True)
    await stage.pass_time(stage.cloud.visibility_window)
    since = stage.now
    await stage.pass_time(stage.settings.limits.stale_after)
    await watcher(stage, since=since).reconcile()
    assert await looks(stage, node) == STILL
    await stage.pass_time(1.0)
    await watcher(stage, since=since).reconcile()
    assert await looks(stage, node) == GONE


@staged
async def test_a_provider_in_trouble_proves_nothing(stage: Stage) -> None:
    (node,) = await booting(stage, SILENT)
    await stage.pass_time(2 * stage.cloud.visibility_window)
    stage.cloud.trouble = Uncertain("the connection broke")
    await watcher(stage).reconcile()
    assert await looks(stage, node) == STILL


# --- the machine's own words ----------------------------------------------------------------------


@staged
async def test_a_console_that_shows_the_end_fails_its_node_with_the_line_that_proves_it(stage: Stage) -> None:
    (node,) = await booting(stage, SILENT)
    stage.cloud.consoles[node.machine_id] = FATAL
    await stage.pass_time(FIRST)
    await watcher(stage).reconcile()
    assert await looks(stage, node) == (NodeState.FAILED, Reason.BOOT_SCRIPT_FAILED)
    (event,) = await stage.events(node.id, "fail")
    assert "Unable to find a match: python3.13-errorhandler" in event.detail


@staged
async def test_what_the_event_quotes_is_redacted(stage: Stage) -> None:
    (node,) = await booting(stage, SILENT)
    stage.cloud.consoles[node.machine_id] = FATAL.replace("a match: ", "a match: password=hunter2 ")
    await stage.pass_time(FIRST)
    await watcher(stage).reconcile()
    assert (await stage.node(node.id)).state is NodeState.FAILED
    assert "hunter2" not in repr(await stage.events())


@staged
async def test_no_healthy_console_fails_a_node(stage: Stage) -> None:
    nodes = await booting(stage, *[SILENT] * len(HEALTHY))
    for node, console in zip(nodes, HEALTHY, strict=True):
        stage.cloud.consoles[node.machine_id] = console
    await stage.pass_time(200.0)
    await watcher(stage).reconcile()
    assert len(stage.cloud.heard) == len(HEALTHY)
    assert [await looks(stage, node) for node in nodes] == [STILL] * len(HEALTHY)


@staged
async def test_a_node_that_beats_is_not_listened_to(stage: Stage) -> None:
    beating, silent = await booting(stage, NEVER_BOOTS, SILENT)
    for node in (beating, silent):
        stage.cloud.consoles[node.machine_id] = PANIC
    await stage.pass_time(FIRST)
    await watcher(stage).reconcile()
    assert await looks(stage, beating) == STILL and await looks(stage, silent) == GONE


@staged
async def test_a_console_is_read_from_a_certain_age_on_and_not_too_often(stage: Stage) -> None:
    (node,) = await booting(stage, SILENT)
    watch = watcher(stage)
    await stage.pass_time(node.created_at + FIRST - stage.now - 1.0)
    await watch.reconcile()
    assert stage.cloud.heard == []
    for _ in range(7):
        await stage.pass_time(10.0)
        await watch.reconcile()
    times = [at for at, _ in stage.cloud.heard]
    assert [later - earlier for earlier, later in pairwise(times)] == [AGAIN, AGAIN]


@staged
async def test_one_slow_console_holds_up_no_other(stage: Stage) -> None:
    slow, quick = await booting(stage, SILENT, SILENT)
    stage.cloud.slow_consoles[slow.machine_id] = HANG
    stage.cloud.consoles[quick.machine_id] = FATAL
    await stage.pass_time(FIRST)
    started = stage.now
    await watcher(stage).reconcile()
    assert stage.now - started <= PATIENCE
    (event,) = await stage.events(quick.id, "fail")
    assert event.at == started and await looks(stage, slow) == STILL


@staged
async def test_what_is_remembered_is_forgotten_when_it_does_not_matter_any_more(stage: Stage) -> None:
    (node,) = await booting(stage, SILENT)
    watch = watcher(stage)
    await stage.pass_time(FIRST)
    await watch.reconcile()
    assert list(watch._looked) == [node.id]
    stage.cloud.end(node.machine_id)
    await stage.pass_time(AGAIN)
    await watch.reconcile()
    assert watch._looked == {}


@staged
async def test_they_are_looked_at_a_page_at_a_time_and_what_a_tick_leaves_is_next(stage: Stage) -> None:
    nodes = await booting(stage, *[SILENT] * 5)
    for node in nodes:
        stage.cloud.slow_consoles[node.machine_id] = boot_watch.STARTING
    await stage.pass_time(FIRST)
    watch = watcher(stage)
    with patch.object(boot_watch, "BATCH", 2):
        for count in (2, 4, 5):
            await watch.reconcile()
            assert len(stage.cloud.heard) == count
    assert {machine_id for _, machine_id in stage.cloud.heard} == {node.machine_id for node in nodes}


@staged
async def test_many_consoles_are_read_a_few_at_a_time(stage: Stage) -> None:
    count = boot_watch.AT_ONCE + 1
    nodes = await booting(stage, *[SILENT] * count)
    for node in nodes:
        stage.cloud.slow_consoles[node.machine_id] = 1.0
    await stage.pass_time(FIRST)
    await watcher(stage).reconcile()
    times = [at for at, _ in stage.cloud.heard]
    assert len(times) == count and times.count(min(times)) == boot_watch.AT_ONCE


# --- who moved on ---------------------------------------------------------------------------------


@staged
async def test_a_node_that_boots_while_its_console_is_read_is_spared(stage: Stage) -> None:
    from dataclasses import replace

    (node,) = await booting(stage, SILENT)
    stage.cloud.consoles[node.machine_id] = FATAL
    ambush = Ambush()
    providers = {"cloud": watched_provider(stage.provider, ambush)}
    watch_tracker = AllAlong(stage.store, stage.ports.clock, stage.settings.limits)
    watch = BootWatch(replace(stage.ports, providers=providers), stage.settings, watch_tracker)

    async def boot() -> None:
        await stage.enrolment.join(node.machine_id, key="k", boot_id="b")
        await stage.enrolment.report(node.id, Report(booted=True))

    ambush.before("provider.console", boot)
    await stage.pass_time(FIRST)
    await watch.reconcile()
    found = await stage.node(node.id)
    assert found.state is NodeState.CREATED and found.up
    assert await stage.events(node.id, "fail") == []


@staged
async def test_a_node_that_has_booted_is_nobody_for_the_watcher(stage: Stage) -> None:
    (node,) = await booting(stage, Manner(attach=None))
    stage.cloud.end(node.machine_id)
    await watcher(stage).reconcile()
    assert (await stage.node(node.id)).up and await looks(stage, node) == STILL


@staged
async def test_a_replica_does_it_by_itself_and_the_provision_says_why(stage: Stage) -> None:
    await stage.template()
    stage.agents.script(SILENT)
    replica = await stage.replica()
    operation = await replica.provision(1)
    (node,) = await stage.count(1, NodeState.CREATED)
    stage.cloud.consoles[node.machine_id] = FATAL
    ended = await stage.ended(operation, within=FIRST + AGAIN + 10.0)
    assert ended.verdict is not None and ended.verdict.reason is Reason.BOOT_SCRIPT_FAILED
    await stage.nothing_is_left()
    assert await stage.store.bundle(node.id) is not None
