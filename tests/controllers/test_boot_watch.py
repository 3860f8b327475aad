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
from tests.harness import NEVER_BOOTS, Behaviour, Harness, with_harness
from tests.harness.cloud import HANG
from tests.harness.interceptor import CallInterceptor, watched_provider

CONSOLES = Path(__file__).parents[1] / "domain" / "consoles"
SILENT = Behaviour(join=False)
FATAL = (CONSOLES / "dnf_no_match.log").read_text()
PANIC = (CONSOLES / "kernel_panic.log").read_text()
HEALTHY = sorted(path.read_text() for path in CONSOLES.glob("healthy_*.log"))


class AllAlong(WatchTracker):
    """A replica watched since the given time, although none is left to say so."""

    since = 0.0

    async def look(self) -> Watch:
        return Watch(since=self.since)


def watcher(harness: Harness, **more: object) -> BootWatch:
    watch_tracker = AllAlong(harness.store, harness.ports.clock, harness.settings.limits)
    for name, value in more.items():
        setattr(watch_tracker, name, value)
    return BootWatch(harness.ports, harness.settings, watch_tracker, ("muster.internal.example",))


async def booting(harness: Harness, *manners: Behaviour) -> list[Node]:
    """Nodes that boot, without a controller that judges them."""
    await harness.template(provision_timeout=5000.0)
    harness.agents.script(*manners)
    replica = await harness.replica()
    await replica.provision(len(manners))
    await harness.count(len(manners), NodeState.CREATED)
    await harness.pass_time(1.0)
    replica.life.kill()
    return await harness.nodes(NodeState.CREATED)


async def looks(harness: Harness, node: Node) -> tuple[NodeState, Reason | None]:
    found = await harness.node(node.id)
    return found.state, found.reason


STILL = (NodeState.CREATED, None)
GONE = (NodeState.FAILED, Reason.MACHINE_GONE)
NO_DISK = (NodeState.FAILED, Reason.QUOTA)


# --- the provider's word --------------------------------------------------------------------------


@with_harness
async def test_a_machine_that_its_provider_calls_gone_or_stopping_fails_its_node_at_once(
    harness: Harness,
) -> None:
    first, second, spared = await booting(harness, SILENT, SILENT, SILENT)
    harness.cloud.end(first.machine_id)
    harness.cloud.boxes[first.machine_id].why = "no more volumes"
    harness.cloud.boxes[first.machine_id].reason = Reason.QUOTA
    harness.cloud.boxes[second.machine_id].stopping_at = harness.now
    await watcher(harness).reconcile()
    assert [await looks(harness, node) for node in (first, second, spared)] == [NO_DISK, GONE, STILL]
    assert "is gone: no more volumes" in (await harness.node(first.id)).detail


@with_harness
async def test_a_missing_machine_counts_only_past_the_window_and_without_a_beat(harness: Harness) -> None:
    silent, beating = await booting(harness, SILENT, NEVER_BOOTS)
    for node in (silent, beating):
        harness.cloud.boxes[node.machine_id].visible_at = harness.now + 4000.0
    window = harness.cloud.visibility_window
    await harness.pass_time(silent.created_at + window - harness.now - 1.0)
    await watcher(harness).reconcile()
    assert await looks(harness, silent) == STILL
    await harness.pass_time(1.0)
    await watcher(harness).reconcile()
    assert await looks(harness, silent) == GONE
    assert await looks(harness, beating) == STILL


@with_harness
async def test_a_server_that_was_just_away_waits_for_beats_before_it_misses_a_machine(
    harness: Harness,
) -> None:
    (node,) = await booting(harness, SILENT)
    harness.cloud.end(node.machine_id, forgotten=True)
    await harness.pass_time(harness.cloud.visibility_window)
    since = harness.now
    await harness.pass_time(harness.settings.limits.stale_after)
    await watcher(harness, since=since).reconcile()
    assert await looks(harness, node) == STILL
    await harness.pass_time(1.0)
    await watcher(harness, since=since).reconcile()
    assert await looks(harness, node) == GONE


@with_harness
async def test_a_provider_in_trouble_proves_nothing(harness: Harness) -> None:
    (node,) = await booting(harness, SILENT)
    await harness.pass_time(2 * harness.cloud.visibility_window)
    harness.cloud.trouble = Uncertain("the connection broke")
    await watcher(harness).reconcile()
    assert await looks(harness, node) == STILL


# --- the machine's own words ----------------------------------------------------------------------


@with_harness
async def test_a_console_that_shows_the_end_fails_its_node_with_the_line_that_proves_it(
    harness: Harness,
) -> None:
    (node,) = await booting(harness, SILENT)
    harness.cloud.consoles[node.machine_id] = FATAL
    await harness.pass_time(FIRST)
    await watcher(harness).reconcile()
    assert await looks(harness, node) == (NodeState.FAILED, Reason.BOOT_SCRIPT_FAILED)
    (event,) = await harness.events(node.id, "fail")
    assert "Unable to find a match: python3.13-errorhandler" in event.detail


@with_harness
async def test_what_the_event_quotes_is_redacted(harness: Harness) -> None:
    (node,) = await booting(harness, SILENT)
    harness.cloud.consoles[node.machine_id] = FATAL.replace("a match: ", "a match: password=hunter2 ")
    await harness.pass_time(FIRST)
    await watcher(harness).reconcile()
    assert (await harness.node(node.id)).state is NodeState.FAILED
    assert "hunter2" not in repr(await harness.events())


