"""Slow is not stuck: boots that take long, stand still, come late, or are late as no replica was there."""

from dataclasses import replace
from typing import Any

import pytest

from muster.controllers.deadlines import DeadlineSweep
from muster.domain import deadlines
from muster.domain import node as nodes
from muster.domain.boot import LEAST_BOOTS, MARGIN
from muster.domain.diagnosis import Cause
from muster.domain.diagnosis_rules import classify
from muster.domain.lifecycle import NodeState
from muster.domain.node import Node
from muster.domain.operation import Kind, Operation, Status
from muster.domain.progress import Progress, percent_at
from muster.domain.reasons import Reason
from muster.domain.template import Reuse, Runtime
from muster.enrolment.reports import Report
from muster.operations.boot_history import REMEMBER_FEW
from muster.operations.evidence import evidence
from muster.operations.watch import WatchTracker
from muster.ports.store import Beat
from tests.harness import NEVER_BOOTS, Behaviour, Harness, Replica, with_harness
from tests.harness.interceptor import CallInterceptor, watched_store

SWEEP = 10.0
SEED = Behaviour(
    boot=423.0,
    steps=((42.0, ""),),
    # The script runs for 381 s and names no step: 107 s of it a silent download, the rest at work.
    busy=((42.0, 100.0), (207.0, 423.0)),
)


async def asked(harness: Harness, *manners: Behaviour, **fields: Any) -> tuple[Replica, Operation, Node]:
    await harness.template(**fields)
    harness.agents.script(*manners)
    replica = await harness.replica()
    operation = await replica.provision(1)
    (node,) = await harness.count(1, NodeState.CREATED)
    return replica, operation, node


@with_harness
async def test_the_boot_that_the_source_system_killed_succeeds_under_defaults(harness: Harness) -> None:
    _, operation, node = await asked(harness, SEED)
    await harness.succeeded(operation)
    assert "extend" not in await harness.history(node.id)
    assert harness.now - node.created_at == pytest.approx(423.0, abs=2.0)
    assert len(await harness.store.boots(node.template, node.revision)) == 1


@with_harness
async def test_a_boot_that_still_advances_at_its_deadline_is_extended_and_so_is_its_operation(
    harness: Harness,
) -> None:
    slow = Behaviour(boot=700.0, busy=((0.0, 700.0),))
    _, operation, node = await asked(harness, slow, provision_timeout=400.0)
    ended = await harness.succeeded(operation)
    given = [event for event in await harness.events(node.id) if event.name == "extend"]
    step = harness.settings.limits.extension
    assert len(given) >= (700.0 - 400.0) / (step + SWEEP)
    told = [
        f"still advancing in joined, until {nodes.time_of_day(float(str(event.changes['deadline_at'])))}"
        for event in given
    ]
    assert [event.detail for event in given] == told
    assert ended.deadline_at > operation.deadline_at
    assert ended.deadline_source == "extension"


@with_harness
async def test_no_boot_passes_its_ceiling(harness: Harness) -> None:
    endless = Behaviour(boot=100_000.0, busy=((0.0, 100_000.0),))
    fields = {"provision_timeout": 400.0, "max_provision_timeout": 900.0}
    _, operation, node = await asked(harness, endless, **fields)
    ended = await harness.ended(operation)
    assert ended.verdict is not None
    assert ended.verdict.reason is Reason.BOOT_TIMEOUT
    assert 900.0 <= harness.now - node.created_at <= 900.0 + 2 * SWEEP
    await harness.nothing_is_left()


@with_harness
async def test_a_timeout_that_the_caller_named_is_never_passed(harness: Harness) -> None:
    await harness.template()
    harness.agents.script(Behaviour(boot=700.0, busy=((0.0, 700.0),)))
    replica = await harness.replica()
    operation = await replica.provision(1, timeout=300.0)
    ended = await harness.ended(operation)
    assert ended.status is Status.FAILED
    assert harness.now - operation.created_at <= 300.0 + SWEEP + 1.0


@with_harness
async def test_a_boot_that_stands_still_fails_early_and_says_where(harness: Harness) -> None:
    stuck = Behaviour(boot=None, steps=())
    _, operation, node = await asked(harness, stuck, provision_timeout=3000.0, stall_after=120.0)
    await harness.enrolment.report(node.id, Report(phase="boot_script", step="pull the image"))
    began = harness.now
    ended = await harness.ended(operation)
    assert ended.verdict is not None
    assert ended.verdict.reason is Reason.BOOT_STALLED
    assert "pull the image" in ended.verdict.message
    assert ended.verdict.node_id == node.id
    assert 120.0 <= harness.now - began <= 120.0 + 2 * SWEEP
    failed = [event for event in await harness.events(node.id) if event.name == "fail"]
    assert len(failed) == 1


@with_harness
async def test_what_is_said_of_a_boot_that_was_too_slow_is_true_from_the_first_moment(
    harness: Harness,
) -> None:
    """Before anything was collected: its marks tell that the agent was there."""
    _, operation, node = await asked(harness, Behaviour(boot=9000.0), provision_timeout=100.0)
    ended = await harness.ended(operation)
    assert await harness.store.bundle(node.id) is None
    known = await evidence(harness.store, ended, now=harness.now)
    assert known is not None
    assert classify(known).cause is Cause.SLOW


@with_harness
async def test_a_named_step_is_an_advance(harness: Harness) -> None:
    steps = tuple((100.0 * n, f"part {n}") for n in range(1, 6))
    _, operation, node = await asked(
        harness, Behaviour(boot=590.0, steps=steps), provision_timeout=3000.0, stall_after=110.0
    )
    await harness.succeeded(operation)
    assert (await harness.history(node.id)).count("advanced") == 5
    marks = await harness.store.marks(node.id)
    assert [mark.step for mark in marks if mark.step] == [step for _, step in steps]


@with_harness
async def test_an_advance_between_the_sweeps_look_and_its_verdict_spares_the_boot(harness: Harness) -> None:
    replica, _, node = await asked(harness, NEVER_BOOTS, provision_timeout=3000.0, stall_after=120.0)
    await harness.pass_time(100.0)
    replica.life.kill()
    watch_tracker = WatchTracker(harness.store, harness.clock, harness.settings.limits)
    interceptor = CallInterceptor()
    ports = replace(harness.ports, store=watched_store(harness.store, interceptor))
    sweep = DeadlineSweep(ports, harness.settings, watch_tracker)
    for _ in range(4):  # a replica watches
        await harness.pass_time(10.0)
        await watch_tracker.look()

    async def it_moves() -> None:
        await harness.store.record_beats([Beat(node_id=node.id, seen_at=harness.now, activity=9)])

    interceptor.before("apply", it_moves)
    await sweep.reconcile()
    assert (await harness.node(node.id)).state is NodeState.CREATED
    assert "fail" not in await harness.history(node.id)


# --- rescue ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("late", [30.0, 100.0])
@with_harness
async def test_a_boot_that_ends_after_it_was_given_up_is_rescued_for_the_pool(
    harness: Harness, late: float
) -> None:
    tardy = Behaviour(boot=200.0 + late)
    _, operation, node = await asked(harness, tardy, provision_timeout=200.0)
    ended = await harness.ended(operation)
    assert ended.status is Status.FAILED
    (rescued,) = await harness.count(1, NodeState.IDLE)
    assert rescued.id == node.id
    told = [event for event in await harness.events(node.id) if event.name == "rescued"]
    assert len(told) == 1
    assert "boot_timeout" in told[0].detail
    assert harness.agents.of(node.id).attached == []
    assert (await harness.operation(operation.id)).members == ()
    await harness.nothing_is_left(idle=1)


@with_harness
async def test_after_the_window_no_node_is_rescued(harness: Harness) -> None:
    _, operation, node = await asked(
        harness, Behaviour(boot=200.0 + 60.0 + 2 * SWEEP), provision_timeout=200.0, rescue_window=60.0
    )
    await harness.ended(operation)
    await harness.nothing_is_left()
    assert "rescued" not in await harness.history(node.id)