@with_harness
async def test_no_healthy_console_fails_a_node(harness: Harness) -> None:
    nodes = await booting(harness, *[SILENT] * len(HEALTHY))
    for node, console in zip(nodes, HEALTHY, strict=True):
        harness.cloud.consoles[node.machine_id] = console
    await harness.pass_time(200.0)
    await watcher(harness).reconcile()
    assert len(harness.cloud.heard) == len(HEALTHY)
    assert [await looks(harness, node) for node in nodes] == [STILL] * len(HEALTHY)


@with_harness
async def test_a_node_that_beats_is_not_listened_to(harness: Harness) -> None:
    beating, silent = await booting(harness, NEVER_BOOTS, SILENT)
    for node in (beating, silent):
        harness.cloud.consoles[node.machine_id] = PANIC
    await harness.pass_time(FIRST)
    await watcher(harness).reconcile()
    assert await looks(harness, beating) == STILL and await looks(harness, silent) == GONE


@with_harness
async def test_a_console_is_read_from_a_certain_age_on_and_not_too_often(harness: Harness) -> None:
    (node,) = await booting(harness, SILENT)
    watch = watcher(harness)
    await harness.pass_time(node.created_at + FIRST - harness.now - 1.0)
    await watch.reconcile()
    assert harness.cloud.heard == []
    for _ in range(7):
        await harness.pass_time(10.0)
        await watch.reconcile()
    times = [at for at, _ in harness.cloud.heard]
    assert [later - earlier for earlier, later in pairwise(times)] == [AGAIN, AGAIN]


@with_harness
async def test_one_slow_console_holds_up_no_other(harness: Harness) -> None:
    slow, quick = await booting(harness, SILENT, SILENT)
    harness.cloud.slow_consoles[slow.machine_id] = HANG
    harness.cloud.consoles[quick.machine_id] = FATAL
    await harness.pass_time(FIRST)
    started = harness.now
    await watcher(harness).reconcile()
    assert harness.now - started <= PATIENCE
    (event,) = await harness.events(quick.id, "fail")
    assert event.at == started and await looks(harness, slow) == STILL


@with_harness
async def test_what_is_remembered_is_forgotten_when_it_does_not_matter_any_more(harness: Harness) -> None:
    (node,) = await booting(harness, SILENT)
    watch = watcher(harness)
    await harness.pass_time(FIRST)
    await watch.reconcile()
    assert list(watch._looked) == [node.id]
    harness.cloud.end(node.machine_id)
    await harness.pass_time(AGAIN)
    await watch.reconcile()
    assert watch._looked == {}


@with_harness
async def test_they_are_looked_at_a_page_at_a_time_and_what_a_tick_leaves_is_next(harness: Harness) -> None:
    nodes = await booting(harness, *[SILENT] * 5)
    for node in nodes:
        harness.cloud.slow_consoles[node.machine_id] = boot_watch.STARTING
    await harness.pass_time(FIRST)
    watch = watcher(harness)
    with patch.object(boot_watch, "BATCH", 2):
        for count in (2, 4, 5):
            await watch.reconcile()
            assert len(harness.cloud.heard) == count
    assert {machine_id for _, machine_id in harness.cloud.heard} == {node.machine_id for node in nodes}


@with_harness
async def test_many_consoles_are_read_a_few_at_a_time(harness: Harness) -> None:
    count = boot_watch.AT_ONCE + 1
    nodes = await booting(harness, *[SILENT] * count)
    for node in nodes:
        harness.cloud.slow_consoles[node.machine_id] = 1.0
    await harness.pass_time(FIRST)
    await watcher(harness).reconcile()
    times = [at for at, _ in harness.cloud.heard]
    assert len(times) == count and times.count(min(times)) == boot_watch.AT_ONCE


# --- who moved on ---------------------------------------------------------------------------------


@with_harness
async def test_a_node_that_boots_while_its_console_is_read_is_spared(harness: Harness) -> None:
    from dataclasses import replace

    (node,) = await booting(harness, SILENT)
    harness.cloud.consoles[node.machine_id] = FATAL
    interceptor = CallInterceptor()
    providers = {"cloud": watched_provider(harness.provider, interceptor)}
    watch_tracker = AllAlong(harness.store, harness.ports.clock, harness.settings.limits)
    watch = BootWatch(replace(harness.ports, providers=providers), harness.settings, watch_tracker)

    async def boot() -> None:
        await harness.enrolment.join(node.machine_id, key="k", boot_id="b")
        await harness.enrolment.report(node.id, Report(booted=True))

    interceptor.before("provider.console", boot)
    await harness.pass_time(FIRST)
    await watch.reconcile()
    found = await harness.node(node.id)
    assert found.state is NodeState.CREATED and found.up
    assert await harness.events(node.id, "fail") == []


@with_harness
async def test_a_node_that_has_booted_is_not_watched(harness: Harness) -> None:
    (node,) = await booting(harness, Behaviour(attach=None))
    harness.cloud.end(node.machine_id)
    await watcher(harness).reconcile()
    assert (await harness.node(node.id)).up and await looks(harness, node) == STILL


@with_harness
async def test_a_replica_does_it_by_itself_and_the_provision_says_why(harness: Harness) -> None:
    await harness.template()
    harness.agents.script(SILENT)
    replica = await harness.replica()
    operation = await replica.provision(1)
    (node,) = await harness.count(1, NodeState.CREATED)
    harness.cloud.consoles[node.machine_id] = FATAL
    ended = await harness.ended(operation, within=FIRST + AGAIN + 10.0)
    assert ended.verdict is not None and ended.verdict.reason is Reason.BOOT_SCRIPT_FAILED
    await harness.nothing_is_left()
    assert await harness.store.bundle(node.id) is not None