@with_harness
async def test_a_rescue_window_of_nothing_rescues_no_node(harness: Harness) -> None:
    _, operation, node = await asked(
        harness, Behaviour(boot=215.0), provision_timeout=200.0, rescue_window=0.0
    )
    await harness.ended(operation)
    await harness.nothing_is_left()
    assert "rescued" not in await harness.history(node.id)


@pytest.mark.parametrize("side", [-1.0, 1.0])
@with_harness
async def test_a_boot_that_ended_while_the_control_plane_was_away_is_rescued_within_the_grace(
    harness: Harness, side: float
) -> None:
    window = 60.0
    replica, operation, node = await asked(
        harness, NEVER_BOOTS, provision_timeout=200.0, rescue_window=window
    )
    await harness.ended(operation)
    (failed,) = await harness.nodes(NodeState.FAILED)
    replica.life.kill()
    harness.agents.of(node.id).silence()
    await harness.pass_time(10 * window)
    await harness.replica()
    back = harness.now
    await harness.pass_time(SWEEP)
    watch = await harness.store.watch(now=harness.now, gap=harness.settings.limits.stale_after)
    assert watch.since >= back
    await harness.pass_time(watch.since + harness.settings.limits.return_grace + side - harness.now)
    await harness.enrolment.beat(node.id)
    await harness.enrolment.report(node.id, Report(booted=True))
    told = [event for event in await harness.events(node.id) if event.name == "rescued"]
    assert len(told) == (1 if side < 0 else 0)
    if told:
        assert f"{harness.now - failed.entered_at:.0f} s after" in told[0].detail


@with_harness
async def test_a_late_node_of_a_template_that_does_not_pool_is_thrown_away(harness: Harness) -> None:
    _, operation, node = await asked(
        harness, Behaviour(boot=230.0), provision_timeout=200.0, reuse=Reuse.NEVER
    )
    await harness.ended(operation)
    await harness.nothing_is_left()
    last = [event for event in await harness.events(node.id) if event.name == "condemn"]
    assert len(last) == 1 and "booted" in last[0].detail


@with_harness
async def test_a_late_node_never_joins_the_operation_that_gave_it_up(harness: Harness) -> None:
    """The operation goes on with a replacement; the late one goes to the pool by itself."""
    tardy, prompt = Behaviour(boot=230.0), Behaviour(boot=100.0)
    _, operation, node = await asked(harness, tardy, prompt, provision_timeout=200.0, replacements=1)
    ended = await harness.succeeded(operation)
    assert node.id not in {member.node_id for member in ended.members}
    (rescued,) = await harness.count(1, NodeState.IDLE)
    assert rescued.id == node.id


@with_harness
async def test_a_rescue_gives_no_replacement_back(harness: Harness) -> None:
    """The first is back from its rescue, and the pool's, when the one that replaced it is given up, too."""
    silent = [Behaviour(boot=60.0 + 2 * SWEEP)] * 2
    _, operation, node = await asked(harness, *silent, stall_after=60.0, replacements=1)
    (rescued,) = await harness.count(1, NodeState.IDLE)
    assert rescued.id == node.id
    ended = await harness.ended(operation)
    assert ended.status is Status.FAILED
    assert ended.verdict is not None and ended.verdict.reason is Reason.BOOT_STALLED
    assert len(harness.cloud.launches) == 2
    await harness.count(2, NodeState.IDLE)


@with_harness
async def test_a_late_node_of_a_refill_is_pooled_too(harness: Harness) -> None:
    await harness.template(min_idle=1, provision_timeout=200.0, max_nodes=1)
    harness.agents.script(Behaviour(boot=230.0))
    await harness.replica()
    (failed,) = await harness.count(1, NodeState.FAILED)
    (idle,) = await harness.count(1, NodeState.IDLE)
    assert idle.id == failed.id


@with_harness
async def test_a_late_node_that_is_draining_is_thrown_away(harness: Harness) -> None:
    _, operation, node = await asked(harness, Behaviour(boot=230.0), provision_timeout=200.0)
    await harness.ended(operation)
    (failed,) = await harness.nodes(NodeState.FAILED)
    await harness.store.apply(nodes.drained(failed, now=harness.now))
    await harness.nothing_is_left()
    assert "rescued" not in await harness.history(node.id)


@with_harness
async def test_a_script_that_failed_is_not_rescued(harness: Harness) -> None:
    _, operation, node = await asked(harness, Behaviour(fails="the boot script ended with 3\nno space left"))
    ended = await harness.ended(operation)
    assert ended.verdict is not None
    assert "the boot script ended with 3" in ended.verdict.message
    await harness.enrolment.report(node.id, Report(booted=True))
    await harness.nothing_is_left()
    assert "rescued" not in await harness.history(node.id)


# --- no replica was there -------------------------------------------------------------------------


@with_harness
async def test_a_boot_whose_deadline_passed_while_no_replica_watched_is_not_failed(harness: Harness) -> None:
    """Its machine was done in time, and could not say so."""
    replica, operation, node = await asked(harness, NEVER_BOOTS, provision_timeout=300.0)
    await harness.pass_time(100.0)
    replica.life.kill()
    harness.agents.of(node.id).silence()
    await harness.pass_time(2000.0)
    await harness.replica()
    await harness.pass_time(20.0)
    harness.agents.of(node.id).manner = Behaviour()
    await harness.enrolment.beat(node.id)
    await harness.enrolment.report(node.id, Report(booted=True))
    assert node.assignment_id is not None
    await harness.enrolment.report(node.id, Report(attached=node.assignment_id))
    await harness.enrolment.beat(node.id)
    await harness.succeeded(operation)


async def absent(harness: Harness, replica: Replica, seconds: float) -> Replica:
    """It is away for so long. Returns who comes after it."""
    replica.life.kill()
    await harness.pass_time(seconds)
    return await harness.replica()


@pytest.mark.parametrize("learned", [False, True], ids=["during the boot", "before it"])
@with_harness
async def test_a_boot_during_which_no_replica_was_there_teaches_nothing(
    harness: Harness, learned: bool
) -> None:
    await harness.template()
    harness.agents.script(Behaviour(boot=200.0))
    replica = await harness.replica()
    away = 2 * harness.settings.limits.stale_after
    if learned:
        replica = await absent(harness, replica, away)
    operation = await replica.provision(1)
    (node,) = await harness.count(1, NodeState.CREATED)
    if not learned:
        await absent(harness, replica, away)
    await harness.succeeded(operation)
    assert len(await harness.store.boots(node.template, node.revision)) == int(learned)
    assert "booted" in [mark.phase for mark in await harness.store.marks(node.id)]


@pytest.mark.parametrize("more", [-1.0, 1.0], ids=["a moment", "noticed"])
@with_harness
async def test_a_boot_that_ends_first_thing_after_an_absence_teaches_nothing_either(
    harness: Harness, more: float
) -> None:
    """Its word may come before any duty has looked."""
    replica, _, node = await asked(harness, NEVER_BOOTS)
    await harness.joined(1)
    replica.life.kill()
    last = await harness.store.watch(now=harness.now, gap=harness.settings.limits.stale_after)
    assert last.unbroken_from(node.created_at)
    await harness.pass_time(harness.settings.limits.stale_after + more)
    await harness.enrolment.report(node.id, Report(booted=True))
    assert len(await harness.store.boots(node.template, node.revision)) == int(more < 0)


@pytest.mark.parametrize("away", [False, True])
@with_harness
async def test_a_rescued_boot_teaches_only_if_a_replica_was_there(harness: Harness, away: bool) -> None:
    replica, operation, node = await asked(harness, NEVER_BOOTS, provision_timeout=200.0)
    if away:
        await absent(harness, replica, 2 * harness.settings.limits.stale_after)
    await harness.ended(operation)
    await harness.enrolment.report(node.id, Report(booted=True))
    assert "rescued" in await harness.history(node.id)
    assert len(await harness.store.boots(node.template, node.revision)) == int(not away)


@with_harness
async def test_who_was_late_before_or_stays_away_after_is_failed_in_bounded_time(harness: Harness) -> None:
    replica, operation, node = await asked(harness, NEVER_BOOTS, provision_timeout=300.0)
    await harness.joined(1)
    replica.life.kill()
    harness.agents.of(node.id).silence()
    await harness.pass_time(2000.0)
    back = harness.now
    await harness.replica()
    ended = await harness.ended(operation)
    assert ended.status is Status.FAILED
    assert harness.now - back <= harness.settings.limits.return_grace + 2 * SWEEP
    await harness.nothing_is_left()


@with_harness
async def test_idle_and_running_nodes_survive_an_absence_longer_than_their_time(harness: Harness) -> None:
    await harness.template(idle_timeout=300.0, min_idle=1, max_runtime=400.0)
    replica = await harness.replica()
    operation = await harness.succeeded(await replica.provision(1))
    await harness.count(1, NodeState.IDLE)
    (running,) = await harness.nodes(NodeState.RUNNING)
    (idle,) = await harness.nodes(NodeState.IDLE)
    replica.life.kill()
    await harness.pass_time(2000.0)
    replica = await harness.replica()
    await harness.pass_time(30.0)
    assert (await harness.node(idle.id)).state is NodeState.IDLE
    assert (await harness.node(running.id)).state is NodeState.RUNNING
    await replica.release(operation.id)
    await harness.count(2, NodeState.IDLE)


# --- what a person sees ---------------------------------------------------------------------------


async def progress_of(harness: Harness, operation: Operation) -> Progress:
    shown = (await harness.operation(operation.id)).progress
    assert shown is not None
    return shown


@with_harness
async def test_what_earlier_boots_took_says_when_this_one_should_be_over(harness: Harness) -> None:
    await harness.template()
    harness.agents.script(*[Behaviour(boot=100.0)] * 4)
    replica = await harness.replica()
    first = await replica.provision(3)
    await harness.pass_time(50.0)
    assert (await progress_of(harness, first)).expected_at is None  # rather none than a made-up one
    await harness.succeeded(first)
    await harness.pass_time(REMEMBER_FEW)

    began = harness.now
    operation = await replica.provision(1)
    shares = []
    for _ in range(9):
        await harness.pass_time(10.0)
        shown = await progress_of(harness, operation)
        shares.append(percent_at(shown, harness.now))
        assert shown.expected_at == pytest.approx(began + 100.0, abs=2.0)
    assert shares == sorted(shares)
    assert shares[-1] - shares[0] >= 5.0  # the bar moves although nothing else does
    await harness.succeeded(operation)


@with_harness
async def test_a_boot_that_takes_longer_than_they_do_has_no_expected_end(harness: Harness) -> None:
    await harness.template()
    harness.agents.script(*[Behaviour(boot=20.0)] * 3, Behaviour(boot=100.0))
    replica = await harness.replica()
    await harness.succeeded(await replica.provision(3))
    await harness.pass_time(REMEMBER_FEW)
    operation = await replica.provision(1)
    await harness.pass_time(60.0)
    assert (await progress_of(harness, operation)).expected_at is None
    await harness.succeeded(operation)


@with_harness
async def test_an_extension_is_told_with_what_the_boot_is_at(harness: Harness) -> None:
    slow = Behaviour(boot=700.0, steps=((5.0, "pull the image"),), busy=((0.0, 700.0),))
    _, operation, node = await asked(harness, slow, provision_timeout=400.0)
    await harness.pass_time(430.0)
    shown = await progress_of(harness, operation)
    assert f"{node.id} is still at pull the image, deadline extended to" in shown.message
    assert [part.detail for part in shown.parts] == ["pull the image"]
    await harness.succeeded(operation)


@with_harness
async def test_what_the_boots_teach_lengthens_the_deadline_of_the_next(harness: Harness) -> None:
    limits = harness.settings.limits
    await harness.template(max_nodes=100, stall_after=3000.0)
    harness.agents.script(*[Behaviour(boot=600.0)] * LEAST_BOOTS)
    replica = await harness.replica()
    first = await harness.succeeded(await replica.provision(LEAST_BOOTS))
    assert first.deadline_source == "default"
    await harness.pass_time(60.0)
    second = await replica.provision(1)
    assert second.deadline_source == f"learned (p99 of {LEAST_BOOTS} boots)"
    (node,) = await harness.count(1, NodeState.CREATED)
    assert node.deadline_source == second.deadline_source
    assert node.deadline_at is not None
    assert node.deadline_at - node.entered_at == pytest.approx(600.0 * MARGIN, abs=10.0)
    assert node.deadline_at - node.entered_at > limits.boot
    hard = await replica.provision(1, timeout=50.0)
    assert (hard.deadline_at - hard.created_at, hard.deadline_source) == (50.0, "request")


# --- one source -----------------------------------------------------------------------------------


@pytest.mark.parametrize("boot", [250.0, 720.0, 900.0])
@with_harness
async def test_everything_that_waits_or_judges_moves_with_the_one_source(
    harness: Harness, boot: float
) -> None:
    limits = replace(harness.settings.limits, boot=boot)
    harness.settings = replace(harness.settings, limits=limits)
    template = await harness.template(stall_after=5000.0, rescue_window=0.0)
    harness.agents.script(NEVER_BOOTS)
    replica = await harness.replica()
    operation = await replica.provision(1)
    attach = deadlines.attach_timeout(template.spec)
    assert operation.deadline_at - operation.created_at == limits.launching + boot + attach
    (node,) = await harness.count(1, NodeState.CREATED)
    assert node.deadline_at == node.entered_at + boot
    refill = deadlines.for_operation(Kind.REFILL, template=template.spec, limits=limits)
    assert refill.seconds == limits.launching + boot
    assert deadlines.max_boot(template.spec, limits) == 2 * boot
    ended = await harness.ended(operation)
    assert ended.verdict is not None and ended.verdict.reason is Reason.BOOT_TIMEOUT
    (failed,) = [event for event in await harness.events(node.id) if event.name == "fail"]
    assert boot <= failed.at - node.entered_at <= boot + SWEEP + 1.0


@pytest.mark.parametrize("late", [False, True])
@with_harness
async def test_a_runtime_with_longer_boots_is_spared_until_its_own_limit(
    harness: Harness, late: bool
) -> None:
    limits = replace(harness.settings.limits, boot=100.0, boot_exec=1800.0)
    harness.settings = replace(harness.settings, limits=limits)
    boot = 1800.0 + 2 * SWEEP if late else 1800.0 - SWEEP
    await harness.template(runtime=Runtime.EXEC, stall_after=5000.0, rescue_window=0.0)
    await harness.template("other", provision_timeout=200.0, stall_after=5000.0, rescue_window=0.0)
    harness.agents.script(Behaviour(boot=boot))
    replica = await harness.replica()
    operation = await harness.ended(await replica.provision(1))
    assert operation.deadline_source == "runtime"
    assert (operation.status is Status.SUCCEEDED) == (not late)


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("limit", [60.0, 3000.0])
@with_harness
async def test_a_template_is_spared_or_failed_by_its_own_limit(
    harness: Harness, limit: float, late: bool
) -> None:
    boot = limit + 2 * SWEEP if late else limit - SWEEP
    await harness.template(provision_timeout=limit, stall_after=5000.0, rescue_window=0.0)
    harness.agents.script(Behaviour(boot=boot))
    replica = await harness.replica()
    operation = await harness.ended(await replica.provision(1))
    assert operation.deadline_source == "template"
    assert (operation.status is Status.SUCCEEDED) == (not late)


@with_harness
async def test_no_edit_extends_the_time_of_a_node(harness: Harness) -> None:
    replica, operation, node = await asked(harness, NEVER_BOOTS, provision_timeout=300.0)
    await harness.pass_time(200.0)
    await harness.template(provision_timeout=9000.0, stall_after=9000.0)
    (present,) = await harness.nodes(NodeState.CREATED)
    await harness.store.apply(nodes.drained(present, now=harness.now))
    await harness.enrolment.join(node.machine_id, key=harness.agents.of(node.id).key, boot_id="boot-1")
    assert (await harness.node(node.id)).deadline_at == node.deadline_at
    assert (await harness.node(node.id)).entered_at == node.entered_at
    ended = await harness.ended(operation)
    assert harness.now - node.entered_at <= 300.0 + 2 * SWEEP
    assert ended.status is Status.FAILED
    assert replica.life.alive
